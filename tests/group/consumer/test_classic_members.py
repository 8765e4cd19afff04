"""Classic members of a consumer group, and groups that move from one protocol to the other."""

import pytest
from tests.group.consumer.cluster import Cluster, Consumer, settle
from tests.support.groups import G, assigned, assignment, commit_of, subscription, topic_id

from ottla.base.errors import ApiError, ErrorCode
from ottla.group.classic.group import ClassicGroup
from ottla.group.classic.states import GroupState
from ottla.group.config import GroupConfig
from ottla.group.consumer.group import ConsumerGroup
from ottla.group.consumer.member import MemberState
from ottla.group.protocol import version_of

AGAIN = ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
INCONSISTENT = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class Classic:
    """A classic member as a client sees itself. An eager one gives up everything before it joins."""

    def __init__(self, cluster, member_id="", topics=("t",), *, instance=None, eager=False, **fields):
        self.cluster, self.member_id, self.topics, self.instance = cluster, member_id, topics, instance
        self.eager, self.fields = eager, fields
        self.generation = -1
        self.owned = {}

    def metadata(self):
        version = 0 if self.eager else 3
        return subscription(*self.topics, owned=None if self.eager else self.owned, version=version)

    def join(self):
        if self.eager:
            self.owned = {}
        reply = self.cluster.join(
            self.member_id, metadata=self.metadata(), instance=self.instance, **self.fields
        )
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            return self.join()
        assert reply.error_code == 0, ErrorCode(reply.error_code)
        assert (reply.protocol_type, reply.leader, reply.members) == ("consumer", "", [])
        self.member_id, self.generation = reply.member_id, reply.generation_id
        return self

    def sync(self):
        """Its assignment. What it has to give up for it, it does at once."""
        reply = self.cluster.sync(self.member_id, self.generation, instance=self.instance)
        if reply.error_code == 0:
            self.owned = {topic: set(numbers) for topic, numbers in assigned(reply.assignment).items()}
        return ErrorCode(reply.error_code)

    def beat(self):
        return ErrorCode(self.cluster.classic_beat(self.member_id, self.generation, self.instance))

    def run(self):
        """Until it has nothing more to do."""
        for _ in range(8):
            if self.beat() is ErrorCode.NONE:
                return self
            self.join().sync()
        raise AssertionError("it never comes to rest")


def mixed(partitions=2, config=None, **fields):
    """A consumer group with a member of each kind, both at rest."""
    cluster = Cluster(config, t=partitions)
    new = Consumer(cluster, "new").join()
    old = Classic(cluster, **fields).join()
    old.sync()
    for _ in range(3):
        new.confirm()
        old.run()
    assert cluster.group.state_name == "Stable"
    return cluster, new, old


# Classic members


@pytest.mark.parametrize("eager", [True, False])
def test_a_classic_member_shares_with_a_new_one(eager):
    cluster, new, old = mixed(eager=eager)
    assert sorted([*new.owned["t"], *old.owned["t"]]) == [0, 1]
    assert old.generation == new.epoch == cluster.group.state.epoch
    described = {member.member_id: member for member in cluster.group.describe().members}
    assert described["new"].member_type == 1
    assert described[old.member_id].member_type == 0


def test_a_dynamic_member_is_given_its_id_first_from_version_4():
    cluster, *_ = mixed()
    asked = cluster.join(metadata=subscription("t"), version=4)
    assert (asked.error_code, asked.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, f"new-{cluster.ids}")
    assert len(cluster.group.members) == 2
    joined = cluster.join(metadata=subscription("t"), version=3)
    assert (joined.error_code, joined.member_id) == (0, f"new-{cluster.ids}")


