"""Threads for what may block: syncing files, writing to the keeper. They touch nothing of the broker's.

A job runs in its thread; its result is posted back to the loop, where `done` is called with it. Jobs of one
`Worker` with one thread run in the order they were given.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Worker:
    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, threads: int) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    def submit(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        def finished(future: "Future[Any]") -> None:
            error = future.exception()
            result = None if error else future.result()
            self._loop.call_soon_threadsafe(done, result, error)

        self._pool.submit(job).add_done_callback(finished)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
