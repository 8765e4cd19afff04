"""What pages and scripts read of a topic: a page of records from some place on, or one of them."""

from typing import NamedTuple

from ottla.base.ids import TopicPartition
from ottla.client import Client, OffsetOutOfRange
from ottla.client.formats import Message
from ottla.console.figures import part
from ottla.console.records import page, positions
from ottla.console.records.batches import Problems, messages
from ottla.console.records.connection import Extent, extents
from ottla.console.records.positions import is_offset
from ottla.console.typed import time_of
from ottla.console.visit import MissingError


class RecordSource(NamedTuple):
    """Some partitions of a topic, with or without what is in open and aborted transactions."""

    topic: str
    partitions: list[int]
    read_committed: bool


def page_of(client: Client, source: RecordSource, count: int, older: str, newer: str, at: str) -> page.Page:
    """Before the positions `older`, from those in `newer` on, from the offset or time `at` on, or the newest;
    the first of these that is given."""
    reach = extents(client, source.topic, source.partitions, read_committed=source.read_committed)
    whole = page.Source(client, source.topic, reach, source.read_committed)
    if older:
        return page.older(whole, positions.parse(older), count)
    if newer:
        return page.newer(whole, positions.parse(newer), count)
    at = at.strip()
    if not at:
        return page.newest(whole, count)
    if is_offset(at):
        return page.newer(whole, dict.fromkeys(source.partitions, int(at)), count)
    time_ms = time_of(at)
    assert time_ms is not None, "there is text"
    asked = {TopicPartition(source.topic, number): max(0, time_ms) for number in source.partitions}
    offsets = client.offsets_at(asked)
    begin = {of.partition: offset for of, offset in offsets.items() if offset is not None}
    return page.newer(whole, {number: reach[number].end for number in reach} | begin, count)


def read_one(client: Client, source: RecordSource, partition: int, offset: int) -> tuple[Message, Extent]:
    """The record with this offset. A marker or an aborted record is not there for who does not want it."""
    if partition not in source.partitions:
        raise MissingError(f"{source.topic} has no partition {partition}.", records_of(source.topic))
    reach = extents(client, source.topic, [partition], read_committed=source.read_committed)
    problems = Problems()
    try:
        chunks = client.fetch(
            TopicPartition(source.topic, partition),
            offset,
            offset + 1,
            read_committed=source.read_committed,
            max_bytes=page.FETCH_BYTES_MAX,
        )
        if offset < reach[partition].end:
            for message in messages(source.topic, partition, chunks, problems):
                if message.offset == offset:
                    return message, reach[partition]
    except OffsetOutOfRange:
        pass
    start, end = reach[partition]
    why = problems[0] if problems else f"the partition begins at {start} and ends before {end}"
    if start <= offset < end and not problems:
        why = "it was compacted away, aborted, or is a marker of a transaction"
    raise MissingError(
        f"There is no record at offset {offset} of {source.topic}-{partition}: {why}.",
        records_of(source.topic),
    )


def records_of(topic: str) -> tuple[str, str]:
    """The page to go on from, if something of them is not there."""
    return f"/topics/{part(topic)}/records", f"Records of {topic}"
