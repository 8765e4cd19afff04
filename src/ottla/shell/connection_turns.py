"""Connections that have sent much at once, which take turns.

One read brings thousands of small requests, and a round of the loop reads from everybody. All that is served
in one round shares `SHARE_NS`. When that is used up, each connection still has one request served, and the
rest of what it has sent is served in the next round: it is not read from until then.
"""

from typing import Protocol

SHARE_NS = 20_000_000


class Waiter(Protocol):
    """A connection, as far as it matters here."""

    def go_on(self) -> None: ...


class Turns:
    def __init__(self) -> None:
        self.spent_ns = 0  # in this round, by all connections
        self._waiting: dict[Waiter, None] = {}

    def __bool__(self) -> bool:
        """Must there be another round?"""
        return bool(self._waiting) or self.spent_ns > SHARE_NS // 2

    def is_over(self, spent_ns: int) -> bool:
        """Has who was served for so long, with all who were served before it, used up the round?"""
        return self.spent_ns + spent_ns > SHARE_NS

    def wait(self, connection: Waiter) -> None:
        self._waiting[connection] = None

    def begin_round(self) -> None:
        """All are served again, those who wait first."""
        self.spent_ns = 0
        waiting, self._waiting = self._waiting, {}
        for connection in waiting:
            connection.go_on()
