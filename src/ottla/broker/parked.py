"""Answers that wait: each is filed under the keys of what it waits for, and woken by exactly that.

Rules: `ready` is told what it is woken for: the key, or what the waker says it is about, where a key stands
for many things. A parked answer leaves once, through `reply`: when `ready` gives one on a wake, or `expire`
at the deadline. Whoever closes a connection drops what is parked for it. What has left keeps at most its
place among the deadlines, and nothing it held: some deadlines are days away.
"""

import heapq
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Key: TypeAlias = Hashable

UNNAMED = -1
DEADLINES_MIN = 64  # fewer are not worth clearing
ROUND: Key = "the next round of the loop"  # where what is done at once is limited for all together


@dataclass(slots=True, eq=False, kw_only=True)
class Parked:
    keys: tuple[Key, ...]
    deadline_ms: int
    ready: Callable[[Key, int], Any | None]
    expire: Callable[[int], Any]
    held_bytes: int = 0  # of the request
    cost: int = 0  # what it takes to go on, as far as is known: decides who is next
    outlives_client: bool = False  # there is nothing to answer: who hangs up does not take it back
    owner: Hashable = None
    operation: int = UNNAMED  # the API of the request that waits
    reply: Callable[[Any], None] | None = None


@dataclass(slots=True)
class Waiting:
    """Everything that is parked, by key, by owner and by deadline."""

    by_key: dict[Key, dict[Parked, None]] = field(default_factory=dict)
    by_owner: dict[Hashable, dict[Parked, None]] = field(default_factory=dict)
    deadlines: list[tuple[int, int, Parked]] = field(default_factory=list)
    sequence: int = 0
    parked: int = 0

    def park(self, parked: Parked) -> bool:
        """Is its deadline the next of all?"""
        for key in parked.keys:
            self.by_key.setdefault(key, {})[parked] = None
        self.by_owner.setdefault(parked.owner, {})[parked] = None
        self.sequence += 1
        self.parked += 1
        heapq.heappush(self.deadlines, (parked.deadline_ms, self.sequence, parked))
        return self.deadlines[0][2] is parked

    def wake(self, key: Key, now_ms: int, about: Key = None) -> None:
        """Ask all that wait under a key whether they are ready; `about` is what it is woken for, if there is
        more to say of that than the key."""
        waiting = self.by_key.get(key)
        if not waiting:
            return
        for parked in list(waiting):
            self._wake(parked, key if about is None else about, now_ms)

    def wake_in_turn(self, key: Key, room: Callable[[], int], now_ms: int) -> None:
        """Wake who costs least, as long as there is room for it, and the one that has waited longest, so that
        nobody waits for ever."""
        waiting = self.by_key.get(key)
        if not waiting:
            return
        first, *others = waiting
        for parked in sorted(others, key=lambda parked: parked.cost):
            if parked.cost > room():
                break
            self._wake(parked, key, now_ms)
        self._wake(first, key, now_ms)

    def _wake(self, parked: Parked, about: Key, now_ms: int) -> None:
        if parked.reply is None:
            return  # it left while the others were woken
        answer = parked.ready(about, now_ms)
        if answer is not None:
            self._leave(parked, answer)

    def on_tick(self, now_ms: int) -> None:
        while self.deadlines and self.deadlines[0][0] <= now_ms:
            parked = heapq.heappop(self.deadlines)[2]
            if parked.reply is not None:
                self._leave(parked, parked.expire(now_ms))

    def next_deadline_ms(self) -> int | None:
        while self.deadlines and self.deadlines[0][2].reply is None:
            heapq.heappop(self.deadlines)
        return self.deadlines[0][0] if self.deadlines else None

    def drop(self, owner: Hashable) -> None:
        for parked in list(self.by_owner.get(owner, ())):
            self._forget(parked)

    def held_bytes(self, owner: Hashable) -> int:
        return sum(parked.held_bytes for parked in self.by_owner.get(owner, ()))

    def outlives_client(self, owner: Hashable) -> bool:
        return any(parked.outlives_client for parked in self.by_owner.get(owner, ()))

    def __iter__(self) -> Iterator[Parked]:
        return (parked for owned in self.by_owner.values() for parked in owned)

    def _leave(self, parked: Parked, answer: Any) -> None:
        reply = parked.reply
        self._forget(parked)
        assert reply is not None, "a parked answer leaves once"
        reply(answer)

    def _forget(self, parked: Parked) -> None:
        """Unfile it. Its deadline stays in the heap for now, and is skipped when it comes up."""
        parked.reply = None
        _unfile(self.by_owner, parked.owner, parked)
        for key in parked.keys:
            _unfile(self.by_key, key, parked)
        parked.keys, parked.ready, parked.expire = (), _gone, _gone
        self.parked -= 1
        if len(self.deadlines) > max(2 * self.parked, DEADLINES_MIN):
            self.deadlines = [deadline for deadline in self.deadlines if deadline[2].reply is not None]
            heapq.heapify(self.deadlines)


def _unfile(index: dict[Hashable, dict[Parked, None]], key: Hashable, parked: Parked) -> None:
    filed = index.get(key)
    if filed is not None and filed.pop(parked, parked) is None and not filed:
        del index[key]


def _gone(*_: Any) -> None:
    raise AssertionError("a parked answer leaves once")
