"""A compacted log against a plain list of what was written, through cleanings and crashes in any order."""

import operator

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.log.cleaning_helpers import close_segment, content, keyed, place, state
from tests.log.helpers import NOW, append, open_log, records, run_syncs
from tests.log.simdisk import Crashed, SimDisk, page_cache, power_loss

from ottla.log.compaction.cleaner import Cleaner
from ottla.log.compaction.rewrite import clean
from ottla.log.compaction.task import CleanResult, CleanTask
from ottla.log.config import StoreConfig
from ottla.records.compression import Codec

RETENTION_MS = 500
CONFIG = {
    "cleanup_policy": ("compact",),
    "segment_bytes": 450,
    "index_interval_bytes": 100,
    "delete_retention_ms": RETENTION_MS,
    "min_cleanable_dirty_ratio": 0.0,
}
KEYS = tuple("abcdefghij")
PAIRS = st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), st.text("xyz", max_size=60)))


class CompactionModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = SimDisk()
        self.log = open_log(self.disk, **CONFIG)
        self.history: list[tuple[int, str, str | None]] = []
        self.first_seen: dict[int, int] = {}  # tombstone -> when a cleaning first saw it
        self.start = 0
        self.now = NOW
        self.sequence = 0
        self.epoch = 0
        self.checkpoint = 0
        self.cleaned_below = 0
        self.take_up()

    def take_up(self) -> None:
        self.log.cleaned_to = self.checkpoint
        self.cleaner = Cleaner({self.log.topic_partition: self.log})
        self.result: CleanResult | None = None
        self.wants_sync = False

    @property
    def end(self) -> int:
        return self.log.log_end_offset

    # -- writing ---------------------------------------------------------------------------------

    @rule(pairs=st.lists(PAIRS, min_size=1, max_size=4), codec=st.sampled_from(list(Codec)))
    def produce(self, pairs, codec):
        self.now += 3
        self.written(pairs, append(self.log, keyed(*pairs, at=self.now, codec=codec), epoch=self.epoch))

    @rule(pairs=st.lists(PAIRS, min_size=1, max_size=3))
    def produce_once(self, pairs):
        fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": self.sequence}
        first = append(self.log, keyed(*pairs, at=self.now, **fields), epoch=self.epoch)
        again = append(self.log, keyed(*pairs, at=self.now, **fields), epoch=self.epoch)
        assert (again.base_offset, again.duplicate) == (first.base_offset, True)
        self.sequence += len(pairs)
        self.written(pairs, first)

    def written(self, pairs, appended) -> None:
        assert not appended.duplicate
        self.history += [(appended.base_offset + at, *pair) for at, pair in enumerate(pairs)]

    @rule()
    def roll(self):
        self.log.roll(self.now)

    @rule()
    def roll_and_sync(self):
        close_segment(self.log)

    @rule()
    def sync(self):
        run_syncs(self.log)

    @rule()
    def lead(self):
        self.epoch += 1
        self.log.assign_epoch(self.epoch)

    @rule(passed=st.sampled_from((100, RETENTION_MS)))
    def wait(self, passed):
        self.now += passed

    # -- cleaning, at once or with anything in between -------------------------------------------

    def begin(self, memory: int) -> CleanTask | None:
        config = StoreConfig(cleaner_dedupe_buffer_bytes=memory, cleaner_backoff_ms=0)
        found = list(self.cleaner.next_tasks(config, lambda log: log.log_end_offset, self.now, self.now))
        if not found:
            return None
        self.cleaned_below = max(self.cleaned_below, found[0][1].upper)
        for offset, _, value in self.history:
            if value is None and offset < found[0][1].upper:
                self.first_seen.setdefault(offset, self.now)
        return found[0][1]

    @rule(memory=st.sampled_from((400, 1 << 20)))
    def compact(self, memory):
        if (task := self.begin(memory)) is not None:
            place(self.cleaner, self.log, clean(self.disk, task))
            self.checkpoint = self.log.cleaned_to

    @rule(memory=st.sampled_from((400, 1 << 20)))
    def begin_to_compact(self, memory):
        if (task := self.begin(memory)) is not None:
            self.result = clean(self.disk, task)
            self.wants_sync = self.cleaner.on_cleaned(self.log, self.result, NOW)

    @precondition(lambda self: self.wants_sync)
    @rule()
    def go_on(self):
        self.disk.syncable(self.log.directory).sync()
        self.wants_sync = self.cleaner.on_folder_synced(self.log)
        if not self.wants_sync:
            self.checkpoint = self.log.cleaned_to

    @rule(operations=st.integers(0, 60), lose=st.booleans(), memory=st.sampled_from((400, 1 << 20)))
    def crash_while_compacting(self, operations, lose, memory):
        if (task := self.begin(memory)) is None:
            return
        point = self.log.recovery_point
        self.disk.crash_after(operations)
        try:
            place(self.cleaner, self.log, clean(self.disk, task))
            self.checkpoint = self.log.cleaned_to
        except Crashed:
            pass
        self.crash(power_loss if lose else page_cache, point)

    # -- forgetting ------------------------------------------------------------------------------

    @rule(data=st.data())
    def delete_records(self, data):
        self.start = data.draw(st.integers(self.start, self.end))
        self.log.advance_log_start(self.start)

    @rule()
    def retain(self):
        self.log.delete_old_segments(self.now, self.log.log_end_offset)

    @rule(data=st.data())
    def truncate(self, data):
        # What is committed is never cut off, and nothing else is cleaned.
        offset = data.draw(st.integers(max(self.start, min(self.cleaned_below, self.end)), self.end))
        if self.log.truncate_to(offset, self.now):
            self.log.flush()
            self.forget([one for one in self.history if one[0] < self.end])

    # -- dying -----------------------------------------------------------------------------------

    @rule()
    def restart(self):
        self.cleaner.forget(self.log)
        self.log.close()
        self.log = open_log(self.disk, clean=True, recovery_point=self.end, start=self.start, **CONFIG)
        self.take_up()

    @rule(lose=st.booleans(), forget=st.booleans())
    def die(self, lose, forget):
        if forget:
            self.checkpoint = 0
        self.crash(power_loss if lose else page_cache, self.log.recovery_point)

    def crash(self, keep, point: int) -> None:
        end = self.end
        self.disk.crash(keep)
        self.log = open_log(self.disk, recovery_point=point, start=self.start, **CONFIG)
        assert self.end >= point
        if keep is page_cache:
            assert self.end == end
            self.forget(self.history)
        else:
            # Of what was not synced, anything may be missing.
            found = set(content(self.log))
            self.forget([one for one in self.history if one[0] < point or one in found])
        self.take_up()

    def forget(self, left: list[tuple[int, str, str | None]]) -> None:
        self.history = left
        self.start = self.log.log_start_offset
        self.checkpoint = min(self.checkpoint, self.end)
        self.sequence += 1000
        self.log.producers.clear(self.end)

    # -- what must hold --------------------------------------------------------------------------

    @invariant()
    def the_log_holds_the_latest_of_every_key(self):
        visible = [one for one in self.history if one[0] >= self.start]
        found = content(self.log)
        assert self.log.log_start_offset == self.start
        assert all(map(operator.lt, found, found[1:]))
        assert set(found) <= set(visible)
        table: dict[str, str] = {}
        for offset, key, value in visible:
            table.pop(key, None)
            if value is not None:
                table[key] = value
            if max(at for at, other, _ in visible if other == key) == offset:
                self.check_latest(found, offset, key, value)
        assert state(self.log) == table

    def check_latest(self, found, offset, key, value) -> None:
        if value is not None or (offset, key, value) in found:
            assert (offset, key, value) in found
            return
        assert offset in self.first_seen, f"the tombstone at {offset} went before any cleaning"
        assert self.now >= self.first_seen[offset] + RETENTION_MS
        assert not [one for one in found if one[1] == key], "a deleted key came back"

    @rule(data=st.data())
    def a_reader_from_anywhere_sees_the_rest(self, data):
        offset = data.draw(st.integers(self.start, self.log.log_end_offset))
        limit = data.draw(st.integers(0, 500))
        expected = [one[0] for one in content(self.log) if one[0] >= offset]
        assert [one.offset for one in records(self.log, offset, max_bytes=limit)] == expected


CompactionModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestCompactionModel = CompactionModel.TestCase
