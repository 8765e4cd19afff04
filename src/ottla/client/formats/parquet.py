"""Records as a Parquet file, made piece by piece: a row group at a time is in memory, whatever the size.

A key or a value is text (what a schema explains is JSON), or, if it is not, in the column with `_binary`
after its name: the type of a column must be known before its last record is. `problem` says why something
that should have been explained was not. Needs the extra `arrow`.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from ottla.client.errors import ClientError
from ottla.client.formats.codecs import PLAIN, Decoder, Decoders
from ottla.client.formats.content import SCHEMA_FORMATS, compact_json, plain_text
from ottla.client.formats.rows import Message

MEDIA_TYPE = "application/vnd.apache.parquet"
GROUP_RECORDS_MAX = 50_000
GROUP_BYTES_MAX = 32 << 20


class _Pieces:
    """A file that gives away what was written to it."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self.closed = False

    def write(self, piece: Any) -> int:
        self._pieces.append(bytes(piece))
        self._size += len(self._pieces[-1])
        return len(self._pieces[-1])

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Nothing waits anywhere."""

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def take(self) -> bytes:
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


def pieces(messages: Iterable[Message], decoders: Decoders = PLAIN) -> Iterator[bytes]:
    """The file from its first byte to its last."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ClientError(f"Parquet needs more packages: pip install 'ottla[arrow]' ({error})") from None
    schema = _schema(pa)
    written = _Pieces()
    source = iter(messages)
    with pq.ParquetWriter(pa.PythonFile(written, mode="w"), schema, compression="zstd") as writer:
        while rows := _group(source, decoders):
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
            yield written.take()
    yield written.take()


def _group(source: Iterator[Message], decoders: Decoders) -> list[dict[str, Any]]:
    rows, size = [], 0
    for message in islice(source, GROUP_RECORDS_MAX):
        rows.append(_row(message, decoders))
        size += len(message.key or b"") + len(message.value or b"")
        if size >= GROUP_BYTES_MAX:
            break
    return rows


def _schema(pa: Any) -> Any:
    return pa.schema(
        [
            pa.field("topic", pa.string(), nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
            pa.field("key", pa.string()),
            pa.field("value", pa.string()),
            pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            pa.field("key_binary", pa.binary()),
            pa.field("value_binary", pa.binary()),
            pa.field("problem", pa.string()),
        ]
    )


def _row(message: Message, decoders: Decoders) -> dict[str, Any]:
    row: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp_ms if message.timestamp_ms >= 0 else None,
        "headers": [{"key": _utf8(name), "value": value} for name, value in message.headers],
    }
    row |= _field(decoders.key, message, message.key) | _field(decoders.value, message, message.value)
    return row


def _field(decoder: Decoder, message: Message, content: bytes | None) -> dict[str, Any]:
    if content is None:
        return {}
    problem = {}
    if decoder.registry is not None:
        shown = decoder(message.topic, content, message.headers)
        if shown.format in SCHEMA_FORMATS:
            return {decoder.field: compact_json(shown.data)}
        problem = {"problem": f"{decoder.field}: {shown.problem}"} if shown.problem else {}
    text = plain_text(content)
    if text is None:
        return problem | {f"{decoder.field}_binary": content}
    return problem | {decoder.field: text}


def _utf8(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
