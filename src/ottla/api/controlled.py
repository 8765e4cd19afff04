"""Requests that only the controller carries out: several partitions, each decided in its topic's turn, one
answer when all are settled.

A broker that is not the controller refuses them with NOT_CONTROLLER, and the client looks for the
controller in the metadata. What is written after the deadline is written all the same; nobody is told.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ottla.api.call import Call
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.broker import Broker
from ottla.broker.parked import Key, Parked
from ottla.broker.state_changes import Ask
from ottla.controller.draft import Draft
from ottla.controller.image import Topic

R = TypeVar("R")


def unknown(topic: Topic | None, name: str, partition: int) -> ApiError:
    """The error for what is not there, which needs no turn of its topic."""
    missing = f"topic '{name}'" if topic is None else f"partition {name}-{partition}"
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no {missing}.")


@dataclass(slots=True, eq=False)
class Item(Generic[R]):
    """What one partition is answered with; the error stays None if all went well."""

    result: R
    draft: Draft | None = None
    error: ApiError | None = None
    is_settled: bool = False


@dataclass(slots=True, eq=False)
class Asks(Generic[R]):
    """`respond` makes the response of all items, once each has its draft or its error."""

    broker: Broker
    respond: Callable[[list[Item[R]]], Any]
    items: list[Item[R]] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    unsettled: int = 0

    def add(self, result: R, topic: str, decide: Callable[[Draft], None]) -> None:
        item = Item(result)
        self.items.append(item)
        self.unsettled += 1
        ask = Ask(topic, decide, lambda draft, error, now_ms: self._settle(item, draft, error, now_ms))
        self.asks.append(ask)
        self.broker.state_changes.ask(ask)

    def refuse(self, result: R, error: ApiError) -> None:
        """A partition that needs no decision: it is wrong as it is."""
        self.items.append(Item(result, error=error, is_settled=True))

    def answer(self, call: Call, timeout_ms: int) -> Any:
        self.broker.state_changes.work(call.now_ms)
        if not self.unsettled:
            return self.respond(self.items)
        return Parked(
            keys=(self,), deadline_ms=call.now_ms + max(timeout_ms, 0), ready=self._ready, expire=self._expire
        )

    def _settle(self, item: Item[R], draft: Draft | None, error: ApiError | None, now_ms: int) -> None:
        item.draft, item.error, item.is_settled = draft, error, True
        self.unsettled -= 1
        if not self.unsettled:
            self.broker.waiting.wake(self, now_ms)

    def _ready(self, _key: Key, _now_ms: int) -> Any | None:
        return None if self.unsettled else self.respond(self.items)

    def _expire(self, _now_ms: int) -> Any:
        for ask in self.asks:
            ask.is_dropped = True
        for item in self.items:
            if not item.is_settled:
                item.error = ApiError(ErrorCode.REQUEST_TIMED_OUT, "The keeper did not answer in time.")
        return self.respond(self.items)
