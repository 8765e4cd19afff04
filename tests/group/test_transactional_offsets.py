"""Offsets that are committed in transactions: when they count, who may commit them, and what they hold up."""

from tests.group.room import MINUTE_MS, Room
from tests.support.groups import G

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.turn import StoredRecord, Writer
from ottla.group.classic.group import ClassicGroup
from ottla.group.config import GroupConfig
from ottla.group.memory import PENDING_OFFSET_BYTES
from ottla.group.records import OffsetCommit, store
from ottla.group.shard import GroupShard

SHORT = GroupConfig(offsets_retention_minutes=60, offsets_retention_check_interval_ms=MINUTE_MS)
HOUR_MS = 60 * MINUTE_MS
COPIER, OTHER = Writer(9, 0), Writer(8, 3)


def test_what_a_transaction_commits_counts_once_it_is_committed() -> None:
    room = Room()
    room.commit(5)
    assert room.commit_in(COPIER, 7) == ErrorCode.NONE
    assert (room.offset(), room.is_unstable()) == (5, True)
    room.end(COPIER)
    assert (room.offset(), room.is_unstable()) == (7, False)


def test_what_an_aborted_transaction_committed_never_counts() -> None:
    room = Room()
    room.commit(5)
    room.commit_in(COPIER, 7)
    room.end(COPIER, committed=False)
    assert (room.offset(), room.is_unstable()) == (5, False)
    room.end(COPIER)
    assert room.offset() == 5, "it is gone"


def test_of_several_commits_in_a_transaction_the_last_counts() -> None:
    room = Room()
    room.commit_in(COPIER, 7)
    room.commit_in(COPIER, 8, partition=1)
    room.commit_in(COPIER, 9, metadata="note")
    room.end(COPIER)
    assert (room.offset(), room.offset(partition=1)) == (9, 8)


def test_transactions_of_different_producers_end_each_for_itself() -> None:
    room = Room()
    room.commit_in(COPIER, 7)
    room.commit_in(OTHER, 8)
    room.end(COPIER, committed=False)
    assert (room.offset(), room.is_unstable()) == (None, True)
    room.end(OTHER)
    assert (room.offset(), room.is_unstable()) == (8, False)


def test_of_two_commits_that_end_in_the_other_order_the_later_in_the_log_counts() -> None:
    room = Room()
    room.commit_in(COPIER, 7)
    room.commit_in(OTHER, 8)
    room.end(OTHER)
    room.end(COPIER)
    assert room.offset() == 8


def test_a_plain_commit_that_stands_later_in_the_log_is_not_overwritten() -> None:
    room = Room()
    room.commit_in(COPIER, 7)
    room.commit(9)
    assert (room.offset(), room.is_unstable()) == (9, True)
    room.end(COPIER)
    assert (room.offset(), room.is_unstable()) == (9, False)


def test_a_plain_commit_that_stands_earlier_is() -> None:
    room = Room()
    room.commit(9)
    room.commit_in(COPIER, 7)
    room.end(COPIER)
    assert room.offset() == 7


def test_a_transaction_makes_a_group_as_a_plain_commit_does_and_it_stays_after_an_abort() -> None:
    room = Room()
    room.commit_in(COPIER, 7)
    assert isinstance(room.group, ClassicGroup)
    assert room.group.is_simple
    room.end(COPIER, committed=False)
    assert room.group.is_simple


def test_an_end_is_certain_only_when_its_marker_is_committed() -> None:
    """Rule 14 of design note 015: pending offsets are never taken for absent ones."""
    room = Room()
    room.commit(5)
    room.journal.waits, room.journal.committed = True, 1
    room.commit_in(COPIER, 7)
    assert (room.offset(), room.is_unstable()) == (5, True), "it may be committed any moment"
    room.journal.committed = 2
    assert (room.offset(), room.is_unstable()) == (5, True)
    answer = room.end(COPIER)
    assert answer.after_offset == 3
    assert (room.offset(), room.is_unstable()) == (5, True), "the marker may yet be lost"
    room.journal.committed = 3
    assert (room.offset(), room.is_unstable()) == (7, False)


def test_a_marker_that_was_not_committed_before_a_restart_is_waited_for_after_it() -> None:
    room = Room()
    room.commit(5)
    room.commit_in(COPIER, 7)
    room.journal.waits, room.journal.committed = True, 2
    room.end(COPIER)
    room.restart()
    assert (room.offset(), room.is_unstable()) == (5, True)
    room.journal.committed = 3
    assert (room.offset(), room.is_unstable()) == (7, False)


