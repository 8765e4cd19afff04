"""A balanced assignment that moves as little as it can: what `ottla cluster rebalance` does to a cluster
that has grown, shrunk or lost its balance.

Goals, each kept while the next is sought:

1. no replica on a broker that is not there (or is about to stop), and none twice;
2. no rack has two replicas of a partition while another has none;
3. every broker has as many replicas as any other, or one more;
4. every broker is the first choice (preferred leader) of as many partitions as any other, or one more, by
   another order of the same replicas.

Replicas move one at a time from the fullest broker to the emptiest that may take one, so nothing moves that
need not; where racks stand against 3, racks win. Leaders move along chains: a partition of a broker with
too many is led by another of its replicas, who may give one of its own to a third.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Partition: TypeAlias = tuple[str, int]
Assignment: TypeAlias = Mapping[Partition, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Move:
    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def added(self) -> tuple[int, ...]:
        return tuple(one for one in self.after if one not in self.before)


def balance(present: Assignment, racks: Mapping[int, str | None]) -> list[Move]:
    """The partitions to reassign. `racks` names the brokers that should hold replicas."""
    if not racks:
        return []
    state = _Layout(present, racks)
    state.leave_missing()
    state.spread_racks()
    state.even_replicas()
    state.even_leaders()
    return [
        Move(*id, present[id], tuple(replicas))
        for id, replicas in sorted(state.replicas.items())
        if tuple(replicas) != present[id]
    ]


class _Layout:
    """An assignment being changed, and how many replicas and first places every broker has in it."""

    def __init__(self, present: Assignment, racks: Mapping[int, str | None]) -> None:
        self.racks = {broker: racks[broker] for broker in sorted(racks)}
        self.replicas = {id: list(replicas) for id, replicas in sorted(present.items())}
        self.load: Counter[int] = Counter(dict.fromkeys(self.racks, 0))
        self.held: dict[int, dict[Partition, None]] = {broker: {} for broker in self.racks}
        for id, replicas in self.replicas.items():
            for broker in replicas:
                if broker in self.racks:
                    self.load[broker] += 1
                    self.held[broker][id] = None

    def _move(self, id: Partition, source: int, target: int) -> None:
        replicas = self.replicas[id]
        replicas[replicas.index(source)] = target
        if source in self.racks:
            self.load[source] -= 1
            del self.held[source][id]
        self.load[target] += 1
        self.held[target][id] = None

    def _crowding(self, id: Partition, without: int) -> Counter[str | None]:
        """How many replicas of a partition every rack has, but for one of them."""
        return Counter(self.racks[one] for one in self.replicas[id] if one != without and one in self.racks)

    def _may_take(self, id: Partition, source: int, target: int) -> bool:
        """Would the move keep the racks as well spread as they are?"""
        if target in self.replicas[id]:
            return False
        if self.racks.get(source) == self.racks[target] and source in self.racks:
            return True
        others = self._crowding(id, source)
        free = min(others[rack] for rack in set(self.racks.values()))
        return others[self.racks[target]] == free

    def _emptiest(self, id: Partition, source: int) -> int | None:
        """Where a replica goes that must leave: the least crowded rack, there the broker with least."""
        others = self._crowding(id, source)
        free = [broker for broker in self.racks if broker not in self.replicas[id]]
        return min(free, key=lambda one: (others[self.racks[one]], self.load[one], one), default=None)

    def leave_missing(self) -> None:
        for id, replicas in self.replicas.items():
            for source in [one for one in replicas if one not in self.racks]:
                target = self._emptiest(id, source)
                if target is not None:  # with too few brokers it stays where it was
                    self._move(id, source, target)

    def spread_racks(self) -> None:
        for id in self.replicas:
            while (better := self._better_rack(id)) is not None:
                self._move(id, *better)

    def _better_rack(self, id: Partition) -> tuple[int, int] | None:
        members = [one for one in self.replicas[id] if one in self.racks]
        for source in sorted(members, key=lambda one: (-self.load[one], one)):
            others, target = self._crowding(id, source), self._emptiest(id, source)
            if target is not None and others[self.racks[target]] < others[self.racks[source]]:
                return source, target
        return None

    def even_replicas(self) -> None:
        """From the fullest that can give to the emptiest that can take, until nobody differs by two. A pair
        is looked through once, and again only after the others are done: a move may have made room."""
        moved = True
        while moved:
            moved, looking = False, dict[tuple[int, int], Iterator[Partition]]()
            while (found := self._next_move(looking)) is not None:
                self._move(*found)
                moved = True

    def _next_move(
        self, looking: dict[tuple[int, int], Iterator[Partition]]
    ) -> tuple[Partition, int, int] | None:
        order = sorted(self.load, key=lambda one: (self.load[one], one))
        for source in reversed(order):
            for target in order:
                if self.load[source] - self.load[target] < 2:
                    break
                if (source, target) not in looking:
                    looking[source, target] = iter(list(self.held[source]))
                for id in looking[source, target]:
                    if id in self.held[source] and self._may_take(id, source, target):
                        return id, source, target
        return None

    def even_leaders(self) -> None:
        leads = Counter(dict.fromkeys(self.racks, 0))
        led: dict[int, dict[Partition, None]] = {broker: {} for broker in self.racks}
        for id, replicas in self.replicas.items():
            if replicas[0] in self.racks:
                leads[replicas[0]] += 1
                led[replicas[0]][id] = None
        while True:
            for source in sorted(leads, key=lambda one: (-leads[one], one)):
                chain = self._chain(source, leads, led)
                if chain:
                    break
            else:
                return
            for id, giver, taker in chain:
                replicas = self.replicas[id]
                replicas.remove(taker)
                replicas.insert(0, taker)
                del led[giver][id]
                led[taker][id] = None
                leads[giver] -= 1
                leads[taker] += 1

    def _chain(
        self, source: int, leads: Counter[int], led: dict[int, dict[Partition, None]]
    ) -> list[tuple[Partition, int, int]]:
        """The shortest way for one first place from `source` to a broker that has two less."""
        came: dict[int, tuple[Partition, int]] = {}
        queue, seen = deque([source]), {source}
        while queue:
            giver = queue.popleft()
            for id in led[giver]:
                for taker in self.replicas[id]:
                    if taker in seen or taker not in self.racks:
                        continue
                    seen.add(taker)
                    came[taker] = id, giver
                    if leads[source] - leads[taker] >= 2:
                        return _way(came, source, taker)
                    queue.append(taker)
        return []


def _way(
    came: Mapping[int, tuple[Partition, int]], source: int, end: int
) -> list[tuple[Partition, int, int]]:
    chain = []
    while end != source:
        id, giver = came[end]
        chain.append((id, giver, end))
        end = giver
    return chain[::-1]


def summary(assignment: Iterable[tuple[int, ...]], brokers: Iterable[int]) -> dict[int, tuple[int, int]]:
    """For every broker, its replicas and its first places."""
    replicas, leaders = Counter[int](), Counter[int]()
    for one in assignment:
        replicas.update(one)
        leaders.update(one[:1])
    return {broker: (replicas[broker], leaders[broker]) for broker in sorted({*brokers, *replicas})}
