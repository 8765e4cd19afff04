"""Proof that this broker still leads a partition: what an answer needs that says "none" or "less".

Another broker may lead by now and this one not know it. Two kinds of proof tell that it led at a given time,
either is enough (design note 007):

    the followers   everybody who could lead in its place has vouched for that time, or lately
                    (`replication/leader`, rules 7 and 8)
    the keeper      has confirmed that what this broker knows of the tree is not older than that

Rules: nobody is asked while the followers vouch of their own accord, which they do while they fetch. When an
answer has to wait, both are asked: the followers are let go to fetch again, and the keeper confirms, one
confirmation under way at a time. What waits is parked under `Proof`, and woken by whichever comes first.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.base.ids import TopicPartition
from ottla.broker.parked import Waiting
from ottla.replication.partition import Partition

CONFIRM_AGAIN_MS = 1_000  # a confirmation that was lost with the connection is asked for again


@dataclass(frozen=True, slots=True)
class Proof:
    """The key under which answers wait for the proof that this broker leads a partition."""

    topic_partition: TopicPartition


@dataclass(slots=True)
class Proofs:
    """`confirm` asks the keeper, `hurry` the followers of a partition."""

    waiting: Waiting
    confirm: Callable[[int], None]
    hurry: Callable[[Partition, int], None]
    confirmed_ms: int = -1  # what is known of the tree was true then, or later
    _asked_ms: int | None = None  # when the confirmation was asked for that is under way
    _sought: dict[TopicPartition, int] = field(default_factory=dict)  # the latest time to be proven

    def led_at(self, partition: Partition, time_ms: int, now_ms: int) -> bool:
        """Has this broker surely led then?"""
        return partition.is_leader and (self.confirmed_ms >= time_ms or partition.led_at(time_ms, now_ms))

    def seek(self, partition: Partition, time_ms: int, now_ms: int) -> None:
        """Somebody is about to wait for the proof that this broker led then."""
        if partition.id not in self._sought:
            self.hurry(partition, now_ms)
        self._sought[partition.id] = max(time_ms, self._sought.get(partition.id, 0))
        if self._asked_ms is None or now_ms >= self._asked_ms + CONFIRM_AGAIN_MS:
            self._confirm(now_ms)

    def _confirm(self, now_ms: int) -> None:
        self._asked_ms = now_ms
        self.confirm(now_ms)

    def on_follower_fetch(self, partition: Partition, now_ms: int) -> None:
        time_ms = self._sought.get(partition.id)
        if time_ms is not None and partition.led_at(time_ms, now_ms):
            del self._sought[partition.id]
            self.waiting.wake(Proof(partition.id), now_ms)

    def on_confirmed(self, asked_ms: int, now_ms: int) -> None:
        """The keeper confirms all that is known of the tree, as of when it was asked."""
        self.confirmed_ms = max(self.confirmed_ms, asked_ms)
        if asked_ms == self._asked_ms:
            self._asked_ms = None
        for id in [id for id, time_ms in self._sought.items() if time_ms <= self.confirmed_ms]:
            del self._sought[id]
            self.waiting.wake(Proof(id), now_ms)
        if self._sought and self._asked_ms is None:
            self._confirm(now_ms)  # for those who came after it was asked
