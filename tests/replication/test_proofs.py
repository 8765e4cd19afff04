"""Answers that say "none" or "less": given only by a broker that surely led when it was asked."""

from collections.abc import Generator
from typing import Any

import pytest
from tests.api.asking import batch, fetch_of, to
from tests.api.harness import Pending
from tests.replication.pump import TOPIC_ID, Cluster
from tests.support.groups import codes, committing, fetching

from ottla.api.call import Call
from ottla.api.list_groups import list_groups
from ottla.api.list_transactions import list_transactions
from ottla.base.errors import ErrorCode
from ottla.base.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.broker.long_work import finished
from ottla.controller import znodes
from ottla.controller.keeper import Put
from ottla.controller.znodes import State
from ottla.replication.leader import LEASE_MS, PROMISE_MS
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LATEST = -1
WAIT_MS = 2_000  # how long an answer waits for its proof


def started(**configs: str) -> Cluster:
    cluster = Cluster(properties={"offsets.topic.num.partitions": "1", "replica.lag.time.max.ms": "3000"})
    cluster.topic("t", (1, 2, 3), **configs)
    cluster.topic(OFFSETS_TOPIC, (1, 2, 3), topic_id=b"o" * 16, cleanup_policy="compact", **configs)
    cluster.pass_time(1_200)
    return cluster


def produce(cluster: Cluster, broker: int, value: str, acks: int = -1) -> Pending:
    return cluster.client(broker).ask(to("t", batch(value), acks=acks, timeout_ms=10_000), 12)


def ask_end(cluster: Cluster, broker: int) -> Pending:
    asked = ListOffsetsPartition(partition_index=0, timestamp=LATEST, current_leader_epoch=-1)
    topic = ListOffsetsTopic(name="t", partitions=[asked])
    return cluster.client(broker).ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 5)


def end(pending: Pending) -> tuple[int, int]:
    part = pending.answer.topics[0].partitions[0]
    return part.error_code, part.offset


def fetched(pending: Pending) -> Any:
    return pending.answer.responses[0].partitions[0]


def offset(pending: Pending) -> tuple[int, int | None]:
    answer = pending.answer
    found = answer.topics[0].partitions[0].committed_offset if answer.topics else None
    return answer.error_code, found


def replaced(cluster: Cluster) -> None:
    """Broker 2 leads in place of broker 1, which hears nothing of it, and more is committed there."""
    assert codes(committed(cluster, 1, 5)) == [ErrorCode.NONE]
    cluster.make_deaf(1)
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    for topic in ("t", OFFSETS_TOPIC):
        cluster.state(topic, leader=2, leader_epoch=1, isr=(2, 3))
    cluster.pass_time(PROMISE_MS + 200)
    assert codes(committed(cluster, 2, 500)) == [ErrorCode.NONE]
    sent = produce(cluster, 2, "b")
    cluster.pass_time(600)
    assert sent.answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def committed(cluster: Cluster, broker: int, value: int) -> Any:
    pending = cluster.client(broker).ask(committing(value), 7)
    cluster.pass_time(600)
    return pending.answer


# A broker that was replaced


def test_a_replaced_coordinator_denies_no_commit() -> None:
    cluster = started()
    replaced(cluster)
    pending = cluster.client(1).ask(fetching(0), 7)
    assert pending.answer is None, "it waits for a proof"
    cluster.pass_time(WAIT_MS)
    assert offset(pending) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)


def test_a_replaced_leader_lists_no_offset() -> None:
    cluster = started()
    replaced(cluster)
    pending = ask_end(cluster, 1)
    cluster.pass_time(WAIT_MS)
    assert end(pending)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("at", [0, 1])
def test_a_replaced_leader_calls_nothing_out_of_range_and_nothing_the_end(at: int) -> None:
    cluster = started()
    replaced(cluster)
    pending = cluster.client(1).ask(fetch_of(("t", 0, at), max_wait_ms=100), 10)
    cluster.pass_time(WAIT_MS + 200)
    assert fetched(pending).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_replaced_leader_does_not_say_where_an_epoch_ends() -> None:
    cluster = started()
    replaced(cluster)
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = OffsetForLeaderTopic(topic="t", partitions=[wanted])
    pending = cluster.client(1).ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic]))
    cluster.pass_time(WAIT_MS)
    assert pending.answer.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_replaced_coordinator_knows_no_member_and_says_so_to_none() -> None:
    cluster = started()
    replaced(cluster)
    request = HeartbeatRequest(group_id="g", generation_id=3, member_id="joined at broker 2")
    pending = cluster.client(1).ask(request)
    cluster.pass_time(6_000)
    assert pending.answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "and not UNKNOWN_MEMBER_ID"


