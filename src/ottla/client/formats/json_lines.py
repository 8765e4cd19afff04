"""Records as lines of JSON, out and in: what one end prints, the other takes.

    {"topic": "orders", "partition": 0, "offset": 7, "timestamp": 1700000000000,
     "key": "k", "value": "v", "headers": [["name", "value"]]}

Bytes that are not UTF-8 are {"base64": "..."}. Headers are a list of [name, value] pairs, as a name may come
twice. A value that a schema explains is that value; where that fails, it is base64, and "errors" says why.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ottla.client.formats.codecs import PLAIN, Decoders, Encoders
from ottla.client.formats.content import FormatError, content_of, readable
from ottla.client.formats.rows import Message, Outgoing, Pairs, name_bytes

MEDIA_TYPE = "application/x-ndjson"
CHUNK_BYTES = 64 << 10

# What a line may have; of these, where a record came from and what was wrong with it are read over.
FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "errors")


def lines(messages: Iterable[Message], decoders: Decoders = PLAIN) -> Iterator[bytes]:
    """All of them, in chunks of whole lines."""
    chunk = bytearray()
    for message in messages:
        chunk += line(message, decoders)
        chunk += b"\n"
        if len(chunk) >= CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)


def line(message: Message, decoders: Decoders = PLAIN) -> bytes:
    """Half a pair of surrogates, which JSON can name and UTF-8 cannot write, stays named."""
    return json.dumps(to_json(message, decoders), ensure_ascii=False).encode("utf-8", "backslashreplace")


def to_json(message: Message, decoders: Decoders = PLAIN) -> dict[str, Any]:
    key, key_problem = decoders.key.json(message.topic, message.key, message.headers)
    value, value_problem = decoders.value.json(message.topic, message.value, message.headers)
    shown = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp_ms,
        "key": key,
        "value": value,
        "headers": headers_to_json(message.headers),
    }
    problems = {"key": key_problem, "value": value_problem}
    if problems := {name: problem for name, problem in problems.items() if problem is not None}:
        shown["errors"] = problems
    return shown


def headers_to_json(headers: Pairs) -> list[list[Any]]:
    return [[readable(name_bytes(name)), readable(value)] for name, value in headers]


def outgoing(given: bytes | str, topic: str = "", encoders: Encoders | None = None) -> Outgoing:
    """A line of JSON: an object with any of key, value, headers, timestamp, partition. A topic and an offset,
    as `lines` writes them, are read over; any other name is a mistake. FormatError says which."""
    try:
        record = json.loads(given)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"this is not JSON: {error}") from None
    return outgoing_of(record, topic, encoders)


def outgoing_of(record: Any, topic: str = "", encoders: Encoders | None = None) -> Outgoing:
    """The same of JSON that is parsed already."""
    if not isinstance(record, dict):
        raise FormatError('a record is an object such as {"key": "k", "value": "v"}')
    if unknown := [name for name in record if name not in FIELDS]:
        raise FormatError(f"{unknown[0]!r} is no part of a record; there are {', '.join(FIELDS)}")
    key, value = record.get("key"), record.get("value")
    return Outgoing(
        content_of(key) if encoders is None else encoders.key(topic, key),
        content_of(value) if encoders is None else encoders.value(topic, value),
        headers_of(record.get("headers") or []),
        _number(record, "partition"),
        _number(record, "timestamp"),
    )


def headers_of(given: Any) -> Pairs:
    """An object, or a list of pairs."""
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs
    ):
        raise FormatError("headers are an object or a list of [name, value] pairs")
    return [(_name(name), content_of(value)) for name, value in pairs]


def _name(given: Any) -> str:
    name = (content_of(given) or b"").decode("utf-8", "surrogateescape")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise FormatError(f"the name of a header is not UTF-8, and cannot be sent: {given!r}") from None
    return name


def _number(given: dict[str, Any], name: str) -> int | None:
    value = given.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise FormatError(f"{name} is a number, not {value!r}")
    return value
