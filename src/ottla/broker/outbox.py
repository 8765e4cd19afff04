"""The effects that a broker asks for, and the callbacks that wait for their results.

Effects are kept in order. The caller that gave the broker an input takes them and carries them out. Each
write to the keeper and each request to another broker has a token, by which its callback is called once.

Most requests are answered at once and leave nothing behind that becomes due: then nobody needs to look for
that again (`is_stirred`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ottla.broker.effects import DoChore, Effect, Send, WriteNodes
from ottla.broker.ports import OnAnswer, OnOutcome
from ottla.controller.keeper import Operation, Outcome
from ottla.log.chores import Chore


@dataclass(slots=True)
class Outbox:
    effects: list[Effect] = field(default_factory=list)
    is_stirred: bool = True  # something may be due earlier than when this was last set to False
    _written: dict[int, OnOutcome] = field(default_factory=dict)
    _answered: dict[int, OnAnswer] = field(default_factory=dict)
    _last_token: int = 0

    def put(self, effect: Effect) -> None:
        self.effects.append(effect)

    def do(self, chore: Chore) -> None:
        """Ask for a chore of the logs; its `done` is called once."""
        self.effects.append(DoChore(chore))

    def take(self) -> list[Effect]:
        taken, self.effects = self.effects, []
        return taken

    def write(self, operations: Iterable[Operation], on_outcome: OnOutcome) -> int:
        """Ask for a write to the keeper; `on_outcome` is called once, after its changes were applied."""
        self._last_token += 1
        self._written[self._last_token] = on_outcome
        self.effects.append(WriteNodes(self._last_token, tuple(operations)))
        return self._last_token

    def on_written(self, token: int, outcome: Outcome, now_ms: int) -> None:
        self._written.pop(token)(outcome, now_ms)

    def send(self, peer: int, channel: str, request: Any, on_answer: OnAnswer) -> int:
        """Send a request to another broker; `on_answer` is called once."""
        self._last_token += 1
        self._answered[self._last_token] = on_answer
        self.effects.append(Send(peer, channel, self._last_token, request))
        return self._last_token

    def on_peer_reply(self, token: int, answer: Any, now_ms: int) -> None:
        self._answered.pop(token)(answer, now_ms)
