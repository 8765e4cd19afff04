"""Coordinators of groups, where the topic that stores them is replicated."""

from typing import Any

from tests.api.harness import Pending
from tests.replication.pump import Cluster
from tests.support.groups import codes, committing, fetching

from ottla.base.errors import ErrorCode
from ottla.base.ids import OFFSETS_TOPIC


def started() -> Cluster:
    cluster = Cluster(properties={"offsets.topic.num.partitions": "1", "replica.lag.time.max.ms": "3000"})
    cluster.topic("t", (1, 2, 3))
    cluster.topic(OFFSETS_TOPIC, (1, 2, 3), topic_id=b"o" * 16, cleanup_policy="compact")
    cluster.pass_time(100)
    cluster.run()
    return cluster


def commit(cluster: Cluster, broker: int, offset: int) -> Pending:
    return cluster.client(broker).ask(committing(offset), 7)


def committed(cluster: Cluster, broker: int) -> Any:
    pending = cluster.client(broker).ask(fetching(0), 7)
    cluster.pass_time(1_500)
    (topic,) = pending.answer.topics
    return topic.partitions[0].committed_offset


def test_a_commit_is_acknowledged_when_it_is_replicated_faults_2_12() -> None:
    cluster = started()
    cluster.cut(1, 2)
    sent = commit(cluster, 1, 7)
    cluster.run()
    assert sent.answer is None
    cluster.heal()
    cluster.pass_time(1_500)
    assert codes(sent.answer) == [ErrorCode.NONE]


def test_a_commit_survives_the_loss_of_its_coordinator() -> None:
    cluster = started()
    sent = commit(cluster, 1, 7)
    cluster.run()
    assert codes(sent.answer) == [ErrorCode.NONE]
    cluster.kill(1)
    cluster.state(OFFSETS_TOPIC, leader=2, leader_epoch=1, isr=(2, 3))
    cluster.run()
    assert committed(cluster, 2) == 7


def test_a_commit_under_way_at_a_deposed_coordinator_is_refused_faults_2_12() -> None:
    cluster = started()
    cluster.cut(1, 2)
    sent = commit(cluster, 1, 7)
    cluster.state(OFFSETS_TOPIC, leader=2, leader_epoch=1, isr=(2, 3))
    assert codes(sent.answer) == [ErrorCode.NOT_COORDINATOR]
    assert codes(commit(cluster, 1, 8).answer) == [ErrorCode.NOT_COORDINATOR]


def test_a_coordinator_that_returns_has_what_others_stored_meanwhile_faults_2_10() -> None:
    cluster = started()
    commit(cluster, 1, 7)
    cluster.run()
    cluster.state(OFFSETS_TOPIC, leader=2, leader_epoch=1)
    cluster.pass_time(600)
    sent = commit(cluster, 2, 9)
    cluster.pass_time(600)
    assert codes(sent.answer) == [ErrorCode.NONE]
    cluster.state(OFFSETS_TOPIC, leader=1, leader_epoch=2)
    cluster.pass_time(600)
    assert committed(cluster, 1) == 9
    assert not cluster.nodes[2].broker.coordinators.groups.runtime.shards


def test_the_same_state_seen_twice_loads_nothing_twice_faults_2_10() -> None:
    cluster = started()
    commit(cluster, 1, 7)
    cluster.run()
    loaded = cluster.nodes[1].broker.coordinators.groups.runtime.shards[0]
    cluster.state(OFFSETS_TOPIC, isr=(1, 2))
    assert cluster.nodes[1].broker.coordinators.groups.runtime.shards[0] is loaded
    cluster.state(OFFSETS_TOPIC, leader=1, leader_epoch=1)
    assert cluster.nodes[1].broker.coordinators.groups.runtime.shards[0] is not loaded


def test_too_few_replicas_is_no_coordinator_for_now() -> None:
    cluster = Cluster(properties={"offsets.topic.num.partitions": "1"})
    cluster.topic("t", (1, 2, 3))
    cluster.topic(OFFSETS_TOPIC, (1, 2, 3), topic_id=b"o" * 16, min_insync_replicas="2")
    cluster.state(OFFSETS_TOPIC, isr=(1,))
    assert codes(commit(cluster, 1, 7).answer) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
