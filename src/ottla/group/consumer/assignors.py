"""Who reads which partition: the assignors of the coordinator (KIP-848), as pure functions.

`range` gives neighbours to neighbours, topic by topic, so that topics with the same subscribers and as many
partitions line up. Static members come first, by instance id, so that a restart under a new member id changes
nothing.

`uniform` spreads partitions evenly over members, whatever topic they are of, and moves as few as it can: a
member keeps what it has as long as it subscribes to it and does not have too much. If all members subscribe
to the same topics, their loads differ by one at most, and no assignment that does so keeps more. If not,
the loads are as even as the subscriptions let them be: no partition, and no chain of partitions from member
to member, could be handed on so that a member with two or more partitions less ends up with more.

Rules. An assignor is deterministic: it works in order of member and topic ids, never in that of a set. Every
partition of a topic that somebody subscribes to has one owner. Topics that are not in `partitions` do not
exist, and partitions beyond their number neither. Racks are not looked at, as in Kafka 4.
"""

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Assignment: TypeAlias = dict[str, dict[bytes, tuple[int, ...]]]
Slot: TypeAlias = tuple[bytes, int]
"""A partition: its topic and number."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """What an assignor knows of a member. `current` is its target assignment so far."""

    topics: frozenset[bytes]
    rack: str | None = None
    instance_id: str | None = None
    current: Mapping[bytes, Collection[int]] = field(default_factory=dict)


def range_(members: Mapping[str, MemberSpec], partitions: Mapping[bytes, int]) -> Assignment:
    def seniority(member: str) -> tuple[bool, str, str]:
        instance = members[member].instance_id
        return (instance is None, instance or "", member)

    assigned: Assignment = {member: {} for member in members}
    in_order = sorted(members, key=seniority)
    for topic, count in sorted(partitions.items()):
        subscribers = [member for member in in_order if topic in members[member].topics]
        start = 0
        for left, member in zip(range(len(subscribers), 0, -1), subscribers, strict=True):
            size = -((start - count) // left)  # what is left, divided by who is left, rounded up
            if size:
                assigned[member][topic] = tuple(range(start, start + size))
            start += size
    return assigned


def uniform(members: Mapping[str, MemberSpec], partitions: Mapping[bytes, int]) -> Assignment:
    in_order = sorted(members)
    kept, unassigned = _keep(in_order, members, partitions)
    if len({members[member].topics for member in in_order}) <= 1:
        _share_equally(in_order, kept, unassigned)
    else:
        _Balance(in_order, members, kept).run(unassigned, partitions)
    return {member: _by_topic(slots) for member, slots in kept.items()}


def _keep(
    in_order: list[str], members: Mapping[str, MemberSpec], partitions: Mapping[bytes, int]
) -> tuple[dict[str, list[Slot]], list[Slot]]:
    """What each member has and may keep, and the partitions that then have no owner."""
    owned: dict[bytes, set[int]] = {topic: set() for topic in partitions}
    kept: dict[str, list[Slot]] = {}
    for member in in_order:
        spec = members[member]
        slots: list[Slot] = []
        for topic in sorted(spec.topics & owned.keys() & spec.current.keys()):
            taken = owned[topic]
            mine = {partition for partition in spec.current[topic] if partition < partitions[topic]} - taken
            taken |= mine
            slots += [(topic, partition) for partition in sorted(mine)]
        kept[member] = slots
    subscribed: set[bytes] = set().union(*(members[member].topics for member in in_order))
    unassigned = [
        (topic, partition)
        for topic, count in sorted(partitions.items())
        if topic in subscribed
        for partition in range(count)
        if partition not in owned[topic]
    ]
    return kept, unassigned


def _share_equally(in_order: list[str], kept: dict[str, list[Slot]], unassigned: list[Slot]) -> None:
    """All members subscribe to the same: give each its share, and the one more that may be left over first to
    those who have it already. Members give up the highest partitions of each topic, and are dealt the free
    ones in turn, which keeps every topic spread over the members."""
    if not in_order:
        return
    share, extra = divmod(len(unassigned) + sum(map(len, kept.values())), len(in_order))
    quota = dict.fromkeys(in_order, share)
    for member in sorted(in_order, key=lambda member: (-len(kept[member]), member))[:extra]:
        quota[member] += 1
    for member, slots in kept.items():
        if len(slots) > quota[member]:
            slots.sort(key=lambda slot: (slot[1], slot[0]))
            unassigned += slots[quota[member] :]
            del slots[quota[member] :]
    hungry = deque(member for member in in_order if len(kept[member]) < quota[member])
    for slot in unassigned:
        member = hungry.popleft()
        kept[member].append(slot)
        if len(kept[member]) < quota[member]:
            hungry.append(member)


class _Balance:
    """Members subscribe to different topics. Hand out what is free to whoever has least, then move partitions
    from member to member until nobody is better off. Every move takes from a member at least two more than
    it gives to, so the sum of the squares of the loads falls and this ends."""

    def __init__(self, in_order: list[str], members: Mapping[str, MemberSpec], slots: dict[str, list[Slot]]):
        self.slots = slots
        self.subscribers: dict[bytes, list[str]] = {}
        self.owned: dict[str, dict[bytes, list[int]]] = {member: {} for member in in_order}
        self.load = dict.fromkeys(in_order, 0)
        for member in in_order:
            for topic in sorted(members[member].topics):
                self.subscribers.setdefault(topic, []).append(member)
            for topic, partition in slots[member]:
                self._give(member, topic, partition)

    def run(self, unassigned: Iterable[Slot], partitions: Mapping[bytes, int]) -> None:
        free: dict[bytes, list[int]] = {}
        for topic, partition in unassigned:
            free.setdefault(topic, []).append(partition)

        def fewest_choices(topic: bytes) -> tuple[float, int, bytes]:
            subscribers = len(self.subscribers[topic])
            return (-partitions[topic] / subscribers, subscribers, topic)

        for topic in sorted(free, key=fewest_choices):
            self._hand_out(topic, free[topic])
        contested = [topic for topic in self.subscribers if topic in partitions]
        for topic in sorted(contested, key=fewest_choices):
            self._level(topic)
        self._level_by_chains()
        for member, topics in self.owned.items():
            self.slots[member] = [(topic, partition) for topic, mine in topics.items() for partition in mine]

    def _give(self, member: str, topic: bytes, partition: int) -> None:
        self.owned[member].setdefault(topic, []).append(partition)
        self.load[member] += 1

    def _move(self, topic: bytes, giver: str, taker: str) -> None:
        self.load[giver] -= 1
        self._give(taker, topic, self.owned[giver][topic].pop())

    def _hand_out(self, topic: bytes, free: list[int]) -> None:
        heap = [(self.load[member], member) for member in self.subscribers[topic]]
        heapq.heapify(heap)
        for partition in free:
            load, member = heap[0]
            self._give(member, topic, partition)
            heapq.heapreplace(heap, (load + 1, member))

    def _level(self, topic: bytes) -> None:
        """Move partitions of one topic from its most loaded owner to its least loaded subscriber.

        Who is in both heaps may have given since it was put among the takers, or taken since it was put among
        the givers. Its place then understates how good a move is, so no move is a wrong one; what is missed
        is left to the chains.
        """
        takers = [(self.load[member], member) for member in self.subscribers[topic]]
        givers = [(-load, member) for load, member in takers if self.owned[member].get(topic)]
        heapq.heapify(takers)
        heapq.heapify(givers)
        while givers:
            most, giver = givers[0]
            least, taker = takers[0]
            if -most - least < 2:
                break
            self._move(topic, giver, taker)
            heapq.heapreplace(takers, (least + 1, taker))
            if self.owned[giver][topic]:
                heapq.heapreplace(givers, (most + 1, giver))
            else:
                heapq.heappop(givers)

    def _level_by_chains(self) -> None:
        """Hand on from member to member, where no single move helps. A search that finds nobody to give to
        has seen everybody that can be reached from there, all of them with as much or one less: nothing can
        change among them any more, so nobody searches there again."""
        settled: set[str] = set()
        heap = [(-load, member) for member, load in self.load.items()]
        heapq.heapify(heap)
        while heap:
            load, member = heapq.heappop(heap)
            if member in settled or -load != self.load[member]:
                continue
            chain, seen = self._chain(member, settled)
            if not chain:
                settled |= seen
                continue
            for giver, taker, topic in chain:
                self._move(topic, giver, taker)
            for moved in (member, chain[-1][1]):
                heapq.heappush(heap, (-self.load[moved], moved))

    def _chain(self, start: str, settled: set[str]) -> tuple[list[tuple[str, str, bytes]], set[str]]:
        """The shortest chain of (giver, taker, topic) that begins at `start` and ends at a member with at
        least two partitions less, if there is one; and whom the search has seen."""
        came_from: dict[str, tuple[str, bytes]] = {start: (start, b"")}
        topics_seen: set[bytes] = set()
        queue = deque([start])
        while queue:
            giver = queue.popleft()
            for topic, mine in self.owned[giver].items():
                if not mine or topic in topics_seen:
                    continue
                topics_seen.add(topic)
                for taker in self.subscribers[topic]:
                    if taker in came_from or taker in settled:
                        continue
                    came_from[taker] = (giver, topic)
                    if self.load[taker] <= self.load[start] - 2:
                        return _path(start, taker, came_from), set()
                    queue.append(taker)
        return [], set(came_from)


def _path(start: str, end: str, came_from: dict[str, tuple[str, bytes]]) -> list[tuple[str, str, bytes]]:
    chain = []
    while end != start:
        giver, topic = came_from[end]
        chain.append((giver, end, topic))
        end = giver
    return chain[::-1]


def _by_topic(slots: list[Slot]) -> dict[bytes, tuple[int, ...]]:
    by_topic: dict[bytes, list[int]] = {}
    for topic, partition in sorted(slots):
        by_topic.setdefault(topic, []).append(partition)
    return {topic: tuple(mine) for topic, mine in by_topic.items()}


Assignor: TypeAlias = Callable[[Mapping[str, MemberSpec], Mapping[bytes, int]], Assignment]
ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": uniform, "range": range_}


def assign(name: str, members: Mapping[str, MemberSpec], partitions: Mapping[bytes, int]) -> Assignment:
    """The target assignment: every member, with the partitions of each topic it is to read, in order."""
    return ASSIGNORS[name](members, partitions)
