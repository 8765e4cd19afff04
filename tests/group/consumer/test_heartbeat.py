"""ConsumerGroupHeartbeat: joining, epochs, what an answer brings, leaving, time."""

import pytest
from tests.group.consumer.cluster import Cluster, Consumer, settle
from tests.support.groups import G

from ottla.base.errors import ApiError, ErrorCode
from ottla.group.config import GroupConfig
from ottla.group.consumer import epochs
from ottla.group.consumer.member import MemberState
from ottla.group.consumer.regex import PATTERNS_MAX, Budget, compile_pattern
from ottla.group.records import (
    CurrentMemberAssignment,
    CurrentMemberAssignmentValue,
    RegularExpression,
    RegularExpressionValue,
    store,
)

INVALID = ErrorCode.INVALID_REQUEST
FENCED = ErrorCode.FENCED_MEMBER_EPOCH
SESSION_MS = GroupConfig().consumer_session_timeout_ms


# What is wrong with a request


@pytest.mark.parametrize(
    "request_",
    [
        {"group": " "},
        {"instance_id": ""},
        {"rack_id": ""},
        {"epoch": -3},
        {"member_id": ""},
        {"member_id": "", "epoch": 3, "version": 0},
        {"member_id": "", "epoch": -1, "version": 0},
        {"rebalance_timeout_ms": -1},
        {"owned": {"t": [0]}},
        {"topics": None},
        {"epoch": -2},
    ],
)
def test_a_request_that_makes_no_sense_is_invalid(request_):
    fields = {"member_id": "one", "epoch": 0, "topics": ["t"], **request_}
    assert Cluster(t=1).refused(fields.pop("member_id"), fields.pop("epoch"), **fields) == INVALID


def test_a_join_has_to_say_that_it_owns_nothing():
    cluster = Cluster(t=1)
    with pytest.raises(ApiError, match="owns no partitions"):
        cluster.beat("one", 0, owned={"t": []}, topics=["t"])


def test_an_assignor_that_is_not_there_is_refused():
    cluster = Cluster(t=1)
    assert cluster.refused("one", 0, topics=["t"], server_assignor="magic") == ErrorCode.UNSUPPORTED_ASSIGNOR


def test_a_group_that_is_full_takes_nobody_but_its_members():
    cluster = Cluster(GroupConfig(consumer_members_max=1), t=1)
    cluster.beat("one", 0, topics=["t"])
    assert cluster.refused("two", 0, topics=["t"]) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert cluster.beat("one", 1).member_epoch == 1


def test_in_version_0_a_member_may_be_given_its_id():
    cluster = Cluster(t=1)
    assert cluster.beat("", 0, version=0, topics=["t"]).member_id == "new-1"
    assert cluster.beat("new-1", 1, version=0).member_id == "new-1"


