"""Known bugs of what is measured, to be planted (`plants`). They are looked for in seeds in which somebody
reads metrics."""

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from tests.sim.plants import Plant

from ottla.broker.group_lag import GroupLag


def _lost_answer(stack: ExitStack) -> None:
    original = GroupLag._on_answer

    def on_answer(self: GroupLag, leader: int, answer: Any, now_ms: int) -> None:
        if answer is not None:
            original(self, leader, answer, now_ms)

    stack.enter_context(patch.object(GroupLag, "_on_answer", on_answer))


def _first_end(stack: ExitStack) -> None:
    original = GroupLag._on_answer

    def on_answer(self: GroupLag, leader: int, answer: Any, now_ms: int) -> None:
        before = self._ends_before | self._ends
        original(self, leader, answer, now_ms)
        self._ends |= before

    stack.enter_context(patch.object(GroupLag, "_on_answer", on_answer))


METRICS_PLANTS: dict[str, Plant] = {
    "a leader whose answer was lost is never asked again": _lost_answer,
    "a partition ends for ever where it was first said to end": _first_end,
}
