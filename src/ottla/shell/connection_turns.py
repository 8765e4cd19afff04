"""Connections that have sent much at once, which take turns.

One read brings thousands of small requests, and a round of the loop reads from everybody. All that is served
in one round shares `SHARE_US`. When that is used up, each connection still has one request served, and the
rest of what it has sent is served in the next round: it is not read from until then.
"""

from collections.abc import Callable
from typing import Protocol

SHARE_US = 20_000


class Waiter(Protocol):
    """A connection, as far as it matters here."""

    def go_on(self) -> None: ...


class Turns:
    def __init__(self, elapsed_us: Callable[[], int]) -> None:
        self.elapsed_us = elapsed_us
        self._spent_us = 0
        self._waiting: dict[Waiter, None] = {}

    def __bool__(self) -> bool:
        """Must there be another round?"""
        return bool(self._waiting) or self._spent_us > SHARE_US // 2

    def is_over(self, begun_us: int) -> bool:
        """Has who began then, with all who were served before it, used up the round?"""
        return self._spent_us + self.elapsed_us() - begun_us > SHARE_US

    def wait(self, connection: Waiter) -> None:
        self._waiting[connection] = None

    def spend(self, begun_us: int) -> int:
        """Answers how much it was."""
        spent_us = self.elapsed_us() - begun_us
        self._spent_us += spent_us
        return spent_us

    def begin_round(self) -> None:
        """All are served again, those who wait first."""
        self._spent_us = 0
        waiting, self._waiting = self._waiting, {}
        for connection in waiting:
            connection.go_on()
