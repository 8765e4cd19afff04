"""The runtime, with a shard that counts: decide, append, replay, answer; load, unload, timers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.support.journal import Journal as MemoryJournal

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.runtime import RETRY_MS, UNIT_BYTES, Runtime, Stored
from ottla.coordinator.turn import Answer, StoredEnd, StoredRecord, TimerKey, Turn, Writer
from ottla.log.chores import Chore, run_at_once
from ottla.log.cold import Warming
from ottla.records.control import Marker


@dataclass
class Counter:
    """Counts by key; a tombstone forgets. `seen` is all it was told, in order."""

    index: int
    counts: dict[bytes, int] = field(default_factory=dict)
    seen: list[object] = field(default_factory=list)

    def replay(self, record: StoredRecord, offset: int, timestamp_ms: int) -> None:
        self.seen.append(("replay", record.key, offset, timestamp_ms))
        if record.value is None:
            self.counts.pop(record.key, None)
        else:
            self.counts[record.key] = self.counts.get(record.key, 0) + int(record.value)

    def replay_end(self, end: StoredEnd) -> None:
        self.seen.append(end)

    def on_committed(self, below: int) -> None:
        self.seen.append(("committed", below))

    def on_loaded(self, turn: Turn) -> None:
        self.seen.append("loaded")
        turn.set_timer("since loaded", turn.now_ms + 1_000)

    def on_timer(self, turn: Turn, key: TimerKey) -> None:
        self.seen.append(("timer", key, turn.now_ms))
        if key == "again":
            turn.set_timer("again", turn.now_ms + 10)
        if key in {"writes", "changes"}:
            turn.is_replayed = key == "writes"
            turn.write(StoredRecord(b"timer", b"1"))

    # Operations

    def add(self, turn: Turn, answer: Answer, key: bytes, amount: int = 1) -> None:
        turn.write(StoredRecord(key, b"%d" % amount))
        turn.answer(answer, f"was {self.counts.get(key, 0)}")


class Journal(MemoryJournal):
    """It raises what is in `unreadable`, by offset, once each; of what is at offsets that are `cold` it says
    first that it is not in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.unreadable: dict[int, Exception] = {}
        self.cold: set[int] = set()

    def stored(self) -> Iterator[Stored]:
        for at, stored in enumerate(super().stored()):
            if at in self.unreadable:
                raise self.unreadable.pop(at)
            if at in self.cold:
                yield Warming([])
            yield stored


class World:
    def __init__(self) -> None:
        self.journal = Journal()
        self.answered: list[tuple[Answer, Any, int]] = []
        self.made: list[Counter] = []
        self.runtime: Runtime[Counter] = Runtime(self.new_shard, self.on_answered)

    def new_shard(self, index: int) -> Counter:
        self.made.append(Counter(index))
        return self.made[-1]

    def on_answered(self, answer: Answer, now_ms: int) -> None:
        self.answered.append((answer, answer.reply, now_ms))

    def load(self, epoch: int = 0, now_ms: int = 0, index: int = 7) -> Counter:
        self.runtime.load(index, self.journal, epoch, now_ms)
        return self.runtime.shard(index)

    def add(self, key: bytes = b"k", amount: int = 1, now_ms: int = 5, index: int = 7) -> Answer:
        answer = Answer()
        self.runtime.execute(index, now_ms, lambda shard, turn: shard.add(turn, answer, key, amount))
        return answer


def test_what_an_operation_writes_is_appended_replayed_and_answered() -> None:
    world = World()
    shard = world.load()
    answer = world.add(b"k", 3)
    assert [record for record, _, _ in world.journal.records] == [StoredRecord(b"k", b"3")]
    assert shard.counts == {b"k": 3}
    assert shard.seen[-1] == ("replay", b"k", 0, 5)
    assert (answer.reply, answer.after_offset) == ("was 0", 1)
    assert world.answered == [(answer, "was 0", 5)]


def test_several_records_of_one_turn_are_one_append_with_consecutive_offsets() -> None:
    world = World()
    shard = world.load()
    world.add()

    def write_two(_shard: Counter, turn: Turn) -> None:
        turn.write(StoredRecord(b"a", b"1"), StoredRecord(b"b", b"1"))

    world.runtime.execute(7, 6, write_two)
    assert shard.seen[-2:] == [("replay", b"a", 1, 6), ("replay", b"b", 2, 6)]


