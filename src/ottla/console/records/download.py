"""Records as a file, in pieces: what is in memory is one answer of a broker, and a row group of Parquet.

The records are those of the topic as it ends now, partition after partition, from an offset or a time on.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from ottla.base.command_error import USAGE, CommandError
from ottla.base.ids import TopicPartition
from ottla.client import Client, ClientError
from ottla.client.formats import PLAIN, Decoders, Message, csv_rows, json_lines, parquet
from ottla.console.records.batches import Problems, messages
from ottla.console.records.connection import Extent

FETCH_BYTES_MAX = 8 << 20


class FileFormat(NamedTuple):
    name: str
    ending: str
    media_type: str
    pieces: Callable[[Iterator[Message], Decoders], Iterator[bytes]]


FILE_FORMATS = {
    file.name: file
    for file in (
        FileFormat("jsonl", "jsonl", json_lines.MEDIA_TYPE, json_lines.lines),
        FileFormat("csv", "csv", csv_rows.MEDIA_TYPE, partial(csv_rows.lines, is_guarded=True)),
        FileFormat("parquet", "parquet", parquet.MEDIA_TYPE, parquet.pieces),
    )
}


def file_format(name: str) -> FileFormat:
    if name not in FILE_FORMATS:
        raise CommandError(f"{name!r} is no kind of file; there are {', '.join(FILE_FORMATS)}", USAGE)
    return FILE_FORMATS[name]


def download(
    connect: Callable[[], Client],
    topic: str,
    ranges: Mapping[int, Extent],
    file: FileFormat,
    decoders: Decoders = PLAIN,
    *,
    read_committed: bool = True,
    limit: int | None = None,
) -> Generator[bytes, None, None]:
    """The file, piece by piece. CommandError: the cluster refuses, also half way through."""
    try:
        with connect() as client:
            yield from file.pieces(_messages(client, topic, ranges, read_committed, limit), decoders)
    except ClientError as error:
        raise CommandError(str(error)) from None


def _messages(
    client: Client, topic: str, ranges: Mapping[int, Extent], read_committed: bool, limit: int | None
) -> Iterator[Message]:
    left = limit
    for number, (start, end) in sorted(ranges.items()):
        chunks = client.fetch(
            TopicPartition(topic, number),
            start,
            end,
            read_committed=read_committed,
            max_bytes=FETCH_BYTES_MAX,
        )
        for message in messages(topic, number, chunks, Problems()):
            if left == 0:
                return
            if start <= message.offset < end:
                left = None if left is None else left - 1
                yield message
