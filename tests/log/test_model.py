"""A log against the simplest thing that behaves like one: a list of values, through crashes of every kind."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.log.helpers import FOLDER, NOW, append, idempotent, open_log, put, records, run_syncs
from tests.log.simdisk import SimDisk, power_loss

CONFIG = {"segment_bytes": 600, "index_interval_bytes": 150, "retention_bytes": 1500, "flush_messages": 4}


class LogModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = SimDisk()
        self.log = open_log(self.disk, **CONFIG)
        self.batches: list[list[str]] = []
        self.base = 0
        self.start = 0
        self.written = 0
        self.sequence = 0
        self.now = NOW
        self.epoch = 0

    @property
    def values(self) -> dict[int, str]:
        flat = [value for values in self.batches for value in values]
        return {self.base + at: value for at, value in enumerate(flat)}

    @property
    def end(self) -> int:
        return self.base + sum(map(len, self.batches))

    def new_values(self, count: int, size: int) -> list[str]:
        self.written += count
        return [f"{self.written - count + at}-" + "x" * size for at in range(count)]

    @rule(count=st.integers(1, 5), size=st.integers(0, 60))
    def append(self, count, size):
        values = self.new_values(count, size)
        self.now += 7
        assert put(self.log, *values, at=self.now).base_offset == self.end
        self.batches.append(values)

    @rule(count=st.integers(1, 3))
    def append_twice(self, count):
        values = self.new_values(count, 10)
        base = self.end
        first = append(self.log, idempotent(self.sequence, *values, at=self.now), epoch=self.epoch)
        again = append(self.log, idempotent(self.sequence, *values, at=self.now), epoch=self.epoch)
        assert (first.base_offset, again.base_offset, again.duplicate) == (base, base, True)
        self.sequence += count
        self.batches.append(values)

    @rule()
    def lead(self):
        self.epoch += 1
        self.log.assign_epoch(self.epoch)

    @rule()
    def roll(self):
        self.log.roll(self.now)

    @rule()
    def sync(self):
        run_syncs(self.log)
        assert self.log.safe_end == self.end or self.end - self.log.recovery_point < 4

    @rule(data=st.data(), limit=st.integers(0, 2000))
    def read(self, data, limit):
        offset = data.draw(st.integers(self.start, self.end))
        end = data.draw(st.integers(offset, self.end))
        found = records(self.log, offset, end, max_bytes=limit)
        expected = self.values
        assert [(record.offset, record.value.decode()) for record in found] == [
            (at, expected[at]) for at in range(offset, offset + len(found))
        ]
        upper, boundary = self.base, self.base
        for values in self.batches:
            upper += len(values)
            boundary = upper if upper <= end else boundary
        assert offset + len(found) == max(boundary, offset)

    @rule(data=st.data())
    def delete_records(self, data):
        offset = data.draw(st.integers(self.start, self.end))
        self.log.advance_log_start(offset)
        self.start = offset

    @rule(data=st.data())
    def retain(self, data):
        self.log.delete_old_segments(self.now, data.draw(st.integers(self.start, self.end)))
        self.start = max(self.start, self.log.segments[0].base_offset)
        assert self.log.log_start_offset == self.start

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def truncate(self, data):
        kept = data.draw(st.integers(0, len(self.batches)))
        offset = self.base + sum(map(len, self.batches[:kept]))
        if offset >= self.log.segments[0].base_offset:
            self.log.truncate_to(offset, self.now)
            # A truncation that is not durable may be undone by a loss of power.
            self.log.flush()
            self.forget_after(offset)

    @rule()
    def restart(self):
        self.log.close()
        assert self.disk.open_files == []
        self.log = open_log(self.disk, clean=True, recovery_point=self.end, start=self.start, **CONFIG)
        assert self.log.report.segments_scanned == 0

    @rule(data=st.data())
    def kill(self, data):
        point = data.draw(st.integers(0, self.log.recovery_point))
        self.disk.crash()
        self.reopen(point)
        assert self.log.log_end_offset == self.end
        assert self.log.report.bytes_cut == 0

    @rule()
    def lose_power(self):
        point = self.log.recovery_point
        self.disk.crash(power_loss)
        self.reopen(point)
        assert self.log.log_end_offset >= point
        self.forget_after(self.log.log_end_offset)

    @rule(data=st.data())
    def tear(self, data):
        point = self.log.recovery_point
        lost = data.draw(st.integers(0, 300))
        self.disk.crash(
            lambda path, synced, size: max(synced, size - lost) if path == self.log.active.path() else size
        )
        self.reopen(point)
        assert self.log.log_end_offset >= point
        self.forget_after(self.log.log_end_offset)

    def reopen(self, point: int) -> None:
        self.log = open_log(self.disk, recovery_point=point, start=self.start, **CONFIG)
        if self.log.log_end_offset < self.start:
            # What survived ended before the log's start offset: it is kept, and so is readable again.
            assert self.log.report.repairs[-1].what == "ignored a log start"
            self.start = self.log.log_start_offset
        self.start = max(self.start, self.log.log_start_offset)
        self.sequence = 0
        self.log.producers.clear(self.log.log_end_offset)

    def forget_after(self, offset: int) -> None:
        if offset < self.base:
            self.base, self.batches = offset, []
        while self.end > offset:
            self.batches.pop()
        if self.end != offset:
            # What survived ended before the log's start offset, so it begins anew there.
            assert offset == self.start
            self.base, self.batches = offset, []
        self.start = self.log.log_start_offset
        self.sequence = 0
        self.log.producers.clear(offset)

    @invariant()
    def the_log_is_the_list(self):
        assert self.log.log_end_offset == self.end
        assert self.log.log_start_offset == self.start
        assert self.log.recovery_point <= self.end
        assert self.log.safe_end <= self.end
        expected = self.values
        found = {record.offset: record.value.decode() for record in records(self.log)}
        assert found == {at: expected[at] for at in range(self.start, self.end)}
        assert all(name.startswith(FOLDER) for name in self.disk.nodes)


LogModel.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestLogModel = LogModel.TestCase
