"""Long work in slices: in turns, few large ones at a time, dropped with whoever asked for it."""

from collections.abc import Generator
from typing import Any

import pytest
from tests.support.brokers import jobs_under_way, jobs_waiting

from ottla.broker.long_work import (
    FIRST_US,
    GROWN_MAX,
    IN_A_ROW,
    LARGE,
    LARGE_PLACES,
    ORPHANS_MAX,
    PLACES,
    SHARE_US,
    SLICE_US,
    STEP_US,
    TO_BE_FINISHED,
    Slices,
)


def work(trace: list[str], name: str, steps: int, *, large_after: int = 10**9) -> Generator[Any, None, str]:
    for step in range(steps):
        trace.append(name)
        yield LARGE if step >= large_after else None
    return f"{name} is done"


def going_on(steps: Generator[Any, None, str]) -> Generator[Any, None, str]:
    return steps


def finish(slices: Slices) -> None:
    while slices.next_ms() is not None:
        slices.on_deadline(now_ms=5)


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
    finish(slices)
    assert set(trace[:100]) == set(trace[-200:]) == {"a", "b"}


def test_few_large_jobs_are_under_way_and_others_in_between() -> None:
    slices, trace = Slices(), list[str]()
    for name in ("first", "second", "third"):
        slices.put(name, work(trace, name, 300))
    slices.run(3, work(trace, "small", 100), going_on)
    while slices.next_ms() is not None:
        slices.on_deadline(now_ms=5)
        assert len(slices.clients.large.under_way) <= LARGE_PLACES
    assert trace.index("third") > len(trace) - 1 - trace[::-1].index("first")
    assert len(trace) - 1 - trace[::-1].index("small") < trace.index("third")


def test_a_job_that_becomes_large_waits_for_its_turn() -> None:
    slices, trace = Slices(), list[str]()
    for at in range(LARGE_PLACES):
        slices.put(at, work(trace, "large", 300))
    slices.on_deadline(now_ms=5)
    assert slices.run("grows", work(trace, "grows", 10, large_after=3), going_on) == (False, None)
    while trace.count("large") < 300 * LARGE_PLACES - 200:
        slices.on_deadline(now_ms=5)
    assert trace.count("grows") == 4
    finish(slices)
    assert trace.count("grows") == 10


def test_a_broker_does_not_wait_for_clients() -> None:
    slices, trace = Slices(), list[str]()
    for at in range(50):
        slices.put(at, work(trace, "client", 1_000), size=100_000)
    slices.on_deadline(now_ms=5)
    before = len(trace)
    slices.put("follower", work(trace, "follower", 300), size=16_000_000, is_broker=True)
    while "follower" in {job.owner for job in (*jobs_under_way(slices), *jobs_waiting(slices))}:
        slices.on_deadline(now_ms=5)
    assert len(trace) - before < 3 * 300, "it has every other turn"


def test_a_smaller_request_passes_larger_ones_and_those_have_their_turn_all_the_same() -> None:
    slices, trace = Slices(), list[str]()
    for at in range(20):
        slices.put(at, work(trace, f"large {at}", 200), size=1_000_000)
    slices.on_deadline(now_ms=5)
    slices.put("small", work(trace, "small", 200), size=100_000)
    for at in range(5):
        slices.put(f"tiny {at}", work(trace, f"tiny {at}", 200), size=70_000)
    finish(slices)
    begun = list(dict.fromkeys(trace))
    assert begun.index("small") > begun.index("tiny 4"), "the smallest come first"
    assert begun.index("small") < begun.index("large 19")
    assert begun.index("large 2") < begun.index("tiny 4"), "one place is for who came first"


def test_all_that_is_begun_in_one_round_takes_a_share_of_it() -> None:
    slices, trace = Slices(), list[str]()
    for at in range(300):
        slices.run(at, work(trace, f"{at}", 100), going_on, size=100)
    assert len(trace) * STEP_US <= SHARE_US
    assert not slices.may_begin(100, is_broker=False)
    assert slices.may_begin(100, is_broker=True)
    assert slices.run("b", work([], "b", 3), going_on, is_broker=True) == (True, "b is done")
    slices.spent_us = 0
    assert slices.may_begin(100, is_broker=False)


def test_few_requests_that_are_not_small_are_decoded_at_a_time() -> None:
    slices = Slices()
    begun = 0
    for round_ in range(200):
        slices.spent_us = 0
        if slices.may_begin(50_000, is_broker=False):
            begun += 1
            slices.run(round_, work([], "a", 10_000, large_after=20), going_on, size=50_000)
        else:
            slices.put(round_, work([], "a", 10_000), size=50_000, is_large=False)
        slices.on_deadline(now_ms=5)
    held = [job for job in (*jobs_under_way(slices), *jobs_waiting(slices)) if job.is_begun]
    assert len(held) <= GROWN_MAX + PLACES + LARGE_PLACES + 1
    assert slices.may_begin(100, is_broker=False)


def test_now_and_then_no_large_job_is_under_way() -> None:
    """Garbage is collected then."""
    slices = Slices()
    for at in range(5 * IN_A_ROW):
        slices.put(at, work([], "a", 50 + 10 * (at % 7)))
    pauses = 0
    while slices.next_ms() is not None:
        slices.on_deadline(now_ms=5)
        pauses += not slices.is_large
    assert pauses >= 5


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
        slices.on_deadline(now_ms=5)
        slices.put(1, changing(trace, "not begun"))
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
        slices.spent_us = 0  # another round
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
