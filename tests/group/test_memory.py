"""What groups may hold in memory: limits for a member and a broker, Kafka's errors, all of it given back."""

from typing import Any

import pytest
from tests.group.room import Room
from tests.support.groups import SESSION_MS, G

from ottla.base.errors import ErrorCode
from ottla.group.config import GroupConfig
from ottla.group.expiry import GROUPS_PER_SLICE, RECORDS_PER_SLICE, SLICE_PAUSE_MS
from ottla.group.memory import GROUP_BYTES, MEMBER_BYTES

MEBIBYTE = 1 << 20


def code(reply: Any) -> ErrorCode:
    return ErrorCode(getattr(reply, "error_code", reply))


def test_a_member_that_says_more_than_it_may_is_refused_and_nothing_is_kept() -> None:
    room = Room()
    assert code(room.join(metadata=bytes(MEBIBYTE))) == ErrorCode.INVALID_REQUEST
    names = tuple(f"{number:0200}" for number in range(5_000))
    assert room.consume("m", 0, topics=names) == ErrorCode.INVALID_REQUEST
    assert room.shard.groups == {}
    assert room.shard.held_bytes == 0


def test_members_are_refused_when_all_groups_hold_what_they_may_and_come_in_when_others_have_gone() -> None:
    room = Room(memory_bytes=3 * MEBIBYTE)
    big = {"version": 3, "metadata": bytes(MEBIBYTE - 1000)}
    first, second = room.joining(group="a", **big), room.joining(group="b", **big)
    assert (first.reply, second.reply) == (None, None), "both wait for others"
    assert code(room.join(group="c", **big)) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert code(room.join(group="c")) == ErrorCode.MEMBER_ID_REQUIRED, "there is room for a small one"
    room.advance(5 * 60_000 + SESSION_MS)
    assert room.shard.held_bytes < 10_000, "the clients were gone"
    assert room.joining(group="c", **big).reply is None


def test_what_a_member_that_leaves_held_is_given_back() -> None:
    room = Room()
    members = room.classic(3)
    held = room.shard.held_bytes
    assert room.leave(*members) == [ErrorCode.NONE] * 3
    assert room.shard.held_bytes <= held - 3 * MEMBER_BYTES
    room = Room()
    room.consume("m", 0)
    room.consume("m", -1)
    assert room.shard.held_bytes == GROUP_BYTES + len(G)