def test_a_replaced_coordinator_describes_and_lists_no_group() -> None:
    cluster = started()
    replaced(cluster)
    described = cluster.client(1).ask(DescribeGroupsRequest(groups=["never heard of"]))
    listed = cluster.client(1).ask(ListGroupsRequest())
    cluster.pass_time(WAIT_MS)
    assert described.answer.groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert listed.answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_replaced_leader_acknowledges_nothing_with_acks_1() -> None:
    cluster = started()
    replaced(cluster)
    sent = produce(cluster, 1, "lost", acks=1)
    cluster.pass_time(WAIT_MS)
    assert sent.answer is None
    cluster.hear(1)
    assert sent.answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# The proofs


def test_with_the_keeper_away_and_its_followers_there_a_leader_goes_on() -> None:
    cluster = started()
    cluster.make_deaf(1)
    for _ in range(40):
        cluster.pass_time(500)
        pending = ask_end(cluster, 1)
        assert end(pending) == (ErrorCode.NONE, 0), "at once"
    assert codes(committed(cluster, 1, 7)) == [ErrorCode.NONE]
    assert offset(cluster.client(1).ask(fetching(0), 7)) == (ErrorCode.NONE, 7)


def test_with_a_follower_away_and_the_keeper_there_a_leader_goes_on() -> None:
    cluster = started()
    cluster.cut(1, 3)
    cluster.pass_time(LEASE_MS + 200)
    assert end(ask_end(cluster, 1)) == (ErrorCode.NONE, 0), "the keeper confirms it"


def test_with_neither_a_leader_waits_and_then_refuses() -> None:
    cluster = started()
    cluster.make_deaf(1)
    cluster.cut(1, 3)
    cluster.pass_time(LEASE_MS + 200)
    pending = ask_end(cluster, 1)
    cluster.pass_time(WAIT_MS - 100)
    assert pending.answer is None
    cluster.pass_time(100)
    assert end(pending)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_answer_that_waits_is_given_as_soon_as_the_followers_have_fetched_again() -> None:
    cluster = started()
    cluster.make_deaf(1)
    cluster.cut(1, 3)
    cluster.pass_time(LEASE_MS + 200)
    pending = ask_end(cluster, 1)
    assert pending.answer is None
    cluster.heal()
    cluster.pass_time(1_000)
    assert end(pending) == (ErrorCode.NONE, 0)


def test_who_asks_after_a_confirmation_was_asked_for_waits_for_the_next() -> None:
    cluster = started()
    cluster.cut(1, 3)
    cluster.pass_time(LEASE_MS + 200)
    proofs = cluster.nodes[1].broker.proofs
    partition = cluster.partition(1)
    proofs.on_confirmed(cluster.now_ms - 1, cluster.now_ms)
    assert not proofs.led_at(partition, cluster.now_ms, cluster.now_ms)
    assert proofs.led_at(partition, cluster.now_ms - 1, cluster.now_ms)


# A new leader


def test_a_new_coordinator_with_a_small_isr_does_not_deny_what_was_committed() -> None:
    """Commit, lose the coordinator and one more, ask the survivor: it has the record, and cannot know."""
    cluster = started(min_insync_replicas="2")
    pending = cluster.client(1).ask(committing(900), 7)
    cluster.run()
    assert codes(pending.answer) == [ErrorCode.NONE]
    cluster.kill(1)
    cluster.kill(2)
    cluster.state(OFFSETS_TOPIC, leader=3, leader_epoch=1, isr=(3,))
    for _ in range(3):
        asked = cluster.client(3).ask(fetching(0), 7)
        cluster.pass_time(WAIT_MS)
        assert offset(asked) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)
    listed = cluster.client(3).ask(ListGroupsRequest())
    cluster.pass_time(WAIT_MS)
    assert listed.answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.start(2)
    cluster.pass_time(1_500)
    assert cluster.states(OFFSETS_TOPIC)[0].isr == (2, 3)
    asked = cluster.client(3).ask(fetching(0), 7)
    cluster.pass_time(1_500)
    assert offset(asked) == (ErrorCode.NONE, 900)


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, TRANSACTIONS_TOPIC])
def test_a_list_that_waits_for_its_turn_tells_nothing_of_a_shard_that_came_meanwhile(topic: str) -> None:
    """Its coordinator does not know yet whether that is all of it."""
    cluster = started(min_insync_replicas="2")
    cluster.topic(TRANSACTIONS_TOPIC, (1, 2, 3), topic_id=b"x" * 16, min_insync_replicas="2")
    if topic == OFFSETS_TOPIC:
        stored = cluster.client(1).ask(committing(900), 7)
    else:
        stored = cluster.client(1).ask(
            InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=900)
        )
    cluster.run()
    assert stored.answer is not None
    cluster.kill(1)
    cluster.kill(2)
    call = Call(cluster.nodes[3].broker, cluster.now_ms, 2, "a client")
    steps = (
        list_groups(call, ListGroupsRequest())
        if topic == OFFSETS_TOPIC
        else list_transactions(call, ListTransactionsRequest())
    )
    assert isinstance(steps, Generator)
    next(steps)
    cluster.state(topic, leader=3, leader_epoch=1, isr=(3,))
    assert not cluster.partition(3, topic).is_settled
    assert finished(steps).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def handed_over(cluster: Cluster) -> None:
    sent = produce(cluster, 1, "a")
    cluster.pass_time(50)
    assert sent.answer is not None
    cluster.state("t", leader=2, leader_epoch=1)


