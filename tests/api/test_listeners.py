"""Whoever came in by a listener is told the addresses of that listener; what brokers ask each other is
answered on theirs alone."""

import pytest
from tests.api.harness import Machine

from ottla.base.addresses import Address
from ottla.base.errors import ErrorCode
from ottla.broker.access import Session
from ottla.controller import znodes
from ottla.controller.keeper import Create, Put
from ottla.controller.registration import registration
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.alter_partition import AlterPartitionRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

INSIDE, OUTSIDE = "INSIDE", "OUTSIDE"
PROPERTIES = {
    "listeners": "INSIDE://:9092,OUTSIDE://:9093",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "inter.broker.listener.name": INSIDE,
}
FIND = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
PLAIN = dict.fromkeys((INSIDE, OUTSIDE), "PLAINTEXT")


@pytest.fixture
def machine() -> Machine:
    """Broker 1 has both listeners, and broker 2 has the one inside."""
    machine = Machine(PROPERTIES)
    both = {INSIDE: Address("one", 9092), OUTSIDE: Address("one.example", 443)}
    node = znodes.broker_node(both, None, protocols=PLAIN)
    machine.write(Put(znodes.BROKERS + "1", node))
    arrived(machine, INSIDE).send(FIND)
    machine.write(*registration(2, {INSIDE: Address("two", 9092)}, "r", protocols=PLAIN))
    return machine


def arrived(machine: Machine, listener: str):  # type: ignore[no-untyped-def]
    client = machine.client()
    machine.broker.access.begin(client.number, Session(listener=listener))
    return client


def topic_led_by(machine: Machine, leader: int) -> None:
    machine.give_up_the_seat()
    machine.write(
        Create("/brokers/topics/t", znodes.topic_node(b"t" * 16, {0: (leader,)})),
        Create("/brokers/topics/t/state", znodes.state_node(1, {0: (leader, 0, (leader,))})),
    )


def test_the_nodes_of_brokers_have_all_their_listeners_as_in_kafka() -> None:
    endpoints = {INSIDE: Address("one", 9092), OUTSIDE: Address("::1", 443)}
    protocols = {INSIDE: "SASL_SSL", OUTSIDE: "SSL"}
    node = znodes.parse(znodes.broker_node(endpoints, "r", protocols=protocols))
    assert (node["version"], node["host"], node["port"]) == (5, None, -1)
    assert node["endpoints"] == ["INSIDE://one:9092", "OUTSIDE://[::1]:443"]
    assert node["listener_security_protocol_map"] == protocols
    assert znodes.parse_endpoints(node) == endpoints
    mixed = znodes.parse(znodes.broker_node(endpoints, None, protocols=protocols | {OUTSIDE: "PLAINTEXT"}))
    assert (mixed["host"], mixed["port"]) == ("::1", 443), "of the one in plain text"


def test_metadata_has_the_addresses_of_the_listener_that_is_asked_also_from_the_cache(
    machine: Machine,
) -> None:
    inside, outside = arrived(machine, INSIDE), arrived(machine, OUTSIDE)
    for _ in range(2):
        brokers = [(node.node_id, node.host, node.port) for node in inside.send(MetadataRequest()).brokers]
        assert brokers == [(1, "one", 9092), (2, "two", 9092)]
        brokers = [(node.node_id, node.host, node.port) for node in outside.send(MetadataRequest()).brokers]
        assert brokers == [(1, "one.example", 443)], "a broker without that listener is left out"


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (0, ErrorCode.LEADER_NOT_AVAILABLE),
        (5, ErrorCode.LEADER_NOT_AVAILABLE),
        (6, ErrorCode.LISTENER_NOT_FOUND),
    ],
)
def test_a_leader_without_that_listener_is_an_error_by_version(
    machine: Machine, version: int, code: ErrorCode
) -> None:
    topic_led_by(machine, 2)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    (topic,) = arrived(machine, OUTSIDE).send(request, version).topics
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id, partition.replica_nodes) == (code, -1, [2])
    (topic,) = arrived(machine, INSIDE).send(request, version).topics
    assert (topic.partitions[0].error_code, topic.partitions[0].leader_id) == (ErrorCode.NONE, 2)


