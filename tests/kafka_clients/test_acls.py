"""Real clients and ACLs: made and listed with confluent-kafka, and heeded for users who logged in."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
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
from tests.kafka_clients.secure_broker import WITHIN_S, SecureBroker, secure_broker
from tests.support.waiting import wait_for

TOPIC, GROUP, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
LITERAL, PREFIXED, ANY = (
    ResourcePatternType.LITERAL,
    ResourcePatternType.PREFIXED,
    ResourcePatternType.ANY,
)
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    settings = {
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super_users": "User:ANONYMOUS;User:admin",
    }
    with secure_broker(tmp_path_factory.mktemp("acls"), **settings) as broker:
        yield broker


def binding(
    kind: ResourceType, name: str, operation: AclOperation, pattern: ResourcePatternType = LITERAL
) -> AclBinding:
    return AclBinding(kind, name, pattern, "User:alice", "*", operation, AclPermissionType.ALLOW)


def everything_about(name: str) -> AclBindingFilter:
    return AclBindingFilter(ResourceType.ANY, name, ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)


def allow(secure: SecureBroker, *bindings: AclBinding) -> None:
    for future in secure.admin.create_acls(list(bindings)).values():
        future.result(WITHIN_S)


def alice(secure: SecureBroker, **more: Any) -> dict[str, Any]:
    return {**secure.librdkafka("SCRAM-SHA-256"), **{key.replace("_", "."): more[key] for key in more}}


def delivered(producer: Producer, topic: str) -> KafkaError | None:
    reports: list[KafkaError | None] = []
    producer.produce(topic, b"hello", callback=lambda error, _message: reports.append(error))
    assert producer.flush(WITHIN_S) == 0
    return reports[0]


def test_acls_are_created_described_and_deleted(secure: SecureBroker, topic: str) -> None:
    made = [
        binding(TOPIC, topic, READ),
        binding(TOPIC, topic, WRITE),
        binding(TOPIC, topic, DESCRIBE, PREFIXED),
    ]
    allow(secure, *made)
    assert set(secure.admin.describe_acls(everything_about(topic)).result(WITHIN_S)) == set(made)
    only_write = AclBindingFilter(TOPIC, topic, LITERAL, None, None, WRITE, AclPermissionType.ANY)
    (future,) = secure.admin.delete_acls([only_write]).values()
    assert set(future.result(WITHIN_S)) == {made[1]}
    assert set(secure.admin.describe_acls(everything_about(topic)).result(WITHIN_S)) == {made[0], made[2]}


def test_who_may_not_change_acls_is_told_so(secure: SecureBroker, topic: str) -> None:
    admin = AdminClient(alice(secure))
    (future,) = admin.create_acls([binding(TOPIC, topic, READ)]).values()
    with pytest.raises(KafkaException) as refused:
        future.result(WITHIN_S)
    assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    created = admin.create_topics([NewTopic(topic, 1)])[topic]
    with pytest.raises(KafkaException) as refused:
        created.result(WITHIN_S)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert topic not in admin.list_topics(timeout=WITHIN_S).topics


def test_a_producer_is_refused_until_it_is_allowed(secure: SecureBroker, topic: str) -> None:
    secure.create_topic(topic)
    error = delivered(Producer(alice(secure)), topic)
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(secure, binding(TOPIC, topic, WRITE))
    assert delivered(Producer(alice(secure)), topic) is None
    assert delivered(Producer(alice(secure, enable_idempotence=True)), topic) is None


def test_a_consumer_needs_its_topic_and_its_group(secure: SecureBroker, topic: str) -> None:
    secure.create_topic(topic)
    secure.admin.poll(0)
    writer = Producer({"bootstrap.servers": secure.address, "log_level": 0})
    assert delivered(writer, topic) is None

    def consumed() -> set[int | bytes]:
        """What comes until there is something other than silence."""
        consumer = Consumer(
            alice(secure, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False)
        )
        seen: set[int | bytes] = set()
        try:
            consumer.subscribe([topic])

            def poll() -> bool:
                message = consumer.poll(0.5)
                if message is not None:
                    error = message.error()
                    seen.add(error.code() if error else message.value())
                return bool(seen)

            wait_for(poll, WITHIN_S, "a record or an error")
        finally:
            consumer.close()
        return seen

    denied = {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED}
    assert consumed() <= denied
    allow(secure, binding(TOPIC, topic, READ))
    assert consumed() == {KafkaError.GROUP_AUTHORIZATION_FAILED}
    allow(secure, binding(GROUP, topic[:4], READ, PREFIXED))
    assert consumed() == {b"hello"}


def test_a_transactional_producer_needs_its_transactional_id(secure: SecureBroker, topic: str) -> None:
    secure.create_topic(topic)
    allow(secure, binding(TOPIC, topic, WRITE))
    with pytest.raises(KafkaException) as refused:
        Producer(alice(secure, transactional_id=topic)).init_transactions(WITHIN_S)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    allow(secure, binding(TRANSACTIONAL_ID, topic, WRITE))
    producer = Producer(alice(secure, transactional_id=topic))
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    assert delivered(producer, topic) is None
    producer.commit_transaction(WITHIN_S)


def test_what_was_refused_and_what_was_administered_is_in_the_audit_log(
    secure: SecureBroker, topic: str
) -> None:
    secure.create_topic(topic)
    assert delivered(Producer(alice(secure)), topic) is not None
    wait_for(lambda: '"principal": "User:alice"' in secure.log and topic in secure.log, WITHIN_S, "the line")
    lines = [line for line in secure.log.splitlines() if "ottla.audit" in line and topic in line]
    assert any('"api": "CreateTopics"' in line and '"allowed": true' in line for line in lines)
    assert any('"principal": "User:alice"' in line and '"allowed": false' in line for line in lines)
    assert "alice-secret" not in secure.log
