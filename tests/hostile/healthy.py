"""A well-behaved client in the background, who must notice nothing of what is done to its brokers."""

import os
import threading
import time
from typing import Any, Protocol, Self

import confluent_kafka
import psutil
from confluent_kafka.admin import AdminClient
from tests.kafka_clients.harness import wait_for

TOPIC = "healthy"
ROUNDS_MIN = 20
WAIT_S_MAX = 2.0 if os.environ.get("OTTLA_SLOW_MACHINE") else 0.2


class Target(Protocol):
    """A broker, or a cluster of them."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def pids(self) -> list[int]: ...


class Healthy(threading.Thread):
    """Produces a record, waits for its acknowledgement, reads it back, and begins again.

    No round may take longer than `WAIT_S_MAX`. That a machine stalls or has other work is not the broker's
    fault: one round in ten may be slower by the clock, unless a broker was at work in it that long. On a busy
    machine, where processes share caches and cores, the same work takes up to twice the processor's time.
    """

    def __init__(self, target: Target) -> None:
        super().__init__(daemon=True)
        self.errors: list[str] = []
        self.seconds: list[float] = []
        self.kept: list[float] = []  # of those, how long a broker was at work
        self._brokers = [psutil.Process(pid) for pid in target.pids]
        self._stopping = threading.Event()
        self._begun = threading.Event()
        self._address = target.bootstrap
        common = {
            "bootstrap.servers": target.bootstrap,
            "error_cb": lambda error: self.errors.append(str(error)),
        }
        self._producer = confluent_kafka.Producer(
            {**common, "linger.ms": 0, "acks": "all", "enable.idempotence": True}
        )
        self._consumer = confluent_kafka.Consumer(
            {
                **common,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 500,
            }
        )

    def __enter__(self) -> Self:
        self.start()
        assert self._begun.wait(20), "the healthy client could not begin"
        return self

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        if error is None:
            wait_for(lambda: len(self.seconds) >= ROUNDS_MIN or not self.is_alive(), 30, "the healthy client")
        self._stopping.set()
        self.join(30)
        if error is None:
            self.check()

    def check(self) -> None:
        assert not self.is_alive()
        assert self.errors == []
        assert max(self.kept) < WAIT_S_MAX * _slowness(), self.summary()
        assert sorted(self.seconds)[-1 - max(3, len(self.seconds) // 10)] < WAIT_S_MAX, self.summary()

    def summary(self) -> str:
        rounds = sorted(self.seconds)
        numbers = (rounds[len(rounds) // 2], rounds[-1], max(self.kept))
        return "{} rounds: median {:.0f} ms, longest {:.0f} ms, a broker at work for {:.0f} ms".format(
            len(rounds), *(1000 * number for number in numbers)
        )

    def run(self) -> None:
        try:
            wait_for(self._is_topic_there, 20, TOPIC)
            number = self._send(b"first")
            self._consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, number)])
            self._read(number)
            self._begun.set()
            while not self._stopping.wait(0.002):
                began, before = time.monotonic(), self._busy_s()
                self._read(self._send(b"x" * 200))
                self.seconds.append(time.monotonic() - began)
                busy_s = max(after - at for after, at in zip(self._busy_s(), before, strict=True))
                self.kept.append(min(self.seconds[-1], busy_s))
        finally:
            self._begun.set()
            self._consumer.close()

    def _is_topic_there(self) -> bool:
        """To ask creates it. By another client: the producer would look again only after a second."""
        admin = AdminClient({"bootstrap.servers": self._address, "log_level": 0})
        return bool(admin.list_topics(TOPIC, timeout=20).topics[TOPIC].partitions)

    def _busy_s(self) -> list[float]:
        return [float(times.user + times.system) for times in (one.cpu_times() for one in self._brokers)]

    def _send(self, value: bytes) -> int:
        """The offset it got."""
        offsets: list[int] = []

        def report(error: Any, message: Any) -> None:
            if error:
                self.errors.append(str(error))
            offsets.append(message.offset())

        self._producer.produce(TOPIC, value, partition=0, on_delivery=report)
        if self._producer.flush(20) or not offsets:
            self.errors.append("no acknowledgement in 20 s")
        return offsets[0]

    def _read(self, offset: int) -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            for message in self._consumer.consume(1, 0.5):
                if message.error():
                    self.errors.append(str(message.error()))
                elif message.offset() == offset:
                    return
        self.errors.append(f"record {offset} was not read in 20 s")


class Peak(threading.Thread):
    """The most memory that a broker has had; in a cluster, any of them."""

    def __init__(self, target: Target) -> None:
        super().__init__(daemon=True)
        self.rss_bytes = 0
        self._brokers = [psutil.Process(pid) for pid in target.pids]
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(0.02):
            self.rss_bytes = max(self.rss_bytes, *(one.memory_info().rss for one in self._brokers))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        self._is_over.set()
        self.join(30)


def _slowness() -> float:
    """How much longer work takes because the machine has other work: 1 to 2."""
    return min(max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0), 2.0)