def test_the_cluster_is_described_by_the_listener_that_is_asked(machine: Machine) -> None:
    def told(listener: str) -> list[tuple[int, str, int]]:
        answer = arrived(machine, listener).send(
            DescribeClusterRequest(include_cluster_authorized_operations=False)
        )
        return [(node.broker_id, node.host, node.port) for node in answer.brokers]

    assert told(INSIDE) == [(1, "one", 9092), (2, "two", 9092)]
    assert told(OUTSIDE) == [(1, "one.example", 443)]
    (node,) = arrived(machine, OUTSIDE).send(DescribeQuorumRequest(topics=[]), 2).nodes
    (listener,) = node.listeners
    assert (listener.name, listener.host, listener.port) == (OUTSIDE, "one.example", 443)


def test_a_coordinator_is_where_the_listener_that_is_asked_is(machine: Machine) -> None:
    (coordinator,) = arrived(machine, OUTSIDE).send(FIND).coordinators
    assert (coordinator.error_code, coordinator.host, coordinator.port) == (0, "one.example", 443)
    (coordinator,) = arrived(machine, INSIDE).send(FIND).coordinators
    assert (coordinator.host, coordinator.port) == ("one", 9092)


def test_a_coordinator_without_that_listener_is_not_available(machine: Machine) -> None:
    inside = arrived(machine, INSIDE)
    machine.give_up_the_seat()
    partitions = range(len(machine.broker.image.topics["__consumer_offsets"].states))
    states = dict.fromkeys(partitions, (2, 1, (2,)))
    machine.write(Put("/brokers/topics/__consumer_offsets/state", znodes.state_node(1, states)))
    (coordinator,) = arrived(machine, OUTSIDE).send(FIND).coordinators
    assert (coordinator.error_code, coordinator.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert inside.send(FIND).coordinators[0].host == "two"


def test_the_leader_in_a_refusal_is_where_the_listener_that_is_asked_is(machine: Machine) -> None:
    topic_led_by(machine, 2)
    asked = FetchTopic(
        topic_id=b"t" * 16, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)]
    )
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[asked])
    answer = arrived(machine, INSIDE).send(request)
    assert [(node.node_id, node.host, node.port) for node in answer.node_endpoints] == [(2, "two", 9092)]
    assert arrived(machine, OUTSIDE).send(request).node_endpoints == []


def test_what_brokers_ask_is_refused_on_the_listeners_of_clients_even_to_a_broker(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    client = arrived(machine, INSIDE)
    client.send(
        CreateTopicsRequest(topics=[CreatableTopic(name="own", num_partitions=1, replication_factor=1)])
    )
    topic_id = machine.broker.image.topics["own"].id
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    fetch = FetchRequest(
        replica_state=ReplicaState(replica_id=2, replica_epoch=machine.broker.image.epoch_of(2)),
        max_wait_ms=0, min_bytes=0, session_epoch=-1,
        topics=[FetchTopic(topic_id=topic_id, partitions=[asked])],
    )  # fmt: skip
    alteration = AlterPartitionRequest(broker_id=2, broker_epoch=machine.broker.image.epoch_of(2), topics=[])
    addition = AddPartitionsToTxnRequest(transactions=[])
    outside, inside = (arrived(machine, listener).as_broker(2) for listener in (OUTSIDE, INSIDE))
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert outside.send(fetch).responses[0].partitions[0].error_code == refused
    assert inside.send(fetch).responses[0].partitions[0].error_code != refused
    for request in (alteration, addition):
        assert outside.send(request).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert inside.send(request).error_code == ErrorCode.NONE
    assert "brokers ask on INSIDE, and not on OUTSIDE" in caplog.text
