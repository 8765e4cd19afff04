"""confluent-kafka (librdkafka) against a real broker: the contract, and the admin calls as it makes them."""

import time

import confluent_kafka
import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tests.kafka_clients.adapters import Client, Confluent, Refused, Sent, take
from tests.kafka_clients.contract import ClientContract
from tests.kafka_clients.harness import BrokerProcess, wait_for


@pytest.fixture
def client(broker: BrokerProcess) -> Client:
    return Confluent(broker.bootstrap)


@pytest.fixture
def admin(broker: BrokerProcess) -> AdminClient:
    return broker.admin


def code_of(error: pytest.ExceptionInfo[KafkaException]) -> int:
    return int(error.value.args[0].code())


class TestConfluent(ClientContract):
    pass


def test_topics_are_created_described_listed_grown_and_deleted(admin: AdminClient, topic: str) -> None:
    new = NewTopic(topic, num_partitions=3, replication_factor=1, config={"retention.ms": "12345"})
    admin.create_topics([new])[topic].result(30)
    with pytest.raises(KafkaException) as error:
        admin.create_topics([new])[topic].result(30)
    assert code_of(error) == confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS
    assert topic in admin.list_topics(timeout=30).topics
    described = admin.describe_topics(confluent_kafka.TopicCollection([topic]))[topic].result(30)
    assert [one.id for one in described.partitions] == [0, 1, 2]
    assert [one.leader.id for one in described.partitions] == [1, 1, 1]
    assert [[node.id for node in one.isr] for one in described.partitions] == [[1]] * 3
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(30)
    assert len(admin.list_topics(topic, timeout=30).topics[topic].partitions) == 5
    with pytest.raises(KafkaException) as error:
        admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
    assert code_of(error) == confluent_kafka.KafkaError.INVALID_PARTITIONS
    admin.delete_topics([topic])[topic].result(30)
    assert topic not in admin.list_topics(timeout=30).topics
    with pytest.raises(KafkaException) as error:
        admin.delete_topics([topic])[topic].result(30)
    assert code_of(error) == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "config", "code"),
    [
        ("not/legal", 1, 1, {}, confluent_kafka.KafkaError.TOPIC_EXCEPTION),
        ("..", 1, 1, {}, confluent_kafka.KafkaError.TOPIC_EXCEPTION),
        ("x" * 250, 1, 1, {}, confluent_kafka.KafkaError.TOPIC_EXCEPTION),
        ("too-many-replicas", 1, 2, {}, confluent_kafka.KafkaError.INVALID_REPLICATION_FACTOR),
        ("no-such-key", 1, 1, {"no.such.key": "1"}, confluent_kafka.KafkaError.INVALID_CONFIG),
        ("no-such-value", 1, 1, {"retention.ms": "soon"}, confluent_kafka.KafkaError.INVALID_CONFIG),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_its_reason(
    admin: AdminClient, name: str, partitions: int, replicas: int, config: dict[str, str], code: int
) -> None:
    new = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=config)
    with pytest.raises(KafkaException) as error:
        admin.create_topics([new])[name].result(30)
    assert code_of(error) == code


def test_a_topic_can_be_checked_without_being_created(admin: AdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, num_partitions=2)], validate_only=True)[topic].result(30)
    assert topic not in admin.list_topics(timeout=30).topics


