"""The checkers are checked: with a known bug in the code, a seed fails before long."""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from tests.sim.disk_plants import DISK_PLANTS
from tests.sim.limits import SLOW_DISKS_FROM
from tests.sim.metrics_plants import METRICS_PLANTS
from tests.sim.plants import PASSED_OVER, PLANTS
from tests.sim.run import run
from tests.sim.transaction_plants import TRANSACTION_PLANTS
from tests.sim.world import METRICS_FROM, TRANSACTIONS_FROM

SEEDS_MAX = 200
MISFITS = ("AttributeError", "NameError", "TypeError")  # of a plant that the code has outgrown
WORKERS = min(os.cpu_count() or 1, 4)


ALL = {**PLANTS, **TRANSACTION_PLANTS, **METRICS_PLANTS, **DISK_PLANTS}


@contextmanager
def planted(text: str) -> Iterator[None]:
    with ExitStack() as stack:
        ALL[text](stack)
        yield


def first_failure(text: str) -> tuple[int, str] | None:
    """How many seeds it took, and what the last of them found. One that fails by itself has found nothing."""
    first = TRANSACTIONS_FROM if text in TRANSACTION_PLANTS else 0
    first = METRICS_FROM if text in METRICS_PLANTS else first
    first = SLOW_DISKS_FROM if text in DISK_PLANTS else first
    first += PASSED_OVER.get(text, 0)
    for seed in range(first, first + SEEDS_MAX):
        with planted(text):
            problem = run(seed).problem
        if problem is not None and run(seed).problem is None:
            return seed - first + 1, problem
    return None


@pytest.mark.parametrize("text", ALL)
def test_what_is_planted_replaces_something_that_is_there(text: str):
    with planted(text):
        pass


@pytest.mark.timeout(1200)
def test_every_planted_bug_is_found():
    with ProcessPoolExecutor(WORKERS) as pool:
        found = dict(zip(ALL, pool.map(first_failure, ALL), strict=True))
    assert [text for text, failure in found.items() if failure is None] == []
    problems = {text: failure[1] for text, failure in found.items() if failure is not None}
    assert {text: said for text, said in problems.items() if any(word in said for word in MISFITS)} == {}
