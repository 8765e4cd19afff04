"""FindCoordinator: the topic of the offsets is made when it is first needed, and the answer waits for it."""

import pytest
from tests.api.asking import go_on
from tests.api.groups import lead_offsets
from tests.api.harness import Client, Machine
from tests.support.endpoints import plaintext
from tests.support.groups import find

from ottla.base.errors import ErrorCode
from ottla.base.ids import OFFSETS_TOPIC
from ottla.broker import log_queue
from ottla.broker.effects import WriteNodes
from ottla.controller import znodes
from ottla.controller.keeper import Delete
from ottla.controller.registration import registration
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


def started(**properties: str) -> tuple[Machine, Client]:
    machine = Machine({key.replace("_", "."): properties[key] for key in properties})
    return machine, machine.client()


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_of_a_group_is_found_in_every_version(version: int) -> None:
    _, client = started(offsets_topic_num_partitions="3")
    answer = client.send(find("g", version=version), version)
    if version >= 4:
        (answer,) = answer.coordinators
        assert answer.key == "g"
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, "localhost", 9092)


def test_the_first_search_makes_the_topic_as_kafka_does() -> None:
    machine, client = started()
    assert OFFSETS_TOPIC not in machine.broker.image.topics
    client.send(find("g"), 2)
    topic = machine.broker.image.topics[OFFSETS_TOPIC]
    assert sorted(topic.assignment) == list(range(50))
    assert set(topic.assignment.values()) == {(1,)}, "a broker of its own has no others"
    assert machine.broker.image.topic_config(OFFSETS_TOPIC) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    client.send(find("another"), 2)
    assert machine.broker.image.topics[OFFSETS_TOPIC] is topic


def test_the_topic_has_as_many_partitions_as_configured() -> None:
    machine, client = started(offsets_topic_num_partitions="3", offsets_topic_segment_bytes="1048576")
    client.send(find("g"), 2)
    assert len(machine.broker.image.topics[OFFSETS_TOPIC].assignment) == 3
    assert machine.broker.image.topic_config(OFFSETS_TOPIC)["segment.bytes"] == "1048576"


def test_the_topic_is_not_made_before_there_are_as_many_brokers_as_replicas(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine, client = started(offsets_topic_num_partitions="3", offsets_topic_replication_factor="2")
    for _ in range(3):
        (answer,) = client.send(find("g", version=4), 4).coordinators
        assert (answer.error_code, answer.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        assert answer.error_message == "Replication factor 2 needs as many brokers; 1 are there."
    assert OFFSETS_TOPIC not in machine.broker.image.topics
    (said,) = (record.getMessage() for record in caplog.records)
    assert said.startswith("consumer groups wait for brokers: there are 1, and __consumer_offsets needs 2")
    machine.write(*registration(2, plaintext("other", 9092), None))
    assert client.send(find("g"), 2).error_code == ErrorCode.NONE
    topic = machine.broker.image.topics[OFFSETS_TOPIC]
    assert {frozenset(replicas) for replicas in topic.assignment.values()} == {frozenset({1, 2})}


def test_a_client_that_reads_the_topic_first_gets_it_as_groups_need_it() -> None:
    machine, client = started(offsets_topic_num_partitions="3")
    client.send(MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS_TOPIC)]))
    assert len(machine.broker.image.topics[OFFSETS_TOPIC].assignment) == 3
    assert machine.broker.image.topic_config(OFFSETS_TOPIC)["cleanup.policy"] == "compact"


def test_the_answer_waits_for_the_topic() -> None:
    machine, client = started(offsets_topic_num_partitions="3")
    machine.hold(WriteNodes)
    pending = client.ask(find("g"), 2)
    assert pending.answer is None
    machine.release()
    assert pending.answer.error_code == ErrorCode.NONE


def test_the_answer_waits_for_the_logs_so_that_the_coordinator_it_names_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_queue, "PORTION_MAX", 3)
    machine, client = started(offsets_topic_num_partitions="10")
    first, second = client.ask(find("g"), 2), machine.client().ask(find("another"), 2)
    assert (first.answer, second.answer) == (None, None)
    while machine.broker.partitions.log_queue.todo:
        assert (first.answer, second.answer) == (None, None)
        go_on(machine)
    assert (first.answer.error_code, second.answer.error_code) == (0, 0)
    assert len(machine.broker.coordinators.groups.runtime.shards) == 10


def test_two_that_search_at_once_make_one_topic() -> None:
    machine, one = started(offsets_topic_num_partitions="3")
    two = machine.client()
    machine.hold(WriteNodes)
    pending = one.ask(find("a"), 2), two.ask(find("b"), 2)
    machine.release()
    assert [each.answer.error_code for each in pending] == [ErrorCode.NONE, ErrorCode.NONE]


def test_if_the_topic_cannot_be_made_in_time_the_client_is_to_come_back() -> None:
    machine, client = started()
    machine.hold(WriteNodes)
    pending = client.ask(find("g"), 2)
    machine.pass_time(10_000)
    assert pending.answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_several_keys_are_answered_one_by_one() -> None:
    _, client = started(offsets_topic_num_partitions="3")
    answer = client.send(find("a", "", "b", version=4), 4)
    assert [(one.key, one.error_code, one.node_id) for one in answer.coordinators] == [
        ("a", ErrorCode.NONE, 1),
        ("", ErrorCode.INVALID_GROUP_ID, -1),
        ("b", ErrorCode.NONE, 1),
    ]
    assert client.send(FindCoordinatorRequest(coordinator_keys=[]), 4).coordinators == []


@pytest.mark.parametrize("version", [0, 3, 6])
def test_a_group_without_an_id_has_no_coordinator_and_makes_no_topic(version: int) -> None:
    machine, client = started()
    answer = client.send(find("", version=version), version)
    if version >= 4:
        (answer,) = answer.coordinators
    assert (answer.error_code, answer.node_id) == (ErrorCode.INVALID_GROUP_ID, -1)
    assert OFFSETS_TOPIC not in machine.broker.image.topics


@pytest.mark.parametrize("key_type", [2, 3, -1])
@pytest.mark.parametrize("version", [1, 6])
def test_other_types_of_keys_have_no_coordinator_here(key_type: int, version: int) -> None:
    machine, client = started()
    answer = client.send(find("x", key_type=key_type, version=version), version)
    if version >= 4:
        (answer,) = answer.coordinators
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert OFFSETS_TOPIC not in machine.broker.image.topics


def test_a_partition_without_a_leader_has_no_coordinator() -> None:
    machine, client = started(offsets_topic_num_partitions="3")
    client.send(find("g"), 2)
    lead_offsets(machine, leader=-1, epoch=1)
    assert client.send(find("g"), 2).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    lead_offsets(machine, leader=9, epoch=2)
    assert client.send(find("g"), 2).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    lead_offsets(machine, leader=1, epoch=3)
    assert client.send(find("g"), 2).error_code == ErrorCode.NONE


def test_the_topic_is_made_again_if_somebody_has_deleted_it() -> None:
    machine, client = started(offsets_topic_num_partitions="3")
    client.send(find("g"), 2)
    machine.write(Delete(znodes.topic_path(OFFSETS_TOPIC)), Delete(znodes.topic_config_path(OFFSETS_TOPIC)))
    assert OFFSETS_TOPIC not in machine.broker.image.topics
    assert client.send(find("g"), 2).error_code == ErrorCode.NONE
