"""Records as lines: the formats of `ottla consume`, and of `ottla produce` the other way round.

What a line of JSON looks like is in `client/formats/json_lines`.
"""

import codecs
import re
from collections.abc import Callable

from ottla.client.formats import Message, Outgoing, json_lines
from ottla.client.formats.rows import name_bytes

VALUE, KEY_VALUE, JSON = "value", "key-value", "json"
Formatter = Callable[[Message], bytes]

_TOKEN = re.compile(r"%(.)", re.DOTALL)


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
        return json_lines.line
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
        name_bytes(name) + b"=" + _bytes(value, none) for name, value in message.headers
    ),
    "%": lambda _message, _none: b"%",
}


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
