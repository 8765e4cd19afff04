"""Records of a topic up to where it ends now, through our own client: `ottla consume` as it mostly is.

Partitions are read one after the other, in answers of megabytes, and each answer is written at once.
"""

import sys
from collections import deque
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from operator import attrgetter

from ottla.base.command_error import CommandError
from ottla.base.errors import ApiError
from ottla.base.ids import TopicPartition
from ottla.cli import output
from ottla.cli.records.filters import Filter
from ottla.cli.records.formats import Format
from ottla.cli.records.ranges import Wanted, narrowed
from ottla.client.client import Client
from ottla.client.errors import OffsetOutOfRange
from ottla.client.formats import Message
from ottla.client.librdkafka.errors import meant
from ottla.records.batch import BatchHeader
from ottla.records.many import values_of
from ottla.records.record import open_body, read_records
from ottla.records.visible import damaged, seen

_new = tuple.__new__  # half the price of calling a NamedTuple


class PartitionReader:
    def __init__(self, client: Client, topic: str, *, read_committed: bool) -> None:
        self._client = client
        self._topic = topic
        self._read_committed = read_committed

    def partitions(self, wanted: list[int]) -> list[int]:
        """The wanted partitions, all of which must be there; all of them if none is named."""
        there = self._client.partitions([self._topic]).get(self._topic, [])
        if not there:
            raise CommandError(
                f"there is no topic {self._topic!r}{meant(self._topic, self._client.topics())}"
            )
        missing = sorted(set(wanted) - set(there))
        if missing:
            shown = f"only {there[0]} to {there[-1]}"
            raise CommandError(f"topic {self._topic} has no partition {missing[0]}, {shown}")
        return sorted(set(wanted)) or there

    def ranges(self, numbers: list[int], asked: Wanted) -> dict[int, tuple[int, int]]:
        """From where to where each partition is to be read."""
        topic_partitions = [TopicPartition(self._topic, number) for number in numbers]
        starts = self._client.starts(topic_partitions)
        ends = self._client.ends(topic_partitions, read_committed=self._read_committed)
        bounds = {
            topic_partition.partition: (
                starts[topic_partition],
                max(starts[topic_partition], ends[topic_partition]),
            )
            for topic_partition in topic_partitions
        }
        return narrowed(
            asked,
            bounds,
            self._at(topic_partitions, asked.since_ms),
            self._at(topic_partitions, asked.until_ms),
        )

    def _at(self, topic_partitions: list[TopicPartition], time_ms: int | None) -> dict[int, int | None]:
        if time_ms is None:
            return {}
        offsets = self._client.offsets_at(dict.fromkeys(topic_partitions, max(0, time_ms)))
        return {topic_partition.partition: offset for topic_partition, offset in offsets.items()}

    def print(
        self, ranges: dict[int, tuple[int, int]], form: Format, chosen: Filter | None, most: int | None
    ) -> None:
        out, left = sys.stdout.buffer, most
        is_plain = form.plain is not None and chosen is None and most is None
        for number, (start, end) in ranges.items():
            for header, batch in self._batches(number, start, end):
                if is_plain and _is_within(header, start, end):
                    out.write(self._values(number, header, batch, form))
                    continue
                messages = self._messages(number, header, batch, start, end, chosen)
                lines = [form.write(message) for message in islice(messages, left)]
                out.write(b"".join(lines))
                if left is not None:
                    left -= len(lines)
                    if not left:
                        out.flush()
                        return
            out.flush()

    def print_last(
        self, ranges: dict[int, tuple[int, int]], form: Format, chosen: Filter | None, most: int
    ) -> None:
        """The newest of all partitions together, in the order of their times; those of one partition stay in
        its order."""
        newest = [self._last(number, start, end, chosen, most) for number, (start, end) in ranges.items()]
        messages = deque(merge(*newest, key=attrgetter("timestamp_ms")), maxlen=most)
        sys.stdout.buffer.write(b"".join(map(form.write, messages)))
        sys.stdout.buffer.flush()

    def _last(self, number: int, start: int, end: int, chosen: Filter | None, most: int) -> deque[Message]:
        """Read backwards in growing steps: markers of transactions, what was aborted or compacted away and
        what the filter leaves out have offsets too."""
        newest: deque[Message] = deque()
        step = most
        while end > start and len(newest) < most:
            first = max(start, end - step)
            messages = [
                message
                for header, batch in self._batches(number, first, end)
                for message in self._messages(number, header, batch, first, end, chosen)
            ]
            newest.extendleft(reversed(messages[len(newest) - most :]))
            end, step = first, 2 * step
        return newest

    def _batches(self, number: int, start: int, end: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Those that have something of what is wanted. What retention deletes meanwhile is told and left out:
        a partition may wait for long until those before it are read."""
        topic_partition = TopicPartition(self._topic, number)
        after = start
        while after < end:
            chunks = self._client.fetch(topic_partition, after, end, read_committed=self._read_committed)
            try:
                for header, batch in seen(topic_partition, chunks):
                    if header.base_offset >= end:
                        return
                    if header.next_offset > after and header.count:
                        yield header, batch
                    after = max(after, header.next_offset)
            except OffsetOutOfRange as error:
                if error.start is None or error.start <= after:
                    raise
                output.say(f"{topic_partition}: offsets {after} to {error.start - 1} were deleted meanwhile")
                after = error.start
            else:
                return

    def _values(self, number: int, header: BatchHeader, batch: memoryview, form: Format) -> bytes:
        assert form.plain is not None
        none, ending = form.plain
        try:
            values = values_of(open_body(batch, header), header.count)
        except ApiError as error:
            raise damaged(TopicPartition(self._topic, number), header, str(error)) from None
        return ending.join([*(none if value is None else value for value in values), b""])

    def _messages(
        self,
        number: int,
        header: BatchHeader,
        batch: memoryview,
        start: int,
        end: int,
        chosen: Filter | None,
    ) -> Iterator[Message]:
        try:
            records = read_records(batch, header)
        except ApiError as error:
            raise damaged(TopicPartition(self._topic, number), header, str(error)) from None
        topic = self._topic
        for offset, time_ms, key, value, headers in records:
            if not start <= offset < end:
                continue
            message: Message = _new(Message, (topic, number, offset, time_ms, key, value, list(headers)))
            if chosen is None or chosen(message):
                yield message


def _is_within(header: BatchHeader, start: int, end: int) -> bool:
    return start <= header.base_offset and header.next_offset <= end