def test_a_transaction_that_is_open_at_a_restart_ends_after_it() -> None:
    room = Room()
    room.commit(5)
    room.commit_in(COPIER, 7)
    room.restart()
    assert (room.offset(), room.is_unstable()) == (5, True)
    room.end(COPIER)
    assert room.offset() == 7


# Who may commit


def test_a_classic_group_takes_transactions_of_its_members_in_their_generation() -> None:
    room = Room()
    (member,) = room.classic()
    assert room.commit_in(COPIER, 5, member, 1) == ErrorCode.NONE
    assert room.commit_in(COPIER, 6, member, 0) == ErrorCode.ILLEGAL_GENERATION
    assert room.commit_in(COPIER, 6, member, 2) == ErrorCode.ILLEGAL_GENERATION
    assert room.commit_in(COPIER, 6, "nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.commit_in(COPIER, 6, member) == ErrorCode.ILLEGAL_GENERATION
    room.end(COPIER)
    assert room.offset() == 5


def test_a_producer_that_does_not_say_who_it_is_may_commit_to_any_group() -> None:
    """Before v3 (KIP-447) it cannot say."""
    room = Room()
    room.classic()
    assert room.commit_in(COPIER, 5) == ErrorCode.NONE
    assert room.commit(6) == ErrorCode.UNKNOWN_MEMBER_ID, "unlike a tool"
    room.consume("a", 0, group="modern")
    assert room.commit_in(COPIER, 5, group="modern") == ErrorCode.NONE
    assert room.commit(6, group="modern") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_does_not_keep_a_member_from_committing_in_a_transaction() -> None:
    room = Room()
    (member,) = room.classic()
    other = room.join().member_id
    room.joining(other)
    room.joining(member)
    assert room.commit(6, member, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert room.commit_in(COPIER, 6, member, 2) == ErrorCode.NONE
    assert room.commit_in(COPIER, 6, member, 1) == ErrorCode.ILLEGAL_GENERATION


def test_a_static_member_that_was_replaced_may_not_commit_in_a_transaction() -> None:
    room = Room()
    joined = room.joining(instance="i")
    room.advance(3_000)
    old = joined.reply.member_id
    room.sync(old, 1, {}, instance="i")
    new = room.join(instance="i").member_id
    assert room.commit_in(COPIER, 5, old, 1, instance="i") == ErrorCode.FENCED_INSTANCE_ID
    assert room.commit_in(COPIER, 5, "", -1, instance="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.commit_in(COPIER, 6, new, 1, instance="i") == ErrorCode.NONE


def test_an_empty_group_takes_transactions_without_a_generation_only() -> None:
    room = Room()
    (member,) = room.classic()
    room.leave(member)
    assert room.commit_in(COPIER, 5, member, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.commit_in(COPIER, 6) == ErrorCode.NONE


def test_a_commit_with_a_generation_to_no_group_is_of_a_wrong_generation_in_every_version() -> None:
    room = Room()
    for version in (3, 4, 5, 9):
        assert room.commit_in(COPIER, 5, "m", 0, version=version) == ErrorCode.ILLEGAL_GENERATION
    assert room.shard.groups == {}


def test_a_consumer_group_takes_transactions_of_its_members_in_their_epoch() -> None:
    """A stale epoch is ILLEGAL_GENERATION, since producers know no other error."""
    room = Room()
    epoch = room.consume("a", 0).member_epoch
    assert room.commit_in(COPIER, 5, "a", epoch) == ErrorCode.NONE
    assert room.commit_in(COPIER, 6, "a", epoch - 1) == ErrorCode.ILLEGAL_GENERATION
    assert room.commit_in(COPIER, 6, "a", epoch + 1) == ErrorCode.ILLEGAL_GENERATION
    assert room.commit_in(COPIER, 6, "nobody", epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.commit_in(COPIER, 6, "nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    room.end(COPIER)
    assert room.offset() == 5


def test_a_commit_in_a_transaction_is_not_as_good_as_a_heartbeat() -> None:
    room = Room()
    (member,) = room.classic()
    room.advance(9_000)
    assert room.commit_in(COPIER, 1, member, 1) == ErrorCode.NONE
    room.advance(1_500)
    assert room.group.is_empty


def test_a_commit_that_cannot_be_stored_changes_nothing() -> None:
    room = Room()
    room.journal.error = ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert room.commit_in(COPIER, 6) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (room.shard.groups, room.is_unstable()) == ({}, False)


# What goes


def test_nothing_expires_where_a_transaction_may_put_something_in_its_place() -> None:
    room = Room(config=SHORT)
    room.commit(5)
    room.commit(5, partition=1)
    room.commit_in(COPIER, 7)
    room.advance(2 * HOUR_MS)
    assert (room.offset(), room.offset(partition=1)) == (5, None)
    room.end(COPIER, committed=False)
    room.advance(MINUTE_MS)
    assert (room.offset(), room.group) == (None, None)


def test_a_group_with_nothing_but_pending_offsets_does_not_expire() -> None:
    room = Room(config=SHORT)
    room.commit_in(COPIER, 7)
    room.advance(2 * HOUR_MS)
    assert room.group is not None
    room.end(COPIER)
    assert room.offset() == 7
    room.advance(HOUR_MS)
    assert room.group is None


def test_a_group_is_deleted_with_what_is_pending() -> None:
    room = Room()
    room.commit(5)
    room.commit_in(COPIER, 7)
    room.commit_in(OTHER, 7, partition=1)
    assert room.delete() == ErrorCode.NONE
    assert (room.group, room.is_unstable(), room.is_unstable(partition=1)) == (None, False, False)
    room.end(COPIER)
    room.end(OTHER)
    assert (room.group, room.offset(), room.offset(partition=1)) == (None, None, None)


def test_a_deleted_offset_is_deleted_with_what_is_pending() -> None:
    room = Room()
    room.commit_in(COPIER, 7)
    room.commit_in(COPIER, 8, partition=1)
    assert room.delete_offsets("t", 0) == [ErrorCode.NONE]
    room.end(COPIER)
    assert (room.offset(), room.offset(partition=1)) == (None, 8)


def test_a_tombstone_is_unstable_until_it_is_committed() -> None:
    room = Room()
    room.commit_in(COPIER, 7)
    room.journal.waits, room.journal.committed = True, 1
    room.delete_offsets("t", 0)
    assert room.is_unstable()
    room.journal.committed = 2
    assert (room.offset(), room.is_unstable()) == (None, False)


def forget(room: Room, topic: str) -> None:
    room.runtime.execute(0, room.now_ms, lambda shard, turn: shard.forget_topic(turn, topic))


def test_what_is_pending_for_a_deleted_topic_goes_too() -> None:
    room = Room()
    room.commit_in(COPIER, 7)
    room.commit_in(COPIER, 8, topic="u")
    forget(room, "t")
    room.advance(100)
    room.end(COPIER)
    assert (room.offset(), room.offset(topic="u")) == (None, 8)


def test_what_is_committed_just_after_its_topic_was_deleted_is_told_to_nobody() -> None:
    room = Room()
    room.commit_in(COPIER, 7)
    forget(room, "t")
    room.end(COPIER)
    assert room.offset() is None
    room.advance(100)
    assert (room.offset(), room.shard.offsets.newest(G)) == (None, {})


def test_a_transaction_waits_for_the_tombstones_of_a_deleted_topic() -> None:
    room = Room()
    room.commit(5)
    forget(room, "t")
    assert room.commit_in(COPIER, 7) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    room.advance(100)
    assert room.commit_in(COPIER, 7) == ErrorCode.NONE
    room.end(COPIER)
    assert room.offset() == 7


# Memory


def test_pending_offsets_take_memory_until_they_end() -> None:
    room = Room()
    for writer in (COPIER, OTHER):
        room.commit_in(writer, 7, metadata="note")
    held = room.shard.offsets.held_bytes
    assert held == 2 * (PENDING_OFFSET_BYTES + len("t") + len("note"))
    room.end(COPIER, committed=False)
    assert room.shard.offsets.held_bytes == held // 2
    room.end(OTHER)
    assert 0 < room.shard.offsets.held_bytes < held // 2, "an offset that counts takes less"


def test_where_offsets_have_no_room_pending_ones_have_none_either() -> None:
    room = Room(memory_bytes=40_000)
    codes = [room.commit_in(Writer(at, 0), 1) for at in range(40)]
    assert codes[0] == ErrorCode.NONE
    assert codes[-1] == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert room.shard.stored_bytes <= 20_000
    assert room.commit_in(Writer(0, 0), 2) == ErrorCode.NONE, "what takes no more is always stored"
    for at in range(40):
        room.end(Writer(at, 0))
    assert room.offset() == 2
    assert room.shard.offsets.pending.held_bytes == 0


def test_a_pending_offset_is_counted_as_what_it_takes() -> None:
    import tracemalloc

    shard = GroupShard(GroupConfig(), Room().topics)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for at in range(5_000):
        shard.replay(_pending(at), at, 0)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.5 < (after - before) / shard.held_bytes < 1.1


def _pending(producer_id: int) -> StoredRecord:
    from ottla.group.records import OffsetCommitValue

    value = OffsetCommitValue(offset=1 << 40, metadata="", commit_timestamp=1 << 41)
    return store(OffsetCommit(G, "t", 0, value))._replace(producer_id=producer_id)
