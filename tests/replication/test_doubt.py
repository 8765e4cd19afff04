"""A broker that was replaced and cut off from the keeper: after a while it sends its clients away."""

from typing import Any

import pytest
from tests.api.asking import batch, to
from tests.api.harness import Client, Pending
from tests.replication.pump import Cluster
from tests.replication.test_proofs import ask_end, end, offset, produce, replaced, started
from tests.support.groups import codes, committing, fetching

from ottla.api.produce import UNSURE_MS
from ottla.base.errors import ErrorCode
from ottla.broker.effects import ConfirmTree
from ottla.broker.leadership_proofs import DOUBT_MS
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

FIND = FindCoordinatorRequest(key="g", key_type=0)
LEADERS = MetadataRequest(topics=[MetadataRequestTopic(name="t")])


def doubted() -> Cluster:
    """Broker 1 has been asked for both topics, and nobody confirms that it leads them."""
    cluster = started()
    replaced(cluster)
    ask_end(cluster, 1)
    cluster.client(1).ask(fetching(0), 7)
    cluster.pass_time(DOUBT_MS + 1_000)
    return cluster


def answered(cluster: Cluster, request: Any, version: int | None = None) -> tuple[Client, Any]:
    client = cluster.client(1)
    return client, client.send(request, version)


def leader_of(answer: Any) -> tuple[int, int]:
    partition = answer.topics[0].partitions[0]
    return partition.error_code, partition.leader_id


def produced(pending: Pending) -> int:
    return int(pending.answer.responses[0].partition_responses[0].error_code)


def test_it_names_itself_as_leader_no_longer_and_sends_away_who_asks() -> None:
    cluster = doubted()
    client, answer = answered(cluster, LEADERS)
    assert leader_of(answer) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert len(answer.brokers) > 1, "the client needs to know where else to go"
    assert client.is_sent_away


def test_who_looks_for_a_coordinator_is_sent_away() -> None:
    client, answer = answered(doubted(), FIND, 2)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert client.is_sent_away


def test_who_asks_for_offsets_is_sent_away_at_once() -> None:
    client, answer = answered(doubted(), fetching(0), 7)
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert client.is_sent_away


def test_who_asks_for_groups_is_sent_away_at_once() -> None:
    client, answer = answered(doubted(), DescribeGroupsRequest(groups=["g"]))
    assert answer.groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert client.is_sent_away


def test_members_and_commits_are_told_at_once_to_look_for_the_coordinator() -> None:
    cluster = doubted()
    _, answer = answered(cluster, HeartbeatRequest(group_id="g", generation_id=3, member_id="m"))
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    _, answer = answered(cluster, committing(7), 7)
    assert codes(answer) == [ErrorCode.NOT_COORDINATOR]


@pytest.mark.parametrize("acks", [1, -1])
def test_nothing_is_appended(acks: int) -> None:
    cluster = doubted()
    before = cluster.partition(1).log.log_end_offset
    assert produced(produce(cluster, 1, "x", acks)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.partition(1).log.log_end_offset == before


def test_a_produce_that_takes_long_asks_for_the_proof_itself() -> None:
    cluster = started()
    cluster.make_deaf(1)
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    waiting = cluster.client(1).ask(to("t", batch("x"), timeout_ms=60_000), 12)
    cluster.pass_time(UNSURE_MS + DOUBT_MS - 500)
    assert waiting.answer is None
    cluster.pass_time(2_000)
    assert produced(waiting) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_produce_that_takes_long_and_is_replicated_in_the_end_is_acknowledged() -> None:
    cluster = started()
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    waiting = cluster.client(1).ask(to("t", batch("x"), timeout_ms=60_000), 12)
    cluster.pass_time(2_900)
    cluster.heal()
    cluster.pass_time(1_000)
    assert produced(waiting) == ErrorCode.NONE


def test_members_that_wait_when_doubt_begins_are_answered_then() -> None:
    cluster = started()
    replaced(cluster)
    join = JoinGroupRequest(
        group_id="h", session_timeout_ms=60_000, rebalance_timeout_ms=60_000, member_id="",
        protocol_type="consumer", protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )  # fmt: skip
    waiting = cluster.client(1).ask(join, 3)
    cluster.pass_time(DOUBT_MS - 1_000)
    assert waiting.answer is None
    cluster.pass_time(5_000)
    assert waiting.answer.error_code == ErrorCode.NOT_COORDINATOR


def test_before_doubt_begins_nobody_is_sent_away() -> None:
    cluster = started()
    replaced(cluster)
    ask_end(cluster, 1)
    cluster.pass_time(DOUBT_MS - 1_000)
    client, answer = answered(cluster, LEADERS)
    assert leader_of(answer) == (ErrorCode.NONE, 1)
    assert not client.is_sent_away


def test_when_the_keeper_is_back_everything_is_as_before() -> None:
    cluster = doubted()
    cluster.heal()
    cluster.hear(1)
    cluster.pass_time(2_000)
    client, answer = answered(cluster, LEADERS)
    assert leader_of(answer) == (ErrorCode.NONE, 2)
    assert not client.is_sent_away


def test_without_the_keeper_followers_alone_end_the_doubt() -> None:
    cluster = started()
    for id in cluster.nodes:
        cluster.make_deaf(id)
    cluster.cut(1, 2)
    cluster.pass_time(1_000)
    pending = ask_end(cluster, 1)
    cluster.pass_time(DOUBT_MS + 1_000)
    assert end(pending)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answered(cluster, LEADERS)[0].is_sent_away
    cluster.heal()
    cluster.pass_time(2_000)
    client, answer = answered(cluster, LEADERS)
    assert leader_of(answer) == (ErrorCode.NONE, 1)
    assert not client.is_sent_away


def test_a_confirmation_serves_who_asked_before_it_though_others_have_asked_since() -> None:
    cluster = started()
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    cluster.pass_time(1_000)
    cluster.nodes[1].hold(ConfirmTree)
    first = cluster.client(1).ask(fetching(0), 7)
    cluster.pass_time(50)
    second = cluster.client(1).ask(fetching(0), 7)
    cluster.nodes[1].release(still_hold=True)
    assert offset(first)[0] == ErrorCode.NONE
    assert second.answer is None


def test_doubt_that_begins_when_an_answer_gives_up_answers_it_once() -> None:
    cluster = started()
    replaced(cluster)
    client = cluster.client(1)
    ask_end(cluster, 1)
    cluster.nodes[1].now_ms = cluster.now_ms = cluster.now_ms + 3_500
    waiting = client.ask(to("t", batch("x"), timeout_ms=1_500), 12)
    cluster.nodes[1].pass_time(2_000)
    assert produced(waiting) in {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT}
