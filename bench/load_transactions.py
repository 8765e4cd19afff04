"""Records in transactions, one after the other, or the same records without.

Without transactions the producer is idempotent and waits, after as many records, until they are acknowledged:
the same rhythm, so that the difference is what the transactions cost.
"""

import os
import time
from collections.abc import Callable
from typing import Any

from bench.load_raw import summary
from bench.rdkafka import BulkProducer

CALL_MS = 30_000


def prepare(spec: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """spec: bootstrap, topic, record_bytes, records (of each), seconds, transactional_id ('': none)."""
    config = {
        "acks": "all",
        "bootstrap.servers": spec["bootstrap"],
        "batch.num.messages": "1000000",
        "batch.size": str(1 << 20),
        "enable.idempotence": "true",
        # A flush, which every commit begins with, does not wait for it.
        "linger.ms": "5000",
        "log_level": "3",
        "message.max.bytes": str(2 << 20),
        "statistics.interval.ms": "0",
    }
    if spec["transactional_id"]:
        config["transactional.id"] = spec["transactional_id"]
    payload = os.urandom(spec["record_bytes"])
    producer = BulkProducer(config, spec["topic"], payload, spec["records"], wakes_at_once=True)
    if spec["transactional_id"]:
        producer.init_transactions(CALL_MS)
    write = _transaction if spec["transactional_id"] else _acknowledged
    before = producer.high_watermark(CALL_MS)
    write(producer, spec["records"])
    return lambda: _run(producer, write, spec, before)


def _transaction(producer: BulkProducer, records: int) -> None:
    producer.begin_transaction()
    producer.send_all(records)
    producer.commit_transaction(CALL_MS)


def _acknowledged(producer: BulkProducer, records: int) -> None:
    producer.send_all(records)
    producer.flush(CALL_MS)


def _run(
    producer: BulkProducer, write: Callable[[BulkProducer, int], None], spec: dict[str, Any], before: int
) -> dict[str, Any]:
    """`before`: the high watermark before the first of all."""
    latencies_s: list[float] = []
    cpu, started = time.process_time(), time.perf_counter()
    last = started
    while last - started < spec["seconds"]:
        write(producer, spec["records"])
        now = time.perf_counter()
        latencies_s.append(now - last)
        last = now
    client_cpu_s = time.process_time() - cpu
    written = (len(latencies_s) + 1) * (spec["records"] + bool(spec["transactional_id"]))
    _check_stored(producer, before, written)
    return {**summary(latencies_s, last - started), "client_cpu_s": client_cpu_s}


def _check_stored(producer: BulkProducer, before: int, written: int) -> None:
    """A commit is acknowledged when it is decided: its marker, before which the partition does not end for a
    reader of what is committed, may come a little later."""
    deadline_s = time.monotonic() + CALL_MS / 1000
    while (grown := producer.high_watermark(CALL_MS) - before) < written:
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"{written} records and markers were acknowledged and {grown} are stored")
        time.sleep(0.01)
