"""Records as CSV with a line of names at the top, out and in.

    topic,partition,offset,timestamp,key,value,headers,encoding
    orders,0,7,1700000000000,k,v,"[[""name"", ""value""]]",
    orders,0,8,1700000000001,k,,,value:null

A cell is text. `encoding` names what is not: `key:null value:base64`. So nothing is lost on the way out, and
the same file goes in again. A spreadsheet takes a cell that begins with = for a formula, whoever wrote that
record: in a file for people (`is_guarded`) such a cell has an apostrophe before it, which `encoding` calls
`value:quoted`. Other people's files go in too: one with a column `value` has records like
these, any other has rows of data, of which each becomes a JSON object, with one column as the key.
"""

import base64
import csv
import io
import json
import re
from collections.abc import Iterable, Iterator

from ottla.client.formats.codecs import PLAIN, Decoder, Decoders, Encoders
from ottla.client.formats.content import SCHEMA_FORMATS, FormatError, compact_json, from_base64, plain_text
from ottla.client.formats.json_lines import CHUNK_BYTES, headers_of, headers_to_json
from ottla.client.formats.rows import Message, Outgoing

MEDIA_TYPE = "text/csv; charset=utf-8"
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "encoding")
ROW = "value"  # with this column a file is one of records
FIELD_BYTES_MAX = 128 << 20
QUOTED = "quoted"
_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def lines(
    messages: Iterable[Message], decoders: Decoders = PLAIN, *, is_guarded: bool = False
) -> Iterator[bytes]:
    """All of them with the names before, in chunks of whole rows."""
    text = io.StringIO(newline="")
    rows = csv.writer(text)
    rows.writerow(COLUMNS)
    for message in messages:
        rows.writerow(_row(message, decoders, is_guarded))
        if text.tell() >= CHUNK_BYTES:
            yield text.getvalue().encode("utf-8", "surrogateescape")
            text.seek(0)
            text.truncate()
    yield text.getvalue().encode("utf-8", "surrogateescape")


def _row(message: Message, decoders: Decoders, is_guarded: bool) -> list[object]:
    encodings: list[str] = []
    key = _cell(decoders.key, message, message.key, encodings)
    value = _cell(decoders.value, message, message.value, encodings)
    if is_guarded:
        key, value = _guarded("key", key, encodings), _guarded("value", value, encodings)
    headers = compact_json(headers_to_json(message.headers)) if message.headers else ""
    where = [message.topic, message.partition, message.offset, message.timestamp_ms]
    return [*where, key, value, headers, " ".join(encodings)]


def _cell(decoder: Decoder, message: Message, content: bytes | None, encodings: list[str]) -> str:
    if content is None:
        encodings.append(f"{decoder.field}:null")
        return ""
    if decoder.registry is not None:
        shown = decoder(message.topic, content, message.headers)
        if shown.format in SCHEMA_FORMATS:
            encodings.append(f"{decoder.field}:{shown.format}")
            return compact_json(shown.data)
    text = plain_text(content)
    if text is None:
        encodings.append(f"{decoder.field}:base64")
        return base64.b64encode(content).decode()
    return text


def _guarded(field: str, cell: str, encodings: list[str]) -> str:
    if not _FORMULA.match(cell) or _NUMBER.fullmatch(cell):
        return cell
    encodings.append(f"{field}:{QUOTED}")
    return f"'{cell}"


def outgoing(
    source: Iterable[str],
    topic: str = "",
    encoders: Encoders | None = None,
    *,
    delimiter: str = ",",
    key_column: str | None = None,
    key: str | None = None,
) -> Iterator[tuple[int, Outgoing]]:
    """Records with the number of the line that each ends at. FormatError names the line that is wrong. `key`
    is what every record without one will get: whoever gives it the name of a column means the column."""
    csv.field_size_limit(FIELD_BYTES_MAX)
    encoders = encoders or Encoders()
    rows = csv.reader(source, delimiter=delimiter, strict=True)
    try:
        names = next(rows, None)
        if names is None:
            return
        names[0] = names[0].removeprefix("\ufeff")
        _check_names(names, key_column)
        if key is not None and key_column is None and key in names:
            raise FormatError(f"{key!r} is a column: --key-column {key} makes keys of its cells")
        for row in rows:
            if not row:
                continue
            if len(row) != len(names):
                raise FormatError(f"{len(row)} cells where {len(names)} columns are named")
            cells = dict(zip(names, row, strict=True))
            if ROW in names:
                yield rows.line_num, _record(cells, topic, encoders)
            else:
                own = cells[key_column] if key_column is not None else None
                yield rows.line_num, Outgoing(encoders.key(topic, own), encoders.value(topic, cells), [])
    except (FormatError, csv.Error) as error:
        raise FormatError(f"line {rows.line_num}: {error}") from None


def _check_names(names: list[str], key_column: str | None) -> None:
    if len(set(names)) != len(names):
        raise FormatError("two columns have the same name")
    if ROW in names:
        if unknown := [name for name in names if name not in COLUMNS]:
            raise FormatError(
                f"a file with a column {ROW!r} has records, and {unknown[0]!r} is no part of a record; there "
                f"are {', '.join(COLUMNS)}"
            )
        if key_column is not None:
            raise FormatError(f"a file with a column {ROW!r} has its keys in the column 'key'")
    elif key_column is not None and key_column not in names:
        raise FormatError(f"there is no column {key_column!r}; there are {', '.join(names)}")


def _record(cells: dict[str, str], topic: str, encoders: Encoders) -> Outgoing:
    encodings = dict(_encoding(part) for part in cells.get("encoding", "").split())
    headers = cells.get("headers", "")
    try:
        pairs = headers_of(json.loads(headers)) if headers else []
    except FormatError:
        raise
    except ValueError as error:
        raise FormatError(f"headers are JSON, a list of [name, value] pairs: {error}") from None
    key: object = _decoded(cells.get("key", ""), encodings.get("key"))
    if key == "" and "encoding" not in cells:
        key = None  # other people's files have no word for it, and few want an empty key
    value: object = _decoded(cells[ROW], encodings.get("value"))
    return Outgoing(
        key if isinstance(key, bytes) else encoders.key(topic, key),
        value if isinstance(value, bytes) else encoders.value(topic, value),
        pairs,
        _number(cells, "partition"),
        _number(cells, "timestamp"),
    )


def _encoding(part: str) -> tuple[str, str]:
    name, _, encoding = part.partition(":")
    if name not in ("key", "value") or encoding not in ("null", "base64", QUOTED, *SCHEMA_FORMATS):
        raise FormatError(f"{part!r} is no encoding; one is such as key:null or value:base64")
    return name, encoding


def _decoded(cell: str, encoding: str | None) -> str | bytes | None:
    if encoding == "null":
        return None
    if encoding == QUOTED:
        return cell.removeprefix("'")
    return from_base64(cell) if encoding == "base64" else cell


def _number(cells: dict[str, str], name: str) -> int | None:
    cell = cells.get(name, "")
    if not cell:
        return None
    if not cell.isdecimal():
        raise FormatError(f"{name} is a number, not {cell!r}")
    return int(cell)