def test_a_follower_that_is_elected_commits_nothing_while_the_leader_before_may_count_on_it() -> None:
    cluster = started()
    cluster.make_deaf(1)
    handed_over(cluster)
    promised_ms = cluster.partition(2).promised_until_ms
    sent = produce(cluster, 2, "b")
    cluster.pass_time(promised_ms - cluster.now_ms - (PROMISE_MS - LEASE_MS) - 50)
    assert sent.answer is None
    assert cluster.partition(2).replication.is_held
    assert end(ask_end(cluster, 1)) == (ErrorCode.NONE, 1), "which is true still"


def test_a_promise_ends_when_the_leader_before_fetches_in_the_new_epoch() -> None:
    cluster = started()
    handed_over(cluster)
    sent = produce(cluster, 2, "b")
    cluster.pass_time(100)
    assert sent.answer is not None, "broker 1 knows, and follows"
    assert not cluster.nodes[2].broker.replicas.held


def test_a_promise_to_one_leader_does_not_end_with_that_to_another() -> None:
    cluster = started()
    partition = cluster.partition(2)
    cluster.make_deaf(1)
    cluster.state("t", leader=3, leader_epoch=1)
    cluster.pass_time(100)
    cluster.state("t", leader=2, leader_epoch=2)
    cluster.pass_time(100)
    assert set(partition.promises) == {1}, "broker 3 fetches in the new epoch, broker 1 does not"
    assert partition.replication.is_held


def test_a_process_that_starts_keeps_what_the_one_before_may_have_promised() -> None:
    cluster = started()
    cluster.restart(2)
    cluster.state("t", leader=2, leader_epoch=1, isr=(2, 3), isr_epochs=cluster.epochs((2, 3)))
    assert cluster.partition(2).replication.is_held
    cluster.pass_time(PROMISE_MS)
    assert not cluster.partition(2).replication.is_held


def test_an_eligible_replica_that_is_not_in_sync_cannot_be_vouched_for() -> None:
    cluster = started()
    cluster.make_deaf(1)
    cluster.partition(1).replication.has_eligible = True
    assert cluster.partition(1).replication.certain_until_ms == -1


def test_a_session_that_begins_vouches_for_nothing() -> None:
    cluster = started()
    cluster.pass_time(600)
    before = cluster.partition(1).replication.certain_until_ms
    assert before > 0
    cluster.restart(3)
    cluster.state("t", isr=(1, 2, 3), isr_epochs=cluster.epochs((1, 2, 3)))
    assert cluster.partition(1).replication.certain_until_ms == -1, "another incarnation"
    cluster.pass_time(600)
    assert cluster.partition(1).replication.certain_until_ms > before


# Several changes in a row, and what a leader keeps in memory


def acknowledged(sent: Any) -> bool:
    return sent.answer is not None and sent.answer.responses[0].partition_responses[0].error_code == 0


def assign(cluster: Cluster, *replicas: int, **state: Any) -> None:
    """Another assignment and another state in one write, as a reassignment ends."""
    states = cluster.states("t")
    before = states[0]
    after = before._replace(**state, partition_epoch=before.partition_epoch + 1)
    states[0] = after._replace(isr_epochs=cluster.epochs(after.isr))
    assert isinstance(states[0], State)
    cluster.write(
        Put(znodes.topic_path("t"), znodes.topic_node(TOPIC_ID, {0: replicas})),
        Put(znodes.state_path("t"), znodes.state_node(1, states)),
    )


