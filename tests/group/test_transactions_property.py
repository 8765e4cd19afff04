"""Commits, plain and in transactions, their ends, tombstones, a watermark that follows, and coordinators that
take over at any point, against a model that reads the log from its beginning."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.group.room import Room
from tests.support.groups import G

from ottla.base.errors import ErrorCode
from ottla.coordinator.turn import StoredEnd, StoredRecord, Writer
from ottla.group.records import OffsetCommit, parse
from ottla.group.shard import GroupShard

PRODUCERS = (7, 8)
PARTITIONS = (0, 1)

Item = tuple[StoredRecord, int, int] | StoredEnd

partitions, producers = st.sampled_from(PARTITIONS), st.sampled_from(PRODUCERS)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), partitions),
        st.tuples(st.just("commit in"), producers, partitions),
        st.tuples(st.just("commit in"), producers, partitions),
        st.tuples(st.just("end"), producers, st.booleans()),
        st.tuples(st.just("end"), producers, st.just(True)),
        st.tuples(st.just("delete"), partitions),
        st.tuples(st.just("watermark"), st.integers(1, 4)),
        st.tuples(st.just("restart")),
        st.tuples(st.just("failover")),
    ),
    max_size=40,
)


class Written(NamedTuple):
    """A commit, and where it stands in the log."""

    offset: int
    log_offset: int


@dataclass
class Model:
    """What a log means."""

    committed: dict[int, Written] = field(default_factory=dict)
    pending: dict[int, dict[int, Written]] = field(default_factory=dict)

    @classmethod
    def of(cls, log: list[Item]) -> "Model":
        model = cls()
        for item in log:
            model._take(item)
        return model

    def _take(self, item: Item) -> None:
        if isinstance(item, StoredEnd):
            for partition, written in self.pending.pop(item.producer_id, {}).items():
                before = self.committed.get(partition)
                if item.committed and (before is None or before.log_offset < written.log_offset):
                    self.committed[partition] = written
            return
        record, log_offset, _ = item
        entry: Any = parse(record)
        if not isinstance(entry, OffsetCommit):
            return
        if entry.value is None:
            self.committed.pop(entry.partition, None)
            for written_by in self.pending.values():
                written_by.pop(entry.partition, None)
        else:
            target = self.committed
            if record.producer_id >= 0:
                target = self.pending.setdefault(record.producer_id, {})
            target[entry.partition] = Written(entry.value.offset, log_offset)

    def is_pending(self, partition: int) -> bool:
        return any(partition in written for written in self.pending.values())


class World:
    def __init__(self) -> None:
        self.room = Room()
        self.room.journal.waits = True
        self.next = 0

    @property
    def log(self) -> list[Item]:
        return self.room.journal.items

    def do(self, kind: str, *args: Any) -> None:
        self.next += 1
        journal = self.room.journal
        match kind, *args:
            case "commit", partition:
                assert self.room.commit(self.next, partition=partition) == ErrorCode.NONE
            case "commit in", producer_id, partition:
                writer = Writer(producer_id, 0)
                assert self.room.commit_in(writer, self.next, partition=partition) == ErrorCode.NONE
            case "end", producer_id, committed:
                self.room.end(Writer(producer_id, 0), committed=committed)
            case "delete", partition:
                self.room.delete_offsets("t", partition)
            case "watermark", by:
                journal.committed = min(journal.committed + by, journal.end_offset)
            case ("restart",):
                self.room.restart()
            case ("failover",):
                del journal.items[journal.committed :]  # what no other replica had
                self.room.restart()

    def check(self) -> None:
        offsets, below = self.room.shard.offsets, self.room.journal.committed
        told, newest = Model.of(self.log[:below]), Model.of(self.log)
        between = [Model.of(self.log[:end]) for end in range(below, len(self.log) + 1)]
        for partition in PARTITIONS:
            known = offsets.get(G, "t", partition, below)
            expected = told.committed.get(partition)
            assert (known and known.offset) == (expected and expected.offset)
            is_unstable = any(model.is_pending(partition) for model in between)
            assert offsets.is_unstable(G, "t", partition, below) == is_unstable
        assert offsets.unstable_of_topic(G, "t", below) == {
            partition for partition in PARTITIONS if any(model.is_pending(partition) for model in between)
        }
        self._check_newest(offsets, newest)

    def _check_newest(self, offsets: Any, newest: Model) -> None:
        held = {index: (entry.offset, entry.log_offset) for index, entry in _newest(offsets).items()}
        assert held == newest.committed
        assert set(offsets.pending.partitions(G)) == {
            ("t", partition) for partition in PARTITIONS if newest.is_pending(partition)
        }
        assert offsets.has_any(G) == bool(held or any(newest.pending.values()))

    def check_compacted(self) -> None:
        """What compaction leaves means the same."""
        shard = GroupShard(self.room.config, self.room.topics)
        for item in compacted(self.log):
            if isinstance(item, StoredEnd):
                shard.replay_end(item)
            else:
                shard.replay(*item)
        self._check_newest(shard.offsets, Model.of(self.log))


def _newest(offsets: Any) -> dict[int, Any]:
    return dict(offsets.newest(G).get("t", {}))


def compacted(log: list[Item]) -> list[Item]:
    """Below the first transaction that is open, only what is not before the latest of its key, plain or
    committed there."""
    open_at: dict[int, int] = {}
    for item in log:
        if isinstance(item, StoredEnd):
            open_at.pop(item.producer_id, None)
        elif item[0].producer_id >= 0:
            open_at.setdefault(item[0].producer_id, item[1])
    stable = min(open_at.values(), default=len(log))
    latest: dict[bytes, int] = {}
    written: dict[int, dict[bytes, int]] = {}
    for item in log[:stable]:
        if not isinstance(item, StoredEnd):
            record, offset, _ = item
            target = latest if record.producer_id < 0 else written.setdefault(record.producer_id, {})
            target[record.key] = offset
        else:
            for key, offset in written.pop(item.producer_id, {}).items():
                if item.committed:
                    latest[key] = max(offset, latest.get(key, -1))
    return [
        item
        for at, item in enumerate(log)
        if at >= stable or isinstance(item, StoredEnd) or latest.get(item[0].key, -1) <= at
    ]


@settings(max_examples=200, deadline=None)
@given(steps)
def test_groups_know_of_transactions_what_the_log_says(steps: list[tuple[Any, ...]]) -> None:
    world = World()
    for step in steps:
        world.do(*step)
        world.check()
    world.check_compacted()
