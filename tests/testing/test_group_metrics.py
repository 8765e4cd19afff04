"""The lag of groups, of real clients on real brokers: whoever coordinates a group knows how far it is behind,
wherever the partitions are led."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.support.waiting import wait_for

from ottla import Broker, Cluster

QUIET = {"log_level": 0}
PARTITIONS, RECORDS = 6, 10
FAST = {"ottla.metrics.lag.interval.ms": 200}


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "secure"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(brokers=3, config=FAST, secure=request.param) as cluster:
        yield cluster


def produce(
    config: dict[str, Any], topic: str, *, partitions: int = PARTITIONS, records: int = RECORDS
) -> None:
    producer = Producer({**config, **QUIET})
    for partition in range(partitions):
        for number in range(records):
            producer.produce(topic, str(number), partition=partition)
    assert producer.flush(30) == 0


def commit(config: dict[str, Any], group: str, topic: str, offset: int, partitions: int = PARTITIONS) -> None:
    consumer = Consumer({**config, "group.id": group, **QUIET})
    offsets = [TopicPartition(topic, partition, offset) for partition in range(partitions)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def lags(cluster: Cluster, group: str, topic: str) -> list[dict[str, float]]:
    """Of each broker that has any, by partition."""
    start = f'kafka_consumergroup_lag{{consumergroup="{group}",topic="{topic}",partition="'
    by_broker = [
        {
            name.removeprefix(start).removesuffix('"}'): lag
            for name, lag in read.items()
            if name.startswith(start)
        }
        for read in (broker.metrics() for broker in cluster.brokers.values())
    ]
    return [of_broker for of_broker in by_broker if of_broker]


def test_one_broker_says_how_far_a_group_is_behind_in_partitions_of_all_of_them(cluster: Cluster) -> None:
    cluster.create_topic("orders", partitions=PARTITIONS)
    produce(cluster.client_config, "orders")
    commit(cluster.client_config, "readers", "orders", 4)
    expected = {str(partition): RECORDS - 4.0 for partition in range(PARTITIONS)}
    wait_for(lambda: lags(cluster, "readers", "orders") == [expected], what="every leader has been asked")
    produce(cluster.client_config, "orders", records=2)
    expected = {partition: lag + 2 for partition, lag in expected.items()}
    wait_for(lambda: lags(cluster, "readers", "orders") == [expected], what="they are asked again")
    commit(cluster.client_config, "readers", "orders", RECORDS + 2)
    expected = dict.fromkeys(expected, 0.0)
    wait_for(lambda: lags(cluster, "readers", "orders") == [expected], what="the group has read everything")


def test_the_lag_goes_on_when_the_coordinator_is_gone_and_when_it_is_back(cluster: Cluster) -> None:
    cluster.create_topic("payments", partitions=PARTITIONS)
    produce(cluster.client_config, "payments")
    commit(cluster.client_config, "auditors", "payments", 4)
    expected = {str(partition): RECORDS - 4.0 for partition in range(PARTITIONS)}
    wait_for(lambda: lags(cluster, "auditors", "payments") == [expected], what="every leader has been asked")
    (coordinator,) = (
        id
        for id, broker in cluster.brokers.items()
        if 'kafka_consumergroup_members{consumergroup="auditors"}' in broker.metrics()
    )
    cluster.kill(coordinator)
    wait_for(lambda: lags(cluster, "auditors", "payments") == [expected], 60, "another one coordinates")
    cluster.start(coordinator)
    wait_for(
        lambda: lags(cluster, "auditors", "payments") == [expected], 60, "and goes on, or the first does"
    )


def test_the_lag_of_what_is_open_in_a_transaction_counts() -> None:
    """As for kafka_exporter and Kafka's tools: to the high watermark, not to the last stable offset."""
    with Broker() as broker:
        broker.create_topic("orders")
        config = broker.client_config
        commit(config, "readers", "orders", 0, partitions=1)
        producer = Producer({**config, "transactional.id": "open", **QUIET})
        producer.init_transactions(30)
        producer.begin_transaction()
        for _ in range(3):
            producer.produce("orders", "value")
        assert producer.flush(30) == 0
        name = 'kafka_consumergroup_lag{consumergroup="readers",topic="orders",partition="0"}'
        assert broker.metrics()[name] == 3
        producer.abort_transaction(30)
        wait_for(lambda: broker.metrics()[name] == 4, what="the marker that ends it is an offset, too")


def test_the_counts_of_a_coordinator_are_exact() -> None:
    with Broker() as broker:
        broker.create_topic("orders", partitions=3)
        for offset in range(5):
            commit(broker.client_config, "readers", "orders", offset, partitions=3)
        metrics = broker.metrics()
        assert metrics["kafka_server_group_coordinator_metrics_offset_commit_count"] == 15
        assert metrics["kafka_coordinator_group_groupmetadatamanager_numoffsets"] == 3
        assert metrics["kafka_coordinator_group_groupmetadatamanager_numgroups"] == 1
        assert metrics['kafka_server_group_coordinator_metrics_num_partitions{state="failed"}'] == 0
        assert metrics["ottla_group_coordinator_load_seconds_count"] > 0