def test_a_promise_holds_where_the_new_leader_is_the_only_replica() -> None:
    """A partition is moved from broker 1 to broker 2, and broker 1 hears of it a little late."""
    cluster = Cluster()
    cluster.topic("t", (1, 2))
    cluster.pass_time(1_200)
    cluster.make_deaf(1)
    assign(cluster, 2, leader=2, leader_epoch=1, isr=(2,))
    sent = produce(cluster, 2, "a")
    cluster.run()
    assert not acknowledged(sent) or end(ask_end(cluster, 1)) != (ErrorCode.NONE, 0)


def test_nobody_enters_the_isr_of_a_leader_that_keeps_a_promise() -> None:
    """Broker 3 has promised nothing to broker 1; led by broker 2 for a moment, it could be elected and free
    while broker 1 may still answer."""
    cluster = Cluster()
    cluster.topic("t", (1, 2))
    cluster.pass_time(1_200)
    cluster.make_deaf(1)
    assign(cluster, 1, 2, 3, leader=2, leader_epoch=1, isr=(2,))
    assert cluster.partition(2).replication.is_held
    cluster.run()
    for _ in range(4):
        if cluster.states("t")[0].isr != (2, 3):
            cluster.pass_time(50)
    if 3 in cluster.states("t")[0].isr:
        cluster.state("t", leader=3, leader_epoch=2)  # an operator wants it, or broker 2 is about to stop
    sent = produce(cluster, 3, "a")
    cluster.pass_time(100)
    assert not acknowledged(sent) or end(ask_end(cluster, 1)) != (ErrorCode.NONE, 0)


def join(member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def test_a_replaced_coordinator_knows_whoever_has_joined_at_the_next() -> None:
    """Who has joined is in memory only until the group is synced: no high watermark holds it back."""
    cluster = Cluster(
        properties={"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}
    )
    cluster.topic(OFFSETS_TOPIC, (1, 2, 3), topic_id=b"o" * 16, cleanup_policy="compact")
    cluster.pass_time(1_200)
    cluster.make_deaf(1)
    cluster.state(OFFSETS_TOPIC, leader=2, leader_epoch=1)
    cluster.run()
    joined = cluster.client(2).ask(join(), 3)
    cluster.pass_time(100)
    assert cluster.partition(2, OFFSETS_TOPIC).replication.is_held
    if joined.answer is None:
        return
    assert joined.answer.error_code == ErrorCode.NONE
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.answer.member_id)
    answered = cluster.client(1).ask(beat)
    cluster.run()
    assert answered.answer is None or answered.answer.error_code != ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("knows", [True, False])
def test_a_replica_that_does_not_lead_calls_nothing_out_of_range(knows: bool) -> None:
    """A consumer that sends no leader epoch takes it for the leader, and starts over."""
    cluster = started()
    if knows:  # broker 1 led, was replaced, and has heard of it
        cluster.cut(1, 2)
        cluster.cut(1, 3)
        cluster.state("t", leader=2, leader_epoch=1, isr=(2, 3))
        leader, asked = 2, 1
    else:  # broker 3 follows, and is behind
        cluster.cut(1, 3)
        cluster.cut(2, 3)
        cluster.state("t", isr=(1, 2))
        leader, asked = 1, 3
    cluster.pass_time(1_200)
    sent = produce(cluster, leader, "a")
    cluster.pass_time(600)
    assert acknowledged(sent)
    pending = cluster.client(asked).ask(fetch_of(("t", 0, 1)), 11)
    cluster.pass_time(WAIT_MS)
    assert fetched(pending).error_code != ErrorCode.OFFSET_OUT_OF_RANGE


def delete_all(cluster: Cluster, broker: int, offset: int) -> Any:
    topic = DeleteRecordsTopic(
        name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
    )
    pending = cluster.client(broker).ask(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000))
    cluster.pass_time(3_000)
    return pending.answer.topics[0].partitions[0]