def test_an_answer_to_a_sync_is_in_the_version_the_member_speaks():
    cluster, _, old = mixed(eager=True)
    reply = cluster.sync(old.member_id, old.generation, protocol_type="consumer", protocol_name="range")
    assert version_of(reply.assignment) == 0
    assert (reply.protocol_type, reply.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize("eager", [True, False])
def test_a_member_that_has_to_give_up_partitions_is_told_to_join_again(eager):
    cluster, _, old = mixed(partitions=4, eager=eager)
    Consumer(cluster, "third").join()
    assert old.beat() is AGAIN
    old.join()
    if eager:
        assert old.generation == cluster.group.state.epoch, (
            "it has given up everything, so it is there at once"
        )
    else:
        assert old.generation == cluster.group.state.epoch - 1
        assert old.beat() is AGAIN
    assert old.sync() is ErrorCode.NONE
    old.run()
    assert (old.generation, len(old.owned["t"])) == (3, 1)


def test_a_member_that_waits_for_partitions_is_told_when_they_are_free():
    cluster = Cluster(t=2)
    new = Consumer(cluster, "new").join()
    old = Classic(cluster).join()
    assert old.sync() is ErrorCode.NONE
    assert old.owned == {}
    assert cluster.group.members[old.member_id].state is MemberState.UNRELEASED_PARTITIONS
    assert old.beat() is ErrorCode.NONE, "nothing is free yet"
    settle(new)
    assert old.beat() is AGAIN
    assert len(old.run().owned["t"]) == 1


def test_a_sync_is_refused_when_the_group_has_moved_on():
    cluster, _, old = mixed()
    old.join()
    Consumer(cluster, "third", topics=["u"]).join()
    assert old.sync() is AGAIN
    assert old.run().generation == cluster.group.state.epoch


def test_who_is_told_to_join_again_has_so_much_time_from_when_it_was_told_first():
    cluster, new, old = mixed(rebalance_ms=12_000)
    cluster.topics.set("t", 4)
    for _ in range(2):
        new.beat()
        assert old.beat() is AGAIN
        cluster.advance(5_000)
    new.beat()
    assert old.beat() is AGAIN
    cluster.advance(2_000)
    assert list(cluster.group.members) == ["new"]
    assert old.beat() is UNKNOWN


def test_who_has_joined_has_so_much_time_to_sync():
    cluster, _, old = mixed(rebalance_ms=7_000)
    old.join()
    cluster.advance(7_000)
    assert list(cluster.group.members) == ["new"]
    assert not [key for key in cluster.timers if key[-1] == old.member_id]


def test_a_silent_member_is_removed_when_the_session_it_asked_for_ends():
    cluster, new, _ = mixed(session_ms=8_000)
    cluster.advance(8_000)
    assert list(cluster.group.members) == ["new"]
    settle(new)
    assert new.owned == {"t": {0, 1}}


def test_a_member_that_changes_protocol_is_not_held_to_the_times_of_the_old_one():
    cluster, new, old = mixed(rebalance_ms=7_000)
    old.join()
    cluster.beat(old.member_id, old.generation, topics=["t"])
    cluster.advance(7_000)
    assert cluster.group.members[old.member_id].classic is None
    assert new.beat().owned


def test_after_a_restart_its_session_is_the_one_it_asked_for():
    cluster, _, old = mixed(session_ms=8_000)
    cluster.restart()
    assert cluster.timers["consumer", G, "session", old.member_id] == cluster.now_ms + 8_000


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"session_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": "connect"}, INCONSISTENT),
        ({"names": ()}, INCONSISTENT),
        ({"names": ("other",)}, INCONSISTENT),
        ({"metadata": b""}, INCONSISTENT),
        ({"member_id": "third", "instance": "nobody"}, UNKNOWN),
    ],
)
def test_a_join_that_is_wrong_is_refused(fields, code):
    cluster, *_ = mixed()
    end = cluster.journal.end_offset
    fields = {"member_id": "third", "metadata": subscription("t"), **fields}
    assert cluster.join(fields.pop("member_id"), **fields).error_code == code
    assert cluster.journal.end_offset == end


