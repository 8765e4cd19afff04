"""First places (preferred leaders), spread evenly by another order of the same replicas: of every topic, then
of all topics together.

A first place moves along a chain: a partition that `source` is first in gets another of its replicas as the
first, who may give one of its own to a third. A chain within a topic changes the counts of its two ends
alone. A chain over several topics goes, in each step, from a broker with more of the topic to one with
less: so the two change places, and no topic is less even for it.

It ends for the same reason as `balance`: the sums of squares by topic, then in all, become smaller.
"""

from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Mapping
from typing import NamedTuple, TypeAlias

Partition: TypeAlias = tuple[str, int]


class Step(NamedTuple):
    id: Partition
    giver: int
    taker: int


def even_leaders(replicas: dict[Partition, list[int]], brokers: Iterable[int]) -> None:
    """Changes the order in `replicas`. Whoever is not among `brokers` neither gives nor takes."""
    places = _FirstPlaces(replicas, brokers)
    while places.even_topics() or places.even_totals():
        pass


class _FirstPlaces:
    def __init__(self, replicas: dict[Partition, list[int]], brokers: Iterable[int]) -> None:
        self.replicas = replicas
        self.total: Counter[int] = Counter(dict.fromkeys(brokers, 0))
        self.of_topic = {topic: self.total.copy() for topic, _ in replicas}
        self.led: dict[int, dict[str, dict[Partition, None]]] = {broker: {} for broker in self.total}
        for id, members in replicas.items():
            if members and members[0] in self.total:
                self._count(id, members[0])

    def _count(self, id: Partition, broker: int) -> None:
        self.total[broker] += 1
        self.of_topic[id[0]][broker] += 1
        self.led[broker].setdefault(id[0], {})[id] = None

    def _apply(self, chain: list[Step]) -> None:
        for id, giver, taker in chain:
            members = self.replicas[id]
            members.remove(taker)
            members.insert(0, taker)
            self.total[giver] -= 1
            self.of_topic[id[0]][giver] -= 1
            del self.led[giver][id[0]][id]
            self._count(id, taker)

    def even_topics(self) -> bool:
        """Was anything changed?"""
        changed = False
        for topic, counts in self.of_topic.items():
            while chain := self._towards_even(counts, topic):
                self._apply(chain)
                changed = True
        return changed

    def _towards_even(self, counts: Counter[int], topic: str) -> list[Step]:
        for source in sorted(counts, key=lambda one: (-counts[one], one)):
            ends = {one for one in counts if counts[source] - counts[one] >= 2}
            if not ends:
                return []
            if chain := self._chain(source, ends, {topic}, lambda _id, _giver, _taker: True):
                return chain
        return []

    def even_totals(self) -> bool:
        changed = False
        while chain := self._towards_even_totals():
            self._apply(chain)
            changed = True
        return changed

    def _towards_even_totals(self) -> list[Step]:
        def has_less(id: Partition, giver: int, taker: int) -> bool:
            counts = self.of_topic[id[0]]
            return counts[giver] > counts[taker]

        for source in sorted(self.total, key=lambda one: (-self.total[one], one)):
            ends = {one for one in self.total if self.total[source] - self.total[one] >= 2}
            if not ends:
                return []
            if chain := self._chain(source, ends, self.of_topic, has_less):
                return chain
            for topic, counts in self.of_topic.items():
                less = {one for one in ends if counts[source] > counts[one]}
                if less and (chain := self._chain(source, less, {topic}, lambda _id, _giver, _taker: True)):
                    return chain
        return []

    def _chain(
        self,
        source: int,
        ends: Container[int],
        topics: Container[str],
        may: Callable[[Partition, int, int], bool],
    ) -> list[Step]:
        """The shortest way for one first place from `source` to one of `ends`."""
        came: dict[int, Step] = {}
        queue = deque([source])
        while queue:
            giver = queue.popleft()
            for topic, ids in self.led[giver].items():
                if topic not in topics:
                    continue
                for id in ids:
                    for taker in self.replicas[id]:
                        known = taker == source or taker in came or taker not in self.total
                        if known or not may(id, giver, taker):
                            continue
                        came[taker] = Step(id, giver, taker)
                        if taker in ends:
                            return _way(came, source, taker)
                        queue.append(taker)
        return []


def _way(came: Mapping[int, Step], source: int, end: int) -> list[Step]:
    chain = []
    while end != source:
        chain.append(came[end])
        end = came[end].giver
    return chain[::-1]
