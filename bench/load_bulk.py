"""Bulk produce with librdkafka: as fast as it goes, until the last record is acknowledged."""

import os
import time
from collections.abc import Callable
from typing import Any

from bench.rdkafka import BulkProducer

CHUNK_RECORDS = 10_000
QUEUED_BYTES_MAX = 64 << 20
FLUSH_MS = 60_000
STORED_S = 30.0


def prepare(spec: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """spec: bootstrap (None: a mock cluster in here), topic, record_bytes, batch_bytes, records; acks,
    security (how to connect)."""
    config = {
        "acks": spec.get("acks", "all"),
        "batch.num.messages": "1000000",
        "batch.size": str(spec["batch_bytes"]),
        # Long enough that only a full batch leaves; flush() cuts the last one short.
        "linger.ms": "5000",
        "log_level": "3",
        # What an idempotent producer is limited to, and enough to keep any of the brokers busy.
        "max.in.flight": "5",
        "message.max.bytes": str(2 << 20),
        "queue.buffering.max.kbytes": str(1 << 20),
        "queue.buffering.max.messages": "2000000",
        "statistics.interval.ms": "100",
        **spec.get("security", {}),
    }
    if spec["bootstrap"] is None:
        config["test.mock.num.brokers"] = "1"
    else:
        config["bootstrap.servers"] = spec["bootstrap"]
    payload = os.urandom(spec["record_bytes"])
    producer = BulkProducer(config, spec["topic"], payload, CHUNK_RECORDS)
    producer.send(1)
    producer.flush(FLUSH_MS)
    return lambda: _run(producer, spec["records"], spec["record_bytes"])


def _run(producer: BulkProducer, records: int, record_bytes: int) -> dict[str, Any]:
    queued_max = max(2 * CHUNK_RECORDS, QUEUED_BYTES_MAX // record_bytes // 4)
    sent = 0
    cpu = time.process_time()
    started = time.perf_counter()
    while sent < records:
        producer.poll(0)
        while producer.queued() > queued_max:
            producer.poll(1)
        sent += producer.send(records - sent)
    producer.flush(FLUSH_MS)
    seconds = time.perf_counter() - started
    client_cpu_s = time.process_time() - cpu
    # With acks=1 and more than one replica, the last of them are still on their way to the others.
    while (stored := producer.high_watermark(10_000) - 1) < records:
        if time.perf_counter() - started - seconds > STORED_S:
            break
        time.sleep(0.002)
    stored_s = time.perf_counter() - started
    if stored != records:
        raise RuntimeError(f"{records} records were acknowledged and {stored} are stored")
    producer.poll(0)
    return {
        "records": records,
        "seconds": seconds,
        "stored_s": stored_s,
        "client_cpu_s": client_cpu_s,
        "batch_bytes_mean": producer.batch_bytes / producer.batches if producer.batches else None,
    }
