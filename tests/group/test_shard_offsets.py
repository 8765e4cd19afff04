"""Committed offsets in a shard: who may commit, what expires and when, what may be deleted."""

import pytest
from tests.group.room import MINUTE_MS, Room
from tests.support.groups import G, subscription

from ottla.base.errors import ApiError, ErrorCode
from ottla.group.classic.group import ClassicGroup
from ottla.group.config import GroupConfig
from ottla.group.records import GroupMetadata, GroupMetadataValue, OffsetCommit, parse, store

DAY_MS = 24 * 60 * MINUTE_MS
SHORT = GroupConfig(offsets_retention_minutes=60, offsets_retention_check_interval_ms=MINUTE_MS)
HOUR_MS = 60 * MINUTE_MS


def test_whoever_names_no_generation_may_commit_to_no_group_and_makes_one() -> None:
    room = Room()
    assert room.commit(5, metadata="note") == ErrorCode.NONE
    assert isinstance(room.group, ClassicGroup)
    assert room.group.is_simple
    found = room.shard.offsets.get(G, "t", 0, room.journal.end_offset)
    assert found is not None
    assert (found.offset, found.leader_epoch, found.metadata) == (5, 3, "note")
    assert found.commit_timestamp_ms == room.now_ms


@pytest.mark.parametrize(
    ("version", "code"),
    [(2, ErrorCode.ILLEGAL_GENERATION), (8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_a_commit_with_a_generation_to_no_group_is_refused(version: int, code: ErrorCode) -> None:
    room = Room()
    assert room.commit(5, "m", 0, version=version) == code
    assert room.shard.groups == {}
    assert room.journal.records == []


def test_a_classic_group_takes_commits_of_its_members_in_its_generation() -> None:
    room = Room()
    (member,) = room.classic()
    assert room.commit(5, member, 1) == ErrorCode.NONE
    assert room.commit(6, member, 0) == ErrorCode.ILLEGAL_GENERATION
    assert room.commit(6, member, 2) == ErrorCode.ILLEGAL_GENERATION
    assert room.commit(6, "nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.commit(6) == ErrorCode.UNKNOWN_MEMBER_ID, "a tool may not while somebody is there"
    assert room.offset() == 5


def test_a_classic_group_that_rebalances_takes_commits_until_the_new_generation_begins() -> None:
    room = Room()
    (member,) = room.classic()
    other = room.join().member_id
    room.joining(other)
    assert room.commit(5, member, 1) == ErrorCode.NONE
    room.joining(member)
    assert room.commit(6, member, 1) == ErrorCode.ILLEGAL_GENERATION
    assert room.commit(6, member, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert room.offset() == 5


def test_a_static_member_that_was_replaced_may_not_commit() -> None:
    room = Room()
    joined = room.joining(instance="i")
    room.advance(3_000)
    old = joined.reply.member_id
    room.sync(old, 1, {}, instance="i")
    new = room.join(instance="i").member_id
    assert room.commit(5, old, 1, instance="i") == ErrorCode.FENCED_INSTANCE_ID
    assert room.commit(5, old, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.commit(6, new, 1, instance="i") == ErrorCode.NONE
    assert room.offset() == 6


def test_an_empty_classic_group_takes_commits_of_tools_only() -> None:
    room = Room()
    (member,) = room.classic()
    room.leave(member)
    assert room.commit(5, member, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.commit(6) == ErrorCode.NONE
    assert room.offset() == 6


def test_a_commit_to_a_classic_group_is_as_good_as_a_heartbeat() -> None:
    room = Room()
    (member,) = room.classic()
    for _ in range(5):
        room.advance(9_000)
        assert room.commit(1, member, 1) == ErrorCode.NONE
    room.advance(10_000)
    assert room.commit(1, member, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_consumer_group_takes_commits_of_its_members_in_their_epoch() -> None:
    room = Room()
    epoch = room.consume("a", 0).member_epoch
    assert room.commit(5, "a", epoch) == ErrorCode.NONE
    assert room.commit(6, "a", epoch - 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert room.commit(6, "a", epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert room.commit(6, "nobody", epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.commit(6) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.offset() == 5


def test_a_member_of_the_new_protocol_cannot_commit_with_a_version_that_knows_no_epochs() -> None:
    room = Room()
    epoch = room.consume("a", 0).member_epoch
    assert room.commit(5, "a", epoch, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert room.offset() is None


def test_a_classic_member_of_a_consumer_group_commits_in_any_version_by_its_generation() -> None:
    room = Room()
    (member,) = room.classic()
    room.consume("a", 0)
    assert room.commit(5, member, 1, version=8) == ErrorCode.NONE
    assert room.commit(6, member, 2, version=8) == ErrorCode.ILLEGAL_GENERATION
    assert room.offset() == 5


def test_an_empty_consumer_group_takes_commits_of_tools() -> None:
    room = Room()
    room.consume("a", 0)
    room.consume("a", -1)
    assert room.commit(6) == ErrorCode.NONE
    assert room.commit(7, "a", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.offset() == 6


def test_a_commit_that_cannot_be_stored_changes_nothing() -> None:
    room = Room()
    room.commit(5)
    room.journal.error = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert room.commit(6) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert room.commit(6, group="other") == ErrorCode.NOT_ENOUGH_REPLICAS
    assert room.offset() == 5
    assert list(room.shard.groups) == [G]


def test_only_what_the_watermark_has_passed_is_told_and_decisions_go_by_the_newest() -> None:
    room = Room()
    room.commit(5)
    room.journal.waits, room.journal.committed = True, 1
    answer = room.committing(6)
    assert (answer.after_offset, room.offset()) == (2, 5)
    assert room.shard.offsets.newest(G)["t"][0].offset == 6
    room.restart()
    assert room.offset() == 5, "a restart does not make it more committed"
    room.journal.committed = 2
    room.runtime.on_committed(0, 2, now_ms=0)
    assert room.offset() == 6


def test_the_last_commit_in_the_log_wins_also_after_a_restart() -> None:
    room = Room()
    for offset in (5, 9, 2):
        room.commit(offset)
    room.restart()
    assert room.offset() == 2


# Who may ask for offsets


def test_only_a_consumer_group_checks_who_asks_for_offsets() -> None:
    room = Room()
    room.classic(group="classic")
    epoch = room.consume("a", 0).member_epoch
    check = room.shard.check_fetch
    check("none", "anybody", 7)
    check("classic", "anybody", 7)
    check(G, None, -1)
    check(G, "a", epoch)
    with pytest.raises(ApiError, match="The epoch is 1, not 2"):
        check(G, "a", epoch + 1)
    with pytest.raises(ApiError, match="not a member"):
        check(G, "b", epoch)


# Expiry (KIP-211)


def test_offsets_of_a_simple_group_expire_by_their_commit_and_the_group_goes_with_the_last() -> None:
    room = Room(SHORT)
    room.commit(1)
    room.advance(HOUR_MS // 2)
    room.commit(2, partition=1)
    room.advance(HOUR_MS // 2)
    assert (room.offset(), room.offset(partition=1)) == (None, 2)
    room.advance(HOUR_MS // 2)
    assert room.offset(partition=1) is None
    assert room.shard.groups == {}
    assert room.fresh().groups == {}


def test_a_commit_again_begins_the_time_anew() -> None:
    room = Room(SHORT)
    room.commit(1)
    for _ in range(5):
        room.advance(HOUR_MS - MINUTE_MS)
        room.commit(1)
    assert room.offset() == 1


def test_offsets_of_an_empty_classic_group_expire_when_it_has_been_empty_for_the_time() -> None:
    room = Room(SHORT)
    (member,) = room.classic()
    room.commit(1, member, 1)
    for _ in range(20):
        room.advance(9_000)
        room.beat(member, 1)
    room.leave(member)
    room.advance(HOUR_MS - MINUTE_MS)
    assert room.offset() == 1, "the commit is older than that, the emptiness is not"
    room.advance(2 * MINUTE_MS)
    assert room.offset() is None
    assert room.shard.groups == {}


def test_a_restart_does_not_begin_the_time_of_an_empty_group_anew() -> None:
    room = Room(SHORT)
    (member,) = room.classic()
    room.commit(1, member, 1)
    room.leave(member)
    room.advance(HOUR_MS // 2)
    room.restart()
    room.advance(HOUR_MS // 2 + MINUTE_MS)
    assert room.offset() is None


def test_a_group_stored_without_the_time_it_became_empty_goes_by_the_commits() -> None:
    room = Room(SHORT)
    room.commit(1)
    value = GroupMetadataValue(protocol_type="consumer", generation=3, current_state_timestamp=-1)
    room.journal.append([store(GroupMetadata(G, value))], room.now_ms, room.now_ms)
    room.restart()
    room.advance(HOUR_MS // 2)
    room.commit(2, partition=1)
    room.advance(HOUR_MS // 2 + MINUTE_MS)
    assert (room.offset(), room.offset(partition=1)) == (None, 2)


def live_for(room: Room, member: str, ms: int) -> None:
    for _ in range(0, ms, 9_000):
        room.advance(9_000)
        assert room.beat(member, 1) == ErrorCode.NONE


def test_a_stable_classic_group_keeps_offsets_of_what_it_reads_and_loses_the_others() -> None:
    room = Room(SHORT)
    (member,) = room.classic()
    room.commit(1, member, 1)
    room.commit(1, member, 1, topic="u")
    live_for(room, member, HOUR_MS + MINUTE_MS)
    assert (room.offset(), room.offset(topic="u")) == (1, None)


def test_a_classic_group_keeps_everything_if_we_cannot_tell_what_it_reads() -> None:
    room = Room(SHORT)
    (member,) = room.classic(metadata=b"?")
    room.commit(1, member, 1, topic="u")
    live_for(room, member, HOUR_MS + MINUTE_MS)
    assert room.offset(topic="u") == 1


def test_a_group_of_something_else_keeps_everything_while_it_is_live() -> None:
    room = Room(SHORT)
    (member,) = room.classic(protocol_type="connect", metadata=subscription("t"))
    room.commit(1, member, 1, topic="u")
    live_for(room, member, HOUR_MS + MINUTE_MS)
    assert room.offset(topic="u") == 1


def test_a_consumer_group_keeps_offsets_of_what_it_reads_and_loses_the_others() -> None:
    room = Room(SHORT)
    epoch = room.consume("a", 0).member_epoch
    room.commit(1, "a", epoch)
    room.commit(1, "a", epoch, topic="u")
    for _ in range(HOUR_MS // 40_000 + 2):
        room.advance(40_000)
        assert room.consume("a", epoch).member_epoch == epoch
    assert (room.offset(), room.offset(topic="u")) == (1, None)
    room.consume("a", -1)
    room.advance(MINUTE_MS)
    assert room.offset() is None
    assert room.shard.groups == {}


def test_a_commit_with_its_own_retention_goes_when_that_is_over() -> None:
    room = Room(SHORT)
    room.commit(1, retention_ms=5 * MINUTE_MS, version=2)
    room.commit(1, partition=1, retention_ms=DAY_MS, version=2)
    room.advance(4 * MINUTE_MS)
    assert room.offset() == 1
    room.advance(2 * MINUTE_MS)
    assert room.offset() is None
    room.advance(10 * HOUR_MS)
    room.restart()
    assert room.offset(partition=1) == 1
    room.advance(DAY_MS)
    assert room.offset(partition=1) is None


def test_an_empty_group_without_offsets_is_forgotten_when_expiry_next_looks() -> None:
    room = Room(SHORT)
    (member,) = room.classic()
    room.leave(member)
    room.consume("a", 0, group="consumer")
    room.consume("a", -1, group="consumer")
    room.advance(MINUTE_MS)
    assert room.shard.groups == {}
    assert room.fresh().groups == {}


def test_a_group_that_somebody_is_about_to_join_is_not_forgotten() -> None:
    config = GroupConfig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    room = Room(config)
    member = room.join().member_id
    room.advance(5_000)
    assert G in room.shard.groups
    assert room.joining(member).reply is None
    room.advance(3_000)
    assert room.group.generation.number == 1


def test_expiry_looks_again_and_again_also_after_a_restart() -> None:
    room = Room(SHORT)
    room.advance(3 * MINUTE_MS)
    assert room.timers == {("expire",): room.now_ms + MINUTE_MS}
    room.advance(MINUTE_MS // 2)
    room.restart()
    assert room.timers == {("expire",): room.now_ms + MINUTE_MS}


def test_expiry_that_cannot_be_stored_is_tried_again() -> None:
    room = Room(SHORT)
    room.commit(1)
    room.journal.error = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
    room.advance(HOUR_MS - MINUTE_MS)
    room.advance(MINUTE_MS)
    assert room.offset() == 1
    room.journal.error = None
    room.advance(MINUTE_MS)
    assert room.offset() is None


# OffsetDelete


def test_offsets_of_topics_that_are_not_read_can_be_deleted_and_the_others_not() -> None:
    room = Room()
    (member,) = room.classic()
    room.commit(1, member, 1)
    room.commit(1, member, 1, topic="u")
    assert room.delete_offsets("t", 0, 1) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC] * 2
    assert room.delete_offsets("u", 0, 1) == [ErrorCode.NONE] * 2
    assert (room.offset(), room.offset(topic="u")) == (1, None)
    room.leave(member)
    assert room.delete_offsets("t", 0) == [ErrorCode.NONE]
    assert room.offset() is None


def test_a_consumer_group_likewise() -> None:
    room = Room()
    epoch = room.consume("a", 0).member_epoch
    room.commit(1, "a", epoch)
    room.commit(1, "a", epoch, topic="u")
    assert room.delete_offsets("t", 0) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    assert room.delete_offsets("u", 0) == [ErrorCode.NONE]
    assert (room.offset(), room.offset(topic="u")) == (1, None)


def test_offsets_of_a_live_group_of_something_else_cannot_be_deleted() -> None:
    room = Room()
    (member,) = room.classic(protocol_type="connect", metadata=b"worker")
    room.commit(1, member, 1)
    assert room.delete_offsets("t", 0) == ErrorCode.NON_EMPTY_GROUP
    assert room.delete_offsets("t", 0, group="none") == ErrorCode.GROUP_ID_NOT_FOUND
    assert room.offset() == 1


def test_only_offsets_that_are_there_get_a_tombstone() -> None:
    room = Room()
    room.commit(1)
    end = room.journal.end_offset
    room.delete_offsets("u", 0)
    room.delete_offsets("t", 3)
    assert room.journal.end_offset == end
    room.delete_offsets("t", 0)
    last = parse(room.journal.records[-1][0])
    assert last == OffsetCommit(G, "t", 0, None)
    assert room.fresh().offsets.has_any(G) is False
