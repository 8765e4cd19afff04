"""A page of records, newest first: of one partition, or of all of them by their times.

Partitions are merged by looking at the next record of each, so within a partition the order is that of
offsets, whatever the timestamps say. Of each partition a little is read at first, and more if the page turns
out to come from there: compaction, markers and aborted transactions leave holes of any size. No partition
holds more than its share of what a page may hold, or one record: records may be large.

    newest(...)             the end of the topic
    older(..., positions)   what comes before these offsets
    newer(..., positions)   what comes from these offsets on; still newest first on the page
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ottla.base.ids import TopicPartition
from ottla.client import Client
from ottla.client.formats import Message
from ottla.console.records.batches import Problems, messages
from ottla.console.records.connection import Extent
from ottla.console.records.positions import Positions
from ottla.console.records.rows import size_of

RECORDS = 50
RECORDS_MAX = 500
PAGE_BYTES_MAX = 8 << 20
PAGE_S_MAX = 10.0
FETCH_BYTES_MAX = 4 << 20
STEP_MIN, STEP_MAX = 8, 1 << 20


@dataclass(frozen=True)
class Source:
    """What pages are made of: a topic, and how far its partitions reach; those that are left out are not
    shown."""

    client: Client
    topic: str
    extents: Mapping[int, Extent]
    read_committed: bool = True

    @property
    def starts(self) -> Positions:
        return {number: extent.start for number, extent in self.extents.items()}

    @property
    def ends(self) -> Positions:
        return {number: extent.end for number, extent in self.extents.items()}


@dataclass(frozen=True)
class Page:
    """`older` and `newer` are where the neighbours begin; None where there is nothing."""

    messages: list[Message]
    older: Positions | None
    newer: Positions | None
    is_whole: bool  # or was cut short, as it took too long or too much
    problems: list[str] = field(default_factory=list)


def newest(source: Source, count: int = RECORDS) -> Page:
    return older(source, source.ends, count)


def older(source: Source, positions: Mapping[int, int], count: int = RECORDS) -> Page:
    bounds = _clipped(source, positions, source.ends)
    merge = _Merge(source, bounds, count, is_backwards=True)
    return Page(
        merge.messages,
        merge.positions if _is_beyond(merge.positions, source.starts) else None,
        bounds if _is_beyond(source.ends, bounds) else None,
        merge.is_whole,
        merge.problems,
    )


def newer(source: Source, positions: Mapping[int, int], count: int = RECORDS) -> Page:
    bounds = _clipped(source, positions, source.starts)
    merge = _Merge(source, bounds, count, is_backwards=False)
    return Page(
        merge.messages[::-1],
        bounds if _is_beyond(bounds, source.starts) else None,
        merge.positions if _is_beyond(source.ends, merge.positions) else None,
        merge.is_whole,
        merge.problems,
    )


def _clipped(source: Source, positions: Mapping[int, int], others: Positions) -> Positions:
    """Offsets that are there, also if the log was cut since the link was made."""
    return {
        number: min(max(positions.get(number, others[number]), extent.start), extent.end)
        for number, extent in source.extents.items()
    }


def _is_beyond(these: Positions, those: Positions) -> bool:
    return any(offset > those[number] for number, offset in these.items())


class _Merge:
    """The next `count` records of all partitions, from their positions on, in one direction."""

    def __init__(self, source: Source, start: Positions, count: int, *, is_backwards: bool) -> None:
        self.messages: list[Message] = []
        self.positions = dict(start)
        self.problems = Problems()
        self.is_whole = True
        deadline_s = time.monotonic() + PAGE_S_MAX
        parts = max(1, len(start))
        step, share = max(STEP_MIN, 2 * count // parts), PAGE_BYTES_MAX // parts
        readers = {
            number: _Reader(source, number, at, step, share, is_backwards, self.problems)
            for number, at in start.items()
        }
        newest_first: Callable[[tuple[int, Message]], int] = lambda head: head[1].timestamp_ms  # noqa: E731
        size = 0
        while len(self.messages) < count:
            heads = []
            for number, reader in readers.items():
                message = reader.head(deadline_s)
                if message is not None:
                    heads.append((number, message))
            self.is_whole = time.monotonic() < deadline_s and size < PAGE_BYTES_MAX
            if not heads or not self.is_whole:
                break
            number, message = max(heads, key=newest_first) if is_backwards else min(heads, key=newest_first)
            readers[number].take()
            self.messages.append(message)
            size += size_of(message)
        for number, reader in readers.items():
            self.positions[number] = reader.position


class _Reader:
    """One partition, from an offset on, in one direction. `position` is behind what was taken."""

    def __init__(
        self,
        source: Source,
        partition: int,
        at: int,
        step: int,
        bytes_max: int,
        is_backwards: bool,
        problems: Problems,
    ) -> None:
        self._source = source
        self._partition = partition
        self._extent = source.extents[partition]
        self._step = step
        self._bytes_max = bytes_max
        self._is_backwards = is_backwards
        self._problems = problems
        self._read: deque[Message] = deque()
        self._next = at  # behind what was read
        self.position = at

    def head(self, deadline_s: float) -> Message | None:
        """The next record, which stays; None if there is none, or no time left to look for it."""
        while not self._read and not self._is_at_end and time.monotonic() < deadline_s:
            self._read_on()
        if not self._read:
            self.position = self._next  # what was read over has nothing in it
        return self._read[0] if self._read else None

    def take(self) -> None:
        message = self._read.popleft()
        self.position = message.offset if self._is_backwards else message.offset + 1

    @property
    def _is_at_end(self) -> bool:
        return self._next <= self._extent.start if self._is_backwards else self._next >= self._extent.end

    def _read_on(self) -> None:
        """The next step of offsets: longer if these were few records, shorter if they were too many bytes."""
        if self._is_backwards:
            start, end = max(self._extent.start, self._next - self._step), self._next
        else:
            start, end = self._next, min(self._extent.end, self._next + self._step)
        topic_partition = TopicPartition(self._source.topic, self._partition)
        chunks = self._source.client.fetch(
            topic_partition,
            start,
            end,
            read_committed=self._source.read_committed,
            max_bytes=FETCH_BYTES_MAX,
        )
        got: deque[Message] = deque()
        size, is_cut = 0, False
        for message in messages(topic_partition.topic, topic_partition.partition, chunks, self._problems):
            if not start <= message.offset < end:
                continue
            size += size_of(message)
            if not self._is_backwards and got and size > self._bytes_max:
                end, is_cut = message.offset, True
                break
            got.append(message)
            while len(got) > 1 and size > self._bytes_max:
                size -= size_of(got.popleft())
                start, is_cut = got[0].offset, True
        self._read.extend(reversed(got) if self._is_backwards else got)
        self._next = start if self._is_backwards else end
        self._step = len(got) if is_cut else min(STEP_MAX, self._step * 4)
