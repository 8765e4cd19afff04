"""Answers that are kept for a moment: many pages, one question.

Who asks while somebody else is asking waits for that answer. An error is not kept, but everybody who waited
for it gets it. `forget` is for after a change: whoever made it wants to see it.
"""

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
ENTRIES_MAX = 1000


class Kept:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: dict[Hashable, tuple[float, Any]] = {}  # until when, and what
        self._asked: dict[Hashable, Future[Any]] = {}
        self._changes = 0

    def get(self, key: Hashable, seconds: float, ask: Callable[[], T]) -> T:
        with self._lock:
            until_s, answer = self._answers.get(key, (0.0, None))
            if self._clock() < until_s:
                kept: T = answer
                return kept
            waiting = self._asked.get(key)
            if waiting is None:
                mine = self._asked[key] = Future()
                changes = self._changes
        if waiting is not None:
            shared: T = waiting.result()
            return shared
        try:
            fresh = ask()
        except BaseException as error:
            with self._lock:
                self._drop(key, mine)
            mine.set_exception(error)
            mine.exception()  # somebody has looked at it: it is raised here
            raise
        with self._lock:
            self._drop(key, mine)
            if changes == self._changes:  # else it may be older than the change
                self._make_room()
                self._answers[key] = self._clock() + seconds, fresh
        mine.set_result(fresh)
        return fresh

    def forget(self, key: Hashable = None) -> None:
        """Something has changed: ask again, also for what is being asked now; or only for one answer."""
        with self._lock:
            if key is not None:
                self._answers.pop(key, None)
                return
            self._changes += 1
            self._answers.clear()
            self._asked.clear()

    def _drop(self, key: Hashable, asked: "Future[Any]") -> None:
        if self._asked.get(key) is asked:
            del self._asked[key]

    def _make_room(self) -> None:
        if len(self._answers) >= ENTRIES_MAX:
            now_s = self._clock()
            self._answers = {key: entry for key, entry in self._answers.items() if entry[0] > now_s}
        while len(self._answers) >= ENTRIES_MAX:
            del self._answers[next(iter(self._answers))]
