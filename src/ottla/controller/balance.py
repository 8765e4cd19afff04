"""A balanced assignment that moves as little as it can: what `ottla cluster rebalance` does to a cluster
that has grown, shrunk or lost its balance.

Goals, each kept while the next is sought:

1. no replica on a broker that is not there (or is about to stop), and none twice;
2. no rack has two replicas of a partition while another has none;
3. of every topic, every broker has as many replicas as any other, or one more: a topic is as quick as the
   broker that has most of it;
4. every broker has as many replicas of all topics as any other, or one more;
5. and 6. the same for first places (preferred leaders), of every topic and of all, as far as another order
   of the same replicas can do it.

Replicas move one at a time from the fullest broker to the emptiest that may take one, so nothing moves that
need not; where racks stand against 3 and 4, racks win. For 4, a replica moves only to a broker that has less
of its topic, so that the two change places in 3. Leaders move along chains: a partition of a broker with too
many is led by another of its replicas (`leader_balance`).

Why it ends, and why a second run finds nothing: every move for 3 makes the sum of squares of the counts by
topic smaller, every move for 4 the sum of squares of the totals, and the first no larger; and it goes on
until there is none of either kind.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ottla.controller.leader_balance import Partition, even_leaders

Assignment: TypeAlias = Mapping[Partition, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Move:
    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def added(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.after if broker not in self.before)


def balance(present: Assignment, racks: Mapping[int, str | None]) -> list[Move]:
    """The partitions to reassign. `racks` names the brokers that should hold replicas."""
    if not racks:
        return []
    state = _Layout(present, racks)
    state.leave_missing()
    state.spread_racks()
    while state.even_topics() or state.even_totals():
        pass
    even_leaders(state.replicas, state.racks)
    return [
        Move(*topic_partition, present[topic_partition], tuple(replicas))
        for topic_partition, replicas in sorted(state.replicas.items())
        if tuple(replicas) != present[topic_partition]
    ]


class _Layout:
    """An assignment being changed, and how many replicas every broker has in it: of all topics, of each."""

    def __init__(self, present: Assignment, racks: Mapping[int, str | None]) -> None:
        self.racks = {broker: racks[broker] for broker in sorted(racks)}
        self.replicas = {
            topic_partition: list(replicas) for topic_partition, replicas in sorted(present.items())
        }
        self.load: Counter[int] = Counter(dict.fromkeys(self.racks, 0))
        self.topic_load = {topic: self.load.copy() for topic, _ in self.replicas}
        self.held: dict[int, dict[Partition, None]] = {broker: {} for broker in self.racks}
        self.held_of: dict[tuple[str, int], dict[Partition, None]] = defaultdict(dict)
        for topic_partition, replicas in self.replicas.items():
            for broker in replicas:
                if broker in self.racks:
                    self._take(topic_partition, broker)

    def _take(self, topic_partition: Partition, broker: int) -> None:
        self.load[broker] += 1
        self.topic_load[topic_partition[0]][broker] += 1
        self.held[broker][topic_partition] = None
        self.held_of[topic_partition[0], broker][topic_partition] = None

    def _move(self, topic_partition: Partition, source: int, target: int) -> None:
        replicas = self.replicas[topic_partition]
        replicas[replicas.index(source)] = target
        if source in self.racks:
            self.load[source] -= 1
            self.topic_load[topic_partition[0]][source] -= 1
            del self.held[source][topic_partition]
            del self.held_of[topic_partition[0], source][topic_partition]
        self._take(topic_partition, target)

    def _crowding(self, topic_partition: Partition, without: int) -> Counter[str | None]:
        """How many replicas of a partition every rack has, but for one of them."""
        return Counter(
            self.racks[broker]
            for broker in self.replicas[topic_partition]
            if broker != without and broker in self.racks
        )

    def _may_take(self, topic_partition: Partition, source: int, target: int) -> bool:
        """Would the move keep the racks as well spread as they are?"""
        if target in self.replicas[topic_partition]:
            return False
        if self.racks.get(source) == self.racks[target] and source in self.racks:
            return True
        others = self._crowding(topic_partition, source)
        free = min(others[rack] for rack in set(self.racks.values()))
        return others[self.racks[target]] == free

    def _emptiest(self, topic_partition: Partition, source: int) -> int | None:
        """Where a replica goes that must leave: the least crowded rack, there the broker with least."""
        others, of_topic = self._crowding(topic_partition, source), self.topic_load[topic_partition[0]]
        free = [broker for broker in self.racks if broker not in self.replicas[topic_partition]]
        return min(
            free,
            key=lambda broker: (others[self.racks[broker]], of_topic[broker], self.load[broker], broker),
            default=None,
        )

    def leave_missing(self) -> None:
        for topic_partition, replicas in self.replicas.items():
            for source in [broker for broker in replicas if broker not in self.racks]:
                target = self._emptiest(topic_partition, source)
                if target is not None:  # with too few brokers it stays where it was
                    self._move(topic_partition, source, target)

    def spread_racks(self) -> None:
        for topic_partition in self.replicas:
            while (better := self._better_rack(topic_partition)) is not None:
                self._move(topic_partition, *better)

    def _better_rack(self, topic_partition: Partition) -> tuple[int, int] | None:
        members = [broker for broker in self.replicas[topic_partition] if broker in self.racks]
        for source in sorted(members, key=lambda broker: (-self.load[broker], broker)):
            others, target = self._crowding(topic_partition, source), self._emptiest(topic_partition, source)
            if target is not None and others[self.racks[target]] < others[self.racks[source]]:
                return source, target
        return None

    def even_topics(self) -> bool:
        """Was anything moved?"""
        moved = False
        for topic in self.topic_load:
            while (move := self._next_of(topic)) is not None:
                self._move(*move)
                moved = True
        return moved

    def _next_of(self, topic: str) -> tuple[Partition, int, int] | None:
        """From the broker with most of a topic to the one with least; of several, by the totals."""
        counts = self.topic_load[topic]
        order = sorted(counts, key=lambda broker: (counts[broker], self.load[broker], broker))
        for source in reversed(order):
            for target in order:
                if counts[source] - counts[target] < 2:
                    break
                for topic_partition in self.held_of[topic, source]:
                    if self._may_take(topic_partition, source, target):
                        return topic_partition, source, target
        return None

    def even_totals(self) -> bool:
        """From the fullest that can give to the emptiest that can take, until nobody differs by two. A pair
        is looked through once, and again only after the others are done: a move may have made room. Was
        anything moved?"""
        moved, looking = False, dict[tuple[int, int], Iterator[Partition]]()
        while (move := self._next_move(looking)) is not None:
            self._move(*move)
            moved = True
        return moved

    def _next_move(
        self, looking: dict[tuple[int, int], Iterator[Partition]]
    ) -> tuple[Partition, int, int] | None:
        order = sorted(self.load, key=lambda broker: (self.load[broker], broker))
        for source in reversed(order):
            for target in order:
                if self.load[source] - self.load[target] < 2:
                    break
                if (source, target) not in looking:
                    looking[source, target] = iter(list(self.held[source]))
                for topic_partition in looking[source, target]:
                    counts = self.topic_load[topic_partition[0]]
                    if (
                        topic_partition in self.held[source]
                        and counts[source] > counts[target]
                        and self._may_take(topic_partition, source, target)
                    ):
                        return topic_partition, source, target
        return None


def summary(assignment: Iterable[tuple[int, ...]], brokers: Iterable[int]) -> dict[int, tuple[int, int]]:
    """For every broker, its replicas and its first places."""
    replicas, leaders = Counter[int](), Counter[int]()
    for members in assignment:
        replicas.update(members)
        leaders.update(members[:1])
    return {broker: (replicas[broker], leaders[broker]) for broker in sorted({*brokers, *replicas})}
