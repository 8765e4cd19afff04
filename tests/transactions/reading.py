"""What a topic holds for each isolation level, where it is stable, and what a group has committed."""

import time
from collections.abc import Iterable, Mapping

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

QUIET = {"log_level": 0}
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
ASK_S = 5.0
READ_S = 60.0
LOOK_S = 0.05


class Offsets:
    """Where partitions end, and what a group has committed, for each isolation level.

    Asked by consumers: with an AdminClient the process crashed at times when a broker was killed.
    """

    def __init__(self, bootstrap: str, group: str = "nobody") -> None:
        self.group = group
        self._consumers = {
            isolation: Consumer(
                {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": isolation, **QUIET}
            )
            for isolation in (COMMITTED, UNCOMMITTED)
        }

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()

    def ends(self, topic: str, partitions: int, isolation: str) -> list[int]:
        """The last stable offsets, or the high watermarks."""
        return [self.end(topic, number, isolation) for number in range(partitions)]

    def end(self, topic: str, number: int, isolation: str) -> int:
        low_and_end: tuple[int, int] = self._consumers[isolation].get_watermark_offsets(
            TopicPartition(topic, number), ASK_S
        )
        return low_and_end[1]

    def committed(
        self, topic: str, partitions: int = 1, isolation: str = UNCOMMITTED, within_s: float = ASK_S
    ) -> list[int]:
        """-1001 where there is nothing. Read committed, it waits for open transactions to end (KIP-447)."""
        wanted = [TopicPartition(topic, number) for number in range(partitions)]
        return [position.offset for position in self._consumers[isolation].committed(wanted, within_s)]

    def is_stable(self, topic: str, partitions: int = 1) -> bool:
        """Nothing is left open: every last stable offset is the high watermark."""
        try:
            stable = self.ends(topic, partitions, COMMITTED)
            return stable == self.ends(topic, partitions, UNCOMMITTED)
        except KafkaException:
            return False


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
    consumer.list_topics(topic, timeout=READ_S)  # librdkafka waits for half a second where it knows no leader
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