def test_a_shard_that_changed_in_memory_is_loaded_again_if_its_append_fails() -> None:
    world = World()
    reloaded: list[tuple[int, int]] = []
    world.runtime.on_reloaded = lambda index, now_ms: reloaded.append((index, now_ms))
    shard = world.load()
    world.add()
    world.journal.error = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def change_in_memory(counter: Counter, turn: Turn) -> None:
        counter.counts[b"k"] = 99
        turn.is_replayed = False
        turn.write(StoredRecord(b"k", b"98"))

    with pytest.raises(ApiError, match="NOT_ENOUGH_REPLICAS"):
        world.runtime.execute(7, 9, change_in_memory)
    assert world.runtime.shard(7) is not shard
    assert world.runtime.shard(7).counts == {b"k": 1}
    assert reloaded == [(7, 9)]


def test_a_timer_that_fails_on_a_shard_that_changed_in_memory_does_not_run_on_the_old_one() -> None:
    world = World()
    shard = world.load()
    world.runtime.execute(
        7, 5, lambda _shard, turn: (turn.set_timer("changes", 10), turn.set_timer("x", 11))[0]
    )
    world.journal.error = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.runtime.on_tick(20)
    assert world.runtime.shard(7) is not shard
    assert ("timer", "x", 20) not in shard.seen


