"""Which kind of group answers which request: the table at the top of `shard`, line by line."""

from typing import Any

import pytest
from tests.group.room import Room
from tests.support.groups import SESSION_MS, G, Topics, assigned, assignment, groups_of

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.turn import StoredRecord
from ottla.group.classic.group import ClassicGroup
from ottla.group.classic.states import GroupState
from ottla.group.config import GroupConfig
from ottla.group.consumer.group import ConsumerGroup
from ottla.group.records import GroupMetadata, parse

NO_UPGRADE = GroupConfig(consumer_migration_policy="downgrade")


def kind(room: Room, group: str = G) -> type | None:
    found = room.shard.groups.get(group)
    return None if found is None else type(found)


def consumer_group(room: Room, *members: str) -> list[int]:
    """A stable consumer group; the members' epochs."""
    epochs = [room.consume(member, 0).member_epoch for member in members or ("a",)]
    for _ in range(len(epochs) + 2):
        for at, member in enumerate(members or ("a",)):
            mine = {room.topics.name_of(i): tuple(p) for i, p in room.group.members[member].assigned.items()}
            epochs[at] = room.consume(member, epochs[at], mine).member_epoch
    assert room.group.state_name == "Stable"
    return epochs


# JoinGroup


def test_a_join_without_an_id_makes_a_classic_group() -> None:
    room = Room()
    reply = room.join()
    assert reply.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert kind(room) is ClassicGroup


