"""Offsets that were committed in transactions which have not ended: they count when these are committed.

A producer has one transaction at a time, so of a partition it has at most one pending offset; several
producers may have one each. A tombstone removes them all (as in Kafka), the end of a transaction those of its
producer.

What has ended is *unstable* until its end is committed in the log: before that nobody can be certain of it,
and whoever wants stable offsets (KIP-447) has to ask again. So is what was just made pending, committed in
the log or not.
"""

import sys
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from ottla.group.committed_offset import CommittedOffset
from ottla.group.memory import PENDING_OFFSET_BYTES


class PendingOffset(NamedTuple):
    group: str
    topic: str
    partition: int
    entry: CommittedOffset


class PendingOffsets:
    __slots__ = ("_by_group", "_by_producer", "_ended", "_ended_of", "held_bytes")

    def __init__(self) -> None:
        # By group, then by topic and partition, then by producer.
        self._by_group: dict[str, dict[tuple[str, int], dict[int, CommittedOffset]]] = {}
        self._by_producer: dict[int, dict[tuple[str, str, int], None]] = {}
        # Whose ends are in flight, and where in the log those stand.
        self._ended: deque[tuple[int, str, str, int]] = deque()
        self._ended_of: dict[str, dict[tuple[str, int], int]] = {}  # how many of these there are, by group
        self.held_bytes = 0  # about what all of it takes in memory

    def put(self, producer_id: int, group: str, topic: str, partition: int, entry: CommittedOffset) -> None:
        self.held_bytes += self.growth(producer_id, group, topic, partition, entry.metadata)
        group, topic = sys.intern(group), sys.intern(topic)
        by_producer = self._by_group.setdefault(group, {}).setdefault((topic, partition), {})
        by_producer[producer_id] = entry
        self._by_producer.setdefault(producer_id, {})[group, topic, partition] = None

    def growth(self, producer_id: int, group: str, topic: str, partition: int, metadata: str) -> int:
        """How much more memory a commit would take than is taken now."""
        entry = self._by_group.get(group, {}).get((topic, partition), {}).get(producer_id)
        size = len(metadata)
        return size + PENDING_OFFSET_BYTES + len(topic) if entry is None else size - len(entry.metadata)

    def drop(self, group: str, topic: str, partition: int) -> int:
        """Forget what is pending of a partition; how many that were."""
        producer_ids = list(self._by_group.get(group, {}).get((topic, partition), ()))
        for producer_id in producer_ids:
            self._take(producer_id, group, topic, partition)
            keys = self._by_producer[producer_id]
            del keys[group, topic, partition]
            if not keys:
                del self._by_producer[producer_id]
        return len(producer_ids)

    def end(self, producer_id: int) -> list[PendingOffset]:
        """Forget what a producer has pending, and say what that is, in the order in which it was committed
        first."""
        return [
            PendingOffset(*key, self._take(producer_id, *key))
            for key in self._by_producer.pop(producer_id, {})
        ]

    def _take(self, producer_id: int, group: str, topic: str, partition: int) -> CommittedOffset:
        by_partition = self._by_group[group]
        by_producer = by_partition[topic, partition]
        entry = by_producer.pop(producer_id)
        self.held_bytes -= PENDING_OFFSET_BYTES + len(topic) + len(entry.metadata)
        if not by_producer:
            del by_partition[topic, partition]
            if not by_partition:
                del self._by_group[group]
        return entry

    # What is pending, by what has been replayed: decisions go by this

    def has(self, group: str, topic: str, partition: int) -> bool:
        return bool(self._by_group) and (topic, partition) in self._by_group.get(group, ())

    def has_any(self, group: str) -> bool:
        return group in self._by_group

    def partitions(self, group: str) -> Iterator[tuple[str, int]]:
        return iter(self._by_group.get(group, ()))

    def groups_of(self, topic: str) -> Iterator[str]:
        """Those that have something pending for a topic."""
        for group, by_partition in self._by_group.items():
            if any(name == topic for name, _ in by_partition):
                yield group

    # What is unstable

    def on_ended(self, log_offset: int, group: str, topic: str, partition: int) -> None:
        """One is pending no more, by what stands at `log_offset`, which is not committed yet."""
        self._ended.append((log_offset, group, topic, partition))
        counts = self._ended_of.setdefault(group, {})
        counts[topic, partition] = counts.get((topic, partition), 0) + 1

    def on_committed(self, below: int) -> None:
        while self._ended and self._ended[0][0] < below:
            _, group, topic, partition = self._ended.popleft()
            counts = self._ended_of[group]
            counts[topic, partition] -= 1
            if not counts[topic, partition]:
                del counts[topic, partition]
                if not counts:
                    del self._ended_of[group]

    def is_unstable(self, group: str, topic: str, partition: int) -> bool:
        return self.has(group, topic, partition) or (topic, partition) in self._ended_of.get(group, ())

    def unstable(self, group: str) -> set[tuple[str, int]]:
        """The (topic, partition) of all that is unstable of a group."""
        return {*self._by_group.get(group, ()), *self._ended_of.get(group, ())}
