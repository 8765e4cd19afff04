"""A steady producer that never gives up: acks=all, idempotent, every partition in turn, at a fixed rate.

It says when nothing was acknowledged. The clock is the machine's steady one, so that the harness can tell
which of these silences it made.
"""

import os
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

BURST_S = 0.005
SILENCE_S = 0.02
FLUSH_S = 60.0
WATERMARK_S = 20.0


def prepare(spec: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """spec: bootstrap, topic, partitions, record_bytes, rate (records a second), seconds."""
    producer = Producer(
        {
            "bootstrap.servers": spec["bootstrap"],
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 1,
            "log_level": 0,
            "message.timeout.ms": 120_000,
            # The brokers are measured, not the patience of the client.
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 50,
            "topic.metadata.refresh.fast.interval.ms": 50,
        }
    )
    load = _Load(producer, spec)
    load.send(4 * spec["partitions"])
    producer.flush(FLUSH_S)
    return load.run


class _Load:
    def __init__(self, producer: Producer, spec: dict[str, Any]) -> None:
        self._producer, self._spec = producer, spec
        self._payload = os.urandom(spec["record_bytes"])
        self._acked_at: list[list[float]] = [[] for _ in range(spec["partitions"])]
        self._sent = self._failed = 0

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        partition = message.partition()
        if error is not None or partition is None:
            self._failed += 1
        else:
            self._acked_at[partition].append(time.monotonic())

    def send(self, count: int) -> None:
        for _ in range(count):
            partition = self._sent % self._spec["partitions"]
            self._producer.produce(
                self._spec["topic"], self._payload, partition=partition, on_delivery=self._on_delivery
            )
            self._sent += 1

    def run(self) -> dict[str, Any]:
        before, began = self._sent, time.monotonic()
        while (passed := time.monotonic() - began) < self._spec["seconds"]:
            self.send(int(passed * self._spec["rate"]) + before - self._sent)
            self._producer.poll(BURST_S)
        left = self._producer.flush(FLUSH_S)
        acked = sum(map(len, self._acked_at))
        return {
            "sent": self._sent,
            "acked": acked,
            "failed": self._failed + left,
            "stored": self._stored(),
            "silences": [
                [[earlier, later] for earlier, later in pairwise(times) if later - earlier > SILENCE_S]
                for times in self._acked_at
            ],
        }

    def _stored(self) -> int:
        consumer = Consumer(
            {"bootstrap.servers": self._spec["bootstrap"], "group.id": "bench", "log_level": 0}
        )
        try:
            return sum(
                consumer.get_watermark_offsets(TopicPartition(self._spec["topic"], partition), WATERMARK_S)[1]
                for partition in range(self._spec["partitions"])
            )
        finally:
            consumer.close()
