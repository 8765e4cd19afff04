"""What only brokers may ask, on connections that did and did not prove to be a broker's; and the proof
itself, in SaslHandshake and SaslAuthenticate."""

import logging
from typing import Any

import pytest
from tests.api.asking import create, fetch_of
from tests.api.harness import Client, Machine

from ottla.base.errors import ErrorCode
from ottla.controller import znodes
from ottla.controller.keeper import Create, NodeChanged
from ottla.security.peer_handshake import MECHANISM, Initiator
from ottla.wire.messages.alter_partition import AlterPartitionRequest
from ottla.wire.messages.fetch import ReplicaState
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

SECRET = bytes(range(32))
ILLEGAL = ErrorCode.ILLEGAL_SASL_STATE


def machine_of_a_cluster() -> Machine:
    machine = Machine()
    machine.write(Create(znodes.PEER_SECRET, znodes.peer_secret_node(SECRET)))
    return machine


def prove(client: Client, own: int, secret: bytes = SECRET) -> Any:
    """The last answer of the handshake."""
    initiator = Initiator(secret, own, client.machine.broker.id, bytes(32))
    asked, answer = initiator.first(), None
    while asked:
        answer = client.send(asked.pop(0))
        asked += initiator.on_answer(answer)
    return answer


def alter_partition(client: Client, broker: int = 2) -> int:
    return client.send(AlterPartitionRequest(broker_id=broker, broker_epoch=0)).error_code  # type: ignore[no-any-return]


def fetch(client: Client, topic_id: bytes, version: int, replica: int) -> Any:
    request = fetch_of((topic_id if version >= 13 else "t", 0, 0), max_wait_ms=0)
    if version >= 15:
        request.replica_state = ReplicaState(replica_id=replica)
    else:
        request.replica_id = replica
    return client.send(request, version)


def list_offsets(client: Client, replica: int) -> int:
    one = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=replica, topics=[ListOffsetsTopic(name="t", partitions=[one])])
    return client.send(request).topics[0].partitions[0].error_code  # type: ignore[no-any-return]


def epoch_end(client: Client, replica: int) -> int:
    one = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topics = [OffsetForLeaderTopic(topic="t", partitions=[one])]
    answer = client.send(OffsetForLeaderEpochRequest(replica_id=replica, topics=topics))
    return answer.topics[0].partitions[0].error_code  # type: ignore[no-any-return]


def test_a_client_that_proposes_an_isr_learns_nothing_of_epochs() -> None:
    machine = machine_of_a_cluster()
    client = machine.client()
    for broker in (1, 2, 99):
        for epoch in (-1, 0, 1, 2**40):
            request = AlterPartitionRequest(broker_id=broker, broker_epoch=epoch)
            assert client.send(request).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    machine.give_up_the_seat()
    assert alter_partition(client) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "nor who the controller is"


@pytest.mark.parametrize("version", range(4, 19))
def test_a_client_cannot_fetch_as_a_replica(version: int) -> None:
    machine = machine_of_a_cluster()
    client = machine.client()
    topic_id = create(client, "t")
    answer = fetch(client, topic_id, version, replica=1)
    (topic,) = answer.responses
    (one,) = topic.partitions
    assert (one.error_code, one.partition_index) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)
    assert (answer.session_id, one.high_watermark, one.records) == (0, -1, b"")
    assert topic.topic == ("t" if version < 13 else "")
    for reader in (-1, -2):  # consumers, and Kafka's tools that look at replicas
        one = fetch(client, topic_id, version, reader).responses[0].partitions[0]
        assert (one.error_code, one.high_watermark) == (ErrorCode.NONE, 0)


def test_a_client_cannot_ask_about_the_log_as_a_replica() -> None:
    machine = machine_of_a_cluster()
    client = machine.client()
    create(client, "t")
    for ask in (list_offsets, epoch_end):
        assert ask(client, 1) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert ask(client, -1) == ask(client, -2) == ErrorCode.NONE


