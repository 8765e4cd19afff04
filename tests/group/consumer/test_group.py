"""A consumer group as others see it: commits, descriptions, deletion."""

import pytest
from tests.group.consumer.cluster import Cluster, Consumer, settle
from tests.support.groups import G, commit_of, topic_id

from ottla.base.errors import ApiError, ErrorCode

# Offsets


def test_a_commit_needs_the_members_epoch():
    cluster = Cluster(t=1)
    Consumer(cluster, "one").join()
    group = cluster.group
    group.check_commit(commit_of("one", 1))
    group.on_commit(None, "one")
    for check in (lambda *who: group.check_commit(commit_of(*who)), group.check_fetch):
        for who, code in [
            (("one", 2), ErrorCode.STALE_MEMBER_EPOCH),
            (("one", -1), ErrorCode.STALE_MEMBER_EPOCH),
            (("two", 1), ErrorCode.UNKNOWN_MEMBER_ID),
            (("", -1), ErrorCode.UNKNOWN_MEMBER_ID),
        ]:
            with pytest.raises(ApiError) as error:
                check(*who)
            assert error.value.code == code
    group.check_fetch(None, -1)
    with pytest.raises(ApiError) as error:
        group.check_commit(commit_of("one", 1, version=8))
    assert error.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_a_tool_may_commit_to_an_empty_group():
    cluster = Cluster(t=1)
    one = Consumer(cluster, "one").join()
    with pytest.raises(ApiError):
        cluster.group.check_delete()
    one.leave()
    cluster.group.check_commit(commit_of())
    cluster.group.check_delete()
    cluster.group.check_offset_delete()
    with pytest.raises(ApiError):
        cluster.group.check_commit(commit_of("one", 1))


# The group as a whole


def test_describe():
    cluster = Cluster(t=2, gone=1)
    one = Consumer(cluster, "one", ["t", "gone"], rack_id="r", instance_id="i").join()
    two = Consumer(cluster, "two", topics=[], regex="t").join()
    cluster.topics.delete("gone")
    described = cluster.group.describe()
    assert (described.group_id, described.group_state) == (G, "Reconciling")
    assert (described.group_epoch, described.assignment_epoch, described.assignor_name) == (2, 2, "uniform")
    first, second = described.members
    assert (first.member_id, first.member_epoch, first.rack_id, first.instance_id) == ("one", 1, "r", "i")
    assert (first.client_id, first.client_host, first.member_type) == ("client", "/host", 1)
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == (["gone", "t"], None)
    assert (second.subscribed_topic_names, second.subscribed_topic_regex) == ([], "t")
    (assigned,) = first.assignment.topic_partitions
    assert (assigned.topic_id, assigned.topic_name, assigned.partitions) == (topic_id("t"), "t", [0, 1])
    assert second.assignment.topic_partitions == []
    assert len(second.target_assignment.topic_partitions) == 1
    settle(one, two)
    assert cluster.group.describe().group_state == "Stable"


def test_nothing_is_left_of_a_group_that_is_deleted():
    cluster = Cluster(t=2)
    Consumer(cluster, "one", regex="t").join()
    Consumer(cluster, "two").join()

    cluster.run(lambda shard, turn, answer: (shard.groups[G].delete(turn), turn.answer(answer, None)))
    assert cluster.group is None
    assert cluster.group_timers == {}
    cluster.restart()
    assert cluster.group is None
    assert all(
        record.value is None
        for record in {record.key: record for record, *_ in cluster.journal.records}.values()
    )


def test_a_lone_member_gets_everything():
    cluster = Cluster(t=3)
    one = Consumer(cluster, "one").join()
    assert (one.epoch, one.owned) == (1, {"t": {0, 1, 2}})
    assert cluster.group.state_name == "Stable"
