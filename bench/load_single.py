"""One message at a time with confluent-kafka: produce, then wait for its delivery.

One thread and one Producer each.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from bench.load_raw import summary

TIMEOUT_S = 30.0


class _SendError(RuntimeError):
    pass


def _on_delivery(error: KafkaError | None, _message: Message) -> None:
    if error is not None:
        raise _SendError(str(error))


def _send(producer: Producer, topic: str, payload: bytes) -> None:
    producer.produce(topic, payload, partition=0, on_delivery=_on_delivery)
    if producer.flush(TIMEOUT_S):
        raise _SendError("a record was not acknowledged in time")


def prepare(spec: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """spec: bootstrap, topic, record_bytes, producers, seconds; security (how to connect)."""
    config = {
        "bootstrap.servers": spec["bootstrap"],
        "acks": "all",
        "linger.ms": 0,
        "log_level": 3,
        "socket.nagle.disable": True,
        **spec.get("security", {}),
    }
    payload = os.urandom(spec["record_bytes"])
    producers = [Producer(config) for _ in range(spec["producers"])]
    for producer in producers:
        _send(producer, spec["topic"], payload)

    def work(producer: Producer, deadline: float, latencies_s: list[float]) -> None:
        now = time.perf_counter()
        while now < deadline:
            _send(producer, spec["topic"], payload)
            done = time.perf_counter()
            latencies_s.append(done - now)
            now = done

    def run() -> dict[str, Any]:
        started = time.perf_counter()
        deadline = started + spec["seconds"]
        lists: list[list[float]] = [[] for _ in producers]
        with ThreadPoolExecutor(len(producers)) as pool:
            list(pool.map(work, producers, [deadline] * len(producers), lists))
        return summary([each for latencies_s in lists for each in latencies_s], time.perf_counter() - started)

    return run
