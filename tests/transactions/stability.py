"""Watches how long the last stable offset of a partition rests below the high watermark."""

import threading
import time
from typing import Self

from confluent_kafka import KafkaException
from tests.transactions.reading import COMMITTED, UNCOMMITTED, Offsets

LOOK_S = 0.2
# Who could not look for so long, as brokers were away or the machine stalled, cannot say what was then.
BLIND_S = 2.0


class Rest:
    """Of one partition: for how long its last stable offset has not moved with records behind it."""

    def __init__(self) -> None:
        self.stable, self.resting_s, self.longest_s = -1, 0.0, 0.0

    def on_look(self, stable: int, end: int, since_s: float) -> None:
        if stable != self.stable or stable == end:
            self.stable, self.resting_s = stable, 0.0
        elif since_s < BLIND_S:
            self.resting_s += since_s
            self.longest_s = max(self.longest_s, self.resting_s)


class StabilityWatch:
    """`with StabilityWatch(...) as watch:` looks until the end of the block."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._bootstrap, self._topic, self._partitions = bootstrap, topic, partitions
        self._rests = [Rest() for _ in range(partitions)]
        self.looks = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def longest_s(self) -> float:
        return max(rest.longest_s for rest in self._rests)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(60)

    def _watch(self) -> None:
        offsets, looked = Offsets(self._bootstrap), time.monotonic()
        while not self._is_over.wait(LOOK_S):
            try:
                stable = offsets.ends(self._topic, self._partitions, COMMITTED)
                end = offsets.ends(self._topic, self._partitions, UNCOMMITTED)
            except KafkaException:
                continue
            now = time.monotonic()
            for number, rest in enumerate(self._rests):
                rest.on_look(stable[number], end[number], now - looked)
            looked, self.looks = now, self.looks + 1
        offsets.close()
