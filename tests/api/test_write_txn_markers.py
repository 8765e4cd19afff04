"""WriteTxnMarkers: transactions end in the partitions that this broker leads."""

from typing import Any

import pytest
from tests.api.asking import ask_for_two_in_sync, create, lead
from tests.api.harness import NOW, Machine
from tests.replication.pump import Cluster
from tests.support.transactions import markers, open_transaction

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.log import producers as producers_module
from ottla.records.control import Marker
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest

ABORT = Marker(7, 0, False, 0, 0)


def codes(answer: Any) -> dict[tuple[int, str, int], int]:
    return {
        (marker.producer_id, topic.name, result.partition_index): result.error_code
        for marker in answer.markers
        for topic in marker.topics
        for result in topic.partitions
    }


def started(partitions: int = 1) -> Machine:
    machine = Machine()
    create(machine.client(), "t", partitions)
    for index in range(partitions):
        open_transaction(machine.broker, "t", NOW, index)
    return machine


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_ends_in_each_partition_that_is_named(version: int) -> None:
    machine = started(2)
    partitions = [machine.broker.partitions[TopicPartition("t", index)] for index in (0, 1)]
    assert [partition.last_stable_offset for partition in partitions] == [0, 0]
    answer = machine.client().send(markers(ABORT, "t", 0, 1), version)
    assert codes(answer) == {(7, "t", 0): ErrorCode.NONE, (7, "t", 1): ErrorCode.NONE}
    assert [partition.last_stable_offset for partition in partitions] == [2, 2]


def test_without_markers_there_is_nothing_to_answer() -> None:
    assert Machine().client().send(WriteTxnMarkersRequest()).markers == []


def test_each_partition_has_its_own_error() -> None:
    machine = started()
    answer = machine.client().send(markers(ABORT, "t", 0, 5))
    assert codes(answer) == {(7, "t", 0): ErrorCode.NONE, (7, "t", 5): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_partition_that_is_named_many_times_for_a_transaction_gets_one_marker() -> None:
    machine = started(2)
    request = markers(ABORT, "t", *[0] * 500, 1)
    request.markers[0].topics *= 2
    answer = machine.client().send(request)
    (marker,) = answer.markers
    told = [(topic.name, result.partition_index) for topic in marker.topics for result in topic.partitions]
    assert sorted(told) == [("t", 0), ("t", 1)]
    ends = [machine.broker.partitions[TopicPartition("t", index)].log.log_end_offset for index in (0, 1)]
    assert ends == [2, 2]


def test_a_marker_of_an_older_producer_or_coordinator_is_refused() -> None:
    machine = started()
    client = machine.client()
    client.send(markers(Marker(7, 3, True, 9, 0), "t", 0))
    assert codes(client.send(markers(Marker(7, 2, True, 9, 0), "t", 0))) == {
        (7, "t", 0): ErrorCode.INVALID_PRODUCER_EPOCH
    }
    assert codes(client.send(markers(Marker(7, 3, True, 8, 0), "t", 0))) == {
        (7, "t", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED
    }


def test_from_version_2_on_the_marker_is_of_the_next_epoch_and_is_written_once() -> None:
    machine = started()
    client, partition = machine.client(), machine.broker.partitions[TopicPartition("t", 0)]
    late = markers(Marker(7, 0, True, 0, 2), "t", 0)
    assert codes(client.send(late)) == {(7, "t", 0): ErrorCode.INVALID_PRODUCER_EPOCH}
    for _ in range(2):
        assert codes(client.send(markers(Marker(7, 1, True, 0, 2), "t", 0))) == {(7, "t", 0): ErrorCode.NONE}
        assert partition.log.log_end_offset == 2


def test_a_broker_that_does_not_lead_says_so() -> None:
    machine = started()
    lead(machine, "t", leader=99, epoch=1)
    answer = machine.client().send(markers(ABORT, "t", 0))
    assert codes(answer) == {(7, "t", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_too_few_in_sync_replicas_are_said_before_anything_is_written() -> None:
    machine = started()
    ask_for_two_in_sync(machine, "t")
    answer = machine.client().send(markers(ABORT, "t", 0))
    assert codes(answer) == {(7, "t", 0): ErrorCode.NOT_ENOUGH_REPLICAS}


def replicated() -> Cluster:
    cluster = Cluster((1, 2))
    cluster.topic("t", (1, 2))
    cluster.run()
    open_transaction(cluster.nodes[1].broker, "t", cluster.now_ms)
    cluster.run()
    return cluster


def test_the_answer_waits_for_the_followers() -> None:
    cluster = replicated()
    cluster.cut(1, 2)
    pending = cluster.client(1).ask(markers(ABORT, "t", 0))
    assert pending.answer is None
    cluster.heal()
    cluster.pass_time(1_000)
    assert codes(pending.answer) == {(7, "t", 0): ErrorCode.NONE}
    assert cluster.partition(1).high_watermark == 2


def test_what_takes_too_long_is_to_be_asked_again() -> None:
    cluster = replicated()
    cluster.cut(1, 2)
    pending = cluster.client(1).ask(markers(ABORT, "t", 0))
    cluster.pass_time(6_000)
    assert codes(pending.answer) == {(7, "t", 0): ErrorCode.REQUEST_TIMED_OUT}


def test_a_leader_that_is_replaced_meanwhile_does_not_know_what_became_of_it() -> None:
    cluster = replicated()
    cluster.cut(1, 2)
    pending = cluster.client(1).ask(markers(ABORT, "t", 0))
    cluster.state("t", leader=2, leader_epoch=1)
    cluster.run()
    assert codes(pending.answer) == {(7, "t", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_leader_that_may_have_been_replaced_fences_nobody() -> None:
    """What it remembers of the producer may have been written by nobody but itself."""
    cluster = replicated()
    cluster.cut(1, 2)
    cluster.make_deaf(1)
    cluster.state("t", leader=2, leader_epoch=1)
    open_transaction(cluster.nodes[1].broker, "t", cluster.now_ms, epoch=5)
    cluster.pass_time(3_000)
    pending = cluster.client(1).ask(markers(ABORT, "t", 0))
    assert pending.answer is None
    cluster.pass_time(6_000)
    (code,) = codes(pending.answer).values()
    assert code in {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT}


def test_producers_that_a_client_makes_up_take_the_place_of_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers_module, "PRODUCERS_MAX", 4)
    monkeypatch.setattr(producers_module, "SPARE", 1)
    machine = started()
    client, partition = machine.client(), machine.broker.partitions[TopicPartition("t", 0)]
    made_up = [codes(client.send(markers(Marker(at, 0, True, 0, 0), "t", 0))) for at in range(100, 110)]
    told = [code for answer in made_up for code in answer.values()]
    assert told == [ErrorCode.NONE] * 3 + [ErrorCode.THROTTLING_QUOTA_EXCEEDED] * 7
    assert set(partition.log.producers.by_id) == {7, 100, 101, 102}
    assert codes(client.send(markers(ABORT, "t", 0))) == {(7, "t", 0): ErrorCode.NONE}