@pytest.mark.parametrize("offset", [-1, 1])
def test_a_new_leader_deletes_all_that_was_committed_or_nothing(offset: int) -> None:
    cluster = started()
    sent = produce(cluster, 1, "a")
    cluster.run()
    assert acknowledged(sent), "and broker 2 does not know it yet"
    assert cluster.partition(2).high_watermark == 0
    cluster.state("t", leader=2, leader_epoch=1)
    result = delete_all(cluster, 2, offset)
    assert (result.error_code, result.low_watermark) != (ErrorCode.NONE, 0)
    assert result.error_code != ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_coordinator_without_a_proof_answers_offset_fetch_with_what_every_client_repeats() -> None:
    """librdkafka does not repeat an OffsetFetch after NOT_COORDINATOR: what was assigned is never read."""
    cluster = without_lease()
    cluster.make_deaf(1)
    pending = cluster.client(1).ask(fetching(0), 7)
    cluster.pass_time(WAIT_MS)
    assert pending.answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# -- waiting --


def without_lease(**configs: str) -> Cluster:
    cluster = started(**configs)
    cluster.cut(1, 3)
    cluster.pass_time(LEASE_MS + 200)
    return cluster


def test_an_answer_that_waits_is_given_when_the_keeper_is_back() -> None:
    """The confirmation that was asked for while the keeper was away is lost, and nobody asks again."""
    cluster = without_lease()
    cluster.make_deaf(1)
    joined = cluster.client(1).ask(join(), 3)
    cluster.pass_time(4_000)  # a new group waits 3 s for others; then the answer is given, and has no proof
    assert joined.answer is None
    cluster.hear(1)
    cluster.pass_time(8_000)
    assert joined.answer is not None


def test_records_do_not_wait_for_the_proof_of_another_partition() -> None:
    cluster = Cluster()
    cluster.topic("t", (1, 2), (1, 3))
    cluster.pass_time(1_200)
    sent = cluster.client(1).ask(to("t", batch("a"), timeout_ms=1_000), 12)
    cluster.pass_time(100)
    assert acknowledged(sent)
    cluster.make_deaf(1)
    cluster.cut(1, 3)
    cluster.pass_time(LEASE_MS + 200)
    pending = cluster.client(1).ask(fetch_of(("t", 0, 0), ("t", 1, 0), max_wait_ms=500), 10)
    cluster.pass_time(50)
    assert pending.answer is not None, "partition 0 has records"


def test_a_fetch_that_records_wake_proves_the_rest_instead_of_refusing_it() -> None:
    cluster = Cluster()
    cluster.topic("t", (1, 2), (1, 3))
    cluster.pass_time(1_200)
    cluster.cut(1, 3)
    cluster.pass_time(LEASE_MS + 200)
    pending = cluster.client(1).ask(fetch_of(("t", 0, 0), ("t", 1, 0), max_wait_ms=500), 10)
    cluster.client(1).ask(to("t", batch("a"), timeout_ms=1_000), 12)
    cluster.pass_time(100)
    parts = pending.answer.responses[0].partitions
    assert [part.error_code for part in parts] == [0, 0], "the keeper is there to confirm it"


def test_fetches_that_cannot_vouch_promise_nothing() -> None:
    """A leader that is dead for seconds is asked again and again, each time in a new session: its successor
    need not wait for it."""
    cluster = started()
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    cluster.pass_time(6_000)  # until its session is over
    cluster.state("t", leader=2, leader_epoch=1, isr=(2, 3))
    assert not cluster.partition(2).replication.is_held


def test_a_promise_that_begins_with_more_replicas_ends_in_its_time() -> None:
    """A process that has just started leads alone, and is given a second replica: nothing of that is a change
    of leaders, and the promise it keeps has an end all the same."""
    cluster = Cluster()
    cluster.topic("t", (2,))
    cluster.pass_time(1_200)
    cluster.restart(2)
    assign(cluster, 2, leader=2, leader_epoch=1, isr=(2,))
    assign(cluster, 2, 1)
    assert cluster.partition(2).replication.is_held
    cluster.pass_time(2_500)
    assert cluster.states("t")[0].isr == (1, 2)


def test_a_replaced_coordinator_does_not_name_itself_for_ever() -> None:
    cluster = started()
    replaced(cluster)
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    cluster.pass_time(1_500)
    named = cluster.client(1).send(request).coordinators[0]
    assert named.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert cluster.client(2).send(request).coordinators[0].node_id == 2


def test_a_coordinator_without_a_follower_names_itself_once_the_keeper_has_confirmed_it() -> None:
    cluster = without_lease()
    cluster.pass_time(1_500)
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    cluster.client(1).send(request)
    cluster.pass_time(100)
    assert cluster.client(1).send(request).coordinators[0].node_id == 1
