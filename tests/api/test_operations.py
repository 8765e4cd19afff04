"""Answers of coordinators that rest on several operations."""

from dataclasses import dataclass
from typing import Any

from tests.api.harness import Machine

from ottla.api.call import Call
from ottla.api.coordinated import answer_together
from ottla.broker.parked import Parked


@dataclass
class Operation:
    """One whose reply can be sent from some time on, whether it is woken for that or not."""

    ready_ms: int
    reply: str | None = None
    keys: tuple[str, ...] = ("a key",)

    def ready(self, now_ms: int) -> str | None:
        if now_ms >= self.ready_ms:
            self.reply = "done"
        return self.reply


def together(*operations: Any) -> Any:
    broker = Machine().broker
    return answer_together(Call(broker, 100, 0, ""), operations, lambda replies: replies, 1_000)


def test_what_became_ready_before_it_was_parked_is_answered_at_once() -> None:
    assert together(Operation(99), Operation(100)) == ["done", "done"]


def test_what_is_not_ready_waits() -> None:
    parked = together(Operation(99), Operation(101))
    assert isinstance(parked, Parked)
    assert parked.ready("a key", 100) is None
    assert parked.ready("a key", 101) == ["done", "done"]