def test_topic_configs_are_described_and_altered_by_key(
    admin: AdminClient, broker: BrokerProcess, topic: str
) -> None:
    broker.create_topic(topic, config={"retention.ms": "1000"})

    def configs() -> dict[str, ConfigEntry]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        found: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(30)
        return found

    def alter(name: str, value: str | None, operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)

    assert configs()["retention.ms"].value == "1000"
    assert not configs()["retention.ms"].is_default
    assert configs()["segment.bytes"].value == str(1 << 30)
    assert configs()["segment.bytes"].is_default
    alter("max.message.bytes", "2000", AlterConfigOpType.SET)
    alter("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    alter("retention.ms", None, AlterConfigOpType.DELETE)
    found = configs()
    assert found["max.message.bytes"].value == "2000"
    assert found["cleanup.policy"].value == "delete,compact"
    assert found["retention.ms"].value == str(7 * 24 * 3_600_000)
    alter("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
    assert configs()["cleanup.policy"].value == "compact"
    with pytest.raises(KafkaException) as error:
        alter("max.message.bytes", "many", AlterConfigOpType.SET)
    assert code_of(error) == confluent_kafka.KafkaError.INVALID_CONFIG


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated:DeprecationWarning")
def test_the_old_alter_configs_replaces_everything(
    admin: AdminClient, broker: BrokerProcess, topic: str
) -> None:
    broker.create_topic(topic, config={"retention.ms": "1000"})
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.bytes": "1000000"})
    admin.alter_configs([resource])[resource].result(30)
    found = admin.describe_configs([resource])[resource].result(30)
    assert found["segment.bytes"].value == "1000000"
    assert found["retention.ms"].is_default


def test_a_broker_config_that_may_change_does_and_one_that_may_not_is_refused(
    admin: AdminClient, broker: BrokerProcess, topic: str
) -> None:
    def alter(name: str, value: str | None, operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)

    resource = ConfigResource(ResourceType.BROKER, "1")
    assert admin.describe_configs([resource])[resource].result(30)["message.max.bytes"].value == "1048588"
    alter("message.max.bytes", "5000", AlterConfigOpType.SET)
    try:
        assert admin.describe_configs([resource])[resource].result(30)["message.max.bytes"].value == "5000"
        with pytest.raises(Refused, match="10:"):
            Confluent(broker.bootstrap).produce(topic, [Sent(b"x" * 6000)])
    finally:
        alter("message.max.bytes", None, AlterConfigOpType.DELETE)
    Confluent(broker.bootstrap).produce(topic, [Sent(b"x" * 6000)])
    with pytest.raises(KafkaException):
        alter("listeners", "PLAINTEXT://0.0.0.0:1", AlterConfigOpType.SET)


def test_deleted_records_are_gone_and_the_rest_is_read(
    client: Client, admin: AdminClient, topic: str
) -> None:
    client.produce(topic, [Sent(str(n).encode()) for n in range(20)])
    where = TopicPartition(topic, 0, 7)
    assert admin.delete_records([where])[where].result(30).low_watermark == 7
    with client.reader(topic, offset=0) as reader:
        assert [one.offset for one in take(reader, 13)] == list(range(7, 20))
        assert reader.ends(0) == (7, 20)
    beyond = TopicPartition(topic, 0, 21)
    with pytest.raises(KafkaException) as error:
        admin.delete_records([beyond])[beyond].result(30)
    assert code_of(error) == confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE


def test_the_cluster_is_described(admin: AdminClient, broker: BrokerProcess) -> None:
    described = admin.describe_cluster().result(30)
    assert [(node.id, node.host, node.port) for node in described.nodes] == [(1, "127.0.0.1", broker.port)]
    assert described.controller.id == 1
    assert len(described.cluster_id) == 22


def test_offsets_are_listed_by_what_they_stand_for(client: Client, admin: AdminClient, topic: str) -> None:
    start = int(time.time() * 1000) - 10_000
    times = [0, 5000, 1000]
    client.produce(topic, [Sent(b"v", timestamp_ms=start + one) for one in times])
    where = TopicPartition(topic, 0)
    expected = {
        OffsetSpec.earliest: 0,
        OffsetSpec.latest: 3,
        OffsetSpec.max_timestamp: 1,
        lambda: OffsetSpec.for_timestamp(start + 500): 1,
    }
    for spec, offset in expected.items():
        (future,) = admin.list_offsets({where: spec()}).values()
        assert future.result(30).offset == offset


def test_a_topic_that_is_not_there_is_not_created_by_a_consumer_that_does_not_want_it(
    admin: AdminClient, broker: BrokerProcess, topic: str
) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.consume(1, 0.5) == []
        known = consumer.list_topics(topic, timeout=30).topics[topic]
        assert known.error.code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
    finally:
        consumer.close()
    assert topic not in admin.list_topics(timeout=30).topics


def test_a_thousand_partitions_are_made_used_and_dropped(
    client: Client, admin: AdminClient, broker: BrokerProcess, topic: str
) -> None:
    before = broker.open_files()
    admin.create_topics([NewTopic(topic, num_partitions=1000)])[topic].result(30)
    client.produce(topic, [Sent(b"v", str(n).encode()) for n in range(3000)])
    with client.reader(topic, range(1000)) as reader:
        take(reader, 3000)
    admin.delete_topics([topic])[topic].result(30)
    wait_for(lambda: broker.open_files() <= before + 10, 20, "the files of the topic to be closed")
