"""Waiting for a condition, with a deadline: no test sleeps for a time that it depends on.

A condition is looked at once more after the deadline, because this process may have been stalled itself.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

WITHIN_S = 30.0
LOOK_S = 0.005


def wait_for(condition: Callable[[], T], within_s: float = WITHIN_S, what: str | Callable[[], str] = "") -> T:
    """The first true value of `condition`. `what` may be made once it is known that it was in vain."""
    deadline = time.monotonic() + within_s
    while True:
        is_late = time.monotonic() > deadline
        value = condition()
        if value:
            return value
        assert not is_late, (
            f"waited {within_s:.0f} s in vain for {what() if callable(what) else what or condition}"
        )
        time.sleep(LOOK_S)


def seconds_until(condition: Callable[[], object], within_s: float = WITHIN_S, what: str = "") -> float:
    """How long it took until the condition held."""
    began = time.monotonic()
    wait_for(condition, within_s, what)
    return time.monotonic() - began


async def until(condition: Callable[[], object], what: str = "", within_s: float = WITHIN_S) -> None:
    """The same on an event loop, which goes on meanwhile."""
    deadline = time.monotonic() + within_s
    while True:
        is_late = time.monotonic() > deadline
        if condition():
            return
        assert not is_late, f"waited {within_s:.0f} s in vain for {what or condition}"
        await asyncio.sleep(LOOK_S)
