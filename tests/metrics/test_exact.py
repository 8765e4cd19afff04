"""The counters say what was done, exactly: on one broker, over a restart, and when another takes over."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient  # type: ignore[attr-defined]
from tests.cluster.real import QUIET
from tests.metrics.stalling import StallingBroker, StallingCluster

from ottla import Broker

TOPICS = "kafka_server_brokertopicmetrics"
ERRORS = "kafka_network_requestmetrics_errors_total"
NO_GROUP = f'{ERRORS}{{request="DeleteGroups",error="GROUP_ID_NOT_FOUND"}}'
PARTITION = 'topic="orders",partition="0"'
END = f"kafka_topic_partition_current_offset{{{PARTITION}}}"
COMMITS = "kafka_server_group_coordinator_metrics_offset_commit_count"

pytestmark = pytest.mark.timeout(300)


def changed(before: dict[str, float], after: dict[str, float], *names: str) -> list[float]:
    return [after.get(name, 0) - before.get(name, 0) for name in names]


def produce(bootstrap: str, topic: str, count: int) -> None:
    """Each record is in a log once, whatever happens meanwhile."""
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **QUIET})
    for number in range(count):
        producer.produce(
            topic, b"%d" % number, on_delivery=lambda error, _: failures.append(error) if error else None
        )
    assert producer.flush(120) == 0
    assert failures == []


def consume(broker: Broker, topic: str, count: int, commits: int) -> None:
    consumer = Consumer(
        {**broker.client_config, "group.id": "readers", "enable.auto.commit": False, "fetch.wait.max.ms": 50}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = []
    while len(messages) < count:
        messages += consumer.consume(count, timeout=1)
    for message in messages[:commits]:
        consumer.commit(message, asynchronous=False)
    consumer.close()


def commit(bootstrap: str, topic: str, count: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", **QUIET})
    for offset in range(count):
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def delete_group_that_is_not_there(bootstrap: str) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap, **QUIET})  # it must live as long as the request
    [deletion] = client.delete_consumer_groups(["nobody"]).values()
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        deletion.result(30)


def test_records_bytes_commits_and_errors_are_counted_exactly_and_from_zero_after_a_restart(
    tmp_path: Path,
) -> None:
    with Broker(data=tmp_path) as broker:
        broker.create_topic("orders")
        before = broker.metrics()
        produce(broker.bootstrap_servers, "orders", 1_000)
        consume(broker, "orders", 1_000, commits=7)
        delete_group_that_is_not_there(broker.bootstrap_servers)
        after = broker.metrics()
        size = (tmp_path / "orders-0" / "00000000000000000000.log").stat().st_size
        for name, count in (("messagesin", 1_000), ("bytesin", size), ("bytesout", size)):
            assert changed(before, after, f'{TOPICS}_{name}_total{{topic="orders"}}') == [count]
        # As in Kafka, what a coordinator stores counts, too.
        stored = f'{TOPICS}_messagesin_total{{topic="__consumer_offsets"}}'
        assert changed(before, after, f"{TOPICS}_messagesin_total", stored) == [1_007, 7]
        assert changed(before, after, COMMITS) == [7]
        assert changed(before, after, NO_GROUP) == [1]
        assert after['kafka_topic_partition_current_offset{topic="orders",partition="0"}'] == 1_000
        assert (
            after['kafka_consumergroup_current_offset{consumergroup="readers",topic="orders",partition="0"}']
            == 7
        )
    with Broker(data=tmp_path) as broker:
        again = broker.metrics()
        assert [again.get(name, 0) for name in (f"{TOPICS}_messagesin_total", COMMITS, NO_GROUP)] == [0, 0, 0]
        assert again[END] == 1_000
        produce(broker.bootstrap_servers, "orders", 10)
        assert broker.metrics()[f"{TOPICS}_messagesin_total"] == 10


def log_bytes(broker: StallingBroker, topic: str) -> int:
    return (broker.data[0] / f"{topic}-0" / "00000000000000000000.log").stat().st_size


def test_counters_are_exact_when_another_broker_takes_over(cluster: StallingCluster) -> None:
    topic = cluster.create_topic("taken-over", partitions=1)
    of_topic, bytes_of_topic = (
        f'{TOPICS}_{name}_total{{topic="{topic}"}}' for name in ("messagesin", "bytesin")
    )
    commits, errors = cluster.sum(COMMITS), cluster.sum(NO_GROUP)
    produce(cluster.bootstrap, topic, 1_000)
    commit(cluster.bootstrap, topic, 7)
    delete_group_that_is_not_there(cluster.bootstrap)
    leader = cluster.brokers[cluster.leader(topic)]
    assert leader.metrics()[of_topic] == cluster.sum(of_topic) == 1_000
    size = log_bytes(leader, topic)
    assert leader.metrics()[bytes_of_topic] == cluster.sum(bytes_of_topic) == size
    assert (cluster.sum(COMMITS) - commits, cluster.sum(NO_GROUP) - errors) == (7, 1)
    leader.kill()
    commits, errors = cluster.sum(COMMITS), cluster.sum(NO_GROUP)  # of those that are left
    produce(cluster.bootstrap, topic, 500)
    commit(cluster.bootstrap, topic, 5)
    delete_group_that_is_not_there(cluster.bootstrap)
    assert cluster.sum(of_topic) == 500
    successor = cluster.brokers[cluster.leader(topic)]
    assert cluster.sum(bytes_of_topic) == log_bytes(successor, topic) - size
    assert (cluster.sum(COMMITS) - commits, cluster.sum(NO_GROUP) - errors) == (5, 1)
    end = f'kafka_topic_partition_current_offset{{topic="{topic}",partition="0"}}'
    assert successor.metrics()[end] == cluster.sum(end) == 1_500
    cluster.restore()
    assert leader.metrics().get(of_topic, 0) == 0
    assert cluster.sum(of_topic) == 500
