"""What was measured, sample by sample, for as long as somebody may want to look back.

A sample is a time and values by series. Series come and go: a group that was not there at a time has no value
then. Rates come from counters; one that goes back was started again, and has no rate at that moment.
"""

import threading
from collections import deque
from collections.abc import Hashable, Mapping
from itertools import pairwise
from typing import NamedTuple

SAMPLES_MAX = 360
SERIES_MAX = 2000


class Point(NamedTuple):
    time_s: float
    value: float | None


class History:
    def __init__(self) -> None:
        self._samples: deque[tuple[float, Mapping[Hashable, float]]] = deque(maxlen=SAMPLES_MAX)
        self._lock = threading.Lock()

    def add(self, time_s: float, values: Mapping[Hashable, float]) -> None:
        if len(values) > SERIES_MAX:
            values = dict(list(values.items())[:SERIES_MAX])
        with self._lock:
            self._samples.append((time_s, values))

    def points(self, series: Hashable) -> list[Point]:
        with self._lock:
            samples = list(self._samples)
        return [Point(time_s, values.get(series)) for time_s, values in samples]

    def last(self, series: Hashable) -> float | None:
        with self._lock:
            return self._samples[-1][1].get(series) if self._samples else None

    def is_rising(self, series: Hashable, samples: int) -> bool:
        """Whether it has been growing for so many samples, and never fell."""
        values = [point.value for point in self.points(series)][-samples:]
        numbers = [value for value in values if value is not None]
        if len(numbers) < samples:
            return False
        return all(after >= before for before, after in pairwise(numbers)) and numbers[-1] > numbers[0]


def rate(before: float | None, after: float | None, seconds: float) -> float | None:
    if before is None or after is None or after < before or seconds <= 0:
        return None
    return (after - before) / seconds
