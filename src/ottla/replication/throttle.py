"""A rate that replication traffic keeps to: bytes over the last eleven seconds, as Kafka measures them
(replication.quota.window.num, replication.quota.window.size.seconds), and which replicas it holds for."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.log.config import LogConfig
from ottla.replication.partition import Partition

SAMPLE_MS = 1_000
SAMPLES = 11


@dataclass(slots=True)
class Throttle:
    samples: deque[tuple[int, int]] = field(default_factory=deque)  # (begin in ms, bytes)
    total: int = 0

    def record(self, size: int, now_ms: int) -> None:
        self._expire(now_ms)
        if self.samples and now_ms - self.samples[-1][0] < SAMPLE_MS:
            begin, before = self.samples.pop()
            self.samples.append((begin, before + size))
        else:
            self.samples.append((now_ms, size))
        self.total += size

    def is_exceeded(self, rate: int, now_ms: int) -> bool:
        """Were there more than `rate` bytes a second? A measurement of less than all samples but one counts
        as that long, so that the first bytes after a silence are not taken for a flood."""
        self._expire(now_ms)
        if not self.samples:
            return False
        elapsed_ms = max(now_ms - self.samples[0][0], (SAMPLES - 1) * SAMPLE_MS)
        return self.total * 1_000 > rate * elapsed_ms

    def _expire(self, now_ms: int) -> None:
        while self.samples and now_ms - self.samples[0][0] >= SAMPLES * SAMPLE_MS:
            self.total -= self.samples.popleft()[1]


@dataclass(slots=True)
class ReplicationThrottle:
    """What this broker sends, or fetches, of partitions whose config `lists` it, for replicas out of sync."""

    broker_id: int
    lists: Callable[[LogConfig], tuple[str, ...]]
    rate: Callable[[], int]
    traffic: Throttle = field(default_factory=Throttle)

    def applies_to(self, partition: Partition, replica: int) -> bool:
        listed = self.lists(partition.log.config)
        if not listed or replica in partition.isr:
            return False
        return listed == ("*",) or f"{partition.topic_partition.partition}:{self.broker_id}" in listed

    def is_exceeded(self, now_ms: int) -> bool:
        return self.traffic.is_exceeded(self.rate(), now_ms)

    def record(self, size: int, now_ms: int) -> None:
        self.traffic.record(size, now_ms)
