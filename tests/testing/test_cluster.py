"""`from ottla import Cluster`: several brokers in the process that replicate to each other."""

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import ottla
from ottla import Cluster

DEADLINE_S = 30.0


def produce(cluster: Cluster, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    failures: list[Any] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: error and failures.append(error))
    assert producer.flush(DEADLINE_S) == 0
    assert failures == []


def consume(cluster: Cluster, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "any", "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(count, DEADLINE_S)]
    finally:
        consumer.close()


def partition(cluster: Cluster, topic: str) -> Any:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    return client.list_topics(topic, timeout=30).topics[topic].partitions[0]


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("ottla")}


def test_groups_wait_for_the_brokers_that_are_still_starting() -> None:
    cluster = Cluster(brokers=3)
    try:
        cluster.start(1)
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "log_level": 0})
        with pytest.raises(KafkaException):
            consumer.committed([TopicPartition("letters", 0)], timeout=2)
        cluster.start()
        assert consumer.committed([TopicPartition("letters", 0)], timeout=DEADLINE_S)[0].error is None
        consumer.close()
        assert sorted(partition(cluster, "__consumer_offsets").replicas) == [1, 2, 3]
    finally:
        cluster.stop()


@pytest.mark.parametrize("brokers", [1, 2])
def test_the_groups_of_a_small_cluster_have_as_many_replicas_as_it_has_brokers(brokers: int) -> None:
    with Cluster(brokers=brokers) as cluster:
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "log_level": 0})
        assert consumer.committed([TopicPartition("letters", 0)], timeout=DEADLINE_S)[0].error is None
        consumer.close()
        assert len(partition(cluster, "__consumer_offsets").replicas) == brokers


def test_a_record_is_on_every_broker(ottla_cluster: Cluster) -> None:
    ottla_cluster.create_topic("letters")
    produce(ottla_cluster, "letters", b"hello", b"world")
    assert consume(ottla_cluster, "letters", 2) == [b"hello", b"world"]
    found = partition(ottla_cluster, "letters")
    assert sorted(found.replicas) == sorted(found.isrs) == [1, 2, 3]


def test_the_death_of_a_leader_costs_a_moment_and_no_record(ottla_cluster: Cluster) -> None:
    ottla_cluster.create_topic("orders")
    produce(ottla_cluster, "orders", b"before")
    leader = partition(ottla_cluster, "orders").leader
    ottla_cluster.kill(leader)
    produce(ottla_cluster, "orders", b"after")
    assert consume(ottla_cluster, "orders", 2) == [b"before", b"after"]
    eventually(lambda: partition(ottla_cluster, "orders").leader != leader, "all know who leads")
    ottla_cluster.start(leader)
    eventually(lambda: len(partition(ottla_cluster, "orders").isrs) == 3, "it is in sync again")


def test_nobody_waits_for_the_session_of_a_leader_or_a_controller_that_is_killed() -> None:
    with Cluster(brokers=3, session_s=60) as cluster:
        cluster.create_topic("orders")
        produce(cluster, "orders", b"before")
        client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        for victim in (partition(cluster, "orders").leader, client.list_topics(timeout=30).controller_id):
            cluster.kill(victim)
            began = time.monotonic()
            produce(cluster, "orders", b"after")
            took_s = time.monotonic() - began
            print(f"written again after {took_s:.2f} s")
            assert took_s < 20, "within 2 s on a machine that has nothing else to do"
            cluster.start(victim)
            eventually(lambda: len(partition(cluster, "orders").isrs) == 3, "it is in sync again")
        assert consume(cluster, "orders", 3) == [b"before", b"after", b"after"]


