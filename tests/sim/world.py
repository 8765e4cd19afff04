"""Time, chance and the transcript: everything in a simulation happens as an event of one heap.

Rules: the world's clock is an integer, moved by the next event; whatever is left to chance asks `random`,
which is seeded; events of the same time run in the order in which they were asked for. So one integer gives
one run, and the digest of the transcript tells whether two runs were the same.
"""

import heapq
import random
import zlib
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from tests.sim.limits import ORDINARY, SLOW_DISKS_FROM, Limits

START_MS = 1_700_000_000_000
TAIL_LINES = 120
DISKS_FROM = 1_000_000  # from this seed on brokers have two log directories, and those fail
TRANSACTIONS_FROM = 2_000_000  # from this seed on there are transactions, and every eighth has both
METRICS_FROM = 3_000_000  # from this seed on somebody reads metrics, and every second has transactions


class ViolationError(AssertionError):
    """Something happened that must never happen."""


class World:
    def __init__(self, seed: int, *, keep_all: bool = False, limits: Limits = ORDINARY) -> None:
        self.seed, self.limits = seed, limits
        self.is_calm = False  # the faults are over
        self.on_end: Callable[[int], None] | None = None  # who waits for a broker to be told of an end
        self.reached = Counter[str]()  # how often a request was long, large or checked apart
        self.has_slow_disks = seed >= SLOW_DISKS_FROM
        self.has_metrics = METRICS_FROM <= seed < SLOW_DISKS_FROM
        self.has_transactions = seed >= TRANSACTIONS_FROM and (seed < METRICS_FROM or seed % 2 == 1)
        self.has_disks = seed >= DISKS_FROM and (not self.has_transactions or seed % 8 == 7)
        self.random = random.Random(seed)
        self.now_ms = START_MS
        self.digest = 0
        self.events_run = 0
        self.tail: deque[str] = deque(maxlen=None if keep_all else TAIL_LINES)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.at(self.now_ms + delay_ms, action)

    def at(self, time_ms: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (time_ms, self._sequence, action))

    def run_until(self, end_ms: int) -> None:
        events = self._events
        while events and events[0][0] <= end_ms:
            self.now_ms, _, action = heapq.heappop(events)
            self.events_run += 1
            action()
        self.now_ms = end_ms

    def note(self, *words: Any) -> None:
        line = f"{self.now_ms - START_MS:>7} {' '.join(map(str, words))}"
        self.digest = zlib.crc32(line.encode(), self.digest)
        self.tail.append(line)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def draw(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included; randint without its ceremony."""
        return low + int(self.random.random() * (high - low + 1))
