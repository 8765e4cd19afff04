"""What a topic holds for each isolation level, where it is stable, and what a group has committed."""

import time
from collections.abc import Iterable, Mapping

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

QUIET = {"log_level": 0}
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
LEVELS = {COMMITTED: IsolationLevel.READ_COMMITTED, UNCOMMITTED: IsolationLevel.READ_UNCOMMITTED}
ASK_S = 5.0
READ_S = 60.0
LOOK_S = 0.05


def fill(bootstrap: str, topic: str, values: Mapping[int, Iterable[str]]) -> None:
    """Write values to partitions, without a transaction."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, **QUIET,
         "queue.buffering.max.messages": 1_000_000}
    )  # fmt: skip
    refused: list[KafkaError] = []
    for partition, sent in values.items():
        for value in sent:
            producer.produce(
                topic,
                value,
                partition=partition,
                on_delivery=lambda error, _: refused.append(error) if error else None,
            )
            producer.poll(0)
    assert producer.flush(READ_S) == 0
    assert refused == []


def read(bootstrap: str, topic: str, isolation: str, partitions: int = 1) -> list[list[str]]:
    """By partition, all values up to its end: the last stable offset, or the high watermark."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "nobody", "enable.partition.eof": True,
         "check.crcs": True,
         "enable.auto.commit": False, "isolation.level": isolation, "fetch.wait.max.ms": 50, **QUIET}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    values: list[list[str]] = [[] for _ in range(partitions)]
    ended: set[int] = set()
    deadline = time.monotonic() + READ_S
    try:
        while len(ended) < partitions:
            messages = consumer.consume(1000, LOOK_S)  # it waits that long unless there are so many
            deadline = time.monotonic() + READ_S if messages else deadline
            assert time.monotonic() < deadline, (
                f"{topic}: nothing came after {list(map(len, values))} records"
            )
            for message in messages:
                error = message.error()
                if error is None:
                    values[message.partition()].append(message.value().decode())
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended.add(message.partition())
    finally:
        consumer.close()
    return values


def ends(admin: AdminClient, topic: str, partitions: int, isolation: str) -> list[int]:
    """The last stable offsets, or the high watermarks."""
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
    asked = admin.list_offsets(wanted, isolation_level=LEVELS[isolation], request_timeout=ASK_S)
    offsets = {partition.partition: future.result(ASK_S + 1).offset for partition, future in asked.items()}
    return [offsets[number] for number in range(partitions)]


def committed(
    admin: AdminClient, group: str, topic: str, partitions: int = 1, *, require_stable: bool = False
) -> list[int]:
    """What the group has committed; -1001 where it has nothing."""
    wanted = [TopicPartition(topic, number) for number in range(partitions)]
    asked = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, wanted)], require_stable=require_stable, request_timeout=ASK_S
    )
    answered = asked[group].result(ASK_S + 1).topic_partitions
    for partition in answered:
        if partition.error is not None:
            raise LookupError(partition.error.name())
    offsets = {partition.partition: partition.offset for partition in answered}
    return [offsets[number] for number in range(partitions)]
