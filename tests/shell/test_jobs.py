"""Jobs apart from the loop: whose turn it is, and what is kept of those nobody waits for."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

from ottla.broker.effects import Job
from ottla.broker.parked import Parked, Waiting
from ottla.log.validation import SLICE_ITEMS, SpentError
from ottla.shell.jobs import OLDEST_EVERY, PATIENCE, Jobs
from ottla.shell.metrics.workers import WorkerMetrics
from ottla.shell.worker import WorkerTimes


class Work:
    """A job that takes so many items, and says when it is done."""

    def __init__(self, name: str, items: int, done: list[str]) -> None:
        self.name, self.items, self.runs = name, items, 0
        self._done = done

    def run(self, pause: Callable[[], None]) -> None:
        self.runs += 1
        try:
            for _ in range(self.items // SLICE_ITEMS):
                pause()
        except SpentError:
            return
        self._done.append(self.name)


class Hand:
    """A worker that runs a job when it is told to."""

    def __init__(self) -> None:
        self.times = WorkerTimes()
        self._next: tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]] | None = None

    def submit(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        assert self._next is None, "one at a time"
        self._next = job, done

    def close(self) -> None: ...

    def work(self) -> None:
        while self._next is not None:
            (job, done), self._next = self._next, None
            done(job(), None)


class Desk:
    def __init__(self) -> None:
        self.hand, self.waiting = Hand(), Waiting()
        self.done: list[str] = []
        self.told: list[Job] = []
        self.jobs = Jobs(self.hand, lambda job, error: self.told.append(job) if error is None else None)  # type: ignore[arg-type]

    def put(self, name: str, items: int, *, cost: int | None = None, owner: int = 1) -> Work:
        work = Work(name, items, self.done)
        parked = Parked(
            keys=(work,), deadline_ms=1, ready=print, expire=print, owner=owner, reply=print,
            cost=items if cost is None else cost,
        )  # fmt: skip
        self.waiting.park(parked)
        self.jobs.put(parked)
        return work


def test_the_smallest_is_next_whoever_came_first() -> None:
    desk = Desk()
    for name, items in (("running", 9_000_000), ("huge", 900_000), ("large", 50_000), ("small", 40_000)):
        desk.put(name, items)
    desk.hand.work()
    assert desk.done == ["running", "small", "large", "huge"]
    assert len(desk.told) == 4


def test_the_one_that_waits_longest_has_a_turn_in_the_end() -> None:
    desk = Desk()
    for name in ("running", "huge", *(f"small {number}" for number in range(2 * OLDEST_EVERY))):
        desk.put(name, 900_000 if name in {"running", "huge"} else 2_000)
    desk.hand.work()
    assert desk.done.index("huge") == OLDEST_EVERY - 1


def test_what_takes_longer_than_it_said_is_put_back_behind_those_that_are_smaller() -> None:
    desk = Desk()
    desk.put("running", 5_000)
    liar = desk.put("liar", 400_000, cost=1)
    desk.put("honest", 40_000)
    desk.hand.work()
    assert desk.done == ["running", "honest", "liar"]
    assert 400_000 / PATIENCE**5 < SLICE_ITEMS
    assert 2 <= liar.runs <= 5
    assert len(desk.told) == 3


def test_what_nobody_waits_for_is_neither_run_nor_kept() -> None:
    desk = Desk()
    desk.put("running", 5_000)
    left = weakref.WeakSet(desk.put(f"gone {owner}", 5_000, owner=owner) for owner in range(2, 50))
    for owner in range(2, 50):
        desk.waiting.drop(owner)
    gc.collect()
    assert len(left) == 0
    desk.hand.work()
    assert desk.done == ["running"]
    desk.put("next", 5_000)
    desk.hand.work()
    assert desk.done == ["running", "next"]


def test_nothing_is_begun_once_the_broker_stops() -> None:
    desk = Desk()
    desk.put("running", 500)
    desk.put("next", 500)
    desk.jobs.close()
    desk.hand.work()
    assert desk.done == ["running"]


def test_jobs_that_wait_for_their_turn_are_counted() -> None:
    desk = Desk()
    for number in range(3):
        desk.put(f"{number}", SLICE_ITEMS)
    metrics = WorkerMetrics({"job": desk.hand.times})
    assert dict(metrics.read(0))[WorkerMetrics.JOBS] == [(("job",), 2)], "one is in the worker's hand"
    desk.hand.work()
    assert dict(metrics.read(0))[WorkerMetrics.JOBS] == [(("job",), 0)]
