"""Long work in slices: in turns, large ones one at a time, dropped with whoever asked for it."""

from collections.abc import Generator
from typing import Any

import pytest

from ottla.broker.slices import FIRST_US, LARGE, ORPHANS_MAX, SLICE_US, STEP_US, TO_BE_FINISHED, Slices


def work(trace: list[str], name: str, steps: int, *, large_after: int = 10**9) -> Generator[Any, None, str]:
    for step in range(steps):
        trace.append(name)
        yield LARGE if step >= large_after else None
    return f"{name} is done"


def going_on(steps: Generator[Any, None, str]) -> Generator[Any, None, str]:
    return steps


def test_short_work_is_done_at_once() -> None:
    slices = Slices()
    assert slices.run(1, work([], "a", 3), going_on) == (True, "a is done")
    assert slices.next_ms() is None


def test_long_work_goes_on_in_bounded_slices() -> None:
    slices, trace = Slices(), list[str]()
    assert slices.run(1, work(trace, "a", 1_000), going_on) == (False, None)
    assert len(trace) <= FIRST_US // STEP_US
    while slices.next_ms() is not None:
        before = len(trace)
        slices.on_deadline(now_ms=5)
        assert len(trace) - before <= SLICE_US // STEP_US
    assert len(trace) == 1_000


def test_long_jobs_take_turns() -> None:
    slices, trace = Slices(), list[str]()
    for name in "ab":
        slices.run(name, work(trace, name, 500), going_on)
    while slices.jobs:
        slices.on_deadline(now_ms=5)
    assert set(trace[:100]) == set(trace[-200:]) == {"a", "b"}


def test_large_jobs_are_begun_one_at_a_time_and_others_in_between() -> None:
    slices, trace = Slices(), list[str]()
    slices.put(1, work(trace, "first", 300))
    slices.put(2, work(trace, "second", 300))
    slices.run(3, work(trace, "small", 100), going_on)
    while slices.next_ms() is not None:
        slices.on_deadline(now_ms=5)
    assert trace.index("second") > len(trace) - 1 - trace[::-1].index("first")
    assert len(trace) - 1 - trace[::-1].index("small") < trace.index("second")


def test_a_job_that_becomes_large_waits_for_its_turn() -> None:
    slices, trace = Slices(), list[str]()
    slices.put(1, work(trace, "large", 300))
    slices.on_deadline(now_ms=5)
    assert slices.run(2, work(trace, "grows", 10, large_after=3), going_on) == (False, None)
    assert trace.count("grows") == 4
    while slices.next_ms() is not None:
        slices.on_deadline(now_ms=5)
    assert trace[-6:] == ["grows"] * 6


@pytest.mark.parametrize("is_large", [False, True])
def test_what_is_dropped_goes_no_further_and_holds_up_nobody(is_large: bool) -> None:
    slices, trace = Slices(), list[str]()
    if is_large:
        slices.put(1, work(trace, "dropped", 500))
    else:
        slices.run(1, work(trace, "dropped", 500), going_on)
    slices.on_deadline(now_ms=5)
    slices.put(2, work(trace, "next", 10))
    before = trace.count("dropped")
    slices.drop(1)
    while slices.next_ms() is not None:
        slices.on_deadline(now_ms=5)
    assert trace.count("dropped") == before < 500
    assert trace.count("next") == 10


def changing(trace: list[str], name: str) -> Generator[Any, None, None]:
    yield TO_BE_FINISHED
    yield from work(trace, name, 500)


@pytest.mark.parametrize("is_large", [False, True])
def test_what_has_begun_to_change_things_is_finished_even_if_its_owner_is_gone(is_large: bool) -> None:
    slices, trace = Slices(), list[str]()
    if is_large:
        slices.put(1, changing(trace, "kept"))
        slices.put(1, changing(trace, "not begun"))
        slices.on_deadline(now_ms=5)
    else:
        slices.run(1, changing(trace, "kept"), lambda steps: steps)
    slices.drop(1)
    assert trace.count("kept") < 500
    while slices.next_ms() is not None:
        slices.on_deadline(now_ms=5)
    assert trace == ["kept"] * 500


def test_no_more_than_some_jobs_are_finished_for_owners_that_are_gone() -> None:
    slices, trace = Slices(), list[str]()
    for owner in range(2 * ORPHANS_MAX):
        slices.run(owner, changing(trace, str(owner)), lambda steps: steps)
        slices.drop(owner)
    while slices.next_ms() is not None:
        slices.on_deadline(now_ms=5)
    assert sum(trace.count(str(owner)) == 500 for owner in range(2 * ORPHANS_MAX)) == ORPHANS_MAX


def test_a_job_that_fails_does_not_hold_up_the_next_large_one() -> None:
    def failing() -> Generator[Any, None, None]:
        yield
        raise ValueError("a bug")

    slices, trace = Slices(), list[str]()
    slices.put(1, failing())
    slices.put(2, work(trace, "next", 10))
    with pytest.raises(ValueError, match="a bug"):
        slices.on_deadline(now_ms=5)
    slices.on_deadline(now_ms=5)
    assert trace == ["next"] * 10
