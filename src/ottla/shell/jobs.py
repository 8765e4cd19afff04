"""Jobs of requests that would keep all others waiting, one at a time, in a thread that gives way.

Such a job is Python for the most part, and while it runs the loop does not. So it pauses after a millisecond
or so: whatever the loop has to do finds it asleep, or waits that long.

The smallest is next, so that nobody waits long behind somebody's huge ones; and once in a while the one that
has waited longest, so that it does not wait for ever. What takes several times as long as it said is put
back, and is run from the beginning when it is the smallest by what is known then.

A job is in the hands of whoever waits for it, and of the thread while it runs: with its client it goes.
"""

import time
from collections.abc import Callable
from typing import cast

from ottla.broker.effects import Job
from ottla.broker.parked import Parked
from ottla.log.validation import SLICE_ITEMS, SpentError
from ottla.shell.worker import Worker

PAUSE_S = 0.0005
OLDEST_EVERY = 8
PATIENCE = 4  # how many times as long as it said a job may take


class Jobs:
    def __init__(self, worker: Worker, done: Callable[[Job, BaseException | None], None]) -> None:
        self._worker = worker
        self._done = done
        self._queue: list[Parked] = []
        worker.times.queue = self._queue
        self._started = 0
        self._is_running = False
        self.is_closing = False

    def close(self) -> None:
        self.is_closing = True
        self._worker.close()

    def put(self, parked: Parked) -> None:
        """Run the job that this answer waits for, when it is its turn."""
        self._queue.append(parked)
        if not self._is_running:
            self._run_next()

    def _run_next(self) -> None:
        self._queue[:] = [parked for parked in self._queue if parked.reply is not None]
        self._is_running = bool(self._queue) and not self.is_closing
        if not self._is_running:
            return
        self._started += 1
        parked = self._queue[0]
        if self._started % OLDEST_EVERY:
            parked = min(self._queue, key=lambda parked: parked.cost)
        self._queue.remove(parked)
        job, run = cast(Job, parked.keys[0]), Run(self, PATIENCE * max(parked.cost, SLICE_ITEMS))
        self._worker.submit(
            lambda: job.run(run.pause), lambda _, error: self._on_run(job, parked, run, error)
        )

    def _on_run(self, job: Job, parked: Parked, run: "Run", error: BaseException | None) -> None:
        if run.items_left < 0:
            parked.cost = run.items
            self._queue.append(parked)
        self._run_next()
        if run.items_left >= 0:
            self._done(job, error)


class Run:
    """A job while it runs: how much it may still do."""

    def __init__(self, jobs: Jobs, items: int) -> None:
        self._jobs = jobs
        self.items = self.items_left = items

    def pause(self) -> None:
        if self._jobs.is_closing:
            raise InterruptedError("the broker stops")
        self.items_left -= SLICE_ITEMS
        if self.items_left < 0:
            raise SpentError
        time.sleep(PAUSE_S)
