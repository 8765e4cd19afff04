"""Consumer groups live through the loss of their coordinator, with their offsets."""

import contextlib
import time
import uuid

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from tests.cluster.real import QUIET, SESSION_S, RealCluster
from tests.support.waiting import seconds_until, wait_for

RECORDS = 300


def coordinator(cluster: RealCluster, group: str) -> int:
    client = cluster.admin()
    described = client.describe_consumer_groups([group], request_timeout=10)[group].result(15)
    return int(described.coordinator.id)


def committed(cluster: RealCluster, group: str, topic: str) -> int:
    client = cluster.admin()
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])]
    offsets: list[int] = []

    def is_answered() -> bool:
        """A broker may still name the coordinator that died."""
        with contextlib.suppress(KafkaException, TimeoutError):
            found = client.list_consumer_group_offsets(asked)[group].result(15)
            offsets.append(int(found.topic_partitions[0].offset))
        return bool(offsets)

    wait_for(is_answered, 60, "the coordinator answers")
    return offsets[0]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_where_it_was_after_kill_9_of_its_coordinator(
    cluster: RealCluster, protocol: str
) -> None:
    topic = cluster.create_topic(f"grouped-{uuid.uuid4().hex[:6]}", 1)
    group = f"group-{uuid.uuid4().hex[:6]}"
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **QUIET})
    for number in range(RECORDS):
        producer.produce(topic, str(number))
    assert producer.flush(30) == 0
    settings = {} if protocol == "consumer" else {"session.timeout.ms": 30_000}
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": group, "group.protocol": protocol,
         "auto.offset.reset": "earliest", "enable.auto.commit": False, "reconnect.backoff.max.ms": 500,
         **settings, **QUIET}
    )  # fmt: skip
    consumer.subscribe([topic])
    seen: list[str] = []

    def read_until(count: int) -> None:
        deadline = time.monotonic() + 60
        while len(seen) < count:
            assert time.monotonic() < deadline, f"{len(seen)} of {count} records were read"
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                seen.append(message.value().decode())

    def commit() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, len(seen))], asynchronous=False)
        except KafkaException:
            return False
        return True

    read_until(100)
    wait_for(commit, 30, "the first commit")
    victim = cluster.brokers[coordinator(cluster, group)]
    victim.kill()
    try:
        read_until(200)
        took_s = seconds_until(commit, SESSION_S + 30, "a commit is taken again")
        assert committed(cluster, group, topic) == 200
        read_until(RECORDS)
        wait_for(commit, 30, "the last commit")
        print(f"\n{protocol} group: commits were taken again after {took_s:.2f} s")
    finally:
        victim.start()
    consumer.close()
    assert seen == [str(number) for number in range(RECORDS)], "nothing is read twice, nothing is left out"
    assert committed(cluster, group, topic) == RECORDS
