"""Static members of a consumer group: away for a while, back under another member id."""

from tests.group.consumer.cluster import Cluster, Consumer, settle
from tests.support.groups import G

from ottla.base.errors import ErrorCode
from ottla.group.config import GroupConfig

FENCED = ErrorCode.FENCED_MEMBER_EPOCH
SESSION_MS = GroupConfig().consumer_session_timeout_ms


def test_a_static_member_that_leaves_for_a_while_keeps_its_partitions():
    cluster = Cluster(t=2)
    one = Consumer(cluster, "one", instance_id="i").join()
    two = Consumer(cluster, "two").join()
    settle(one, two)
    epoch, owned = cluster.group.state.epoch, one.owned
    assert one.leave(-2).member_epoch == -2
    assert two.beat().owned == {"t": {0, 1} - owned["t"]}
    back = Consumer(cluster, "new", instance_id="i").join()
    assert (back.owned, back.epoch, cluster.group.state.epoch) == (owned, epoch, epoch)
    assert cluster.group.members.keys() == {"two", "new"}
    assert cluster.group.state.static == {"i": "new"}
    assert not [key for key in cluster.timers if key[-1] == "one"]


def test_one_that_does_not_come_back_in_time_is_removed():
    cluster = Cluster(t=1)
    Consumer(cluster, "one", instance_id="i").join().leave(-2)
    cluster.advance(SESSION_MS)
    assert cluster.group.is_empty


def test_one_may_come_back_under_its_old_member_id_and_with_another_subscription():
    cluster = Cluster(t=1, u=1)
    Consumer(cluster, "one", instance_id="i").join().leave(-2)
    back = Consumer(cluster, "one", topics=["u"], instance_id="i").join()
    assert (back.epoch, back.owned) == (2, {"u": {0}})
    back.leave(-2)
    another = Consumer(cluster, "two", topics=["t"], instance_id="i").join()
    assert (another.epoch, another.owned) == (3, {"t": {0}})


def test_an_instance_id_in_use_is_not_released():
    cluster = Cluster(t=1)
    one = Consumer(cluster, "one", instance_id="i").join()
    assert cluster.refused("two", 0, topics=["t"], instance_id="i") == ErrorCode.UNRELEASED_INSTANCE_ID
    assert cluster.beat("one", 0, topics=["t"], instance_id="i").member_epoch == 1, "its answer was lost"
    assert one.beat().epoch == 1


def test_whose_instance_id_was_taken_over_is_fenced():
    cluster = Cluster(t=1)
    Consumer(cluster, "one", instance_id="i").join().leave(-2)
    Consumer(cluster, "two", instance_id="i").join()
    for epoch in (1, -1, -2):
        assert cluster.refused("one", epoch, instance_id="i") == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_may_leave_for_good():
    cluster = Cluster(t=1)
    Consumer(cluster, "one", instance_id="i").join().leave(-1)
    assert cluster.group.is_empty
    assert cluster.group.state.static == {}


def test_who_leaves_for_a_while_in_the_middle_of_revoking_has_revoked():
    cluster = Cluster(t=2)
    one = Consumer(cluster, "one", instance_id="i").join()
    two = Consumer(cluster, "two").join()
    one.beat()
    one.leave(-2)
    assert ("consumer", G, "rebalance", "one") not in cluster.timers
    two.beat()
    assert len(two.owned["t"]) == 1
    back = Consumer(cluster, "one2", instance_id="i").join()
    assert len(back.owned["t"]) == 1
    assert cluster.group.state_name == "Stable"


def test_a_dynamic_member_does_not_become_static_by_joining_again():
    cluster = Cluster(t=1)
    one = Consumer(cluster, "one").join()
    one.take(cluster.beat("one", 1, topics=["t", "u"]))
    assert cluster.refused("one", 0, topics=["t"], instance_id="i") == FENCED


def test_a_full_group_takes_the_successor_of_a_static_member():
    cluster = Cluster(GroupConfig(consumer_members_max=1), t=1)
    Consumer(cluster, "one", instance_id="i").join().leave(-2)
    assert Consumer(cluster, "two", instance_id="i").join().owned == {"t": {0}}