def test_who_proved_to_be_a_broker_may_act_as_that_one_and_no_other() -> None:
    machine = machine_of_a_cluster()
    create(machine.client(), "t")
    peer = machine.client()
    answer = prove(peer, 2)
    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.NONE, b"")
    assert alter_partition(peer, 2) == ErrorCode.STALE_BROKER_EPOCH, "it may ask, and is not registered"
    assert alter_partition(peer, 1) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert list_offsets(peer, 2) == epoch_end(peer, 2) == ErrorCode.NONE
    assert list_offsets(peer, 1) == epoch_end(peer, 1) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert alter_partition(machine.client(), 2) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED, (
        "another connection"
    )


def test_a_proof_ends_with_its_connection() -> None:
    machine = machine_of_a_cluster()
    peer = machine.client()
    prove(peer, 2)
    peer.close()
    again = machine.client()
    assert again.number == peer.number
    assert alter_partition(again) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_wrong_secret_is_no_proof_and_is_logged_without_it(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_of_a_cluster()
    client = machine.client()
    client.send(SaslHandshakeRequest(mechanism=MECHANISM))
    opening = Initiator(SECRET, 2, 1, bytes(32)).first()[1]
    assert len(client.send(opening).auth_bytes) == 64
    with caplog.at_level(logging.WARNING):
        answer = client.send(SaslAuthenticateRequest(auth_bytes=bytes(32)))
    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.SASL_AUTHENTICATION_FAILED, b"")
    assert "did not prove to be a broker" in caplog.text
    assert SECRET.hex() not in caplog.text
    assert client.send(SaslAuthenticateRequest(auth_bytes=bytes(32))).error_code == ILLEGAL, "one guess each"
    assert alter_partition(client) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert client.send(SaslHandshakeRequest(mechanism=MECHANISM)).error_code == ILLEGAL
    assert prove(machine.client(), 2).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "", "OTTLA"])
def test_other_mechanisms_are_answered_as_by_kafka_without_sasl(mechanism: str, version: int) -> None:
    for machine in (Machine(), machine_of_a_cluster()):
        client = machine.client()
        answer = client.send(SaslHandshakeRequest(mechanism=mechanism), version)
        assert (answer.error_code, answer.mechanisms) == (ILLEGAL, [])
        for authenticate in range(3):
            answer = client.send(SaslAuthenticateRequest(auth_bytes=b"\0u\0p"), authenticate)
            assert (answer.error_code, answer.auth_bytes) == (ILLEGAL, b"")


def test_the_old_handshake_and_a_second_one_are_refused() -> None:
    machine = machine_of_a_cluster()
    client = machine.client()
    ours = SaslHandshakeRequest(mechanism=MECHANISM)
    assert client.send(ours, 0).error_code == ILLEGAL, "bytes without a header would follow"
    assert client.send(ours, 1).error_code == ErrorCode.NONE
    assert client.send(ours, 1).error_code == ILLEGAL
    peer = machine.client()
    prove(peer, 2)
    assert peer.send(ours, 1).error_code == ILLEGAL


def test_a_broker_that_is_alone_takes_nobody_for_a_broker() -> None:
    machine = Machine()
    client = machine.client()
    assert client.send(SaslHandshakeRequest(mechanism=MECHANISM)).error_code == ILLEGAL
    create(client, "t")
    assert alter_partition(client, 1) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert list_offsets(client, 1) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_refusal_is_said_once_for_a_connection_and_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_of_a_cluster()
    client = machine.client()
    said = "AlterPartition in the name of broker 2 is refused to 'a client'"
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            alter_partition(client)
            machine.pass_time(1_000)
        assert caplog.text.count(said) == 1
        for _ in range(100):
            alter_partition(machine.client())
        assert caplog.text.count(said) == 2
        machine.pass_time(1_000)
        alter_partition(machine.client())
    assert caplog.text.count(said) == 3


def test_a_secret_that_is_deleted_is_known_until_there_is_another() -> None:
    machine = machine_of_a_cluster()
    machine.broker.on_nodes([NodeChanged(znodes.PEER_SECRET, None, 0)], machine.now_ms)
    assert prove(machine.client(), 2).error_code == ErrorCode.NONE
    other = bytes(32)
    machine.broker.on_nodes(
        [NodeChanged(znodes.PEER_SECRET, znodes.peer_secret_node(other), 0)], machine.now_ms
    )
    assert prove(machine.client(), 2, other).error_code == ErrorCode.NONE
    assert SECRET.hex() not in repr(machine.broker.image)
    assert repr(SECRET) not in repr(machine.broker.image)
