"""kafka-python, which speaks the newest versions of most APIs: the contract, and its admin calls."""

from collections.abc import Iterator

import kafka.errors
import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from tests.kafka_clients.adapters import Client, KafkaPython, Sent, take
from tests.kafka_clients.contract import ClientContract
from tests.kafka_clients.harness import BrokerProcess


@pytest.fixture
def client(broker: BrokerProcess) -> Client:
    return KafkaPython(broker.bootstrap)


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[KafkaAdminClient]:
    made = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield made
    made.close()


class TestKafkaPython(ClientContract):
    pass


def test_topics_are_created_described_listed_grown_and_deleted(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 3, 1, topic_configs={"retention.ms": "5000"})])
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        admin.create_topics([NewTopic(topic, 3, 1)])
    assert topic in admin.list_topics()
    (described,) = admin.describe_topics([topic])
    assert [one["partition_index"] for one in described["partitions"]] == [0, 1, 2]
    assert {one["leader_id"] for one in described["partitions"]} == {1}
    admin.create_partitions({topic: NewPartitions(5)})
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 5
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    with pytest.raises(kafka.errors.UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


def test_partitions_are_described_in_pages(
    admin: KafkaAdminClient, broker: BrokerProcess, topic: str
) -> None:
    broker.create_topic(topic, partitions=7)
    answer = admin.describe_topic_partitions([topic], response_partition_limit=3)
    assert topic in str(answer)


def test_topic_configs_are_described_and_altered(
    admin: KafkaAdminClient, broker: BrokerProcess, topic: str
) -> None:
    broker.create_topic(topic, config={"retention.ms": "1000"})
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    assert "1000" in str(admin.describe_configs([resource])["topic"][topic]["retention.ms"])
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "2000"})])
    assert "2000" in str(admin.describe_configs([resource])["topic"][topic]["retention.ms"])
    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, ["retention.ms"])])
    assert "retention.ms" not in admin.describe_configs([resource])["topic"][topic]


def test_records_are_deleted(admin: KafkaAdminClient, client: Client, topic: str) -> None:
    client.produce(topic, [Sent(str(n).encode()) for n in range(10)])
    where = TopicPartition(topic, 0)
    assert admin.delete_records({where: 4})[where]["low_watermark"] == 4
    with client.reader(topic) as reader:
        assert [one.offset for one in take(reader, 6)] == list(range(4, 10))


def test_cluster_log_folders_and_producers_are_described(
    admin: KafkaAdminClient, broker: BrokerProcess, client: Client, topic: str
) -> None:
    client.produce(topic, [Sent(b"x" * 1000)], idempotent=True)
    described = admin.describe_cluster()
    assert [(one["broker_id"], one["port"]) for one in described["brokers"]] == [(1, broker.port)]
    assert described["controller_id"] == 1
    ((folders,),) = [one["log_dirs"] for one in admin.describe_log_dirs()]
    assert folders["log_dir"] == str(broker.data)
    (mine,) = [one for one in folders["topics"] if one["name"] == topic]
    assert mine["partitions"][0]["partition_size"] > 1000
    producers = admin.describe_producers([TopicPartition(topic, 0)])
    (producer,) = producers[TopicPartition(topic, 0)].active_producers
    assert producer.last_sequence == 0
