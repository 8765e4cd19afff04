"""What a log holds that nobody can read: it fails its shard and nothing else, until it is overwritten or left
out."""

import pytest
from tests.coordinator.test_runtime import Counter, Journal, World

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.damage import Damage, Unreadable, leave_out, named_by
from ottla.coordinator.runtime import Failed
from ottla.coordinator.turn import StoredEnd, StoredRecord
from ottla.records.control import Marker

GOOD = StoredRecord(b"good", b"1")
BAD = StoredRecord(b"bad", b"not a number")


def world_with(*records: StoredRecord, slice_work: int = 1_000) -> tuple[World, list[Failed]]:
    world = World()
    world.runtime.slice_work = slice_work
    world.runtime.on_tick(0)
    failures: list[Failed] = []
    world.runtime.on_failed = lambda _index, failed: failures.append(failed)
    world.journal.append(list(records), 0, 0)
    world.runtime.load(7, world.journal, 0, now_ms=0)
    return world, failures


def write(world: World, record: StoredRecord) -> None:
    """As somebody other than the shard does."""
    world.journal.append([record], 1, 1)
    world.runtime.on_committed(7, world.journal.end_offset, now_ms=1)


def code(world: World, index: int = 7) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        world.add(index=index)
    return refused.value.code


def test_a_record_that_cannot_be_read_fails_its_shard_and_no_other() -> None:
    world, failures = world_with(GOOD, BAD, GOOD)
    assert [failed.unreadable for failed in failures] == [
        [Unreadable(1, "invalid literal for int() with base 10: b'not a number'")]
    ]
    assert code(world) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert code(world, index=9) == ErrorCode.NOT_COORDINATOR
    world.runtime.load(8, Journal(), 0, now_ms=0)
    assert world.add(index=8).reply == "was 0"


def test_whatever_replay_raises_ends_neither_the_load_nor_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    def trip(_self: Counter, _record: StoredRecord, _offset: int, _timestamp_ms: int) -> None:
        raise KeyError("no such member")

    monkeypatch.setattr(Counter, "replay", trip)
    world, failures = world_with(GOOD)
    assert failures[0].unreadable == [Unreadable(0, "KeyError('no such member')")]
    assert code(world) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_record_that_cannot_be_read_does_not_count_once_a_later_one_has_its_key() -> None:
    world, failures = world_with(GOOD, BAD, StoredRecord(b"bad", b"5"))
    assert failures == []
    assert world.runtime.shard(7).counts == {b"good": 1, b"bad": 5}
    world, failures = world_with(GOOD, BAD, StoredRecord(b"bad", None))
    assert failures == []


def test_a_record_is_left_out_if_the_log_says_so_and_what_was_before_it_counts() -> None:
    world, failures = world_with(StoredRecord(b"bad", b"3"), BAD)
    left_out: list[list[Unreadable]] = []
    world.runtime.on_left_out = lambda _index, unreadable: left_out.append(unreadable)
    write(world, leave_out(1))
    assert world.runtime.shard(7).counts[b"bad"] == 3
    assert [[one.offset for one in each] for each in left_out] == [[1]]
    assert len(failures) == 1


def test_leaving_out_the_wrong_offset_or_one_of_two_is_not_enough() -> None:
    world, failures = world_with(BAD, StoredRecord(b"bad too", b"x"))
    write(world, leave_out(5))
    write(world, leave_out(0))
    assert [[one.offset for one in failed.unreadable] for failed in failures] == [[0, 1], [0, 1], [1]]
    write(world, leave_out(1))
    assert world.runtime.shard(7).counts == {}


def test_a_batch_that_cannot_be_read_is_left_out_by_its_first_offset() -> None:
    world = World()
    world.journal.append([GOOD, GOOD], 0, 0)
    damage = Unreadable(2, "the checksum is wrong")
    stored = world.journal.stored
    world.journal.stored = lambda: iter([*stored(), damage])  # type: ignore[method-assign]
    world.runtime.load(7, world.journal, 0, now_ms=0)
    assert code(world) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    write(world, leave_out(2))
    assert world.runtime.shard(7).counts == {b"good": 2}


