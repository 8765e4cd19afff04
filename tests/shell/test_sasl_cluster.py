"""A cluster whose one listener demands SASL: brokers let each other in, and users reach all of them."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from tests.kafka_clients.wire_client import Wire, logs_in
from tests.support.secured import admin_settings
from tests.support.waiting import wait_for

from ottla import Cluster
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

WITHIN_S = 30.0
CONFIG = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "connection.failed.authentication.delay.ms": "0",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="admin-secret";'
    ),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, config=CONFIG) as running:
        yield running


def is_let_in(cluster: Cluster, broker: int, user: str, password: str) -> bool:
    with Wire(int(cluster.brokers[broker].bootstrap_servers.rpartition(":")[2])) as wire:
        return logs_in(wire, "SCRAM-SHA-256", user, password)


def test_brokers_replicate_over_a_listener_with_sasl(cluster: Cluster) -> None:
    admin = AdminClient(admin_settings(cluster.bootstrap_servers))
    admin.create_topics([NewTopic("t", 3, 3)])["t"].result(WITHIN_S)
    producer = Producer({**admin_settings(cluster.bootstrap_servers), "acks": "all"})
    for partition in range(3):
        producer.produce("t", b"x", partition=partition)
    assert producer.flush(WITHIN_S) == 0

    def in_sync() -> list[int]:
        metadata = admin.list_topics("t", timeout=WITHIN_S).topics["t"]
        return [len(partition.isrs) for partition in metadata.partitions.values()]

    wait_for(lambda: in_sync() == [3, 3, 3], WITHIN_S, "all replicas in sync")


def test_a_user_that_is_added_or_removed_at_one_broker_is_so_at_all(cluster: Cluster) -> None:
    admin = AdminClient(admin_settings(cluster.bootstrap_servers))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)

    def alter(alteration: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> None:
        admin.alter_user_scram_credentials([alteration])["alice"].result(WITHIN_S)

    def are_let_in(password: str) -> list[bool]:
        return [is_let_in(cluster, broker, "alice", password) for broker in cluster.ids]

    assert are_let_in("first") == [False, False, False]
    alter(UserScramCredentialUpsertion("alice", info, b"first"))
    wait_for(lambda: all(are_let_in("first")), WITHIN_S, "alice to be let in everywhere")
    alter(UserScramCredentialUpsertion("alice", info, b"second"))
    wait_for(lambda: not any(are_let_in("first")), WITHIN_S, "the old password to be gone")
    wait_for(lambda: all(are_let_in("second")), WITHIN_S, "the new password to be good")
    alter(UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_256))
    wait_for(lambda: not any(are_let_in("second")), WITHIN_S, "alice to be gone")


def test_a_user_that_does_not_exist_has_one_salt_on_all_brokers(cluster: Cluster) -> None:
    replies = set()
    for broker in cluster.ids:
        with Wire(int(cluster.brokers[broker].bootstrap_servers.rpartition(":")[2])) as wire:
            wire.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
            reply = wire.call(SaslAuthenticateRequest(auth_bytes=b"n,,n=nobody,r=abc"), 2).auth_bytes
            replies.add(bytes(reply).partition(b",")[2])
    assert len(replies) == 1
