"""The committed offsets of all groups of a shard.

A commit is in the log before it is committed there, and only what the high watermark has passed may be told
to anybody. So there are two views: `newest` is what has been replayed, which decisions go by (an offset
that was just committed again has not expired), and what `get`, `topics` and `of_topic` answer, which is as of
the watermark. They differ only for partitions with commits in flight; `_behind` holds the older versions of
those, and `on_committed` drops them. Call it whenever the watermark moves, and before a load with the
watermark to load up to, or the versions pile up.

The invariant: for every commit in flight there is one place in `_in_flight`, in the order of the log, and one
version in `_behind`, after the one that is committed. The watermark never goes back while a shard is loaded.

What was committed for a topic that is deleted is told to nobody from that moment on (`hide`), although its
tombstones are written little by little: until something later about that group and topic is committed.
"""

import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.base.ids import ZERO_UUID
from ottla.group.memory import GROUP_BYTES, OFFSET_BYTES, TOPIC_BYTES
from ottla.group.records import OffsetCommitValue


class CommittedOffset(NamedTuple):
    """Where a group is in a partition. No leader epoch is -1, as on the wire."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    topic_id: bytes = ZERO_UUID

    @classmethod
    def of(cls, value: OffsetCommitValue) -> "CommittedOffset":
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            None if value.expire_timestamp == -1 else value.expire_timestamp,
            value.topic_id,
        )

    def is_expired(self, wall_ms: int, retention_ms: int, since_ms: int | None) -> bool:
        if self.expire_timestamp_ms is not None:
            return wall_ms >= self.expire_timestamp_ms
        began_ms = self.commit_timestamp_ms if since_ms is None else since_ms
        return wall_ms - began_ms >= retention_ms


class Offsets:
    """By group, topic and partition."""

    __slots__ = (
        "_behind", "_committed_below", "_end", "_hidden", "_in_flight", "_newest",
        "groups_bytes", "held_bytes",
    )  # fmt: skip

    def __init__(self) -> None:
        self._newest: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._behind: dict[str, dict[tuple[str, int], list[CommittedOffset | None]]] = {}
        self._in_flight: deque[tuple[int, str, str, int]] = deque()
        self._committed_below = 0
        self._end = 0  # the offset after what was replayed last
        self._hidden: dict[tuple[str, str], int] = {}  # group and topic, and where that began
        self.held_bytes = 0  # about what all of it takes in memory
        self.groups_bytes = 0  # what the groups take by themselves that have some of it

    def replay(
        self, group: str, topic: str, partition: int, value: OffsetCommitValue | None, log_offset: int
    ) -> None:
        """Take up a commit, or its tombstone, that stands at `log_offset`."""
        entry = None if value is None else CommittedOffset.of(value)
        self._end = log_offset + 1
        if log_offset < self._committed_below:
            self._show(group, topic, log_offset)
        else:
            behind = self._behind.setdefault(group, {})
            versions = behind.get((topic, partition))
            if versions is None:
                behind[topic, partition] = [self._find(group, topic, partition), entry]
            else:
                versions.append(entry)
            self._in_flight.append((log_offset, group, topic, partition))
        if entry is None:
            self._remove(group, topic, partition)
        else:
            self._put(group, topic, partition, entry)

    def on_committed(self, below: int) -> None:
        """The high watermark has reached `below`."""
        self._committed_below = max(self._committed_below, below)
        while self._in_flight and self._in_flight[0][0] < self._committed_below:
            log_offset, group, topic, partition = self._in_flight.popleft()
            self._show(group, topic, log_offset)
            behind = self._behind[group]
            versions = behind[topic, partition]
            del versions[0]
            if len(versions) == 1:
                del behind[topic, partition]
                if not behind:
                    del self._behind[group]

    def hide(self, topic: str) -> list[str]:
        """Tell nobody what has been committed for a topic so far; the groups that have."""
        groups = [group for group, topics in self._newest.items() if topic in topics]
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

    def newest(self, group: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """All of a group as replayed, commits in flight included: what decisions go by. Not to be kept."""
        return self._newest.get(group, {})

    def has_any(self, group: str) -> bool:
        return group in self._newest

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
        """
        return sorted(
            (topic, partition)
            for topic, entries in self._newest.get(group, {}).items()
            if not is_subscribed(topic)
            for partition, entry in entries.items()
            if entry.is_expired(wall_ms, retention_ms, since_ms)
        )

    def _find(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._newest.get(group, {}).get(topic, {}).get(partition)

    def growth(self, group: str, topic: str, partition: int, metadata: str) -> int:
        """How much more memory a commit would take than is taken now."""
        entries = self._newest.get(group, {}).get(topic)
        if entries is None:
            return TOPIC_BYTES + len(topic) + OFFSET_BYTES + len(metadata)
        entry = entries.get(partition)
        return len(metadata) + (OFFSET_BYTES if entry is None else -len(entry.metadata))

    def _put(self, group: str, topic: str, partition: int, entry: CommittedOffset) -> None:
        self.held_bytes += self.growth(group, topic, partition, entry.metadata)
        if group not in self._newest:
            self.groups_bytes += GROUP_BYTES + len(group)
        topics = self._newest.setdefault(sys.intern(group), {})
        topics.setdefault(sys.intern(topic), {})[partition] = entry

    def _remove(self, group: str, topic: str, partition: int) -> None:
        topics = self._newest.get(group, {})
        entries = topics.get(topic, {})
        entry = entries.pop(partition, None)
        if entry is None:
            return
        self.held_bytes -= OFFSET_BYTES + len(entry.metadata)
        if not entries:
            self.held_bytes -= TOPIC_BYTES + len(topic)
            del topics[topic]
            if not topics:
                del self._newest[group]
                self.groups_bytes -= GROUP_BYTES + len(group)