def test_a_full_group_lets_only_members_join():
    cluster, _, old = mixed(config=GroupConfig(consumer_members_max=2))
    assert cluster.join("third", metadata=subscription("t")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    old.join()


def test_a_request_of_somebody_else_is_refused():
    cluster, new, old = mixed()
    assert cluster.sync("nobody", 2).error_code == UNKNOWN
    assert cluster.sync("new", new.epoch).error_code == UNKNOWN, "it does not speak this protocol"
    assert cluster.sync(old.member_id, 1).error_code == ErrorCode.ILLEGAL_GENERATION
    assert cluster.sync(old.member_id, old.generation, protocol_type="x").error_code == INCONSISTENT
    assert cluster.sync(old.member_id, old.generation, protocol_name="x").error_code == INCONSISTENT
    assert cluster.classic_beat("new", new.epoch) == UNKNOWN
    assert cluster.classic_beat(old.member_id, 1) == ErrorCode.ILLEGAL_GENERATION
    assert cluster.classic_beat(old.member_id, old.generation, "i") == UNKNOWN
    with pytest.raises(ApiError) as error:
        cluster.group.check_commit(commit_of(old.member_id, 1, version=8))
    assert error.value.code == ErrorCode.ILLEGAL_GENERATION
    cluster.group.check_commit(commit_of(old.member_id, old.generation, version=8))


def test_classic_members_leave_one_by_one_or_many_at_once():
    cluster, new, old = mixed(partitions=3)
    static = Classic(cluster, instance="i").join()
    reply = cluster.leave(old.member_id, ("", "i"), ("", "j"), "new", old.member_id)
    assert [(each.member_id, each.error_code) for each in reply.members] == [
        (old.member_id, 0),
        (static.member_id, 0),
        ("", UNKNOWN),
        ("new", UNKNOWN),
        (old.member_id, UNKNOWN),
    ]
    assert list(cluster.group.members) == ["new"]
    settle(new)
    assert new.owned == {"t": {0, 1, 2}}
    again = Classic(cluster, instance="i").join()
    assert cluster.leave(("other", "i")).members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert cluster.leave("nobody", version=2).error_code == UNKNOWN
    assert cluster.leave(again.member_id, version=2).error_code == 0
    assert cluster.leave("nobody").error_code == 0


def test_a_static_member_is_back_without_its_id():
    cluster, _, old = mixed(instance="i")
    epoch, owned, old_id = cluster.group.state.epoch, old.owned, old.member_id
    back = Classic(cluster, instance="i").join()
    assert back.member_id != old_id
    back.sync()
    assert (back.generation, back.owned, cluster.group.state.epoch) == (epoch, owned, epoch)
    assert old.beat() is ErrorCode.FENCED_INSTANCE_ID
    assert (
        cluster.join(old_id, metadata=subscription("t"), instance="i").error_code
        == ErrorCode.FENCED_INSTANCE_ID
    )
    assert back.join().beat() is ErrorCode.NONE


def test_a_static_member_may_change_its_protocol_when_it_comes_back():
    cluster, new, old = mixed(instance="i")
    third = Classic(cluster, eager=True).join()
    settle(new)
    old.run()
    third.run()
    moved = Consumer(cluster, "moved", instance_id="i").join()
    assert moved.owned == old.owned
    assert cluster.group.members["moved"].classic is None
    assert old.beat() is ErrorCode.FENCED_INSTANCE_ID
    back = Classic(cluster, instance="i").join()
    back.sync()
    assert back.owned == moved.owned
    assert cluster.refused("moved", moved.epoch, instance_id="i") == ErrorCode.FENCED_INSTANCE_ID


# Up: from classic to consumer


def classic_group(config=None, partitions=4, shares=None, instance=None, metadata=None):
    """Two classic members, stable in their first generation."""
    cluster = Cluster(config, t=partitions)
    metadata = metadata or subscription("t", rack_id="r")
    for member_id in ("a", "b"):
        fields = {"version": 3} if not (instance and member_id == "a") else {"instance": instance}
        cluster.start_join(metadata=metadata, names=("x", "range"), **fields)
    ids = list(cluster.group.members)
    cluster.advance(10_000)
    shares = shares or {0: assignment(t=[0, 1]), 1: assignment(t=[2, 3])}
    named = {ids[at]: share for at, share in shares.items()}
    leader = cluster.group.roster.leader
    cluster.ask_sync(leader, 1, shares=named, instance=cluster.group.members[leader].instance_id)
    for member_id in ids:
        if member_id != leader:
            cluster.sync(member_id, 1)
    assert cluster.group.state is GroupState.STABLE
    return cluster, ids


def test_a_classic_group_becomes_a_consumer_group_when_a_new_member_joins():
    cluster, ids = classic_group()
    new = Consumer(cluster, "new").join()
    assert isinstance(cluster.group, ConsumerGroup)
    assert (new.epoch, new.owned) == (2, {})
    first = cluster.group.members[ids[0]]
    assert (first.epoch, first.rack_id, first.assigned) == (1, "r", {topic_id("t"): {0, 1}})
    assert first.classic.protocols[0][0] == "x"
    assert cluster.group_timers.keys() == {("consumer", G, "session", who) for who in [*ids, "new"]}
    olds = []
    for member_id, owned in zip(ids, ({0, 1}, {2, 3}), strict=True):
        old = Classic(cluster, member_id, names=("x",))
        old.generation, old.owned = 1, {"t": owned}
        olds.append(old)
    for _ in range(3):
        for old in olds:
            old.run()
        new.confirm()
    owned = [number for member in [new, *olds] for number in member.owned.get("t", ())]
    assert sorted(owned) == [0, 1, 2, 3]
    assert cluster.group.state_name == "Stable"


def test_a_restart_right_after_the_upgrade_changes_nothing():
    cluster, _ = classic_group()
    Consumer(cluster, "new").join()
    before = cluster.group.state
    cluster.restart()
    assert cluster.group.state == before


def test_whoever_waits_for_the_classic_group_is_told_to_join_again():
    cluster, ids = classic_group()
    joining = cluster.start_join(ids[0], metadata=subscription("t", "u"), names=("x",))
    assert joining.reply is None
    Consumer(cluster, "new").join()
    assert joining.reply.error_code == AGAIN


def test_a_group_in_its_first_rebalance_can_be_upgraded():
    cluster = Cluster(t=2)
    waiting = cluster.start_join(metadata=subscription("t"), version=3)
    new = Consumer(cluster, "new").join()
    assert waiting.reply.error_code == AGAIN
    old = Classic(cluster, waiting.reply.member_id).join()
    old.sync()
    for _ in range(2):
        old.run()
        new.confirm()
    assert sorted([*old.owned["t"], *new.owned["t"]]) == [0, 1]


def test_a_partition_that_was_assigned_twice_has_one_owner_then():
    cluster, ids = classic_group(shares={0: assignment(t=[0, 1]), 1: assignment(t=[1, 2, 3], gone=[0])})
    Consumer(cluster, "new").join()
    assert cluster.group.members[ids[1]].assigned == {topic_id("t"): {2, 3}}


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_without_leave_to_upgrade_there_is_no_such_consumer_group(policy):
    cluster, _ = classic_group(GroupConfig(consumer_migration_policy=policy))
    assert cluster.refused("new", 0, topics=["t"]) == ErrorCode.GROUP_ID_NOT_FOUND
    assert cluster.group.state is GroupState.STABLE


def test_a_group_that_is_too_large_or_not_of_consumers_is_not_upgraded():
    cluster, _ = classic_group(GroupConfig(consumer_members_max=1))
    assert cluster.refused("new", 0, topics=["t"]) == ErrorCode.GROUP_ID_NOT_FOUND
    cluster, _ = classic_group(metadata=b"\0")
    assert cluster.refused("new", 0, topics=["t"]) == ErrorCode.GROUP_ID_NOT_FOUND
    cluster, _ = classic_group(shares={0: b"\0\0\0"})
    assert cluster.refused("new", 0, topics=["t"]) == ErrorCode.GROUP_ID_NOT_FOUND
    assert cluster.refused("new", 3) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_heartbeat_that_is_refused_leaves_the_classic_group_as_it_was():
    cluster, ids = classic_group()
    assert cluster.refused("new", 0, regex="(") == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert cluster.classic_beat(ids[0], 1) == 0


# Down: from consumer to classic


@pytest.mark.parametrize("how", ["leaves", "is silent"])
def test_when_the_last_new_member_goes_the_group_is_classic_again(how):
    cluster, new, old = mixed(session_ms=60_000)
    epoch = cluster.group.state.epoch
    if how == "leaves":
        new.leave()
    else:
        cluster.advance(cluster.config.consumer_session_timeout_ms)
    group = cluster.group
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation.number, list(group.members)) == (
        GroupState.PREPARING,
        epoch,
        [old.member_id],
    )
    assert not [key for key in cluster.timers if key[0] == "consumer"]
    assert old.beat() is AGAIN
    reply = cluster.join(old.member_id, metadata=subscription("t"))
    assert (reply.error_code, reply.generation_id, reply.leader) == (0, epoch + 1, old.member_id)


