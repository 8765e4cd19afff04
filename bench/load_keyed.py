"""Many producers with keys, through librdkafka: every record goes to the partition of its key, in small
batches, and each waits for its acknowledgement like any other."""

import os
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

KEYS = 10_000
BURST = 50  # records of one producer before it is the next one's turn
QUEUED_MAX = 2_000
FLUSH_S = 60.0


class _Acknowledged:
    def __init__(self) -> None:
        self.records = 0
        self.failed = ""

    def on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.records += 1
        else:
            self.failed = str(error)


def prepare(spec: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """spec: bootstrap, topic, record_bytes, producers, seconds."""
    config = {"bootstrap.servers": spec["bootstrap"], "acks": "all", "linger.ms": 5, "log_level": 3}
    payload, keys = os.urandom(spec["record_bytes"]), [os.urandom(8) for _ in range(KEYS)]
    producers = [Producer(config) for _ in range(spec["producers"])]
    acknowledged = _Acknowledged()

    def send(first: int, producer: Producer) -> None:
        for number in range(first, first + BURST):
            producer.produce(
                spec["topic"], payload, keys[number % KEYS], on_delivery=acknowledged.on_delivery
            )

    def flush() -> None:
        for producer in producers:
            producer.flush(FLUSH_S)
        if acknowledged.failed:
            raise RuntimeError(acknowledged.failed)

    for producer in producers:
        send(0, producer)
    flush()

    def run() -> dict[str, Any]:
        before, sent, started = acknowledged.records, 0, time.perf_counter()
        while time.perf_counter() - started < spec["seconds"]:
            for producer in producers:
                producer.poll(0)
                if len(producer) < QUEUED_MAX:
                    send(sent, producer)
                    sent += BURST
        flush()
        seconds = time.perf_counter() - started
        if acknowledged.records - before != sent:
            raise RuntimeError(f"{sent} records were sent, {acknowledged.records - before} acknowledged")
        return {"records": sent, "seconds": seconds}

    return run
