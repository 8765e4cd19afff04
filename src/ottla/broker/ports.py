"""What a broker is given from outside: chance, and whom it calls back with what came of its effects."""

from collections.abc import Callable
from typing import Any, Protocol

from ottla.controller.keeper import Outcome

OnOutcome = Callable[[Outcome, int], None]  # of a write to the keeper; now_ms
OnAnswer = Callable[[Any, int], None]  # the answer, or None if there will be none; now_ms


class Random(Protocol):
    """Where ids come from: the operating system, or a seed."""

    def randbytes(self, count: int, /) -> bytes: ...
    def randrange(self, low: int, high: int, /) -> int: ...
