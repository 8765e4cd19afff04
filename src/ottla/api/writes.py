"""Requests that change the keeper: several items, each its own write, one answer when all are decided.

An item plans its operations from the image as it is. If the keeper refuses them, somebody was faster: the
item plans again on what it now knows, which either gives other operations or the error that the client
should see. If the keeper's answer was lost, the item plans again too, with `is_doubtful`: what it finds done
may be its own doing.

Plans and responses know the items, and these their plans: what is done lets go of them, or the objects of a
large request would be garbage in a circle, which took 0.16 s to collect.

Whoever has asked for topics is answered when this broker has made its logs of them (`once_made`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.api.call import Call
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.broker import Broker
from ottla.broker.log_queue import NewLogs
from ottla.broker.long_work import TO_BE_FINISHED, Steps
from ottla.broker.parked import Key, Parked
from ottla.controller.keeper import Operation, Outcome, Unknown, Written

ATTEMPTS_MAX = 20
MADE_WAIT_MS_MAX = 10_000  # less than clients wait: for them what was written would have failed


@dataclass(slots=True, eq=False)
class Item:
    plan: Callable[[], Sequence[Operation]]
    error: ApiError | None = None
    decided: bool = False
    attempts: int = 0
    is_doubtful: bool = False

    def decide(self, error: ApiError | None = None) -> None:
        self.error, self.decided, self.plan = error or self.error, True, _no_more

    @property
    def error_code(self) -> int:
        return self.error.code if self.error else ErrorCode.NONE

    @property
    def error_message(self) -> str | None:
        return str(self.error) if self.error else None


@dataclass(slots=True, eq=False)
class Writes:
    broker: Broker
    respond: Callable[[], Any]
    items: list[Item] = field(default_factory=list)
    seen: int = 0
    attempts_max: int = ATTEMPTS_MAX

    def add(self, plan: Callable[[], Sequence[Operation]]) -> Item:
        item = Item(plan)
        self.items.append(item)
        return item

    def answer(self, call: Call, timeout_ms: int) -> Steps:
        """The response, at once if there is nothing to wait for."""
        yield TO_BE_FINISHED
        for item in self.items:
            self._attempt(item)
            yield
        if self._is_decided():
            return self._respond()
        return Parked(
            keys=(self,), deadline_ms=call.now_ms + max(timeout_ms, 0), ready=self._ready, expire=self._expire
        )

    def _attempt(self, item: Item) -> None:
        item.attempts += 1
        try:
            operations = item.plan()
        except ApiError as error:
            item.decide(error.with_traceback(None))  # there may be thousands
            return
        if not operations:
            item.decide()
            return
        self.broker.outbox.write(operations, lambda outcome, now_ms: self._on_outcome(item, outcome, now_ms))

    def _on_outcome(self, item: Item, outcome: Outcome, now_ms: int) -> None:
        if isinstance(outcome, Written):
            item.decide()
        elif item.attempts < self.attempts_max:
            item.is_doubtful = item.is_doubtful or isinstance(outcome, Unknown)
            self._attempt(item)
        else:
            item.decide(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, outcome.reason))
        self.broker.waiting.wake(self, now_ms)

    def _is_decided(self) -> bool:
        """Asked after every outcome: so it goes on where it stopped, not through all items again."""
        while self.seen < len(self.items) and self.items[self.seen].decided:
            self.seen += 1
        return self.seen == len(self.items)

    def _ready(self, _key: Key, _now_ms: int) -> Any | None:
        return self._respond() if self._is_decided() else None

    def _expire(self, _now_ms: int) -> Any:
        for item in self.items:
            if not item.decided:
                item.error = ApiError(ErrorCode.REQUEST_TIMED_OUT, "The keeper did not answer in time.")
        return self._respond()

    def _respond(self) -> Any:
        respond, self.respond = self.respond, _no_more
        return respond()


def once_made(call: Call, topics: Iterable[str], timeout_ms: int, respond: Callable[[], Any]) -> Any:
    """What `respond` says, as soon as this broker has made its logs of these topics, or it takes too long."""
    queue = call.broker.partitions.log_queue
    to_make: dict[Key, None] = {NewLogs(topic): None for topic in topics if queue.has_any_of(topic)}
    if not to_make:
        return respond()

    def ready(key: Key, _now_ms: int) -> Any | None:
        to_make.pop(key, None)
        return None if to_make else respond()

    return Parked(
        keys=tuple(to_make),
        deadline_ms=call.now_ms + min(max(timeout_ms, 0), MADE_WAIT_MS_MAX),
        ready=ready,
        expire=lambda _now_ms: respond(),
    )


def written(items: Mapping[str, Item]) -> list[str]:
    """The names of those that were not refused."""
    return [name for name, item in items.items() if item.error is None]


def _no_more() -> Any:
    raise AssertionError("what is decided is not planned, and a request is answered once")