def test_a_timer_after_which_the_shard_cannot_be_read_again_is_a_failure_of_the_disk_and_no_bug(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.load()
    world.add()
    world.runtime.execute(7, 5, lambda _shard, turn: turn.set_timer("changes", 10))
    world.journal.error = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.journal.unreadable[0] = OSError(5, "Input/output error")
    with pytest.raises(OSError, match="Input/output error"):
        world.runtime.on_tick(20)
    assert caplog.records == []
    world.runtime.on_tick(20 + RETRY_MS)
    assert world.runtime.shard(7).counts == {b"k": 1}


def test_if_the_append_fails_nothing_is_replayed_answered_or_timed() -> None:
    world = World()
    shard = world.load()
    world.add()
    world.journal.error = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
    answer = Answer()

    def operation(counter: Counter, turn: Turn) -> None:
        counter.add(turn, answer, b"k")
        turn.set_timer("x", 10)

    with pytest.raises(ApiError, match="NOT_ENOUGH_REPLICAS"):
        world.runtime.execute(7, 9, operation)
    assert shard.counts == {b"k": 1}
    assert (answer.reply, len(world.answered)) == (None, 1)
    assert "x" not in world.runtime.shards[7].timers.deadlines
    world.journal.error = None
    assert world.add().reply == "was 1"


def test_what_is_to_happen_once_a_turn_is_stored_happens_only_then() -> None:
    world = World()
    shard = world.load()
    waiting = Answer()

    def operation(counter: Counter, turn: Turn) -> None:
        turn.write(StoredRecord(b"k", b"1"))
        turn.once_stored(lambda: turn.answer(waiting, f"now {counter.counts}"))

    world.journal.error = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
    with pytest.raises(ApiError):
        world.runtime.execute(7, 0, operation)
    assert waiting.reply is None
    world.journal.error = None
    world.runtime.execute(7, 0, operation)
    assert (waiting.reply, waiting.after_offset) == ("now {b'k': 1}", 1)
    assert shard.counts == {b"k": 1}


def test_an_operation_that_raises_has_changed_nothing() -> None:
    world = World()
    shard = world.load()

    def refuse(_shard: Counter, turn: Turn) -> None:
        turn.write(StoredRecord(b"k", b"1"))
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    with pytest.raises(ApiError, match="UNKNOWN_MEMBER_ID"):
        world.runtime.execute(7, 0, refuse)
    assert (world.journal.records, shard.counts, world.answered) == ([], {}, [])


def test_an_answer_waits_for_the_end_of_the_log_even_if_its_operation_wrote_nothing() -> None:
    world = World()
    world.load()
    world.add()
    world.add()
    answer = Answer()
    world.runtime.execute(7, 0, lambda shard, turn: turn.answer(answer, "read"))
    assert (answer.reply, answer.after_offset) == ("read", 2)


def test_one_operation_can_give_the_answers_of_others() -> None:
    world = World()
    world.load()
    waiting, last = Answer(), Answer()
    world.runtime.execute(7, 0, lambda shard, turn: None)

    def give_both(shard: Counter, turn: Turn) -> None:
        turn.answer(waiting, "at last")
        shard.add(turn, last, b"k")

    world.runtime.execute(7, 3, give_both)
    assert [(answer, reply) for answer, reply, _ in world.answered] == [(waiting, "at last"), (last, "was 0")]
    assert waiting.after_offset == last.after_offset == 1


def test_a_turn_that_is_not_replayed_is_stored_all_the_same() -> None:
    world = World()
    shard = world.load()

    def store(_shard: Counter, turn: Turn) -> None:
        turn.write(StoredRecord(b"k", b"4"))
        turn.is_replayed = False

    world.runtime.execute(7, 0, store)
    assert shard.counts == {}
    assert world.load(epoch=1).counts == {b"k": 4}


def test_loading_replays_the_log_in_order_and_says_first_what_of_it_is_committed() -> None:
    world = World()
    world.load()
    world.add(b"a", now_ms=1)
    world.add(b"b", now_ms=2)
    world.journal.waits, world.journal.committed = True, 1
    shard = world.load(epoch=1, now_ms=50)
    assert shard is not world.made[0]
    assert shard.seen == [("committed", 1), ("replay", b"a", 0, 1), ("replay", b"b", 1, 2), "loaded"]
    assert world.runtime.shards[7].timers.next_ms() == 1_050


def test_loading_twice_in_an_epoch_or_in_an_older_one_changes_nothing() -> None:
    world = World()
    shard = world.load(epoch=4)
    world.add()
    world.load(epoch=4)
    world.load(epoch=3)
    assert world.runtime.shard(7) is shard
    assert len(world.made) == 1
    assert shard.counts == {b"k": 1}


def test_a_shard_taken_up_in_a_newer_epoch_has_none_of_the_old_timers() -> None:
    world = World()
    world.load()
    world.runtime.execute(7, 0, lambda shard, turn: turn.set_timer("old", 10))
    shard = world.load(epoch=1, now_ms=5)
    world.runtime.on_tick(500)
    assert ("timer", "old", 500) not in shard.seen


def test_after_unloading_operations_are_refused_and_no_timer_runs_out() -> None:
    world = World()
    shard = world.load()
    world.runtime.unload(7)
    world.runtime.unload(7)
    with pytest.raises(ApiError, match="NOT_COORDINATOR"):
        world.add()
    with pytest.raises(ApiError, match="NOT_COORDINATOR"):
        world.runtime.shard(7)
    world.runtime.on_tick(1_000_000)
    world.runtime.on_committed(7, 10, now_ms=0)
    assert shard.seen == [("committed", 0), "loaded"]
    assert world.runtime.next_ms is None


def test_a_shard_that_was_unloaded_can_be_loaded_again_in_the_same_epoch() -> None:
    world = World()
    world.load(epoch=2)
    world.add()
    world.runtime.unload(7)
    assert world.load(epoch=2).counts == {b"k": 1}


def test_shards_are_told_what_is_committed_of_their_own_log_only() -> None:
    world = World()
    one = world.load(index=1)
    two = world.load(index=2)
    world.runtime.on_committed(1, 12, now_ms=0)
    assert ("committed", 12) in one.seen
    assert ("committed", 12) not in two.seen


def test_timers_run_out_in_order_each_in_its_own_turn() -> None:
    world = World()
    shard = world.load(now_ms=0)

    def set_some(_shard: Counter, turn: Turn) -> None:
        turn.set_timer("b", 20)
        turn.set_timer("a", 10)
        turn.set_timer("writes", 15)
        turn.set_timer("gone", 12)

    world.runtime.execute(7, 0, set_some)
    world.runtime.execute(7, 1, lambda shard, turn: turn.cancel_timer("gone"))
    assert world.runtime.next_ms == 10
    world.runtime.on_tick(9)
    assert "timer" not in str(shard.seen)
    world.runtime.on_tick(20)
    fired = [event[1] for event in shard.seen if isinstance(event, tuple) and event[0] == "timer"]
    assert fired == ["a", "writes", "b"]
    assert shard.counts == {b"timer": 1}
    assert world.journal.records == [(StoredRecord(b"timer", b"1"), 0, 20)]


def test_a_timer_that_sets_itself_again_waits_for_its_next_time() -> None:
    world = World()
    shard = world.load(now_ms=0)
    world.runtime.execute(7, 0, lambda shard, turn: turn.set_timer("again", 10))
    world.runtime.on_tick(35)
    assert shard.seen.count(("timer", "again", 35)) == 1
    assert world.runtime.next_ms == 45


def test_a_timer_whose_turn_cannot_be_stored_is_tried_again_and_holds_up_no_other() -> None:
    world = World()
    shard = world.load(now_ms=0)
    other = world.load(now_ms=0, index=8)
    world.runtime.execute(7, 0, lambda shard, turn: turn.set_timer("writes", 10))
    world.runtime.execute(8, 0, lambda shard, turn: turn.set_timer("a", 10))
    world.journal.error = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.runtime.on_tick(10)
    assert (shard.counts, world.journal.records) == ({}, [])
    assert ("timer", "a", 10) in other.seen
    world.journal.error = None
    world.runtime.on_tick(10 + RETRY_MS - 1)
    assert shard.counts == {}
    world.runtime.on_tick(10 + RETRY_MS)
    assert shard.counts == {b"timer": 1}


def test_the_next_time_is_the_nearest_of_all_shards() -> None:
    world = World()
    assert world.runtime.next_ms is None
    world.load(index=1, now_ms=100)
    world.load(index=2, now_ms=50)
    assert world.runtime.next_ms == 1_050


def test_what_is_stored_carries_the_time_of_day_and_timers_go_by_the_steady_clock() -> None:
    world = World()
    world.runtime.wall_ms = lambda now_ms: now_ms + 1_000_000
    shard = world.load(now_ms=5)
    world.add(now_ms=7)
    assert world.journal.records[0][2] == 1_000_007
    assert shard.seen[-1] == ("replay", b"k", 0, 1_000_007)
    assert world.runtime.next_ms == 1_005


# Loading in slices


def slow(records: int, slice_work: int = 10) -> World:
    """A runtime that replays ten records in a slice, and a journal that holds this many."""
    world = World()
    world.journal.items = [(StoredRecord(b"%d" % at, b"1"), at, at) for at in range(records)]
    world.runtime.slice_work = slice_work
    world.runtime.on_tick(0)
    return world


def refusal(world: World, index: int = 7) -> str:
    with pytest.raises(ApiError) as refused:
        world.add(index=index)
    return refused.value.code.name


def test_a_long_log_is_loaded_in_slices_and_operations_are_refused_meanwhile() -> None:
    world = slow(25)
    world.runtime.load(7, world.journal, 0, now_ms=100)
    for replayed in (10, 20):
        assert len(world.made[0].counts) == replayed
        assert refusal(world) == "COORDINATOR_LOAD_IN_PROGRESS"
        with pytest.raises(ApiError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            world.runtime.shard(7)
        assert world.runtime.next_ms == 100, "the next slice is due at once"
        assert "loaded" not in world.made[0].seen
        world.runtime.on_tick(101)
    assert world.made[0].seen.count("loaded") == 1
    assert len(world.runtime.shard(7).counts) == 25
    assert (world.add().reply, world.journal.end_offset) == ("was 0", 26), "nothing was written before"
    assert world.runtime.next_ms == 1_101


def test_what_is_short_is_there_at_once_and_all_loads_share_a_slice() -> None:
    world = slow(4)
    for index in range(5):
        world.runtime.load(index, world.journal, 0, now_ms=0)
    assert sorted(world.runtime.shards) == [0, 1]
    assert list(world.runtime.loading) == [2, 3, 4]
    world.runtime.on_tick(1)
    assert sorted(world.runtime.shards) == [0, 1, 2, 3], "first come, first served"
    world.runtime.on_tick(1)
    assert sorted(world.runtime.shards) == [0, 1, 2, 3, 4]
    assert not world.runtime.loading


def test_while_a_load_waits_for_the_disk_others_have_their_turn_and_nothing_is_due() -> None:
    world = slow(3)
    chores: list[Chore] = []
    world.runtime.on_chore = chores.append
    world.journal.cold = {0, 2}
    world.runtime.load(7, world.journal, 0, 100)
    world.runtime.load(8, world.journal, 0, 100)
    assert world.runtime.next_ms == 100, "the second has not begun"
    world.runtime.on_tick(100)
    assert len(chores) == 2, "both wait at the same time"
    assert world.runtime.next_ms is None
    hot = Journal()
    world.runtime.load(9, hot, 0, 105)
    assert world.runtime.next_ms == 100
    world.runtime.on_tick(105)
    assert world.runtime.shard(9).index == 9
    run_at_once(chores.pop())
    assert world.runtime.next_ms == 100, "the second goes on"
    world.runtime.on_tick(110)
    assert list(world.runtime.loading) == [7, 8]
    while chores:
        run_at_once(chores.pop())
        world.runtime.on_tick(120)
    assert [loaded.shard.counts for loaded in world.runtime.shards.values()].count({}) == 1
    assert set(world.runtime.shards) == {7, 8, 9}


def test_a_shard_that_was_unloaded_while_it_waited_for_the_disk_does_not_come_back() -> None:
    world = slow(3)
    chores: list[Chore] = []
    world.runtime.on_chore = chores.append
    world.journal.cold = {1}
    world.runtime.load(7, world.journal, 0, 100)
    world.runtime.unload(7)
    run_at_once(chores.pop())
    assert world.runtime.next_ms is None
    world.runtime.on_tick(110)
    with pytest.raises(ApiError):
        world.runtime.shard(7)


def test_a_large_record_counts_as_several() -> None:
    world = slow(0)
    for at in range(4):
        world.journal.items.append((StoredRecord(b"%d" % at, b"1".zfill(5 * UNIT_BYTES)), at, 0))
    world.runtime.load(7, world.journal, 0, now_ms=0)
    assert len(world.made[0].counts) == 2


def test_a_log_of_which_nothing_is_for_the_coordinator_is_read_in_slices_too() -> None:
    world = slow(0)
    left = iter([None] * 25)
    world.journal.stored = lambda: left  # type: ignore[method-assign]
    world.runtime.load(7, world.journal, 0, now_ms=0)
    assert len(list(left)) == 15


def test_a_load_that_is_asked_for_twice_goes_on_and_a_newer_epoch_begins_anew() -> None:
    world = slow(15)
    world.runtime.load(7, world.journal, 4, now_ms=0)
    world.runtime.load(7, world.journal, 4, now_ms=0)
    world.runtime.load(7, world.journal, 3, now_ms=0)
    assert len(world.made) == 1
    world.runtime.load(7, world.journal, 5, now_ms=0)
    world.runtime.on_tick(1)
    world.runtime.on_tick(1)
    assert world.runtime.shards[7].leader_epoch == 5
    assert world.runtime.shard(7) is world.made[1]
    assert set(world.made[1].counts.values()) == {1}, "no record was replayed twice"


def test_a_shard_that_is_unloaded_while_it_is_loaded_is_gone() -> None:
    world = slow(15)
    world.runtime.load(7, world.journal, 0, now_ms=0)
    world.runtime.unload(7)
    assert refusal(world) == "NOT_COORDINATOR"
    world.runtime.on_tick(1)
    assert len(world.made[0].counts) == 10
    assert world.runtime.next_ms is None


def test_damage_in_the_middle_of_a_load_leaves_no_coordinator_and_holds_up_no_other() -> None:
    world = slow(25)
    damage: list[tuple[int, str]] = []
    world.runtime.on_failed = lambda index, failed: damage.append((index, failed.unreadable[0].problem))
    world.journal.unreadable[12] = ApiError(ErrorCode.CORRUPT_MESSAGE, "the checksum is wrong")
    world.runtime.load(7, world.journal, 0, now_ms=0)
    world.runtime.load(8, Journal(), 0, now_ms=0)
    world.runtime.on_tick(1)
    assert damage == [(7, "the checksum is wrong")]
    assert refusal(world) == "COORDINATOR_NOT_AVAILABLE"
    assert list(world.runtime.shards) == [8]


def test_a_log_that_cannot_be_read_now_is_loaded_from_its_beginning_a_little_later() -> None:
    world = slow(25)
    world.journal.unreadable[12] = OSError(24, "Too many open files")
    world.runtime.load(7, world.journal, 0, now_ms=0)
    with pytest.raises(OSError, match="Too many open files"):
        world.runtime.on_tick(1)
    assert world.runtime.next_ms == 1 + RETRY_MS
    world.runtime.on_tick(RETRY_MS)
    assert refusal(world) == "COORDINATOR_LOAD_IN_PROGRESS"
    assert world.made[1].counts == {}
    for _ in range(3):
        world.runtime.on_tick(1 + RETRY_MS)
    assert set(world.runtime.shard(7).counts.values()) == {1}
    assert len(world.runtime.shard(7).counts) == 25


def test_a_shard_that_is_being_loaded_is_told_what_is_committed() -> None:
    world = slow(15)
    world.runtime.load(7, world.journal, 0, now_ms=0)
    world.runtime.on_committed(7, 12, now_ms=1)
    assert world.made[0].seen[-1] == ("committed", 12)


def test_what_happens_to_all_shards_happens_to_one_that_is_being_loaded_once_it_is_there() -> None:
    world = slow(15)
    other = Journal()
    world.runtime.load(8, other, 0, now_ms=0)
    world.journal.unreadable[12] = OSError(24, "Too many open files")
    world.runtime.load(7, world.journal, 0, now_ms=0)
    world.runtime.execute_everywhere(5, lambda _, turn: turn.write(StoredRecord(b"all", b"1")))
    with pytest.raises(OSError, match="Too many open files"):
        world.runtime.on_tick(6)
    for _ in range(2):
        assert (world.journal.end_offset, other.end_offset) == (15, 1)
        world.runtime.on_tick(6 + RETRY_MS)
    assert world.runtime.shard(7).seen[-2:] == ["loaded", ("replay", b"all", 15, 6 + RETRY_MS)]


# Transactions


def test_what_a_turn_writes_in_a_transaction_is_replayed_with_its_producer() -> None:
    world = World()
    shard = world.load()

    def write(_shard: Counter, turn: Turn) -> None:
        turn.writer = Writer(9, 2)
        turn.write(StoredRecord(b"a", b"1"), StoredRecord(b"b", b"1"))

    with_producer: list[StoredRecord] = []
    shard.replay = lambda record, *_: with_producer.append(record)  # type: ignore[method-assign]
    world.runtime.execute(7, 5, write)
    assert with_producer == [StoredRecord(b"a", b"1", 9), StoredRecord(b"b", b"1", 9)]
    assert world.journal.writers == {0: Writer(9, 2)}


def test_the_end_of_a_transaction_is_appended_replayed_and_answered_when_it_is_committed() -> None:
    world = World()
    shard = world.load()
    world.add()
    answer = Answer()
    world.runtime.end_transaction(7, Marker(9, 2, True, 0, 0), 6, answer)
    assert shard.seen[-1] == StoredEnd(9, True, 1)
    assert (answer.reply, answer.after_offset, answer.given_ms) == (True, 2, 6)
    assert world.answered[-1] == (answer, True, 6)


def test_an_end_that_is_there_already_is_answered_and_not_replayed_again() -> None:
    world = World()
    shard = world.load()
    world.add()
    world.journal.append_end = lambda *_: None  # type: ignore[method-assign]
    seen, answer = list(shard.seen), Answer()
    world.runtime.end_transaction(7, Marker(9, 2, True, 0, 0), 6, answer)
    assert shard.seen == seen
    assert (answer.reply, answer.after_offset) == (True, 1)


def test_an_end_that_cannot_be_appended_is_refused_and_not_replayed() -> None:
    world = World()
    shard = world.load()
    seen, answer = list(shard.seen), Answer()
    world.journal.error = ApiError(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    with pytest.raises(ApiError, match="TRANSACTION_COORDINATOR_FENCED"):
        world.runtime.end_transaction(7, Marker(9, 2, True, 0, 0), 6, answer)
    assert (shard.seen, answer.reply) == (seen, None)
    world.journal.error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
        world.runtime.end_transaction(7, Marker(9, 2, True, 0, 0), 6, answer)
    assert world.runtime.shards == {}, "its disk failed"


def test_a_transaction_is_not_ended_while_its_shard_is_loaded_or_where_it_is_not() -> None:
    world = World()
    world.journal.append([StoredRecord(b"%d" % at, b"1") for at in range(10)], 0, 0)
    world.runtime.slice_work = 1
    world.runtime.on_tick(0)
    world.runtime.load(7, world.journal, 0, 0)
    for index, code in ((7, "COORDINATOR_LOAD_IN_PROGRESS"), (8, "NOT_COORDINATOR")):
        with pytest.raises(ApiError, match=code):
            world.runtime.end_transaction(index, Marker(9, 2, True, 0, 0), 6, Answer())
    assert world.journal.end_offset == 10


def test_a_load_replays_ends_where_they_stand() -> None:
    world = World()
    world.load()
    world.add(b"a")
    world.runtime.end_transaction(7, Marker(9, 2, False, 0, 0), 6, Answer())
    world.add(b"b")
    shard = world.load(epoch=1)
    kinds = [seen for seen in shard.seen if seen != "loaded"]
    assert kinds == [("committed", 3), ("replay", b"a", 0, 5), StoredEnd(9, False, 1), ("replay", b"b", 2, 5)]