def test_a_broker_that_is_stopped_hands_over_what_it_leads(
    ottla_cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    ottla_cluster.create_topic("moved")
    leader = partition(ottla_cluster, "moved").leader
    with caplog.at_level(logging.INFO, "ottla"):
        ottla_cluster.stop(leader)
    (line,) = [record for record in caplog.records if "leadership is handed over" in record.getMessage()]
    assert line.threadName == f"ottla-broker-{leader}", "which of the brokers in this process has said it"
    eventually(lambda: partition(ottla_cluster, "moved").leader not in {leader, -1}, "another one leads")


def test_a_broker_that_is_killed_while_others_connect_to_it_ends_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _ in range(4):
        with Cluster(brokers=3) as cluster:
            cluster.create_topic("letters", partitions=3)  # its followers connect to their leaders now
            killed = cluster.brokers[2]
            cluster.kill(2)
            assert killed.failure is None
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []


def test_what_a_test_killed_is_there_for_the_next(ottla_cluster: Cluster) -> None:
    assert sorted(ottla_cluster.brokers) == [1, 2, 3]


def test_a_group_keeps_its_offsets_when_its_coordinator_dies(ottla_cluster: Cluster) -> None:
    ottla_cluster.create_topic("read")
    produce(ottla_cluster, "read", *(b"%d" % number for number in range(10)))
    settings = {
        "bootstrap.servers": ottla_cluster.bootstrap_servers, "group.id": "readers", "log_level": 0,
        "auto.offset.reset": "earliest", "enable.auto.commit": False,
    }  # fmt: skip
    consumer = Consumer(settings)
    consumer.subscribe(["read"])
    assert len(consumer.consume(5, DEADLINE_S)) == 5
    consumer.commit(offsets=[TopicPartition("read", 0, 5)], asynchronous=False)
    consumer.close()
    client = AdminClient({"bootstrap.servers": ottla_cluster.bootstrap_servers, "log_level": 0})
    described = client.describe_consumer_groups(["readers"])["readers"].result(DEADLINE_S)
    ottla_cluster.kill(described.coordinator.id)
    again = Consumer(settings)
    again.subscribe(["read"])
    assert [message.value() for message in again.consume(5, DEADLINE_S)] == [b"%d" % n for n in range(5, 10)]
    again.close()


def test_a_cluster_leaves_nothing_behind_and_starts_in_about_a_second() -> None:
    before = threads()
    began = time.monotonic()
    with Cluster(brokers=3) as cluster:
        started_s = time.monotonic() - began
        folders = [broker.data for broker in cluster.brokers.values()]
        assert all(map(os.path.isdir, folders))
        cluster.kill(2)
    assert not any(map(os.path.exists, folders))
    assert not {name for name in threads() - before if "Timer" not in name}
    assert started_s < 30, "about a second on a machine that has nothing else to do"


def test_a_cluster_of_one_and_of_two_have_as_many_replicas() -> None:
    for count in (1, 2):
        with Cluster(brokers=count) as cluster:
            produce(cluster, "auto", b"x")
            assert len(partition(cluster, "auto").replicas) == count


def test_records_are_kept_in_a_folder_of_ones_own(tmp_path: Path) -> None:
    cluster = Cluster(brokers=2, data=tmp_path)
    with cluster:
        produce(cluster, "kept", b"1")
    with cluster:
        assert consume(cluster, "kept", 1) == [b"1"]
    assert sorted(os.listdir(tmp_path)) == ["broker-1", "broker-2"]


def test_mistakes_are_told() -> None:
    assert ottla.Cluster is Cluster
    with pytest.raises(ValueError, match="a cluster has brokers, not 0"):
        Cluster(brokers=0)
    cluster = Cluster(brokers=1)
    with pytest.raises(RuntimeError, match="the cluster is not running"):
        _ = cluster.bootstrap_servers
    with pytest.raises(ValueError, match="there is no broker 7, only"):
        cluster.kill(7)
    with pytest.raises(RuntimeError, match="broker 1 is not running"):
        cluster.stop(1)
    with pytest.warns(UserWarning, match="'num.partitionz' is not known"):
        Cluster(config={"num.partitionz": 3})