def test_member_ids_that_are_given_out_and_never_used_count() -> None:
    room = Room(memory_bytes=100_000)
    codes = [code(room.join()) for _ in range(500)]
    assert set(codes) == {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert room.shard.held_bytes <= 100_000
    room.advance(SESSION_MS)
    assert code(room.join()) == ErrorCode.MEMBER_ID_REQUIRED


def test_members_of_consumer_groups_are_refused_alike() -> None:
    room = Room(memory_bytes=100_000)
    replies = [room.consume(f"m{number}", 0, group=f"g{number}") for number in range(100)]
    assert {code(reply) for reply in replies} == {ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert room.shard.held_bytes <= 110_000, "what it is assigned comes after the limit was looked at"
    reply = room.consume("m0", replies[0].member_epoch, None, group="g0")
    assert code(reply) == ErrorCode.NONE, "who is there stays"


def test_a_commit_that_takes_more_memory_is_refused_and_one_that_replaces_another_is_not() -> None:
    room = Room(memory_bytes=40_000)
    codes = [room.commit(1, group=f"g{number}") for number in range(30)]
    assert codes[0] == ErrorCode.NONE
    assert codes[-1] == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert room.shard.held_bytes <= 20_000
    assert room.commit(2, group="g0") == ErrorCode.NONE
    assert room.commit(2, group="g0", metadata="x" * 4000) == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert room.offset(group="g0") == 2
    assert room.delete("g1") == ErrorCode.NONE
    assert room.commit(1, group="g99") == ErrorCode.NONE


def fill(room: Room, *, metadata: str = "x" * 500) -> int:
    """Commits of made-up groups until no more is taken; how many were."""
    for number in range(10_000):
        if room.commit(1, group=f"made-up-{number}", metadata=metadata) is not ErrorCode.NONE:
            return number
    raise AssertionError("there is no end")


def test_commits_of_made_up_groups_shut_out_no_member_and_none_of_their_commits() -> None:
    room = Room(memory_bytes=400_000)
    assert fill(room) + fill(room, metadata="") > 50
    assert 190_000 < room.shard.stored_bytes <= 200_000
    room.restart()
    (member,) = room.classic(group="honest")
    assert room.commit(5, member, 1, group="honest", metadata="x" * 500) == ErrorCode.NONE
    joined = room.consume("m", 0, group="modern")
    assert room.commit(5, "m", joined.member_epoch, group="modern") == ErrorCode.NONE
    assert room.commit(5, group="another") == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert {room.delete(f"made-up-{number}") for number in range(4)} == {ErrorCode.NONE}
    assert room.commit(5, group="another") == ErrorCode.NONE


def test_members_come_in_even_where_members_have_committed_all_that_they_may() -> None:
    room = Room(memory_bytes=400_000)
    (member,) = room.classic(group="greedy")
    codes = [
        room.commit(1, member, 1, group="greedy", topic=f"t{number}", metadata="x" * 4000)
        for number in range(99)
    ]
    assert set(codes) == {ErrorCode.NONE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert 290_000 < room.shard.stored_bytes <= 300_000
    assert room.leave(member, group="greedy") == [ErrorCode.NONE]
    assert room.classic(group="honest")
    assert code(room.consume("m", 0, group="modern")) == ErrorCode.NONE


def test_a_join_that_is_refused_leaves_no_group_behind() -> None:
    room = Room()
    assert code(room.join(session_ms=1)) == ErrorCode.INVALID_SESSION_TIMEOUT
    assert code(room.join(protocol_type="")) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert room.shard.groups == {}


def test_an_assignment_too_large_to_be_stored_fails_its_group_and_not_the_shard() -> None:
    room = Room()
    room.commit(5, group="other")
    member = room.join().member_id
    joined = room.joining(member)
    room.advance(3_000)
    shard = room.shard
    reply = room.sync(member, joined.reply.generation_id, {member: bytes(MEBIBYTE)})
    assert code(reply) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert room.shard is shard, "it was not loaded again"
    again = room.joining(member)
    assert again.reply.generation_id == joined.reply.generation_id + 1
    assert code(room.sync(member, again.reply.generation_id, {member: b"less"})) == ErrorCode.NONE


def test_what_is_loaded_is_counted() -> None:
    room = Room()
    room.classic(2, group="a")
    room.consume("m", 0, group="b")
    room.commit(5, group="c", metadata="m" * 100)
    held = room.shard.held_bytes
    room.restart()
    assert held - 100 <= room.shard.held_bytes <= held, "of a classic member one protocol is stored"


@pytest.mark.parametrize("pause_ms", [SLICE_PAUSE_MS, 50_000])
def test_expiry_looks_at_some_groups_at_a_time(pause_ms: int) -> None:
    config = GroupConfig(offsets_retention_check_interval_ms=60_000, offsets_retention_minutes=1)
    room = Room(config, checks=False)
    for number in range(2_000):
        room.commit(5, group=f"g{number}")
    left = [2_000]
    room.now_ms += 60_001
    while left[-1]:
        room.runtime.on_tick(room.now_ms)
        left.append(len(room.shard.groups))
        assert 0 < left[-2] - left[-1] <= RECORDS_PER_SLICE
        room.now_ms += pause_ms
    assert room.shard.held_bytes == 0


def test_expiry_goes_on_after_groups_that_have_nothing_to_expire() -> None:
    config = GroupConfig(offsets_retention_check_interval_ms=60_000, offsets_retention_minutes=1)
    room = Room(config, checks=False)
    room.commit(5, group="old")
    room.now_ms += 60_001
    for number in range(2 * GROUPS_PER_SLICE):
        room.commit(5, group=f"g{number}")
    for slices in (1, 1, 0):
        room.runtime.on_tick(room.now_ms)
        assert ("old" in room.shard.groups) == bool(slices)
        room.now_ms += SLICE_PAUSE_MS
