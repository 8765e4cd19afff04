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
        self.stable, self.resting_s, self.longest_s, self.looks = -1, 0.0, 0.0, 0

    def on_look(self, stable: int, end: int, since_s: float) -> None:
        self.looks += 1
        if stable != self.stable or stable == end:
            self.stable, self.resting_s = stable, 0.0
        elif since_s < BLIND_S:
            self.resting_s += since_s
            self.longest_s = max(self.longest_s, self.resting_s)


class StabilityWatch:
    """`with StabilityWatch(...) as watch:` looks until the end of the block.

    A thread for each partition: whoever asks for one whose leader is away waits, and sees none of the others.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._rests = [Rest() for _ in range(partitions)]
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(number, rest), daemon=True)
            for number, rest in enumerate(self._rests)
        ]

    @property
    def longest_s(self) -> float:
        return max(rest.longest_s for rest in self._rests)

    @property
    def looks(self) -> int:
        """At the partition that was looked at least."""
        return min(rest.looks for rest in self._rests)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(60)

    def _watch(self, number: int, rest: Rest) -> None:
        offsets, looked = Offsets(self._bootstrap), time.monotonic()
        while not self._is_over.wait(LOOK_S):
            try:
                stable = offsets.end(self._topic, number, COMMITTED)
                end = offsets.end(self._topic, number, UNCOMMITTED)
            except KafkaException:
                continue
            now = time.monotonic()
            rest.on_look(stable, end, now - looked)
            looked = now
        offsets.close()
