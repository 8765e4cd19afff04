"""The committed offsets of all groups of a shard.

A commit is in the log before it is committed there, and only what the high watermark has passed may be told
to anybody. So there are two views: `newest` is what has been replayed, which decisions go by (an offset
that was just committed again has not expired), and what `get`, `topics` and `of_topic` answer, which is as of
the watermark. They differ only for partitions with commits in flight; `_behind` holds the older versions of
those, and `on_committed` drops them. Call it whenever the watermark moves, and before a load with the
watermark to load up to, or the versions pile up.

The invariant: for every commit in flight there is one place in `_in_flight`, in the order of the log, and one
version in `_behind`, after the one that is committed. The watermark never goes back while a shard is loaded.

What a transaction commits is pending (`pending`), in neither view, until the marker that ends it is replayed.
If that says so, the offset is committed by the marker: it is told once the watermark has passed the marker,
and counts unless a commit that stands later in the log than its record was there before (as in Kafka, and as
compaction would keep them).

What was committed for a topic that is deleted is told to nobody from that moment on (`hide`), although its
tombstones are written little by little: until something later about that group and topic is committed.
"""

import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.group.commits import Commit
from ottla.group.committed_offset import CommittedOffset
from ottla.group.memory import GROUP_BYTES, OFFSET_BYTES, TOPIC_BYTES
from ottla.group.records import OffsetCommitValue
from ottla.group.transactional_offsets import PendingOffsets
from ottla.records.batch import NO_PRODUCER_ID

_NOTHING: Final[dict[Any, Any]] = {}  # never written to


