"""Threads for what may block: syncing files, writing to the keeper. They touch nothing of the broker's.

A job runs in its thread; its result is posted back to the loop, where `done` is called with it. Jobs of one
`Worker` with one thread run in the order they were given.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ottla.base.metrics import Histogram


@dataclass(slots=True)
class WorkerTimes:
    """What workers of one name had to do, counted on the loop's thread."""

    jobs: int = 0  # that wait or run
    durations: Histogram = field(default_factory=Histogram)


class Worker:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, name: str, threads: int, times: WorkerTimes | None = None
    ) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"ottla-{name}")
        self._times = times or WorkerTimes()

    def submit(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        begun_ns = 0

        def run() -> Any:
            nonlocal begun_ns
            begun_ns = time.monotonic_ns()
            return job()

        def finished(future: "Future[Any]") -> None:
            duration_us = (time.monotonic_ns() - begun_ns) // 1000
            error = future.exception()
            result = None if error else future.result()
            self._loop.call_soon_threadsafe(self._end, duration_us, done, result, error)

        self._times.jobs += 1
        self._pool.submit(run).add_done_callback(finished)

    def _end(
        self,
        duration_us: int,
        done: Callable[[Any, BaseException | None], None],
        result: Any,
        error: BaseException | None,
    ) -> None:
        self._times.jobs -= 1
        self._times.durations.observe(duration_us)
        done(result, error)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
