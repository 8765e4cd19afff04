"""Bytes of a key or a value as a person reads them, without a schema: text, JSON, hex and base64.

What bytes are is a guess, made for each record: a topic may hold anything. Text is UTF-8 with no more control
characters than people put into text; an object or an array that parses is JSON; the rest is binary and shown
as hex, so that nothing raw reaches a terminal.
"""

import base64
import binascii
import json
import re
from typing import Any, NamedTuple

AUTO, TEXT, JSON, HEX, BASE64 = "auto", "text", "json", "hex", "base64"
AVRO, PROTOBUF, JSON_SCHEMA = "avro", "protobuf", "json-schema"
SCHEMA_FORMATS = (AVRO, PROTOBUF, JSON_SCHEMA)
FORMATS = (AUTO, TEXT, JSON, HEX, BASE64, *SCHEMA_FORMATS)
NULL = "null"  # what `Shown.format` says of no bytes at all, which no format is needed for

# Of the control characters, those that text may have: colours of a terminal are full of \x1b.
_BINARY = re.compile("[\x00-\x06\x0e-\x1a\x1c-\x1f]")
# Never shown as they are: control characters (but tab and the ends of lines), and what changes the direction
# of the text after it.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


class FormatError(ValueError):
    """What somebody typed is not what the format takes; the message says why."""


class Shown(NamedTuple):
    """Bytes as they are shown. `text` is safe to print. `data` is what a schema makes of them, in JSON's
    types, if one does. `problem` says why it is hex, although something else was expected."""

    format: str
    text: str
    data: Any = None
    schema: str | None = None
    problem: str | None = None

    @property
    def is_null(self) -> bool:
        return self.format == NULL


SHOWN_NULL = Shown(NULL, NULL)


def show(content: bytes | None, form: str = AUTO) -> Shown:
    """In this format, or as hex with the reason if the bytes are not that."""
    if content is None:
        return SHOWN_NULL
    if form == AUTO:
        return _guessed(content)
    if form == HEX:
        return Shown(HEX, content.hex())
    if form == BASE64:
        return Shown(BASE64, base64.b64encode(content).decode())
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        return as_hex(content, f"not UTF-8: byte {error.start} is 0x{content[error.start]:02x}")
    if form == TEXT:
        return Shown(TEXT, escaped(text))
    if form == JSON:
        try:
            data = parse_json(text)
        except FormatError as error:
            return as_hex(content, str(error))
        return Shown(JSON, escaped(text), data)
    raise ValueError(f"{form!r} is no format without a schema")


def as_hex(content: bytes, problem: str | None = None) -> Shown:
    return Shown(HEX, content.hex(), problem=problem)


def _guessed(content: bytes) -> Shown:
    text = plain_text(content)
    if text is None:
        return Shown(HEX, content.hex())
    if text.lstrip()[:1] in ("{", "["):
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            return Shown(JSON, escaped(text))
    return Shown(TEXT, escaped(text))


def plain_text(content: bytes) -> str | None:
    """The text that these bytes are, or None if they are none."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if _BINARY.search(text) else text


def escaped(text: str) -> str:
    """Safe for a terminal and a page: what is not to be seen is written as an escape."""
    return _UNSAFE.sub(_escape, text) if _UNSAFE.search(text) else text


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise FormatError("this is not JSON: it is nested too deeply") from None
    except ValueError as error:
        raise FormatError(f"this is not JSON: {error}") from None


def to_bytes(given: Any, form: str) -> bytes:
    """What was typed, as bytes; of a JSON value that is no text, its compact JSON. FormatError: it is not in
    this format."""
    if form in (HEX, BASE64):
        if not isinstance(given, str):
            raise FormatError(f"{form} is text, not {type(given).__name__}")
        return from_hex(given) if form == HEX else from_base64(given)
    if isinstance(given, str):
        if form == JSON:
            parse_json(given)
        return given.encode("utf-8", "surrogateescape")
    return compact_json(given).encode()


def compact_json(given: Any) -> str:
    return json.dumps(given, separators=(",", ":"), ensure_ascii=False)


def from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError as error:
        raise FormatError(f"bad hex: {error}") from None


def from_base64(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise FormatError(f"bad base64: {error}") from None


def readable(content: bytes | None) -> str | dict[str, str] | None:
    """For JSON: text if it is UTF-8, else what `content_of` makes the same bytes of."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def content_of(given: Any) -> bytes | None:
    """Text and {"base64": ...} as bytes; any other JSON as compact JSON text."""
    if given is None:
        return None
    if (binary := binary_of(given)) is not None:
        return binary
    return to_bytes(given, TEXT)


def binary_of(given: Any) -> bytes | None:
    """The bytes of {"base64": ...}; None if it is something else."""
    if isinstance(given, dict) and set(given) == {"base64"}:
        return from_base64(given["base64"])
    return None
