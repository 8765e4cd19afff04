"""A well-behaved client in the background, who must notice nothing of what is done to its broker."""

import threading
import time
from types import TracebackType
from typing import Any, Self

import confluent_kafka
import psutil
from tests.clients.harness import BrokerProcess, wait_for

TOPIC = "healthy"
ROUNDS_MIN = 20


class Healthy(threading.Thread):
    """Produces a record, waits for its acknowledgement, reads it back, and begins again.

    A machine that stands still is not the broker's fault: a few rounds may be slow by the clock, unless the
    broker was at work in them all the time.
    """

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(daemon=True)
        self.errors: list[str] = []
        self.seconds: list[float] = []
        self.kept: list[float] = []  # of those, how long the broker was at work
        self._broker = psutil.Process(broker.process.pid)
        self._stopping = threading.Event()
        self._started = threading.Event()
        common = {
            "bootstrap.servers": broker.bootstrap,
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
        assert self._started.wait(20), "the healthy client could not begin"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            wait_for(lambda: len(self.seconds) >= ROUNDS_MIN or not self.is_alive(), 30, "the healthy client")
        self._stopping.set()
        self.join(30)
        if error is None:
            self.check()

    def check(self) -> None:
        assert not self.is_alive()
        assert self.errors == []
        spared = max(3, len(self.seconds) // 100)
        assert sorted(self.seconds)[-1 - spared] < 1.0
        assert max(self.kept) < 5.0

    def run(self) -> None:
        try:
            number = self._send(b"first")
            self._consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, number)])
            self._read(number)
            self._started.set()
            while not self._stopping.wait(0.002):
                began, busy_s = time.monotonic(), self._busy_s()
                self._read(self._send(b"x" * 200))
                self.seconds.append(time.monotonic() - began)
                self.kept.append(min(self.seconds[-1], self._busy_s() - busy_s))
        finally:
            self._started.set()
            self._consumer.close()

    def _busy_s(self) -> float:
        times = self._broker.cpu_times()
        return float(times.user + times.system)

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