def test_who_is_not_a_member_is_told_so():
    cluster = Cluster(t=1)
    Consumer(cluster, "one").join()
    assert cluster.refused("two", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert cluster.refused("two", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert cluster.refused("two", 1, instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID
    assert cluster.refused("two", -2, instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID


# What an answer brings


def test_an_answer_has_the_assignment_on_joining_when_it_changes_and_when_everything_is_said():
    cluster = Cluster(t=2)
    joined = cluster.beat("one", 0, topics=["t"])
    assert joined.heartbeat_interval_ms == cluster.config.consumer_heartbeat_interval_ms
    assert cluster.assigned(joined) == {"t": {0, 1}}
    assert cluster.beat("one", 1).assignment is None
    assert cluster.beat("one", 1, owned={"t": [0, 1]}).assignment is None
    full = cluster.beat("one", 1, owned={"t": [0, 1]}, topics=["t"], rebalance_timeout_ms=1)
    assert cluster.assigned(full) == {"t": {0, 1}}
    Consumer(cluster, "two").join()
    changed = cluster.beat("one", 1)
    assert len(cluster.assigned(changed)["t"]) == 1


def test_a_heartbeat_that_says_nothing_new_writes_nothing():
    cluster = Cluster(t=2)
    one = Consumer(cluster, "one").join()
    one.beat()
    end = cluster.journal.end_offset
    one.beat()
    one.confirm()
    assert cluster.journal.end_offset == end


# Epochs and retries


def test_an_epoch_from_the_future_is_fenced():
    cluster = Cluster(t=1)
    Consumer(cluster, "one").join()
    assert cluster.refused("one", 2) == FENCED


def test_a_join_whose_answer_was_lost_may_be_repeated():
    cluster = Cluster(t=2)
    first = cluster.beat("one", 0, topics=["t"])
    assert cluster.beat("one", 0, topics=["t"]) == first


def test_the_epoch_before_is_accepted_as_often_as_answers_are_lost():
    cluster = Cluster(t=3)
    one = Consumer(cluster, "one").join()
    two = Consumer(cluster, "two").join()
    one.beat().confirm()
    assert one.epoch == 2
    three = Consumer(cluster, "three").join()
    assert (two.epoch, two.owned) == (2, {})
    for _ in range(3):
        reply = cluster.beat("two", 2, owned={}, topics=["t"], rebalance_timeout_ms=9)
        assert reply.member_epoch == 3
    assert three.epoch == 3


def test_the_epoch_before_is_fenced_if_the_member_owns_what_is_not_its_own_or_does_not_say():
    cluster = Cluster(t=2)
    one = Consumer(cluster, "one").join()
    Consumer(cluster, "two").join()
    one.beat().confirm()
    other = ({0, 1} - one.owned["t"]).pop()
    assert cluster.refused("one", 1) == FENCED
    assert cluster.refused("one", 1, owned={"t": [other]}) == FENCED
    assert cluster.beat("one", 1, owned={"t": one.owned["t"]}).member_epoch == 2


def test_an_older_epoch_is_fenced_until_the_session_ends():
    cluster = Cluster(t=1)
    one = Consumer(cluster, "one").join()
    for topics in (["t", "u"], ["t", "u", "v"]):
        one.take(cluster.beat("one", one.epoch, topics=topics))
    assert one.epoch == 3
    assert cluster.refused("one", 1, owned={}) == FENCED
    assert cluster.refused("one", 0, topics=["t"]) == FENCED
    cluster.advance(SESSION_MS)
    assert cluster.beat("one", 0, topics=["t"]).member_epoch == 5


# Sharing


def test_a_partition_is_handed_over_only_when_its_owner_has_given_it_up():
    cluster = Cluster(t=2)
    one = Consumer(cluster, "one").join()
    two = Consumer(cluster, "two").join()
    assert (two.epoch, two.owned) == (2, {})
    assert cluster.group.state_name == "Reconciling"
    told = cluster.beat("one", 1)
    assert told.member_epoch == 1
    assert len(cluster.assigned(told)["t"]) == 1
    assert cluster.group.members["one"].state is MemberState.UNREVOKED_PARTITIONS
    assert two.beat().owned == {}, "one has not said yet that it has given it up"
    assert cluster.beat("one", 1, owned={"t": [0, 1]}).assignment is None
    assert two.beat().owned == {}, "one says that it still owns both"
    one.take(told).confirm()
    assert one.epoch == 2
    two.beat()
    assert sorted([*one.owned["t"], *two.owned["t"]]) == [0, 1]
    assert cluster.group.state_name == "Stable"


def test_a_member_may_take_its_time_to_revoke_but_not_more():
    cluster = Cluster(t=2)
    Consumer(cluster, "one", rebalance_timeout_ms=20_000).join()
    two = Consumer(cluster, "two").join()
    cluster.beat("one", 1)
    assert cluster.timers["consumer", G, "rebalance", "one"] == cluster.now_ms + 20_000
    for _ in range(3):
        cluster.advance(6_000)
        cluster.beat("one", 1, owned={"t": [0, 1]})
        two.beat()
    cluster.advance(2_000)
    assert list(cluster.group.members) == ["two"]
    assert cluster.group.state_name == "Assigning"
    assert two.beat().owned == {"t": {0, 1}}
    assert cluster.refused("one", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_revokes_in_time_is_not_timed_any_more():
    cluster = Cluster(t=2)
    one = Consumer(cluster, "one").join()
    Consumer(cluster, "two").join()
    one.beat().confirm()
    assert ("consumer", G, "rebalance", "one") not in cluster.timers


def test_a_target_that_changes_while_a_member_revokes_is_what_it_goes_to_next():
    cluster = Cluster(t=4)
    one = Consumer(cluster, "one").join()
    two = Consumer(cluster, "two").join()
    told = one.take(cluster.beat("one", 1))
    Consumer(cluster, "three").join()
    two.leave()
    assert cluster.group.state_name == "Assigning"
    told.confirm()
    assert one.epoch == 4
    assert len(one.owned["t"]) == 2


def test_what_a_member_was_to_give_up_may_be_given_back_to_it():
    cluster = Cluster(t=2)
    one = Consumer(cluster, "one").join()
    two = Consumer(cluster, "two").join()
    one.beat()
    two.leave()
    one.confirm()
    assert (one.epoch, one.owned) == (3, {"t": {0, 1}})


def test_more_members_than_partitions():
    cluster = Cluster(t=2)
    members = [Consumer(cluster, f"m{number}").join() for number in range(5)]
    settle(*members)
    assert sorted(number for member in members for number in member.owned.get("t", ())) == [0, 1]
    assert cluster.group.state_name == "Stable"


# Subscriptions and topics


def test_a_new_subscription_raises_the_epoch():
    cluster = Cluster(t=1, u=1)
    one = Consumer(cluster, "one").join()
    one.take(cluster.beat("one", 1, topics=["u"]))
    assert one.owned == {}
    one.confirm()
    assert (one.epoch, one.owned) == (2, {"u": {0}})


def test_topics_that_grow_go_come_or_are_made_anew_raise_the_epoch():
    cluster = Cluster(t=1)
    one = Consumer(cluster, "one", topics=["t", "later"]).join()
    cluster.topics.set("t", 3)
    assert one.beat().owned == {"t": {0, 1, 2}}
    cluster.topics.set("later", 1)
    assert one.beat().owned == {"t": {0, 1, 2}, "later": {0}}
    cluster.topics.delete("later")
    one.beat().confirm()
    assert one.owned == {"t": {0, 1, 2}}
    cluster.topics.set("later", 1)
    one.beat().confirm()
    cluster.topics.delete("later")
    cluster.topics.set("later", 1)
    one.beat().confirm()
    assert one.owned == {"t": {0, 1, 2}, "later": {0}}


def test_other_topics_do_not():
    cluster = Cluster(t=1)
    one = Consumer(cluster, "one").join().beat()
    cluster.topics.set("other", 3)
    assert one.beat().beat().epoch == 1


def test_a_restart_is_not_a_change():
    cluster = Cluster(t=3, u=2)
    one = Consumer(cluster, "one").join()
    two = Consumer(cluster, "two", topics=[], regex="u.*").join()
    settle(one, two)
    end, epoch = cluster.journal.end_offset, one.epoch
    cluster.restart()
    settle(one, two)
    assert (cluster.journal.end_offset, one.epoch) == (end, epoch)


def test_a_member_may_subscribe_to_nothing():
    cluster = Cluster(t=1)
    one = Consumer(cluster, "one", topics=[]).join()
    assert (one.epoch, one.owned) == (1, {})
    two = Consumer(cluster, "two").join()
    three = Consumer(cluster, "three", topics=[]).join()
    assert (two.epoch, three.epoch) == (2, 2), "somebody who wants nothing changes nothing"
    assert cluster.group.subscribed_topics == {"t"}


def test_the_assignor_most_members_ask_for_is_used():
    cluster = Cluster(t=2, u=2)
    fields = {"topics": ["t", "u"]}
    one = Consumer(cluster, "one", server_assignor="range", **fields).join()
    two = Consumer(cluster, "two", server_assignor="range", **fields).join()
    three = Consumer(cluster, "three", server_assignor="uniform", topics=[]).join()
    settle(one, two, three)
    assert cluster.group.describe().assignor_name == "range"
    assert one.owned == {"t": {0}, "u": {0}}
    assert two.owned == {"t": {1}, "u": {1}}


# Regular expressions


def test_a_regular_expression_is_resolved_at_once_and_again_when_topics_come():
    cluster = Cluster(orders=1, other=1)
    one = Consumer(cluster, "one", topics=[], regex="ord.*").join()
    assert one.owned == {"orders": {0}}
    cluster.topics.set("ordinary", 1)
    assert one.beat().owned == {"orders": {0}, "ordinary": {0}}
    assert cluster.group.subscribed_topics == {"orders", "ordinary"}
    assert cluster.group.reads("orders")
    assert not cluster.group.reads("other")


def test_a_regular_expression_that_takes_long_is_resolved_with_several_heartbeats(monkeypatch):
    names = {f"orders-{number}": 1 for number in range(20)}
    cluster = Cluster(**names, other=1)
    compile_pattern.cache_clear()
    monkeypatch.setattr(epochs, "Budget", lambda: Budget(60))
    one = Consumer(cluster, "one", topics=[], regex="orders-.*[0-9]").join()
    assert one.owned == {}
    beats = 0
    while not one.owned:
        beats += 1
        assert beats < 20
        one.beat()
    assert (one.owned.keys(), beats > 2) == (names.keys(), True)
    epoch = one.epoch
    cluster.topics.set("other", 2)
    assert one.beat().beat().epoch == epoch, "names that were matched are not matched again"


def test_a_group_has_no_more_than_so_many_regular_expressions():
    cluster = Cluster(t=1)
    for number in range(PATTERNS_MAX):
        Consumer(cluster, f"m{number}", topics=[], regex=f"t{number}").join()
    Consumer(cluster, "same", topics=[], regex="t7").join()
    assert cluster.refused("more", 0, regex="another") == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_names_and_a_regular_expression_add_up():
    cluster = Cluster(orders=1, other=1, more=1)
    assert Consumer(cluster, "one", topics=["other"], regex="ord.*").join().owned.keys() == {
        "orders",
        "other",
    }


def test_one_that_does_not_compile_is_refused():
    cluster = Cluster(t=1)
    assert cluster.refused("one", 0, regex="(") == ErrorCode.INVALID_REGULAR_EXPRESSION
    Consumer(cluster, "one").join()
    assert cluster.refused("one", 1, regex="a" * 5_000) == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_one_that_was_stored_by_a_broker_that_could_read_it_keeps_its_topics():
    cluster = Cluster(t=1, u=1)
    one = Consumer(cluster, "one", topics=[], regex="t").join()
    pattern = r"\bt\b"
    group = cluster.group
    member = group.members["one"]
    found = RegularExpressionValue(topics=["t"], version=1, timestamp=1)
    cluster.journal.append([store(RegularExpression(G, pattern, found))], 0, 0)
    record = next(r for r, *_ in cluster.journal.records if b"one" in r.key and r.key[:2] == b"\0\5")
    cluster.journal.append(
        [record._replace(value=record.value.replace(b"\2t", b"\6" + pattern.encode()))], 0, 0
    )
    cluster.restart()
    assert member.regex != cluster.group.members["one"].regex == pattern
    cluster.topics.set("v", 1)
    one.beat()
    assert one.owned == {"t": {0}}


def test_the_last_to_leave_a_regular_expression_takes_it_along():
    cluster = Cluster(t=1, u=1)
    one = Consumer(cluster, "one", topics=[], regex="t").join()
    two = Consumer(cluster, "two", topics=[], regex="u|t").join()
    assert cluster.group.state.resolved.keys() == {"t", "u|t"}
    one.take(cluster.beat("one", one.epoch, regex="u|t"))
    assert cluster.group.state.resolved.keys() == {"u|t"}
    one.take(cluster.beat("one", one.epoch, topics=["t"], regex=""))
    two.leave()
    assert cluster.group.state.resolved == {}
    settle(one)
    assert one.owned == {"t": {0}}


# Leaving


def test_what_a_member_had_is_free_when_it_leaves():
    cluster = Cluster(t=2)
    one = Consumer(cluster, "one").join()
    two = Consumer(cluster, "two").join()
    settle(one, two)
    reply = one.leave()
    assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms) == ("one", -1, 0)
    assert cluster.group.state_name == "Assigning"
    assert not [key for key in cluster.timers if key[-1] == "one"]
    two.beat()
    assert (two.epoch, two.owned) == (3, {"t": {0, 1}})


def test_a_group_that_everybody_has_left_is_empty_and_its_epochs_go_on():
    cluster = Cluster(t=1)
    Consumer(cluster, "one").join().leave()
    assert cluster.group.is_empty
    assert cluster.group.state_name == "Empty"
    assert (cluster.group.state.epoch, cluster.group.state.targets, cluster.group.state.owners) == (2, {}, {})
    assert Consumer(cluster, "two").join().epoch == 3


def test_a_silent_member_is_removed_when_its_session_ends():
    cluster = Cluster(t=1)
    one = Consumer(cluster, "one").join()
    cluster.advance(SESSION_MS - 1)
    one.beat()
    cluster.advance(SESSION_MS - 1)
    assert "one" in cluster.group.members
    cluster.advance(1)
    assert cluster.group.is_empty


def test_after_a_restart_members_have_a_session_and_revocations_are_timed_anew():
    cluster = Cluster(t=2)
    Consumer(cluster, "one", rebalance_timeout_ms=30_000).join()
    Consumer(cluster, "two").join()
    cluster.beat("one", 1)
    cluster.advance(10_000)
    cluster.restart()
    assert cluster.timers["consumer", G, "rebalance", "one"] == cluster.now_ms + 30_000
    cluster.advance(30_000)
    assert list(cluster.group.members) == ["two"]
    cluster.advance(SESSION_MS - 30_000 - 1)
    assert list(cluster.group.members) == ["two"]
    cluster.advance(1)
    assert cluster.group.is_empty


# Sessions and failovers


def test_a_dead_member_is_gone_before_long_however_many_coordinators_fail():
    cluster = Cluster(t=2)
    Consumer(cluster, "dead").join()
    alive = Consumer(cluster, "alive").join()
    settle(alive)
    died_ms, failover_ms = cluster.now_ms, 20_000
    while "dead" in cluster.group.members:
        assert cluster.now_ms < died_ms + 2 * SESSION_MS
        for _ in range(4):
            cluster.advance(failover_ms // 4)
            alive.confirm()
        cluster.restart()
    settle(alive)
    assert alive.owned == {"t": {0, 1}}


def test_a_member_that_is_heard_of_costs_no_record_and_outlives_any_number_of_coordinators():
    cluster = Cluster(t=1)
    one = Consumer(cluster, "one").join()
    end = cluster.journal.end_offset
    for _ in range(10):
        cluster.advance(cluster.config.consumer_heartbeat_interval_ms)
        one.beat()
        cluster.restart()
        cluster.advance(cluster.config.consumer_heartbeat_interval_ms)
        one.beat()
    assert cluster.journal.end_offset == end
    assert (list(cluster.group.members), one.epoch) == (["one"], 1)


def test_a_member_that_is_heard_of_again_has_a_whole_session_also_at_the_next_coordinator():
    cluster = Cluster(t=1)
    one = Consumer(cluster, "one").join()
    cluster.advance(SESSION_MS - 1)
    cluster.restart()
    assert cluster.group.members["one"].silent_ms > 0
    one.beat()
    assert cluster.group.members["one"].silent_ms == 0
    cluster.restart()
    cluster.advance(SESSION_MS - 1)
    assert "one" in cluster.group.members
    cluster.advance(1)
    assert cluster.group.is_empty


def test_time_without_a_coordinator_does_not_count_as_silence():
    cluster = Cluster(t=1)
    one = Consumer(cluster, "one").join()
    cluster.advance(SESSION_MS // 4)
    for _ in range(3):
        cluster.now_ms += 10 * SESSION_MS
        cluster.restart()
    cluster.advance(SESSION_MS // 2)
    one.beat()
    assert (one.epoch, list(cluster.group.members)) == (1, ["one"])


def test_who_is_heard_of_again_has_no_longer_to_give_up_partitions():
    cluster = Cluster(t=2)
    Consumer(cluster, "one", rebalance_timeout_ms=30_000).join()
    Consumer(cluster, "two").join()
    cluster.beat("one", 1)
    due_ms = cluster.timers["consumer", G, "rebalance", "one"]
    cluster.advance(SESSION_MS // 2)
    assert cluster.group.members["one"].silent_ms > 0
    cluster.beat("one", 1)
    assert cluster.group.members["one"].silent_ms == 0
    assert cluster.timers["consumer", G, "rebalance", "one"] == due_ms


def test_where_heartbeats_are_rare_silence_is_not_stored():
    cluster = Cluster(GroupConfig(consumer_heartbeat_interval_ms=15_000), t=1)
    one = Consumer(cluster, "one").join()
    end = cluster.journal.end_offset
    for _ in range(5):
        cluster.advance(15_000)
        one.beat()
    assert cluster.journal.end_offset == end


def test_a_timer_that_outlives_its_reason_means_nothing():
    cluster = Cluster(t=1)
    Consumer(cluster, "one").join()
    for key in (("rebalance", "one"), ("session", "two")):
        cluster.run(lambda shard, turn, answer, key=key: shard.on_timer(turn, ("consumer", G, *key)))
    assert list(cluster.group.members) == ["one"]


# A state that a later version has stored


def test_a_member_in_an_unknown_state_has_to_rejoin_with_nothing():
    cluster = Cluster(t=1)
    Consumer(cluster, "one").join()
    value = CurrentMemberAssignmentValue(member_epoch=1, previous_member_epoch=0, state=9)
    cluster.journal.append([store(CurrentMemberAssignment(G, "one", value))], 0, 0)
    cluster.restart()
    assert cluster.group.members["one"].state is MemberState.UNKNOWN
    assert cluster.refused("one", 1) == FENCED
    assert cluster.refused("one", 1, owned={"t": [0]}) == FENCED
    assert cluster.assigned(cluster.beat("one", 0, topics=["t"])) == {"t": {0}}