def test_a_failed_shard_is_tried_again_by_the_next_leader_and_not_before() -> None:
    world, failures = world_with(BAD)
    world.runtime.load(7, world.journal, 0, now_ms=1)
    world.runtime.on_committed(7, 1, now_ms=1)
    world.runtime.on_tick(2)
    assert len(failures) == 1
    world.runtime.load(7, world.journal, 1, now_ms=3)
    assert len(failures) == 2
    world.runtime.unload(7)
    assert code(world) == ErrorCode.NOT_COORDINATOR


def test_what_was_written_while_a_shard_was_being_loaded_is_not_missed() -> None:
    world, failures = world_with(BAD, GOOD, GOOD, slice_work=2)
    assert 7 in world.runtime.loading
    write(world, leave_out(0))
    for _ in range(6):
        world.runtime.on_tick(1)
    assert failures == []
    assert world.runtime.shard(7).counts == {b"good": 2}


def test_a_leave_out_record_names_its_offset_and_nothing_else_does() -> None:
    assert named_by(leave_out(1 << 40)) == 1 << 40
    assert named_by(leave_out(3)._replace(value=None)) is None
    assert named_by(GOOD) is None
    assert named_by(StoredRecord(b"\0\1" + bytes(8), b"")) is None


def test_a_tombstone_with_a_key_that_cannot_be_read_is_no_damage() -> None:
    damage = Damage()
    damage.on_record(StoredRecord(b"", None), 4, lambda: "the key is empty")
    assert damage.left() == []


# Transactions


def in_transaction(record: StoredRecord, producer_id: int = 9) -> StoredRecord:
    return record._replace(producer_id=producer_id)


def damage_of(*log: StoredRecord | bool, producer_id: int = 9) -> list[int]:
    """The offsets that count in a log of records and ends of a producer's transactions."""
    damage = Damage()
    for offset, item in enumerate(log):
        if isinstance(item, bool):
            damage.on_end(StoredEnd(producer_id, item, offset), lambda: None)
        else:
            damage.on_record(item, offset, lambda item=item: "bad" if item.value == BAD.value else None)  # type: ignore[misc]
    return [unreadable.offset for unreadable in damage.left()]


OVER = BAD._replace(value=b"1")


def test_what_cannot_be_read_of_a_transaction_counts_unless_that_was_aborted() -> None:
    assert damage_of(in_transaction(BAD)) == [0], "it may yet be committed"
    assert damage_of(in_transaction(BAD), True) == [0]
    assert damage_of(in_transaction(BAD), False) == []
    assert damage_of(in_transaction(BAD, 8), False) == [0], "another's end"


def test_a_record_of_a_transaction_replaces_what_cannot_be_read_once_it_is_committed() -> None:
    assert damage_of(BAD, in_transaction(OVER)) == [0]
    assert damage_of(BAD, in_transaction(OVER), False) == [0]
    assert damage_of(BAD, in_transaction(OVER), True) == []
    assert damage_of(in_transaction(BAD), in_transaction(OVER)) == []


def test_what_cannot_be_read_is_not_replaced_by_what_stands_before_it() -> None:
    assert damage_of(BAD, in_transaction(OVER), BAD, True) == [2]
    assert damage_of(in_transaction(BAD), OVER, True) == []
    assert damage_of(in_transaction(OVER), BAD, True) == [1]


def test_an_end_that_cannot_be_replayed_fails_its_shard_and_can_be_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def trip(_self: Counter, _end: StoredEnd) -> None:
        raise KeyError("no such group")

    monkeypatch.setattr(Counter, "replay_end", trip)
    world, failures = world_with(GOOD)
    world.journal.append_end(Marker(9, 0, True, 0, 0), 0, 0)
    world.runtime.unload(7)
    world.runtime.load(7, world.journal, 1, now_ms=0)
    assert failures[-1].unreadable == [Unreadable(1, "KeyError('no such group')")]
    write(world, leave_out(1))
    assert world.add().reply == "was 0"