def test_a_join_with_an_id_to_no_group_is_from_an_unknown_member_and_makes_none() -> None:
    room = Room()
    assert room.join("somebody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert kind(room) is None


def test_a_join_to_a_classic_group_is_its_own() -> None:
    room = Room()
    (member,) = room.classic()
    assert room.joining(member, topics=("t", "u")).reply.generation_id == 2
    assert room.group.state is GroupState.COMPLETING


def test_a_join_to_an_empty_consumer_group_replaces_it_and_keeps_its_offsets() -> None:
    room = Room()
    (epoch,) = consumer_group(room)
    room.commit(5, "a", epoch)
    room.consume("a", -1)
    assert room.group.state_name == "Empty"
    room.join()
    assert kind(room) is ClassicGroup
    assert room.offset() == 5
    room.restart()
    assert kind(room) is None or kind(room) is ClassicGroup
    assert room.offset() == 5


def test_a_join_with_an_id_to_an_empty_consumer_group_is_unknown_and_leaves_the_group() -> None:
    room = Room()
    consumer_group(room)
    room.consume("a", -1)
    assert room.join("somebody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert kind(room) is ConsumerGroup


def test_a_join_to_a_live_consumer_group_is_answered_by_it_at_once() -> None:
    room = Room()
    (epoch,) = consumer_group(room)
    member = room.join().member_id
    reply = room.join(member)
    assert (reply.error_code, reply.leader, reply.members) == (ErrorCode.NONE, "", [])
    assert reply.generation_id > epoch
    assert kind(room) is ConsumerGroup
    assert assigned(room.sync(member, reply.generation_id).assignment) == {}, "all belongs to the other yet"
    assert room.beat(member, reply.generation_id) == ErrorCode.NONE


# SyncGroup, Heartbeat, LeaveGroup


def test_without_a_group_whoever_syncs_beats_or_leaves_is_an_unknown_member() -> None:
    room = Room()
    assert room.sync("m", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.beat("m", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.leave("m") == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.shard.groups == {}


def test_a_classic_group_answers_its_members() -> None:
    room = Room()
    one, two = room.classic(2)
    assert assigned(room.sync(one, 1).assignment) == {"t": (0, 2)}
    assert assigned(room.sync(two, 1).assignment) == {"t": (1, 3)}
    assert room.beat(one, 1) == ErrorCode.NONE
    assert room.beat(one, 2) == ErrorCode.ILLEGAL_GENERATION
    assert room.beat("nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.leave(two, "nobody") == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert room.beat(one, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_consumer_group_answers_its_classic_members_and_no_others() -> None:
    room = Room()
    room.classic()
    (member,) = room.group.members
    room.consume("new", 0)
    assert kind(room) is ConsumerGroup
    assert room.beat("new", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.sync("new", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.leave("new") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert room.beat(member, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert room.beat(member, 0) == ErrorCode.ILLEGAL_GENERATION
    assert room.leave(member) == [ErrorCode.NONE]
    assert list(room.group.members) == ["new"]


# ConsumerGroupHeartbeat


def test_a_heartbeat_with_epoch_zero_makes_a_consumer_group() -> None:
    room = Room()
    reply = room.consume("a", 0)
    assert (reply.member_id, reply.member_epoch) == ("a", 1)
    assert room.told(reply) == {"t": (0, 1, 2, 3)}
    assert kind(room) is ConsumerGroup


@pytest.mark.parametrize("epoch", [1, -1, -2])
def test_a_heartbeat_of_another_epoch_to_no_consumer_group_finds_no_group(epoch: int) -> None:
    room = Room()
    static = {"instance_id": "i"} if epoch == -2 else {}
    assert room.consume("a", epoch, **static) == ErrorCode.GROUP_ID_NOT_FOUND
    room.classic()
    assert room.consume("a", epoch, **static) == ErrorCode.GROUP_ID_NOT_FOUND
    assert kind(room) is ClassicGroup


def test_a_heartbeat_that_is_refused_makes_no_group() -> None:
    room = Room()
    assert room.consume("a", 0, server_assignor="none") == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert room.consume("", 0) == ErrorCode.INVALID_REQUEST
    assert room.shard.groups == {}
    assert room.journal.records == []


def test_a_heartbeat_to_an_empty_classic_group_replaces_it_and_keeps_its_offsets() -> None:
    room = Room()
    (member,) = room.classic()
    room.commit(9, member, 1)
    room.leave(member)
    assert room.group.is_empty
    assert room.consume("a", 0).member_epoch == 1
    assert kind(room) is ConsumerGroup
    assert room.offset() == 9
    room.restart()
    assert kind(room) is ConsumerGroup
    assert room.offset() == 9


def test_a_heartbeat_to_a_group_that_only_has_offsets_takes_them_over() -> None:
    room = Room()
    room.commit(4)
    assert kind(room) is ClassicGroup
    (epoch,) = consumer_group(room)
    assert room.offset() == 4
    assert room.commit(5, "a", epoch) == ErrorCode.NONE
    room.restart()
    assert (kind(room), room.offset()) == (ConsumerGroup, 5)


def test_a_refused_heartbeat_leaves_an_empty_classic_group_as_it_was() -> None:
    room = Room()
    (member,) = room.classic()
    room.leave(member)
    assert room.consume("a", 0, server_assignor="none") == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert kind(room) is ClassicGroup
    assert room.group.is_empty


def test_a_heartbeat_to_a_live_classic_group_is_refused_where_groups_may_not_be_upgraded() -> None:
    room = Room(NO_UPGRADE)
    (member,) = room.classic()
    assert room.consume("a", 0) == ErrorCode.GROUP_ID_NOT_FOUND
    assert room.beat(member, 1) == ErrorCode.NONE


def test_a_heartbeat_to_a_live_group_of_something_else_than_consumers_is_refused() -> None:
    room = Room()
    asked = room.join(protocol_type="connect", metadata=b"worker")
    joined = room.joining(asked.member_id, protocol_type="connect", metadata=b"worker")
    room.advance(3_000)
    assert joined.reply.generation_id == 1
    room.sync(asked.member_id, 1, {asked.member_id: b"tasks"})
    assert room.consume("a", 0) == ErrorCode.GROUP_ID_NOT_FOUND
    assert room.beat(asked.member_id, 1) == ErrorCode.NONE


def test_a_heartbeat_that_is_refused_after_the_upgrade_was_worked_out_changes_nothing() -> None:
    room = Room()
    (member,) = room.classic()
    assert room.consume("a", 0, server_assignor="none") == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert room.consume("", 0) == ErrorCode.INVALID_REQUEST
    assert kind(room) is ClassicGroup
    assert room.beat(member, 1) == ErrorCode.NONE


# What the table does not list: describe, list, delete


def test_groups_are_listed_by_id_with_their_kind_and_state() -> None:
    room = Room()
    room.commit(1, group="offsets only")
    room.classic(group="b")
    room.consume("m", 0, group="a")
    room.join(group="c")
    assert [tuple(one) for one in room.shard.listed()] == [
        ("a", "consumer", "Stable", "Consumer"),
        ("b", "consumer", "Stable", "Classic"),
        ("c", "", "Empty", "Classic"),
        ("offsets only", "", "Empty", "Classic"),
    ]


def refused(call: Any, *args: Any) -> ErrorCode:
    with pytest.raises(ApiError) as error:
        call(*args)
    return error.value.code


def test_a_group_is_described_by_its_own_kind_only() -> None:
    room = Room()
    room.classic(group="classic")
    room.consume("m", 0, group="consumer")
    shard = room.shard
    assert shard.describe_classic("classic").group_state == "Stable"
    assert shard.describe_consumer("consumer").group_epoch == 1
    assert refused(shard.describe_classic, "consumer") == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused(shard.describe_consumer, "classic") == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused(shard.describe_classic, "none") == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused(shard.describe_consumer, "none") == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_with_members_cannot_be_deleted() -> None:
    room = Room()
    room.classic()
    room.consume("m", 0, group="consumer")
    assert room.delete() == ErrorCode.NON_EMPTY_GROUP
    assert room.delete("consumer") == ErrorCode.NON_EMPTY_GROUP
    assert room.delete("none") == ErrorCode.GROUP_ID_NOT_FOUND


def left_in(records: list[tuple[StoredRecord, int, int]]) -> dict[bytes, bytes]:
    """What compaction leaves of a log: the last value of each key, without the tombstones."""
    last = {record.key: record.value for record, _, _ in records}
    return {key: value for key, value in last.items() if value is not None}


def test_a_deleted_group_of_any_kind_leaves_only_tombstones() -> None:
    room = Room()
    members = room.classic(2)
    room.commit(1, members[0], 1)
    room.commit(1, members[1], 1, topic="u", partition=1)
    room.leave(*members)
    (epoch,) = [room.consume("m", 0, group="consumer", regex="t.*").member_epoch]
    room.commit(3, "m", epoch, group="consumer")
    room.consume("m", -1, group="consumer")
    room.commit(7, group="offsets only")
    for group in (G, "consumer", "offsets only"):
        assert room.delete(group) == ErrorCode.NONE
        assert group not in room.shard.groups
    assert room.delete() == ErrorCode.GROUP_ID_NOT_FOUND
    assert left_in(room.journal.records) == {}
    fresh = room.fresh()
    assert (fresh.groups, (groups_of(fresh.offsets))) == ({}, [])
    assert [key for key in room.timers if key != ("expire",)] == []


def test_a_group_made_again_after_its_deletion_starts_anew() -> None:
    room = Room()
    (member,) = room.classic()
    room.commit(3, member, 1)
    room.leave(member)
    room.delete()
    assert room.offset() is None
    (again,) = room.classic()
    assert room.group.generation.number == 1
    assert again != member


def test_records_of_kinds_we_do_not_have_are_skipped() -> None:
    shard = Room().shard
    shard.replay(StoredRecord(b"\x00\x63whatever", b"x"), 0, 0)
    assert shard.groups == {}


def test_tombstones_of_groups_that_are_not_there_change_nothing() -> None:
    room = Room()
    room.classic()
    room.consume("m", 0, group="consumer")
    records = [record for record, _, _ in room.journal.records]
    shard = Room().shard
    for record in records:
        shard.replay(StoredRecord(record.key, None), 0, 0)
    assert shard.groups == {}
    for record in records:
        if isinstance(parse(record), GroupMetadata):
            room.shard.replay(StoredRecord(record.key.replace(G.encode(), b"consumer"), None), 0, 0)
    assert kind(room, "consumer") is ConsumerGroup, "a classic group's tombstone is not for a consumer group"


def test_a_timer_of_a_group_that_is_gone_means_nothing() -> None:
    room = Room()
    (member,) = room.classic()
    del room.shard.groups[G]
    room.checks = False
    room.advance(SESSION_MS)
    assert room.shard.groups == {}
    assert member


def test_lapsed_members_of_both_kinds_are_removed_by_their_timers() -> None:
    room = Room()
    room.classic()
    room.consume("m", 0, group="consumer")
    room.advance(60_000)
    assert room.group.is_empty
    assert room.shard.groups["consumer"].is_empty


def test_after_a_restart_members_of_both_kinds_carry_on() -> None:
    room = Room()
    one, two = room.classic(2)
    epoch = room.consume("m", 0, group="consumer").member_epoch
    room.restart()
    assert room.beat(one, 1) == ErrorCode.NONE
    assert assigned(room.sync(two, 1).assignment) == {"t": (1, 3)}
    reply = room.consume("m", epoch, {"t": (0, 1, 2, 3)}, group="consumer")
    assert (reply.member_epoch, reply.assignment) == (epoch, None)


def test_after_a_restart_silent_members_lapse() -> None:
    room = Room()
    room.classic(2)
    room.consume("m", 0, group="consumer")
    room.restart()
    room.advance(61_000)
    assert room.group.is_empty
    assert room.shard.groups["consumer"].is_empty


def test_topics_that_grow_are_noticed_by_the_next_heartbeat() -> None:
    room = Room(topics=Topics(t=2))
    (epoch,) = consumer_group(room)
    room.topics.set("t", 3)
    reply = room.consume("a", epoch)
    assert reply.member_epoch == epoch + 1
    assert room.told(reply) == {"t": (0, 1, 2)}


def test_nothing_of_an_assignment_that_could_not_be_stored_is_told() -> None:
    room = Room()
    asked = room.join()
    room.joining(asked.member_id)
    room.advance(3_000)
    room.journal.error = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
    room.checks = False
    reply = room.sync(asked.member_id, 1, {asked.member_id: assignment(t=(0, 1))})
    assert reply == ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_group_whose_deletion_cannot_be_stored_is_as_it_was() -> None:
    room = Room()
    room.commit(5)
    room.journal.error = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert room.delete() == ErrorCode.NOT_ENOUGH_REPLICAS
    room.journal.error = None
    assert room.offset() == 5
    assert room.commit(6) == ErrorCode.NONE
    assert room.join().error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert room.delete() == ErrorCode.NONE


def test_an_id_given_out_before_its_group_was_deleted_is_unknown_after() -> None:
    room = Room()
    member = room.join().member_id
    room.delete()
    assert room.join(member) == ErrorCode.UNKNOWN_MEMBER_ID
    room.join()
    room.advance(SESSION_MS)
    assert room.group.roster.pending == set()


@pytest.mark.parametrize("timeout_ms", [0, -(2**31)])
def test_a_group_whose_static_members_are_away_looks_for_them_once_a_second_at_most(timeout_ms: int) -> None:
    room = Room(checks=False)
    static = room.joining(instance="one")
    room.advance(3_000)
    member = static.reply.member_id
    room.sync(member, 1, {member: b"all"}, instance="one")
    assert room.join(member, instance="one", rebalance_ms=timeout_ms).generation_id == 2
    assert room.sync(member, 2, {member: b"all"}, instance="one").assignment == b"all"
    visitor = room.join(rebalance_ms=timeout_ms).member_id
    room.joining(visitor, rebalance_ms=timeout_ms)
    room.leave(visitor)
    ticks = 0
    while room.group.members:
        assert room.runtime.next_ms is not None
        room.now_ms = max(room.now_ms, room.runtime.next_ms)
        room.runtime.on_tick(room.now_ms)
        ticks += 1
        assert ticks < 20