def test_what_is_stored_is_the_classic_group_with_its_targets():
    cluster, new, old = mixed()
    new.leave()
    cluster.restart()
    group = cluster.group
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation.protocol_name, group.protocol_type) == (
        GroupState.STABLE,
        "range",
        "consumer",
    )
    moved = assigned(group.members[old.member_id].assignment)
    assert {topic: set(numbers) for topic, numbers in moved.items()} == old.owned


@pytest.mark.parametrize(
    "config", [GroupConfig(consumer_migration_policy="upgrade"), GroupConfig(members_max=1)]
)
def test_without_leave_to_downgrade_it_stays_a_consumer_group(config):
    cluster, new, old = mixed(config=config)
    if config.members_max == 1:
        Classic(cluster, eager=True).join()
    new.leave()
    assert isinstance(cluster.group, ConsumerGroup)
    old.run()
    assert old.owned["t"]


def test_a_group_with_other_new_members_stays_as_it_is():
    cluster, new, _ = mixed()
    Consumer(cluster, "second").join()
    new.leave()
    assert isinstance(cluster.group, ConsumerGroup)


def test_the_last_new_member_comes_back_as_a_classic_one_without_a_rebalance():
    cluster = Cluster(t=2)
    new = Consumer(cluster, "new", instance_id="i").join()
    old = Classic(cluster).join()
    old.sync()
    for _ in range(2):
        new.confirm()
        old.run()
    reply = cluster.join(metadata=subscription("t"), instance="i")
    assert isinstance(cluster.group, ClassicGroup)
    assert (reply.error_code, reply.generation_id) == (0, old.generation)
    assert cluster.group.state is GroupState.STABLE
    synced = cluster.sync(reply.member_id, reply.generation_id, instance="i")
    assert assigned(synced.assignment) == {"t": tuple(sorted(new.owned["t"]))}
    assert old.beat() is ErrorCode.NONE


def test_if_the_group_was_not_stable_it_rebalances():
    cluster = Cluster(t=2)
    new = Consumer(cluster, "new", instance_id="i").join()
    old = Classic(cluster).join()
    old.sync()
    assert cluster.join(metadata=b"", instance="i").error_code == INCONSISTENT
    waiting = cluster.start_join(metadata=subscription("t"), instance="i")
    assert isinstance(cluster.group, ClassicGroup)
    assert (waiting.reply, cluster.group.state) == (None, GroupState.PREPARING)
    assert old.beat() is AGAIN
    assert new.owned == {"t": {0, 1}}


def test_the_only_member_comes_back_as_a_classic_one():
    cluster = Cluster(t=2)
    new = Consumer(cluster, "new", instance_id="i").join()
    reply = cluster.join(metadata=subscription("t"), instance="i")
    assert isinstance(cluster.group, ClassicGroup)
    assert (reply.error_code, reply.generation_id) == (0, new.epoch)
