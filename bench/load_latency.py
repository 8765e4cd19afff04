"""From a producer to a consumer at a fixed rate: how long after its time does each record arrive?

A record's time is when it was to be sent, not when that came to pass: whatever delays the producer counts
(no coordinated omission). The consumer is a process of its own; both read the machine's steady clock.
"""

import json
import os
import struct
import time
from collections.abc import Callable
from typing import Any

WARM_UP = 500
FLUSH_S = 60.0
PATIENCE_S = 60.0
_STAMP = struct.Struct(">qq")  # when it was to be sent, and its number, or -1 if it does not count


def prepare(spec: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """spec: bootstrap, topic, record_bytes, rate (records a second), seconds."""
    count = int(spec["rate"] * spec["seconds"])
    told, telling = os.pipe()
    if os.fork() == 0:  # before librdkafka has any threads
        os.close(told)
        with os.fdopen(telling, "w", buffering=1) as out:
            _consume(spec, count, out.write)
        os._exit(0)
    os.close(telling)
    heard = os.fdopen(told)
    if heard.readline() != "assigned\n":
        raise RuntimeError("the consumer did not get ready")

    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": spec["bootstrap"], "acks": "all", "linger.ms": 0, "log_level": 3,
            "socket.nagle.disable": True, "queue.buffering.max.messages": 10_000_000,
        }
    )  # fmt: skip
    filler = os.urandom(max(0, spec["record_bytes"] - _STAMP.size))
    for _ in range(WARM_UP):
        producer.produce(spec["topic"], _STAMP.pack(0, -1) + filler, partition=0)
    producer.flush(FLUSH_S)

    def run() -> dict[str, Any]:
        started = time.monotonic_ns()
        step_ns = 1e9 / spec["rate"]
        sent = 0
        while sent < count:
            now = time.monotonic_ns()
            due = min(count, int((now - started) / step_ns) + 1)
            for number in range(sent, due):
                stamp = _STAMP.pack(started + int(number * step_ns), number)
                producer.produce(spec["topic"], stamp + filler, partition=0)
            sent = due
            producer.poll(0)
            time.sleep(max(0.0, (started + sent * step_ns - time.monotonic_ns()) / 1e9))
        if producer.flush(FLUSH_S):
            raise RuntimeError("not every record was acknowledged")
        seconds = (time.monotonic_ns() - started) / 1e9
        found = json.loads(heard.readline() or '{"error": "the consumer said nothing"}')
        if "error" in found:
            raise RuntimeError(found["error"])
        return {"records": count, "seconds": seconds, **found}

    return run


def _consume(spec: dict[str, Any], count: int, say: Callable[[str], Any]) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": spec["bootstrap"], "group.id": "bench", "enable.auto.commit": False,
            "log_level": 3, "socket.nagle.disable": True,
        }
    )  # fmt: skip
    topic_partition = TopicPartition(spec["topic"], 0)
    _, topic_partition.offset = consumer.get_watermark_offsets(topic_partition, PATIENCE_S)
    consumer.assign([topic_partition])
    consumer.poll(1.0)  # a first fetch is under way
    say("assigned\n")
    taken_ns: list[int] = []
    parent, heard = os.getppid(), time.monotonic()
    while len(taken_ns) < count:
        message = consumer.poll(1.0)
        now = time.monotonic_ns()
        if message is None and time.monotonic() - heard < PATIENCE_S and os.getppid() == parent:
            continue
        heard = time.monotonic()
        if message is None or message.error():
            reason = "nothing came" if message is None else message.error()
            say(json.dumps({"error": f"after {len(taken_ns)} of {count} records: {reason}"}) + "\n")
            return
        due_ns, number = _STAMP.unpack_from(message.value() or b"")
        if number >= 0:
            taken_ns.append(now - due_ns)
    taken_ns.sort()
    shares = {"p50_us": 0.5, "p99_us": 0.99, "p999_us": 0.999}
    found = {name: taken_ns[min(count - 1, int(share * count))] / 1e3 for name, share in shares.items()}
    say(json.dumps({**found, "longest_us": taken_ns[-1] / 1e3}) + "\n")
