"""Record batches, as a broker sends them, to records: what a reader may see, checked before it is believed.

A batch that is damaged is left out and named: it must not keep people from seeing the others.
"""

from collections.abc import Iterable, Iterator

from ottla.base.errors import ApiError
from ottla.client.formats import Message
from ottla.records.batch import BatchHeader, crc_ok, split
from ottla.records.fetched import Fetched
from ottla.records.record import Record, read_records
from ottla.records.visible import visible


class Problems(list[str]):
    """What was left out, in sentences; of many, the first."""

    def of(self, topic: str, partition: int, header: BatchHeader, why: str) -> None:
        offsets = f"offsets {header.base_offset} to {header.last_offset}"
        if len(self) < 20:
            self.append(f"{topic}-{partition}: the record batch of {offsets} is damaged: {why}")


def seen(
    topic: str, partition: int, fetched: Fetched, problems: Problems
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches that hold records for readers."""

    def checked() -> Iterator[tuple[BatchHeader, memoryview]]:
        for header, batch in split(fetched.records):
            if crc_ok(batch, header):
                yield header, batch
            else:
                problems.of(topic, partition, header, "its checksum is wrong")

    return visible(checked(), fetched.aborted)


def records_of(
    topic: str, partition: int, header: BatchHeader, batch: memoryview, problems: Problems
) -> list[Record]:
    try:
        return read_records(batch, header)
    except ApiError as error:
        problems.of(topic, partition, header, str(error))
        return []


def messages(topic: str, partition: int, chunks: Iterable[Fetched], problems: Problems) -> Iterator[Message]:
    """All records for readers, in the order of their offsets."""
    for fetched in chunks:
        for header, batch in seen(topic, partition, fetched, problems):
            for record in records_of(topic, partition, header, batch, problems):
                yield message_of(topic, partition, record)


def message_of(topic: str, partition: int, record: Record) -> Message:
    offset, timestamp, key, value, headers = record
    return Message(topic, partition, offset, timestamp, key, value, list(headers))
