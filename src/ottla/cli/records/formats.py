"""Records as text: the formats of `ottla consume`, and of `ottla produce` the other way round.

JSON goes both ways: what `consume --format json` prints, `produce --json` takes. Bytes that are not UTF-8 are
written as {"base64": "..."}; headers are a list of [name, value] pairs, as a name may come twice.
"""

import base64
import binascii
import codecs
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

VALUE, KEY_VALUE, JSON = "value", "key-value", "json"
Formatter = Callable[["Message"], bytes]
Pairs = list[tuple[str, bytes | None]]

# What `produce --json` takes; of these, a topic and an offset are read over.
_FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_TOKEN = re.compile(r"%(.)", re.DOTALL)


class Message(NamedTuple):
    """A record as it came, with where it came from."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Pairs


class Outgoing(NamedTuple):
    """A record to be sent. Without a partition, its key decides."""

    key: bytes | None
    value: bytes | None
    headers: Pairs
    partition: int | None = None
    timestamp_ms: int | None = None


# -- out --------------------


def formatter(name: str, separator: str, null: str) -> Formatter:
    """A function that writes one record, without the end of the line. ValueError for what is no format."""
    none = null.encode()
    between = unescape(separator).encode()
    if name == VALUE:
        return lambda message: _bytes(message.value, none)
    if name == KEY_VALUE:
        return lambda message: _bytes(message.key, none) + between + _bytes(message.value, none)
    if name == JSON:
        return lambda message: json.dumps(to_json(message), ensure_ascii=False).encode()
    if "%" not in name:
        raise ValueError(f"{name!r} is neither {VALUE}, {KEY_VALUE}, {JSON} nor a template such as '%k %v'")
    return _template(name, none)


def shows_headers(name: str) -> bool:
    return name == JSON or "%h" in name


def _template(template: str, none: bytes) -> Formatter:
    """%t topic, %p partition, %o offset, %T timestamp, %k key, %v or %s value, %h headers, %% percent."""
    pieces = _TOKEN.split(unescape(template))
    texts, tokens = [piece.encode() for piece in pieces[0::2]], pieces[1::2]
    wrong = [token for token in tokens if token not in _PARTS] + [""] * texts[-1].endswith(b"%")
    if wrong:
        raise ValueError(f"%{wrong[0]} is unknown; there are {' '.join('%' + letter for letter in _PARTS)}")
    parts = [_PARTS[token] for token in tokens]

    def write(message: Message) -> bytes:
        written = [texts[0]]
        for part, text in zip(parts, texts[1:], strict=True):
            written += (part(message, none), text)
        return b"".join(written)

    return write


_PARTS: dict[str, Callable[[Message, bytes], bytes]] = {
    "t": lambda message, _: message.topic.encode(),
    "p": lambda message, _: b"%d" % message.partition,
    "o": lambda message, _: b"%d" % message.offset,
    "T": lambda message, _: b"%d" % message.timestamp_ms,
    "k": lambda message, none: _bytes(message.key, none),
    "v": lambda message, none: _bytes(message.value, none),
    "s": lambda message, none: _bytes(message.value, none),
    "h": lambda message, none: b",".join(
        _name_bytes(name) + b"=" + _bytes(value, none) for name, value in message.headers
    ),
    "%": lambda _message, _none: b"%",
}


def to_json(message: Message) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp_ms,
        "key": readable(message.key),
        "value": readable(message.value),
        "headers": [[readable(_name_bytes(name)), readable(value)] for name, value in message.headers],
    }


def readable(given: bytes | None) -> str | dict[str, str] | None:
    if given is None:
        return None
    try:
        return given.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(given).decode()}


def _name_bytes(name: str) -> bytes:
    """A header's key as it was sent, which need not be UTF-8 (see `records/record`)."""
    return name.encode("utf-8", "surrogateescape")


def _bytes(given: bytes | None, none: bytes) -> bytes:
    return none if given is None else given


def unescape(text: str) -> str:
    r"""\t, \n, \0 and the like, as the shell leaves them."""
    if "\\" not in text:
        return text
    return codecs.decode(text.encode("latin-1", "backslashreplace"), "unicode_escape")


# -- in --------------------


def from_line(line: bytes, separator: bytes | None, null: bytes | None) -> Outgoing:
    """A line of text: a value, or with a separator a key and a value; `null` alone is no key or value."""
    key: bytes | None = None
    value: bytes | None = line
    if separator is not None:
        before, is_separated, after = line.partition(separator)
        if not is_separated:
            raise ValueError(f"there is no {separator.decode(errors='replace')!r} between key and value")
        key, value = before, after
    return Outgoing(None if key == null else key, None if value == null else value, [])


def from_json(line: bytes) -> Outgoing:
    """A line of JSON: an object with any of key, value, headers, timestamp, partition. A topic and an
    offset, as `consume --format json` writes them, are read over; any other name is a mistake."""
    try:
        given = json.loads(line)
    except ValueError as error:
        raise ValueError(f"this is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ValueError('a record is an object such as {"key": "k", "value": "v"}')
    unknown = [name for name in given if name not in _FIELDS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no part of a record; there are {', '.join(_FIELDS)}")
    return Outgoing(
        _content(given.get("key")),
        _content(given.get("value")),
        _headers(given.get("headers") or []),
        _number(given, "partition"),
        _number(given, "timestamp"),
    )


def _headers(given: Any) -> Pairs:
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs
    ):
        raise ValueError("headers are an object or a list of [name, value] pairs")
    return [(_name(name), _content(value)) for name, value in pairs]


def _name(given: Any) -> str:
    name = (_content(given) or b"").decode("utf-8", "surrogateescape")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the name of a header is not UTF-8, and cannot be sent: {given!r}") from None
    return name


def _number(given: dict[str, Any], name: str) -> int | None:
    value = given.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise ValueError(f"{name} is a number, not {value!r}")
    return value


def _content(given: Any) -> bytes | None:
    """Text and base64 as bytes; any other JSON as compact JSON text."""
    if given is None:
        return None
    if isinstance(given, str):
        return given.encode("utf-8", "surrogateescape")
    if isinstance(given, dict) and set(given) == {"base64"}:
        try:
            return base64.b64decode(given["base64"], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise ValueError(f"bad base64: {error}") from None
    return json.dumps(given, separators=(",", ":"), ensure_ascii=False).encode()
