"""Threads for what may block: syncing files, writing to the keeper. They touch nothing of the broker's.

A job runs in its thread; its result is posted back to the loop, where `done` is called with it. Jobs of one
`Worker` with one thread run in the order they were given.
"""

import asyncio
import time
from collections.abc import Callable, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ottla.base.metrics import Histogram

T = TypeVar("T")


@dataclass(slots=True)
class WorkerTimes:
    """What workers of one name had to do, counted on the loop's thread."""

    jobs: int = 0  # that wait or run
    queue: Sized = ()  # those that are not given to a thread yet
    durations: Histogram = field(default_factory=Histogram)


class Worker:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, name: str, threads: int, times: WorkerTimes | None = None
    ) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"ottla-{name}")
        self.times = times or WorkerTimes()

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

        self.times.jobs += 1
        self._pool.submit(run).add_done_callback(finished)

    def _end(
        self,
        duration_us: int,
        done: Callable[[Any, BaseException | None], None],
        result: Any,
        error: BaseException | None,
    ) -> None:
        self.times.jobs -= 1
        self.times.durations.observe(duration_us)
        done(result, error)

    def close(self) -> None:
        self._pool.shutdown(wait=True)


async def run_in_thread(job: Callable[[], T], name: str, on_cancelled: Callable[[], None]) -> T:
    """Run a job that takes long in a thread of its own, and wait for it. What the job touches is the thread's
    until then, so whoever is cancelled meanwhile waits all the same; `on_cancelled` may shorten that."""
    with ThreadPoolExecutor(1, thread_name_prefix=name) as pool:
        result = asyncio.get_running_loop().run_in_executor(pool, job)
        cancelled: asyncio.CancelledError | None = None
        while not result.done():
            try:
                await asyncio.wait([result])
            except asyncio.CancelledError as error:
                cancelled = error
                on_cancelled()
        if cancelled is not None:
            result.exception()  # nobody asks for it any more
            raise cancelled
        return result.result()
