"""Proof that this broker still leads a partition: what an answer needs that says "none" or "less".

Another broker may lead by now and this one not know it. Two kinds of proof tell that it led at a given time,
either is enough (design note 007):

    the followers   everybody who could lead in its place has vouched for that time, or lately
                    (`replication/leader`, rules 7 and 8)
    the keeper      has confirmed that what this broker knows of the tree is not older than that

Rules: nobody is asked while the followers vouch of their own accord, which they do while they fetch. When an
answer has to wait, both are asked: the followers are let go to fetch again, and the keeper confirms, for all
that wait together, one confirmation at a time and not more than some dozen in a second. What waits is parked
under `Proof`, and woken by whichever comes first.

A partition whose proof has been awaited for DOUBT_MS is in doubt: most likely others lead it, and only this
broker has not heard of it. Clients would stay with it for as long as it is cut off (librdkafka asks whom it
is connected to, and that may be one broker alone), so they are sent away: it does not say any more that it
leads, and ends the connections of those who ask (`api/leadership_proof`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.base.ids import TopicPartition
from ottla.broker.parked import Waiting
from ottla.replication.partition import Partition

CONFIRM_AGAIN_MS = 1_000  # a confirmation that was lost with the connection is asked for again
CONFIRM_APART_MS = 20
DOUBT_MS = 5_000


@dataclass(frozen=True, slots=True)
class Proof:
    """The key under which answers wait for the proof that this broker leads a partition."""

    topic_partition: TopicPartition


@dataclass(slots=True)
class Awaited:
    """The latest time to be proven, and since when a proof is missing."""

    time_ms: int
    since_ms: int


@dataclass(slots=True)
class Proofs:
    """`confirm` asks the keeper, `hurry` the followers of a partition."""

    waiting: Waiting
    confirm: Callable[[int], None]
    hurry: Callable[[Partition, int], None]
    confirmed_ms: int = -1  # what is known of the tree was true then, or later
    _asked_ms: int = -1  # when a confirmation was last asked for
    _is_asked: bool = False  # and whether that is under way
    _awaited: dict[TopicPartition, Awaited] = field(default_factory=dict)
    in_doubt: set[TopicPartition] = field(default_factory=set)
    doubts: int = 0  # so many times something has come to be in doubt

    def led_at(self, partition: Partition, time_ms: int, now_ms: int) -> bool:
        """Has this broker surely led then?"""
        return partition.is_leader and (self.confirmed_ms >= time_ms or partition.led_at(time_ms, now_ms))

    def ask_for(self, partition: Partition, time_ms: int, now_ms: int) -> None:
        """Somebody waits, or is about to wait, for the proof that this broker led then."""
        awaited = self._awaited.get(partition.topic_partition)
        if awaited is None:
            self.hurry(partition, now_ms)
            self._awaited[partition.topic_partition] = Awaited(time_ms, now_ms)
        else:
            awaited.time_ms = max(time_ms, awaited.time_ms)
        self._confirm(now_ms)

    def next_ms(self) -> int | None:
        if not self._awaited:
            return None
        return self._asked_ms + (CONFIRM_AGAIN_MS if self._is_asked else CONFIRM_APART_MS)

    def pump(self, now_ms: int) -> None:
        if self._awaited:
            self._doubt(now_ms)
            self._confirm(now_ms)

    def _confirm(self, now_ms: int) -> None:
        due_ms = self.next_ms()
        if due_ms is not None and now_ms >= due_ms:
            self._asked_ms, self._is_asked = now_ms, True
            self.confirm(now_ms)

    def _doubt(self, now_ms: int) -> None:
        """Those who still wait are answered: there is no use in it any more. (Not when somebody asks: an
        answer that is about to wait would be woken before it does.)"""
        late = {name for name, awaited in self._awaited.items() if now_ms - awaited.since_ms >= DOUBT_MS}
        new = sorted(late - self.in_doubt)
        self.in_doubt |= late
        self.doubts += len(new)
        for topic_partition in new:
            self.waiting.wake(Proof(topic_partition), now_ms)

    @property
    def is_awaited(self) -> bool:
        return bool(self._awaited)

    @property
    def awaited(self) -> int:
        """How many partitions a proof is awaited of."""
        return len(self._awaited)

    def on_follower_fetch(self, partition: Partition, now_ms: int) -> None:
        awaited = self._awaited.get(partition.topic_partition)
        if awaited is not None and partition.led_at(awaited.time_ms, now_ms):
            del self._awaited[partition.topic_partition]
            self.in_doubt.discard(partition.topic_partition)
            self.waiting.wake(Proof(partition.topic_partition), now_ms)

    def on_confirmed(self, asked_ms: int, now_ms: int) -> None:
        """The keeper confirms all that is known of the tree, as of when it was asked."""
        self.confirmed_ms = max(self.confirmed_ms, asked_ms)
        self.in_doubt.clear()
        if asked_ms == self._asked_ms:
            self._is_asked = False
        for topic_partition, awaited in list(self._awaited.items()):
            if awaited.time_ms <= self.confirmed_ms:
                del self._awaited[topic_partition]
            else:  # somebody asked later; whoever asked before is served now
                awaited.since_ms = now_ms
            self.waiting.wake(Proof(topic_partition), now_ms)
