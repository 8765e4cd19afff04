"""Clients that say they are brokers, to a broker that is alone: nobody is one."""

import struct

from tests.hostile.healthy import Healthy
from tests.kafka_clients.harness import BrokerProcess
from tests.kafka_clients.wire_client import Wire, batch, fetch_request

from ottla.base.errors import ErrorCode
from ottla.wire.messages.alter_partition import AlterPartitionRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

TRIALS = 2_000


def test_epochs_are_not_told_by_trial(broker: BrokerProcess, healthy: Healthy) -> None:
    with Wire(broker.port) as wire:
        answers = {
            wire.call(AlterPartitionRequest(broker_id=1, broker_epoch=epoch), 3).error_code
            for epoch in range(-1, TRIALS)
        }
    assert answers == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert "AlterPartition in the name of broker 1 is refused to 'wire' at 127.0.0.1" in broker.log


def test_nobody_reads_as_a_replica(broker: BrokerProcess, healthy: Healthy) -> None:
    broker.create_topic("replicas")
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [ListOffsetsTopic(name="replicas", partitions=[asked])]
    with Wire(broker.port) as wire:
        assert wire.produce("replicas", bytes(batch(b"x"))).error_code == 0
        for replica in (0, 1, 2, 2**31 - 1):
            request = fetch_request("replicas")
            request.replica_id = replica
            (one,) = wire.call(request, 11).responses[0].partitions
            assert (one.error_code, one.records) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")
            answer = wire.call(ListOffsetsRequest(replica_id=replica, topics=topics), 5)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        (one,) = wire.call(fetch_request("replicas"), 11).responses[0].partitions
        assert one.records


def test_a_handshake_of_any_kind_is_answered_and_leads_nowhere(
    broker: BrokerProcess, healthy: Healthy
) -> None:
    guesses = [b"", b"\0" * 32, b"\xff" * 40, struct.pack(">ii32s", 2, 1, b""), bytes(1_000_000)]
    with Wire(broker.port) as wire:
        for mechanism in ("OTTLA-HMAC-SHA-256", "PLAIN", "", "x" * 30_000):
            answer = wire.call(SaslHandshakeRequest(mechanism=mechanism), 1)
            assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
            for guess in guesses:
                answer = wire.call(SaslAuthenticateRequest(auth_bytes=guess), 2)
                assert (answer.error_code, answer.auth_bytes) == (ErrorCode.ILLEGAL_SASL_STATE, b"")
        answer = wire.call(AlterPartitionRequest(broker_id=1, broker_epoch=0), 3)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
