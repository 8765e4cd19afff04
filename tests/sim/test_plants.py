"""The checkers are checked: with a known bug in the code, a seed fails before long."""

import os
from concurrent.futures import ProcessPoolExecutor

import pytest
from tests.sim.plants import PLANTS, planted
from tests.sim.run import run

SEEDS_MAX = 200
MISFITS = ("AttributeError", "NameError", "TypeError")  # of a plant that the code has outgrown
WORKERS = min(os.cpu_count() or 1, 4)


def first_failure(text: str) -> tuple[int, str] | None:
    """How many seeds it took, and what the last of them found."""
    with planted(text):
        for seed in range(SEEDS_MAX):
            problem = run(seed).problem
            if problem is not None:
                return seed + 1, problem
    return None


@pytest.mark.timeout(1200)
def test_every_planted_bug_is_found():
    with ProcessPoolExecutor(WORKERS) as pool:
        found = dict(zip(PLANTS, pool.map(first_failure, PLANTS), strict=True))
    assert [text for text, failure in found.items() if failure is None] == []
    problems = {text: failure[1] for text, failure in found.items() if failure is not None}
    assert {text: said for text, said in problems.items() if any(word in said for word in MISFITS)} == {}
