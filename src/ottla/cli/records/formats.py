"""Records as bytes for stdout: the formats of `ottla consume`.

What a line of JSON or a row of CSV looks like is in `client/formats`. Bytes go out as they are, except to a
terminal, which some of them would confuse: there a key or value that is no text is shown as hex, and control
characters everywhere as escapes.
"""

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct

from ottla.base.command_error import USAGE, CommandError
from ottla.client.formats import Decoder, Decoders, Message, csv_rows, json_lines
from ottla.client.formats.codecs import PLAIN
from ottla.client.formats.content import escaped
from ottla.client.formats.rows import name_bytes

VALUE, KEY_VALUE, JSON, CSV = "value", "key-value", "json", "csv"
Part = Callable[[Message], bytes]

_TOKEN = re.compile(r"%(.)", re.DOTALL)
_KCAT_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]+|[0-9]+|.)", re.DOTALL)
_KCAT_LETTERS = {"t": "\t", "n": "\n", "r": "\r"}
_LENGTH = Struct(">i")
_KCAT_NULL = b"NULL"


@dataclass(frozen=True)
class Format:
    """`write` gives a record with what ends it. `plain` is set if that is the value, or the first of these
    for null, and then the second: whoever has many values need not ask for each. `has_headers`: it looks at
    headers."""

    write: Part
    has_headers: bool
    plain: tuple[bytes, bytes] | None = None


def format_of(
    name: str,
    *,
    separator: str = "\t",
    null: str = "null",
    delimiter: bytes = b"\n",
    decoders: Decoders | None = None,
    is_terminal: bool = False,
) -> Format:
    """One of ours: a name, or a template. ValueError for what is neither."""
    if name in (JSON, CSV):
        some = decoders or PLAIN
        write = _Csv(some) if name == CSV else lambda message: json_lines.line(message, some) + delimiter
        return Format((lambda message: _safe(write(message))) if is_terminal else write, True)
    shown = PLAIN if decoders is None and is_terminal else decoders
    none = null.encode()
    key, value = _content("key", shown, none), _content("value", shown, none)
    if name == VALUE:
        plain = (none, delimiter) if shown is None else None
        return Format(lambda message: value(message) + delimiter, False, plain)
    if name == KEY_VALUE:
        between = unescape(separator).encode()
        return Format(lambda message: key(message) + between + value(message) + delimiter, False)
    if "%" not in name:
        raise ValueError(
            f"{name!r} is neither {VALUE}, {KEY_VALUE}, {JSON}, {CSV} nor a template such as '%k %v'"
        )
    letters = _places() | {"k": key, "v": value, "s": value, "h": _headers(none, is_terminal=is_terminal)}
    filled = _template(name, letters, unescape)
    return Format(lambda message: filled(message) + delimiter, "%h" in name)


def kcat_format(
    template: str, *, shows_null: bool = False, decoders: Decoders | None = None, is_terminal: bool = False
) -> Format:
    """One of kcat's -f: nothing ends a record that the template does not have. What is null or empty is
    written as nothing, or with -Z as NULL; %K and %S are -1 for null."""
    shown = PLAIN if decoders is None and is_terminal else decoders
    none = _KCAT_NULL if shows_null else b""
    key, value = _content("key", shown, none), _content("value", shown, none)
    letters = _places() | {
        "k": lambda message: key(message) or none,
        "s": lambda message: value(message) or none,
        "K": lambda message: b"%d" % _length(message.key),
        "S": lambda message: b"%d" % _length(message.value),
        "R": lambda message: _LENGTH.pack(_length(message.value)),
        "h": _headers(_KCAT_NULL, is_terminal=is_terminal),
    }
    return Format(_template(template, letters, _kcat_unescape), "%h" in template)


def _places() -> dict[str, Part]:
    return {
        "t": lambda message: message.topic.encode(),
        "p": lambda message: b"%d" % message.partition,
        "o": lambda message: b"%d" % message.offset,
        "T": lambda message: b"%d" % message.timestamp_ms,
        "%": lambda _message: b"%",
    }


def _template(template: str, letters: dict[str, Part], unescaped: Callable[[str], str]) -> Part:
    pieces = _TOKEN.split(template)
    texts = [unescaped(piece).encode("utf-8", "surrogateescape") for piece in pieces[0::2]]
    tokens = pieces[1::2]
    wrong = [token for token in tokens if token not in letters] + [""] * pieces[-1].endswith("%")
    if wrong:
        raise ValueError(f"%{wrong[0]} is unknown; there are {' '.join('%' + letter for letter in letters)}")
    parts = [letters[token] for token in tokens]

    def write(message: Message) -> bytes:
        written = [texts[0]]
        for part, text in zip(parts, texts[1:], strict=True):
            written += (part(message), text)
        return b"".join(written)

    return write


def _content(name: str, decoders: Decoders | None, none: bytes) -> Part:
    def raw(message: Message) -> bytes:
        content: bytes | None = getattr(message, name)
        return none if content is None else content

    if decoders is None:
        return raw
    decoder: Decoder = getattr(decoders, name)

    def decoded(message: Message) -> bytes:
        content: bytes | None = getattr(message, name)
        if content is None:
            return none
        return decoder(message.topic, content, message.headers).text.encode("utf-8", "surrogateescape")

    return decoded


def _headers(none: bytes, *, is_terminal: bool) -> Part:
    def raw(message: Message) -> bytes:
        return b",".join(
            name_bytes(name) + b"=" + (none if value is None else value) for name, value in message.headers
        )

    return (lambda message: _safe(raw(message))) if is_terminal else raw


def _safe(shown: bytes) -> bytes:
    """For a terminal."""
    return escaped(shown.decode(errors="replace")).encode()


def _length(content: bytes | None) -> int:
    return -1 if content is None else len(content)


class _Csv:
    """Rows, with the names of the columns before the first of them."""

    def __init__(self, decoders: Decoders) -> None:
        self._decoders = decoders
        self._is_begun = False

    def __call__(self, message: Message) -> bytes:
        both = b"".join(csv_rows.lines([message], self._decoders))
        _, _, row = both.partition(b"\r\n")
        written = row if self._is_begun else both
        self._is_begun = True
        return written


def unescape(text: str) -> str:
    r"""\t, \n, \0 and the like, as the shell leaves them."""
    if "\\" not in text:
        return text
    return codecs.decode(text.encode("latin-1", "backslashreplace"), "unicode_escape")


def _kcat_unescape(text: str) -> str:
    r"""kcat's own: \t \n \r, \x and hex digits, decimal and octal numbers; any other letter is itself."""

    def unescaped(match: re.Match[str]) -> str:
        given = match[1]
        if given[0] == "x" and len(given) > 1:
            return _byte(int(given[1:], 16))
        if given.isdigit():
            return _byte(int(given, 8 if given.startswith("0") else 10))
        return _KCAT_LETTERS.get(given, given)

    return _KCAT_ESCAPE.sub(unescaped, text)


def _byte(code: int) -> str:
    """As what `surrogateescape` makes one byte of again."""
    return bytes([code & 0xFF]).decode("utf-8", "surrogateescape")


def delimiter_bytes(given: str | None) -> bytes:
    """What is between records."""
    if given == "":
        raise CommandError("--delimiter must not be empty", USAGE)
    return b"\n" if given is None else _kcat_unescape(given).encode("utf-8", "surrogateescape")
