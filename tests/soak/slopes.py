"""Is something flat? The slope of samples over time, with its error.

A process that is restarted begins a new life: lives share a slope and nothing else. Within a cycle (retention
deletes, compaction works, visitors come and go) everything swings, so what counts is the mean of each whole
cycle. What a life begins with is left out (its first cycle, a minute at least), as memory and threads are
taken there and kept, and so is its last cycle, which a restart has cut. The error is twice the standard error
of the slope.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

WARM_S = 60.0


class Sample(NamedTuple):
    at_s: float
    life: int
    figure: float


class Verdict(StrEnum):
    FLAT = "flat"
    GROWS = "GROWS"
    UNCLEAR = "too short to tell"


class Slope(NamedTuple):
    """Per hour. `error` is infinite where there are too few points to tell."""

    mean: float
    per_hour: float
    error: float
    points: int

    def verdict(self, limit_per_hour: float) -> Verdict:
        """Growth within the limit, and shrinking, are flat."""
        if self.per_hour - self.error > limit_per_hour:
            return Verdict.GROWS
        return Verdict.FLAT if self.per_hour + self.error <= limit_per_hour else Verdict.UNCLEAR


def cycle_means(samples: Iterable[Sample], cycle_s: float) -> list[list[tuple[float, float]]]:
    """For each life, when (in hours) and how much in the mean, for the cycles that count."""
    born_s: dict[int, float] = {}
    cycles: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for at_s, life, figure in samples:
        age_s = at_s - born_s.setdefault(life, at_s)
        cycles[life][int(age_s / cycle_s)].append(figure)
    warm = max(1, math.ceil(WARM_S / cycle_s))
    return [
        [
            ((number + 0.5) * cycle_s / 3600, sum(figures) / len(figures))
            for number, figures in sorted(of_life.items())[:-1]
            if number >= warm
        ]
        for of_life in cycles.values()
    ]


def slope_of(samples: Iterable[Sample], cycle_s: float) -> Slope:
    lives = [points for points in cycle_means(samples, cycle_s) if points]
    points = sum(map(len, lives))
    if not points:
        return Slope(math.nan, math.nan, math.inf, 0)
    mean = sum(figure for life in lives for _, figure in life) / points
    # Each point against the middle of its life.
    apart = [
        (hours - sum(at for at, _ in life) / len(life), figure - sum(each for _, each in life) / len(life))
        for life in lives
        for hours, figure in life
    ]
    wide = sum(hours**2 for hours, _ in apart)
    freedom = points - len(lives) - 1
    if freedom < 1 or not wide:
        return Slope(mean, 0.0, math.inf, points)
    per_hour = sum(hours * figure for hours, figure in apart) / wide
    left = sum((figure - per_hour * hours) ** 2 for hours, figure in apart)
    return Slope(mean, per_hour, 2 * math.sqrt(left / freedom / wide), points)
