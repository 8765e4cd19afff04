"""From ranges of offsets to Spark's input partitions.

A task costs 30 to 60 ms whatever it does, so many small ranges share one: by default there is a task for
every 25,000 offsets, and never more than ranges, so that a large read has the official connector's one task
per partition and a micro-batch over 64 quiet partitions has one task. A range is cut only where an option
asks for it.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from ottla.client import TopicPartition

ROWS_PER_TASK = 25_000


@dataclass(frozen=True, order=True)
class Range:
    """Offsets [start, end) of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        return self.end - self.start


class Ranges(InputPartition):
    """What one task reads, in order. `value` is all of its state, and is what travels."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        super().__init__(tuple(sorted(ranges)))

    @property
    def ranges(self) -> tuple[Range, ...]:
        ranges: tuple[Range, ...] = self.value
        return ranges


@dataclass(frozen=True)
class Split:
    """The options that say how a read is divided; None is what was not asked."""

    partitions_min: int | None = None
    partitions_max: int | None = None
    rows_max: int | None = None


def plan(ranges: Iterable[Range], split: Split) -> list[Ranges]:
    """Tasks for all ranges that have something in them."""
    wanted = [range_ for range_ in sorted(ranges) if range_.size > 0]
    if split.rows_max is not None:
        wanted = [part for range_ in wanted for part in cut(range_, -(-range_.size // split.rows_max))]
    if split.partitions_min is not None and len(wanted) < split.partitions_min:
        wanted = _cut_to(wanted, split.partitions_min)
    if not wanted:
        return []
    total = sum(range_.size for range_ in wanted)
    count = split.partitions_max or -(-total // ROWS_PER_TASK)
    count = min(len(wanted), max(count, split.partitions_min or 1))
    return [Ranges(group) for group in pack(wanted, count, split.rows_max)]


def cut(whole: Range, parts: int) -> list[Range]:
    """Pieces of equal size; the sizes differ by one at most."""
    edges = [whole.start + whole.size * number // parts for number in range(parts + 1)]
    return [Range(whole.topic, whole.partition, start, end) for start, end in pairwise(edges) if start < end]


def _cut_to(ranges: list[Range], parts_min: int) -> list[Range]:
    """About so many ranges, the large ones in more pieces. Small ones stay whole and take no part in the
    sum."""
    total = sum(range_.size for range_ in ranges)
    whole = {range_ for range_ in ranges if _parts(range_.size, total, parts_min) == 1}
    large = total - sum(range_.size for range_ in whole)
    left = max(1, parts_min - len(whole))
    return [
        piece
        for range_ in ranges
        for piece in ([range_] if range_ in whole else cut(range_, _parts(range_.size, large, left)))
    ]


def _parts(size: int, total: int, parts: int) -> int:
    return max(1, int(size / total * parts + 0.5))


def pack(ranges: list[Range], count: int, rows_max: int | None = None) -> list[list[Range]]:
    """Groups of about the same size: the largest range first, always into the emptiest group.

    With `rows_max` no group grows beyond it, and there are more groups if need be.
    """
    groups: list[list[Range]] = [[] for _ in range(count)]
    heap = [(0, number) for number in range(count)]
    for range_ in sorted(ranges, key=lambda candidate: (-candidate.size, candidate)):
        rows, number = heapq.heappop(heap)
        if rows_max is not None and rows and rows + range_.size > rows_max:
            heapq.heappush(heap, (rows, number))
            rows, number = 0, len(groups)
            groups.append([])
        groups[number].append(range_)
        heapq.heappush(heap, (rows + range_.size, number))
    return [group for group in groups if group]
