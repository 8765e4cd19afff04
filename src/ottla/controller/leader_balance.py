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
    topic_partition: Partition
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
        for topic_partition, members in replicas.items():
            if members and members[0] in self.total:
                self._count(topic_partition, members[0])

    def _count(self, topic_partition: Partition, broker: int) -> None:
        self.total[broker] += 1
        self.of_topic[topic_partition[0]][broker] += 1
        self.led[broker].setdefault(topic_partition[0], {})[topic_partition] = None

    def _apply(self, chain: list[Step]) -> None:
        for topic_partition, giver, taker in chain:
            members = self.replicas[topic_partition]
            members.remove(taker)
            members.insert(0, taker)
            self.total[giver] -= 1
            self.of_topic[topic_partition[0]][giver] -= 1
            del self.led[giver][topic_partition[0]][topic_partition]
            self._count(topic_partition, taker)

    def even_topics(self) -> bool:
        """Was anything changed?"""
        changed = False
        for topic, counts in self.of_topic.items():
            while chain := self._towards_even(counts, topic):
                self._apply(chain)
                changed = True
        return changed

    def _towards_even(self, counts: Counter[int], topic: str) -> list[Step]:
        for source in sorted(counts, key=lambda broker: (-counts[broker], broker)):
            ends = {broker for broker in counts if counts[source] - counts[broker] >= 2}
            if not ends:
                return []
            if chain := self._chain(source, ends, {topic}, lambda _topic_partition, _giver, _taker: True):
                return chain
        return []

    def even_totals(self) -> bool:
        changed = False
        while chain := self._towards_even_totals():
            self._apply(chain)
            changed = True
        return changed

    def _towards_even_totals(self) -> list[Step]:
        def has_less(topic_partition: Partition, giver: int, taker: int) -> bool:
            counts = self.of_topic[topic_partition[0]]
            return counts[giver] > counts[taker]

        for source in sorted(self.total, key=lambda broker: (-self.total[broker], broker)):
            ends = {broker for broker in self.total if self.total[source] - self.total[broker] >= 2}
            if not ends:
                return []
            if chain := self._chain(source, ends, self.of_topic, has_less):
                return chain
            for topic, counts in self.of_topic.items():
                less = {broker for broker in ends if counts[source] > counts[broker]}
                if less and (
                    chain := self._chain(source, less, {topic}, lambda _topic_partition, _giver, _taker: True)
                ):
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
            for topic, led in self.led[giver].items():
                if topic not in topics:
                    continue
                for topic_partition in led:
                    for taker in self.replicas[topic_partition]:
                        is_passed_over = taker == source or taker in came or taker not in self.total
                        if is_passed_over or not may(topic_partition, giver, taker):
                            continue
                        came[taker] = Step(topic_partition, giver, taker)
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
