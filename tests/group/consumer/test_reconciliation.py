"""One member's way to its target, the stored state it is made of, and when a target changes."""

import pytest
from tests.support.groups import Topics, topic_id

from ottla.base.errors import ApiError, ErrorCode
from ottla.group.config import GroupConfig
from ottla.group.consumer.member import ConsumerMember, MemberState
from ottla.group.consumer.reconciliation import check_state, reconcile
from ottla.group.consumer.records import (
    member_tombstones,
    position_record,
    subscription_record,
    target_record,
)
from ottla.group.consumer.state import ConsumerState
from ottla.group.consumer.target import metadata_hash, preferred_assignor, work_out
from ottla.group.records import parse

T, TOPICS = topic_id("t"), Topics(t=1)
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState


def parts(*numbers, topic=T):
    return {topic: frozenset(numbers)} if numbers else {}


def member(state=STABLE, epoch=5, assigned=(), pending=(), previous=4):
    return ConsumerMember(
        "m",
        epoch=epoch,
        previous_epoch=previous,
        state=state,
        assigned=parts(*assigned),
        pending=parts(*pending),
    )


CASES = [
    # now, target, taken by others, owned -> then
    ("at rest", member(assigned=[1]), (5, [2]), [], None, member(assigned=[1])),
    ("more", member(assigned=[1]), (6, [1, 2]), [], None, member(STABLE, 6, [1, 2], (), 5)),
    ("nothing", member(), (6, []), [], None, member(STABLE, 6, (), (), 5)),
    ("less", member(assigned=[1, 2]), (6, [1]), [], None, member(UNREVOKED, 5, [1], [2])),
    ("less, still owned", member(assigned=[1, 2]), (6, [1]), [], [2], member(UNREVOKED, 5, [1], [2])),
    ("less, given up", member(assigned=[1, 2]), (6, [1]), [], [1], member(STABLE, 6, [1], (), 5)),
    ("others", member(assigned=[1]), (6, [2]), [], [1], member(UNREVOKED, 5, (), [1])),
    ("taken", member(assigned=[1]), (6, [1, 2]), [2], None, member(UNRELEASED, 6, [1], (), 5)),
    ("half taken", member(), (6, [1, 2]), [2], None, member(UNRELEASED, 6, [1], (), 5)),
    ("not revoked", member(UNREVOKED, 5, [1], [2]), (7, [1]), [], None, member(UNREVOKED, 5, [1], [2])),
    ("revoked", member(UNREVOKED, 5, [1], [2]), (7, [1, 3]), [], [1], member(STABLE, 7, [1, 3], (), 5)),
    ("revoke more", member(UNREVOKED, 5, [1, 3], [2]), (7, [1]), [], [1, 3], member(UNREVOKED, 5, [1], [3])),
    ("back", member(UNREVOKED, 5, [1], [2]), (7, [1, 2]), [], [1], member(STABLE, 7, [1, 2], (), 5)),
    ("still taken", member(UNRELEASED, 6, [1]), (6, [1, 2]), [2], None, member(UNRELEASED, 6, [1])),
    ("free now", member(UNRELEASED, 6, [1]), (6, [1, 2]), [], None, member(STABLE, 6, [1, 2])),
    ("new target", member(UNRELEASED, 6, [1]), (7, []), [], None, member(UNREVOKED, 6, (), [1])),
    ("unknown", member(UNKNOWN, 6, [1]), (7, [1]), [], [], member(STABLE, 7, [1], (), 6)),
]


@pytest.mark.parametrize(("now", "target", "taken", "owned", "then"), [case[1:] for case in CASES],
                         ids=[case[0] for case in CASES])  # fmt: skip
def test_a_step(now, target, taken, owned, then):
    epoch, numbers = target
    owned = None if owned is None else parts(*owned)
    moved = reconcile(now, epoch, parts(*numbers), lambda topic, number: number not in taken, owned)
    assert moved == then


def test_only_a_member_that_owns_nothing_leaves_an_unknown_state():
    check_state(member(UNKNOWN), {})
    check_state(member(STABLE), None)
    for owned in (None, parts(1)):
        with pytest.raises(ApiError) as error:
            check_state(member(UNKNOWN), owned)
        assert error.value.code == ErrorCode.FENCED_MEMBER_EPOCH


# Replay


def state_of(*records):
    state = ConsumerState("g", GroupConfig(), TOPICS)
    for record in records:
        state.replay(parse(record))
    return state


def test_tombstones_for_what_is_not_there_change_nothing():
    assert state_of(*member_tombstones("g", "m")) == state_of()


def test_a_partition_belongs_to_whoever_was_last_said_to_own_it():
    old, new = (
        ConsumerMember("old", assigned=parts(1), pending=parts(2)),
        ConsumerMember("new", assigned=parts(1, 2)),
    )
    state = state_of(position_record("g", old), position_record("g", new), *member_tombstones("g", "old"))
    assert state.owners == {T: {1: "new", 2: "new"}}
    assert list(state.members) == ["new"]


def test_an_instance_id_belongs_to_whoever_came_last():
    old, new = ConsumerMember("old", instance_id="i"), ConsumerMember("new", instance_id="i")
    state = state_of(
        subscription_record("g", old), subscription_record("g", new), *member_tombstones("g", "old")
    )
    assert state.static_member("i") == new
    assert state.static_member("j") is None
    assert state.static_member(None) is None


def test_a_target_of_nobody_is_kept_until_its_tombstone():
    assert state_of(target_record("g", "m", {})) != state_of()
    assert state_of(target_record("g", "m", {}), *member_tombstones("g", "m")) == state_of()


# Targets


def test_the_hash_is_the_same_everywhere_and_changes_with_the_topics():
    topics = Topics(t=1, u=2)
    first = metadata_hash({"t", "u", "none"}, topics)
    assert first == metadata_hash(["u", "t"], Topics(u=2, t=1)) == -1587399014714139840
    assert metadata_hash({"t"}, topics) != first
    assert metadata_hash({"none"}, topics) == 0
    topics.racks = lambda name: {0: {"r"}}
    assert metadata_hash({"t", "u"}, topics) != first
    topics.set("t", 2)
    assert metadata_hash({"t", "u"}, topics) != first


def test_votes():
    configured = ("uniform", "range")
    asks = [
        ConsumerMember(str(number), assignor=name) for number, name in enumerate(["range", "uniform", None])
    ]
    assert preferred_assignor([], configured) == "uniform"
    assert preferred_assignor(asks, configured) == "uniform"
    assert preferred_assignor(asks[::2], configured) == "range"
    assert preferred_assignor([ConsumerMember("m", assignor="gone")], configured) == "uniform"


def test_a_target_is_close_to_the_one_before():
    members = {name: ConsumerMember(name, topic_names=frozenset({"t"})) for name in ("a", "b")}
    before = {"a": parts(3), "b": parts(0, 1, 2)}
    target = work_out(members, {}, before, Topics(t=4), ("uniform",))
    assert target["a"][T] > {3}
    assert len(target["a"][T]) == len(target["b"][T]) == 2
