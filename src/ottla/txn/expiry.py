"""Transactions whose time is up are aborted, and ids that nobody has used for long are forgotten.

Both look at some ids at a time, so that nobody has to wait for it. What cannot be stored is left to the next
round.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from ottla.base.errors import ApiError
from ottla.coordinator.turn import TimerKey, Turn

IDS_PER_SLICE: Final = 500
RECORDS_PER_SLICE: Final = 500
SLICE_PAUSE_MS: Final = 10


class Rounds:
    """Something that is done with every id of a shard, at an interval. `ids` are those that a round begins
    with; `visit` does it with one, and may refuse."""

    def __init__(
        self,
        name: str,
        interval_ms: int,
        ids: Callable[[], Iterable[str]],
        visit: Callable[[Turn, str], None],
    ) -> None:
        self.round: Final = (name,)
        self.slice: Final = (name, "slice")
        self._interval_ms = interval_ms
        self._ids = ids
        self._visit = visit
        self._left: list[str] = []  # ids that this round is yet to look at

    def on_loaded(self, turn: Turn) -> None:
        turn.set_timer(self.round, turn.now_ms + self._interval_ms)

    def on_timer(self, turn: Turn, key: TimerKey) -> None:
        if key == self.round:
            self._left = self._left or list(self._ids())
            turn.set_timer(self.round, turn.now_ms + self._interval_ms)
        turn.is_divisible = True
        for _ in range(min(IDS_PER_SLICE, len(self._left))):
            with suppress(ApiError):
                self._visit(turn, self._left.pop())
            if len(turn.records) >= RECORDS_PER_SLICE:
                break
        if self._left:
            turn.set_timer(self.slice, turn.now_ms + SLICE_PAUSE_MS)