class Offsets:
    """By group, topic and partition."""

    __slots__ = (
        "_behind", "_committed_below", "_end", "_hidden", "_in_flight", "_newest", "_newest_bytes",
        "groups_bytes", "pending",
    )  # fmt: skip

    def __init__(self) -> None:
        self._newest: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._behind: dict[str, dict[tuple[str, int], list[CommittedOffset | None]]] = {}
        # Where it is decided, the group, topic and partition, and where the commit itself stands.
        self._in_flight: deque[tuple[int, str, str, int, int]] = deque()
        self._committed_below = 0
        self._end = 0  # the offset after what was replayed last
        self._hidden: dict[tuple[str, str], int] = {}  # group and topic, and where that began
        self._newest_bytes = 0
        self.groups_bytes = 0  # what the groups take by themselves that have some of it
        self.pending = PendingOffsets()

    @property
    def held_bytes(self) -> int:
        """About what all of it takes in memory."""
        return self._newest_bytes + self.pending.held_bytes

    def replay(
        self,
        group: str,
        topic: str,
        partition: int,
        value: OffsetCommitValue | None,
        log_offset: int,
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        """Take up a commit, or its tombstone, that stands at `log_offset`. With a producer id it is part of a
        transaction; a tombstone counts at once all the same."""
        self._end = log_offset + 1
        entry = None if value is None else CommittedOffset.of(value, log_offset)
        if entry is not None and producer_id == NO_PRODUCER_ID and group in self._newest:
            self._decide(group, topic, partition, entry, log_offset)
            return  # as nearly all: the group has offsets, and has them afterwards
        was_there = self.has_any(group)
        if entry is not None and producer_id != NO_PRODUCER_ID:
            self.pending.put(producer_id, group, topic, partition, entry)
        else:
            self._decide(group, topic, partition, entry, log_offset)
        if entry is None:
            for _ in range(self.pending.drop(group, topic, partition)):
                self._on_ended(group, topic, partition, log_offset)
        self._count_group(group, was_there)

    def replay_end(self, producer_id: int, committed: bool, log_offset: int) -> None:
        """The marker at `log_offset` ends a producer's transaction."""
        self._end = log_offset + 1
        ended = self.pending.end(producer_id)
        for group, topic, partition, entry in ended:
            self._on_ended(group, topic, partition, log_offset)
            newest = self._find(group, topic, partition)
            if committed and (newest is None or newest.log_offset < entry.log_offset):
                self._decide(group, topic, partition, entry, log_offset)
        for group in {pending.group for pending in ended}:
            self._count_group(group, was_there=True)

    def _decide(
        self, group: str, topic: str, partition: int, entry: CommittedOffset | None, log_offset: int
    ) -> None:
        """What stands at `log_offset` makes this the newest."""
        written_at = log_offset if entry is None else entry.log_offset
        if log_offset < self._committed_below:
            self._show(group, topic, written_at)
        else:
            behind = self._behind.setdefault(group, {})
            versions = behind.get((topic, partition))
            if versions is None:
                behind[topic, partition] = [self._find(group, topic, partition), entry]
            else:
                versions.append(entry)
            self._in_flight.append((log_offset, group, topic, partition, written_at))
        if entry is None:
            self._remove(group, topic, partition)
        else:
            self._put(group, topic, partition, entry)

    def _on_ended(self, group: str, topic: str, partition: int, log_offset: int) -> None:
        if log_offset >= self._committed_below:
            self.pending.on_ended(log_offset, group, topic, partition)

    def _count_group(self, group: str, was_there: bool) -> None:
        is_there = self.has_any(group)
        if is_there != was_there:
            self.groups_bytes += (GROUP_BYTES + len(group)) * (1 if is_there else -1)

    def on_committed(self, below: int) -> None:
        """The high watermark has reached `below`."""
        if below > self._committed_below:
            self._committed_below = below
        self.pending.on_committed(self._committed_below)
        while self._in_flight and self._in_flight[0][0] < self._committed_below:
            _, group, topic, partition, written_at = self._in_flight.popleft()
            self._show(group, topic, written_at)
            behind = self._behind[group]
            versions = behind[topic, partition]
            del versions[0]
            if len(versions) == 1:
                del behind[topic, partition]
                if not behind:
                    del self._behind[group]

    def hide(self, topic: str) -> list[str]:
        """Tell nobody what has been committed for a topic so far; the groups that have."""
        committed = (group for group, topics in self._newest.items() if topic in topics)
        groups = list(dict.fromkeys([*committed, *self.pending.groups_of(topic)]))
        self._hidden.update(((group, topic), self._end) for group in groups)
        return groups

    def _show(self, group: str, topic: str, log_offset: int) -> None:
        """Something about it is committed at that offset."""
        if self._hidden and self._hidden.get((group, topic), log_offset + 1) <= log_offset:
            del self._hidden[group, topic]

    def get(self, group: str, topic: str, partition: int, committed_below: int) -> CommittedOffset | None:
        """What is committed below the watermark, which this moves."""
        self.on_committed(committed_below)
        if (group, topic) in self._hidden:
            return None
        versions = self._behind.get(group, {}).get((topic, partition))
        return versions[0] if versions else self._find(group, topic, partition)

    def is_unstable(self, group: str, topic: str, partition: int, committed_below: int) -> bool:
        """Whether a transaction has yet to decide where a group is, as of the watermark, which this moves."""
        self.on_committed(committed_below)
        return self.pending.is_unstable(group, topic, partition)

    def unstable_of_topic(self, group: str, topic: str, committed_below: int) -> set[int]:
        """The partitions of one topic where that is so."""
        self.on_committed(committed_below)
        return {partition for name, partition in self.pending.unstable(group) if name == topic}

    def unstable_topics(self, group: str, committed_below: int) -> set[str]:
        """The topics in which that is so."""
        self.on_committed(committed_below)
        return {topic for topic, _ in self.pending.unstable(group)}

    def topics(self, group: str, committed_below: int) -> list[str]:
        """Those of which a group has committed anything below the watermark, which this moves, in order."""
        self.on_committed(committed_below)
        in_flight = {topic for topic, _ in self._behind.get(group, ())}
        committed = {topic for topic in in_flight if self.of_topic(group, topic, committed_below)}
        topics = (self._newest.get(group, {}).keys() - in_flight) | committed
        return sorted(topic for topic in topics if (group, topic) not in self._hidden)

    def of_topic(self, group: str, topic: str, committed_below: int) -> dict[int, CommittedOffset]:
        """All of a group in one topic, by partition, in order, as of the watermark, which this moves."""
        self.on_committed(committed_below)
        if (group, topic) in self._hidden:
            return {}
        entries = dict(self._newest.get(group, {}).get(topic, {}))
        for (named, partition), (committed, *_) in self._behind.get(group, {}).items():
            if named == topic and committed is not None:
                entries[partition] = committed
            elif named == topic:
                entries.pop(partition, None)
        return dict(sorted(entries.items()))

    @property
    def count(self) -> int:
        """Of all groups, of what was replayed."""
        return sum(len(entries) for topics in self._newest.values() for entries in topics.values())

    def newest(self, group: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """All of a group as replayed, commits in flight included: what decisions go by. Not to be kept."""
        return self._newest.get(group, {})

    def has_any(self, group: str) -> bool:
        """Committed, or pending."""
        return group in self._newest or self.pending.has_any(group)

    def partitions(self, group: str) -> list[tuple[str, int]]:
        """All (topic, partition) of which a group has something newest or pending: what it takes tombstones
        to be rid of."""
        committed = ((topic, index) for topic, entries in self.newest(group).items() for index in entries)
        return list(dict.fromkeys([*committed, *self.pending.partitions(group)]))

    def expired(
        self,
        group: str,
        wall_ms: int,
        retention_ms: int,
        *,
        since_ms: int | None = None,
        is_subscribed: Callable[[str], bool] = lambda _: False,
    ) -> list[tuple[str, int]]:
        """The (topic, partition) of a group to be forgotten now, in order (KIP-211).

        An offset that was committed with a retention of its own goes when that is over. Any other goes when
        `retention_ms` have passed since `since_ms` or, where that is None, since it was committed; and
        nothing goes of a topic that the group still reads.

        classic, Empty            since the group became so, if that is known; nothing is subscribed
        classic, Stable           of the consumer protocol, and its topics known: since the commit
        classic, any other state  do not ask: nothing expires
        offsets only              no protocol type: since the commit; nothing is subscribed
        consumer (KIP-848)        since the commit

        Nothing goes where a transaction may yet put something in its place.
        """
        return sorted(
            (topic, partition)
            for topic, entries in self._newest.get(group, {}).items()
            if not is_subscribed(topic)
            for partition, entry in entries.items()
            if entry.is_expired(wall_ms, retention_ms, since_ms)
            and not self.pending.has(group, topic, partition)
        )

    def _find(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._newest.get(group, {}).get(topic, {}).get(partition)

    def growth_by(self, commit: Commit) -> int:
        """How much more memory all of a commit would take, apart from its group."""
        writer, group = commit.writer, commit.group_id
        if writer is None and len(commit.offsets) == 1:
            topic, partition, _, _, metadata = commit.offsets[0]
            return self.growth(group, topic, partition, metadata)
        if writer is None:
            return sum(self.growth(group, to.topic, to.partition, to.metadata) for to in commit.offsets)
        return sum(
            self.pending.growth(writer.producer_id, group, to.topic, to.partition, to.metadata)
            for to in commit.offsets
        )

    def growth(self, group: str, topic: str, partition: int, metadata: str) -> int:
        """How much more memory a commit would take than is taken now."""
        entries = self._newest.get(group, _NOTHING).get(topic)
        if entries is None:
            return TOPIC_BYTES + len(topic) + OFFSET_BYTES + len(metadata)
        entry = entries.get(partition)
        return len(metadata) + (OFFSET_BYTES if entry is None else -len(entry.metadata))

    def _put(self, group: str, topic: str, partition: int, entry: CommittedOffset) -> None:
        entries = self._newest.get(group, _NOTHING).get(topic, _NOTHING)
        if partition in entries:
            self._newest_bytes += len(entry.metadata) - len(entries[partition].metadata)
            entries[partition] = entry
            return
        self._newest_bytes += self.growth(group, topic, partition, entry.metadata)
        topics = self._newest.setdefault(sys.intern(group), {})
        topics.setdefault(sys.intern(topic), {})[partition] = entry

    def _remove(self, group: str, topic: str, partition: int) -> None:
        topics = self._newest.get(group, {})
        entries = topics.get(topic, {})
        entry = entries.pop(partition, None)
        if entry is None:
            return
        self._newest_bytes -= OFFSET_BYTES + len(entry.metadata)
        if not entries:
            self._newest_bytes -= TOPIC_BYTES + len(topic)
            del topics[topic]
            if not topics:
                del self._newest[group]
