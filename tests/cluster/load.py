"""Continuous load on a cluster, a history of what was promised and seen, and the check of that history.

A writer sends numbered values with acks=all and idempotence and never gives up; a reader follows from the
beginning. `check` is a pure function: it knows nothing of the cluster.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from ottla.client.librdkafka.partition_offsets import watermarks

RATE_PER_S = 1_000
QUIET = {"log_level": 0}
READ_S = 60.0
STALL_S = 0.5  # a writer that did not get to run for so long cannot say what the cluster did meanwhile

Place = tuple[int, int]  # partition, offset


@dataclass
class History:
    """What a writer was promised and a reader has seen. Times are those of one steady clock."""

    acked: dict[str, Place] = field(default_factory=dict)
    acked_at: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))  # by partition
    refused: list[str] = field(default_factory=list)
    read: list[tuple[Place, str]] = field(default_factory=list)  # by the reader that followed
    watermarks: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    final: list[tuple[Place, str]] = field(default_factory=list)  # all there is, at the end
    stalls: list[tuple[float, float]] = field(default_factory=list)  # when the writer did not run

    def longest_silence(self) -> float:
        """The longest time in which no write to some partition was acknowledged: it had no leader."""
        return max(
            (later - earlier - self.stalled_s(earlier, later)
             for times in self.acked_at.values() for earlier, later in pairwise(times)),
            default=0.0,
        )  # fmt: skip

    def stalled_s(self, earlier: float, later: float) -> float:
        return sum(max(0.0, min(later, end) - max(earlier, begin)) for begin, end in self.stalls)


def check(history: History) -> list[str]:
    """A sentence for everything that must not be."""
    wrong: list[str] = []
    at: dict[Place, str] = {}
    where: dict[str, Place] = {}
    for place, value in history.final:
        if place in at and at[place] != value:
            wrong.append(f"{place} holds {at[place]} and {value}")
        if value in where and where[value] != place:
            wrong.append(f"{value} is there twice, at {where[value]} and at {place}")
        at[place], where[value] = value, place
    for value, place in history.acked.items():
        if value not in where:
            wrong.append(f"{value} was acknowledged at {place}, and is lost")
        elif place[1] >= 0 and where[value] != place:
            wrong.append(f"{value} was acknowledged at {place}, and is at {where[value]}")
    return [*wrong, *_check_order(history), *_check_reader(history, at)]


def _check_order(history: History) -> Iterator[str]:
    last_number: dict[tuple[int, str], int] = {}
    for (partition, offset), value in sorted(history.final):
        writer, number = value.rsplit(":", 1)
        if int(number) <= last_number.get((partition, writer), -1):
            yield f"{value} stands behind a later one at {(partition, offset)}"
        last_number[partition, writer] = int(number)


def _check_reader(history: History, at: dict[Place, str]) -> Iterator[str]:
    position: dict[int, int] = {}
    for (partition, offset), value in history.read:
        if at.get((partition, offset)) != value:
            yield f"{value} was read at {(partition, offset)}, where {at.get((partition, offset))} is"
        if offset != position.get(partition, 0):
            yield f"the reader of {partition} came to {offset}, not to {position.get(partition, 0)}"
        position[partition] = offset + 1
    for partition, seen in history.watermarks.items():
        for earlier, later in pairwise(seen):
            if later < earlier:
                yield f"the high watermark of {partition} went back from {earlier} to {later}"


class Load:
    """`with Load(bootstrap, topic, partitions) as load:` writes and reads until the end of the block."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, rate: int = RATE_PER_S) -> None:
        self.history = History()
        self.sent = 0
        self._bootstrap, self._topic, self._partitions, self._rate = bootstrap, topic, partitions, rate
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._write, self._follow)]
        self._failures: list[BaseException] = []
        self._name = f"w{time.monotonic_ns()}"
        self._turned = 0.0  # when the writer was last at work

    def __enter__(self) -> Self:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for one in self._threads:
            one.join(READ_S)

    @property
    def acked(self) -> int:
        return len(self.history.acked)

    def quiet_s(self, partition: int, since: float) -> float:
        """How long ago a write there was acknowledged, as far as the writer was at work to hear of it."""
        heard, last = self._turned, max(since, self.history.acked_at[partition][-1])
        return heard - last - self.history.stalled_s(last, heard)

    def finish(self) -> History:
        """After the block: read all there is, and answer the history."""
        assert not self._failures, self._failures
        assert {partition for (partition, _), _ in self.history.read}, "the reader did not follow"
        self.history.final = read_all(self._bootstrap, self._topic, self._partitions)
        return self.history

    # -- in threads --

    def _write(self) -> None:
        history = self.history
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5,
             "delivery.timeout.ms": 120_000, "socket.timeout.ms": 5_000, "reconnect.backoff.max.ms": 500,
             "retry.backoff.ms": 50, "retry.backoff.max.ms": 200,
             "topic.metadata.refresh.interval.ms": 2_000, **QUIET}
        )  # fmt: skip

        def delivered(error: KafkaError | None, message: Any) -> None:
            value = message.value().decode()
            if error is not None:
                history.refused.append(f"{value}: {error}")
            else:
                history.acked[value] = (message.partition(), message.offset())
                history.acked_at[message.partition()].append(time.monotonic())

        began = self._turned = time.monotonic()
        while not self._is_over.is_set():
            now = time.monotonic()
            if now - self._turned > STALL_S:
                history.stalls.append((self._turned, now))
            self._turned = now
            due = int((now - began) * self._rate)
            while self.sent < due:
                try:
                    producer.produce(
                        self._topic, f"{self._name}:{self.sent}", partition=self.sent % self._partitions,
                        on_delivery=delivered,
                    )  # fmt: skip
                except BufferError:
                    break
                self.sent += 1
            producer.poll(0.005)
        if producer.flush(READ_S):
            self._failures.append(TimeoutError("not everything that was sent was acknowledged in the end"))

    def _follow(self) -> None:
        consumer = _consumer(self._bootstrap)
        places = [TopicPartition(self._topic, number, 0) for number in range(self._partitions)]
        consumer.assign(places)
        while not self._is_over.is_set():
            for message in consumer.consume(500, 0.05):
                if message.error() is None:
                    self.history.read.append(
                        ((message.partition(), message.offset()), message.value().decode())
                    )
            for place in places:
                high = consumer.get_watermark_offsets(place, cached=True)[1]
                seen = self.history.watermarks[place.partition]
                if high >= 0 and (not seen or seen[-1] != high):
                    seen.append(high)
        consumer.close()


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "nobody", "enable.auto.commit": False,
         "auto.offset.reset": "error", "reconnect.backoff.max.ms": 500, "fetch.wait.max.ms": 100,
         "enable.partition.eof": False, "topic.metadata.refresh.interval.ms": 2_000, **QUIET}
    )  # fmt: skip


def read_all(bootstrap: str, topic: str, partitions: int) -> list[tuple[Place, str]]:
    consumer = _consumer(bootstrap)
    found: list[tuple[Place, str]] = []
    try:
        ends = {
            number: watermarks(consumer, topic, number)[1]  # leaders may still move back to where they belong
            for number in range(partitions)
        }
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        position = dict.fromkeys(range(partitions), 0)
        deadline = time.monotonic() + READ_S
        while any(position[number] < end for number, end in ends.items()):
            assert time.monotonic() < deadline, f"not everything could be read: {position} of {ends}"
            for message in consumer.consume(1_000, 0.2):
                if message.error() is None:
                    found.append(((message.partition(), message.offset()), message.value().decode()))
                    position[message.partition()] = message.offset() + 1
    finally:
        consumer.close()
    return found
