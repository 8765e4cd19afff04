"""A cluster with an authorizer and SASL on its one listener: brokers work together, and ACLs reach all."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from tests.kafka_clients.wire_client import Wire, logs_in
from tests.support.secured import admin_settings
from tests.support.waiting import wait_for

from ottla import Cluster
from ottla.wire.messages.metadata import MetadataRequest

WITHIN_S = 30.0
CONFIG = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_admin="admin-secret" user_alice="alice-secret";'
    ),
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, config=CONFIG) as running:
        yield running


def topics_seen_by_alice(cluster: Cluster, broker: int) -> list[str]:
    with Wire(int(cluster.brokers[broker].bootstrap_servers.rpartition(":")[2])) as wire:
        assert logs_in(wire, "PLAIN", "alice", "alice-secret")
        return [topic.name for topic in wire.call(MetadataRequest(topics=None), 12).topics]


def test_brokers_replicate_without_acls_of_their_own(cluster: Cluster) -> None:
    admin = AdminClient(admin_settings(cluster.bootstrap_servers))
    admin.create_topics([NewTopic("t", 3, 3)])["t"].result(WITHIN_S)
    producer = Producer(
        {**admin_settings(cluster.bootstrap_servers), "acks": "all", "transactional.id": "tx"}
    )
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    for partition in range(3):
        producer.produce("t", b"x", partition=partition)
    producer.commit_transaction(WITHIN_S)

    def in_sync() -> list[int]:
        metadata = admin.list_topics("t", timeout=WITHIN_S).topics["t"]
        return [len(partition.isrs) for partition in metadata.partitions.values()]

    wait_for(lambda: in_sync() == [3, 3, 3], WITHIN_S, "all replicas in sync")


def test_an_acl_that_is_made_or_deleted_at_one_broker_holds_at_all(cluster: Cluster) -> None:
    admin = AdminClient(admin_settings(cluster.bootstrap_servers))
    admin.create_topics([NewTopic("seen", 1, 3)])["seen"].result(WITHIN_S)
    acl = AclBinding(
        ResourceType.TOPIC, "seen", ResourcePatternType.LITERAL, "User:alice", "*", AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )  # fmt: skip

    def seen() -> list[list[str]]:
        return [topics_seen_by_alice(cluster, broker) for broker in cluster.ids]

    assert seen() == [[], [], []]
    admin.create_acls([acl])[acl].result(WITHIN_S)
    wait_for(lambda: seen() == [["seen"]] * 3, WITHIN_S, "the ACL to hold everywhere")
    selection = AclBindingFilter(
        ResourceType.TOPIC, "seen", ResourcePatternType.LITERAL, None, None, AclOperation.ANY,
        AclPermissionType.ANY,
    )  # fmt: skip
    admin.delete_acls([selection])[selection].result(WITHIN_S)
    wait_for(lambda: seen() == [[], [], []], WITHIN_S, "the ACL to be gone everywhere")
