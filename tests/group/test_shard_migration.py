"""Groups that change protocol while their members are live, through the shard: both ways, there and back."""

from typing import Any

import pytest
from tests.group.room import Room
from tests.support.groups import SESSION_MS, G, Topics, assigned

from ottla.base.errors import ApiError, ErrorCode
from ottla.group.classic.group import ClassicGroup
from ottla.group.classic.states import GroupState
from ottla.group.config import GroupConfig
from ottla.group.consumer.group import ConsumerGroup


def room(**config: Any) -> Room:
    return Room(GroupConfig(**config), Topics(t=4))


def rejoin(where: Room, member: str, **options: Any) -> tuple[int, dict[str, tuple[int, ...]]]:
    """A classic member of a consumer group joins and syncs; its generation, and what it now owns."""
    joined = where.join(member, **options)
    assert joined.error_code == ErrorCode.NONE
    synced = where.sync(member, joined.generation_id, instance=options.get("instance"))
    assert synced.error_code == ErrorCode.NONE
    return joined.generation_id, assigned(synced.assignment)


def test_going_up_keeps_everybody_s_partitions_until_they_are_given_up() -> None:
    where = room()
    (member,) = where.classic()
    first = where.consume("new", 0)
    assert isinstance(where.group, ConsumerGroup)
    assert (first.member_epoch, where.told(first)) == (2, {}), "all is owned by the other"
    assert where.beat(member, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    generation, kept = rejoin(where, member, owned={"t": (0, 1, 2, 3)})
    assert (generation, len(kept["t"])) == (1, 2)
    assert where.told(where.consume("new", 2)) is None, "it is not given up yet"
    assert rejoin(where, member, owned=kept) == (2, kept)
    given = where.told(where.consume("new", 2, {}))
    assert given is not None
    assert sorted(given["t"] + kept["t"]) == [0, 1, 2, 3]
    assert where.group.state_name == "Stable"


def test_going_up_answers_whoever_waits() -> None:
    where = room()
    (member,) = where.classic()
    other = where.join().member_id
    waiting = where.joining(other)
    assert waiting.reply is None
    where.consume("new", 0)
    assert waiting.reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert where.beat(member, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert where.join(other).error_code == ErrorCode.NONE


def test_a_classic_group_all_of_whose_members_have_gone_again_is_simply_replaced() -> None:
    """In the first rebalance of a group nobody is in it any more, and yet it is not empty."""
    where = room()
    member = where.join().member_id
    where.joining(member)
    where.leave(member)
    assert where.group.state is GroupState.PREPARING
    assert where.consume("new", 0).member_epoch == 1
    assert isinstance(where.group, ConsumerGroup)
    where.advance(60_000)


def test_an_upgrade_that_is_refused_leaves_the_classic_group_alone() -> None:
    where = room(consumer_members_max=1)
    one, two = where.classic(2)
    assert where.consume("new", 0) == ErrorCode.GROUP_ID_NOT_FOUND
    assert where.beat(one, 1) == where.beat(two, 1) == ErrorCode.NONE


@pytest.mark.parametrize("how", ["leaves", "lapses"])
def test_going_down_when_the_last_of_the_new_protocol_goes(how: str) -> None:
    where = room()
    (member,) = where.classic()
    where.consume("new", 0)
    rejoin(where, member, owned={"t": (0, 1, 2, 3)})
    epoch, mine = rejoin(where, member, owned={"t": (0, 1)})
    assert len(mine["t"]) == 2
    if how == "leaves":
        assert where.consume("new", -1).member_epoch == -1
    else:
        for _ in range(6):
            where.advance(9_000)
            if isinstance(where.group, ClassicGroup):
                break
            assert where.beat(member, epoch) in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(where.group, ClassicGroup)
    assert where.group.state is GroupState.PREPARING
    assert where.beat(member, epoch) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = where.join(member)
    assert (joined.leader, joined.generation_id) == (member, where.group.generation.number)
    assert joined.generation_id > epoch


def test_a_group_may_not_go_down_where_that_is_not_allowed() -> None:
    where = room(consumer_migration_policy="upgrade")
    (member,) = where.classic()
    where.consume("new", 0)
    where.consume("new", -1)
    assert isinstance(where.group, ConsumerGroup)
    assert rejoin(where, member, owned={"t": (0, 1, 2, 3)})[1] == {"t": (0, 1, 2, 3)}


def test_a_static_member_goes_up_and_comes_back_down_in_its_own_place() -> None:
    where = room()
    joined = where.joining(instance="i")
    where.advance(3_000)
    old = joined.reply.member_id
    where.sync(old, 1, {old: b"\x00\x00" + bytes(4) + b"\xff" * 4}, instance="i")
    up = where.consume("new", 0, instance_id="i")
    assert isinstance(where.group, ConsumerGroup)
    assert list(where.group.members) == ["new"]
    assert where.beat(old, 1, instance="i") == ErrorCode.FENCED_INSTANCE_ID
    where.consume("new", -2, instance_id="i")
    assert where.group.members["new"].epoch == -2
    down = where.join(instance="i")
    assert isinstance(where.group, ClassicGroup)
    assert down.error_code == ErrorCode.NONE
    assert down.generation_id >= up.member_epoch
    assert list(where.group.members) == [down.member_id]


def test_offsets_stay_through_every_change_of_kind() -> None:
    where = room()
    (member,) = where.classic()
    where.commit(5, member, 1)
    where.consume("new", 0)
    assert where.offset() == 5
    assert where.commit(6, member, 1) == ErrorCode.NONE
    where.consume("new", -1)
    assert isinstance(where.group, ClassicGroup)
    assert where.offset() == 6
    where.leave(member)
    where.consume("again", 0)
    where.consume("again", -1)
    where.join()
    assert isinstance(where.group, ClassicGroup)
    where.restart()
    assert where.offset() == 6
    assert isinstance(where.group, ClassicGroup), "offsets always have a group, or they would never expire"


def test_offsets_left_by_a_replaced_group_expire_after_a_restart() -> None:
    where = room(offsets_retention_minutes=60)
    epoch = where.consume("new", 0).member_epoch
    where.commit(5, "new", epoch)
    where.consume("new", -1)
    where.join()
    where.restart()
    assert [one.group_id for one in where.shard.listed()] == [G]
    where.advance(80 * 60_000)
    assert where.offset() is None
    assert where.shard.groups == {}


@pytest.mark.parametrize("up", [True, False])
def test_a_restart_in_the_middle_finds_the_group_as_it_became(up: bool) -> None:
    where = room()
    (member,) = where.classic()
    where.consume("new", 0)
    if not up:
        where.consume("new", -1)
    where.restart()
    assert isinstance(where.group, ConsumerGroup if up else ClassicGroup)
    code = where.beat(member, 1 if up else where.group.generation.number)
    assert code == (ErrorCode.REBALANCE_IN_PROGRESS if up else ErrorCode.NONE)
    where.advance(SESSION_MS)
    assert member not in where.group.members


def test_nobody_is_told_of_an_upgrade_that_could_not_be_stored() -> None:
    where = room()
    (member,) = where.classic()
    other = where.join().member_id
    waiting = where.joining(other)
    where.journal.error = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert where.consume("new", 0) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert waiting.reply is None
    where.journal.error = None
    assert where.beat(member, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert where.join(member).generation_id == 2
    assert waiting.reply.generation_id == 2
