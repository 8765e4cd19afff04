"""What is called flat, and what is not."""

import math
import random

import pytest
from tests.soak.run import POOLED_THREADS, judge
from tests.soak.slopes import Sample, Verdict, slope_of

CYCLE_S = 150.0
LIMIT = 4.0


def samples(
    per_hour: float, hours: float = 1.0, births: tuple[float, ...] = (0.0,), seed: int = 1
) -> list[Sample]:
    """A saw (what retention does) with some noise, and lives that begin at other levels and warm up."""
    chance = random.Random(seed)
    drawn = []
    for at_s in range(0, int(hours * 3600), 5):
        life = max(number for number, birth in enumerate(births) if at_s >= birth * 3600)
        age_s = at_s - births[life] * 3600
        warming = -20.0 * math.exp(-age_s / 15)
        saw = 10.0 * (age_s % CYCLE_S) / CYCLE_S
        drawn.append(
            Sample(at_s, life, 50 + 5 * life + warming + saw + chance.gauss(0, 1) + per_hour * age_s / 3600)
        )
    return drawn


def test_a_saw_that_comes_back_is_flat() -> None:
    slope = slope_of(samples(0.0), CYCLE_S)
    assert slope.verdict(LIMIT) is Verdict.FLAT
    assert slope.per_hour == pytest.approx(0, abs=slope.error)


def test_a_slow_leak_under_the_saw_is_found_and_measured() -> None:
    slope = slope_of(samples(8.0), CYCLE_S)
    assert slope.verdict(LIMIT) is Verdict.GROWS
    assert slope.per_hour == pytest.approx(8, abs=2 * slope.error)


def test_lives_at_different_levels_share_a_slope() -> None:
    """Each life begins five above the one before: that is no growth within any of them."""
    births = (0.0, 0.15, 0.3, 0.45)
    assert slope_of(samples(0.0, births=births), CYCLE_S).verdict(LIMIT) is Verdict.FLAT
    assert slope_of(samples(20.0, births=births), CYCLE_S).verdict(LIMIT) is Verdict.GROWS


def test_what_shrinks_is_flat() -> None:
    assert slope_of(samples(-30.0), CYCLE_S).verdict(LIMIT) is Verdict.FLAT


@pytest.mark.parametrize("hours", [0.0, 0.05, 0.13])
def test_a_run_of_few_cycles_cannot_tell(hours: float) -> None:
    assert slope_of(samples(0.0, hours), CYCLE_S).verdict(LIMIT) is Verdict.UNCLEAR


@pytest.mark.parametrize(
    ("threads", "hours", "verdict"),
    [
        (POOLED_THREADS, 1.0, Verdict.FLAT),  # a pool that was full for the first time
        (POOLED_THREADS + 20, 1.0, Verdict.GROWS),
        (POOLED_THREADS, 0.05, Verdict.UNCLEAR),
    ],
)
def test_threads_may_fill_their_pools_at_any_time_and_not_more(
    threads: int, hours: float, verdict: Verdict
) -> None:
    end_s = int(hours * 3600)
    counted = [Sample(at_s, 0, 12 if at_s < end_s / 2 else threads) for at_s in range(0, end_s, 5)]
    [finding] = judge({("alone", "threads"): counted}, CYCLE_S)
    assert finding.verdict is verdict
