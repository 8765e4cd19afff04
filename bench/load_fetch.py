"""Bulk fetch with confluent-kafka: partition 0 from its beginning, as fast as it goes."""

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, TopicPartition

CHUNK_RECORDS = 10_000
TIMEOUT_S = 30.0


def prepare(spec: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """spec: bootstrap, topic, records; security (how to connect). It is connected, and has asked for nothing
    yet, when this returns."""
    consumer = Consumer(
        {
            "bootstrap.servers": spec["bootstrap"],
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
            "fetch.message.max.bytes": 4 << 20,
            "queued.max.messages.kbytes": 64 << 10,
            # By default it pauses for a second once that is full, and the faster broker looks slower.
            "fetch.queue.backoff.ms": 10,
            "log_level": 3,
            **spec.get("security", {}),
        }
    )
    beginning = TopicPartition(spec["topic"], 0, 0)
    consumer.get_watermark_offsets(beginning, TIMEOUT_S)

    def run() -> dict[str, Any]:
        cpu = time.process_time()
        started = time.perf_counter()
        consumer.assign([beginning])
        received = 0
        while received < spec["records"]:
            messages = consumer.consume(CHUNK_RECORDS, TIMEOUT_S)
            failed = next((message.error() for message in messages if message.error()), None)
            if failed is not None or not messages:
                raise RuntimeError(f"after {received} records: {failed or 'nothing more came'}")
            received += len(messages)
        seconds, client_cpu_s = time.perf_counter() - started, time.process_time() - cpu
        consumer.close()
        return {"records": received, "seconds": seconds, "client_cpu_s": client_cpu_s}

    return run
