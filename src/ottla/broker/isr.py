"""ISR changes on their way to the controller: AlterPartition (key 56), one request under way.

Rules: a proposal is sent, with all others that wait, until its leader says that it is settled: a newer state
has arrived from the keeper, or the controller says that it is not written and never will be. Whatever else
comes back, or does not, leaves open whether it was written: the leader goes on counting with both, and we ask
again, more and more slowly, whoever is the controller then.

A controller that does not answer may hear of it by way of the keeper (`unanswered`, design note 008). What
was once told there may be written at any time, whatever the controller answers to the same proposal on the
direct way: it stays there, and only a newer state settles it, which the controller writes in any case.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.ports import SendRequest
from ottla.broker.replica_counts import ReplicaCounts
from ottla.controller.image import Image
from ottla.controller.isr import NEVER_WRITTEN
from ottla.controller.znodes import Proposed
from ottla.replication.leader import ProposeIsr
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla.wire.messages.alter_partition import AlterPartitionRequest

RETRY_MS_MIN, RETRY_MS_MAX = 50, 500
UNANSWERED_MS = 1_000
UNANSWERED_MAX = 1_000  # so many at a time go into a node of the keeper


class Change(NamedTuple):
    partition: Partition
    proposal: ProposeIsr


Sent: TypeAlias = dict[tuple[bytes, int], Change]  # by topic id and partition


@dataclass(slots=True)
class IsrChanges:
    """`on_refused` is told what the controller says is not written and never will be."""

    broker_id: int
    image: Image
    send: SendRequest
    on_refused: Callable[[Partition, ProposeIsr, int], None]
    counts: ReplicaCounts
    waiting: dict[TopicPartition, Change] = field(default_factory=dict)
    is_sent: bool = False
    due_ms: int = 0
    attempts: int = 0
    sent_ms: int = 0
    has_failed: bool = False  # the last request was not answered
    reported: dict[TopicPartition, int] = field(default_factory=dict)  # the partition epoch of what was told

    def propose(self, partition: Partition, proposal: ProposeIsr) -> None:
        """A leader wants another ISR."""
        self.has_failed = self.has_failed and bool(self.waiting)
        self.due_ms, self.attempts = 0, 0
        self.waiting[partition.topic_partition] = Change(partition, proposal)

    def settle(self, topic_partition: TopicPartition) -> None:
        """It is written, or never will be."""
        self.waiting.pop(topic_partition, None)
        self.reported.pop(topic_partition, None)

    def next_ms(self) -> int | None:
        return self.due_ms if self.waiting and not self.is_sent and self._controller() >= 0 else None

    @property
    def _epoch(self) -> int:
        return self.image.epoch_of(self.broker_id)

    def _controller(self) -> int:
        """Who to ask; -1 while nobody can be."""
        controller = self.image.controller_id
        return controller if controller in self.image.brokers and self._epoch >= 0 else -1

    def pump(self, now_ms: int) -> None:
        """Ask the controller for all that waits, if it is time."""
        if self.is_sent or not self.waiting or now_ms < self.due_ms or (controller := self._controller()) < 0:
            return
        sent: Sent = {
            (change.partition.topic_id, topic_partition.partition): change
            for topic_partition, change in sorted(self.waiting.items())
        }
        request = _request(self.broker_id, self._epoch, sent.values())
        self.is_sent, self.sent_ms = True, now_ms
        self.send(
            controller,
            "controller",
            request,
            lambda answer, answered_ms: self._on_answer(sent, answer, answered_ms),
        )

    def unanswered(self, now_ms: int) -> tuple[Proposed, ...]:
        """What was proposed to a controller that does not answer, and what was told before and is still
        open."""
        is_silent = self.has_failed or (self.is_sent and now_ms - self.sent_ms >= UNANSWERED_MS)
        told = []
        for topic_partition, (partition, proposal) in sorted(self.waiting.items())[:UNANSWERED_MAX]:
            epoch = proposal.partition_epoch
            if is_silent or self.reported.get(topic_partition) == epoch:
                self.reported[topic_partition] = epoch
                told.append(
                    Proposed(
                        partition.topic_id, topic_partition.partition, partition.leader_epoch, epoch,
                        proposal.isr,
                    )
                )  # fmt: skip
        return tuple(told)

    def _on_answer(self, sent: Sent, answer: Any, now_ms: int) -> None:
        self.is_sent, self.has_failed = False, answer is None
        self.due_ms = now_ms + min(RETRY_MS_MIN << self.attempts, RETRY_MS_MAX)
        self.attempts = min(self.attempts + 1, 10)
        if answer is not None and not answer.error_code:
            for topic in answer.topics:
                for part in topic.partitions:
                    self.counts.isr_updates_failed += part.error_code != ErrorCode.NONE
                    change = sent.get((topic.topic_id, part.partition_index))
                    if change is not None and part.error_code in NEVER_WRITTEN:
                        self._refuse(change, now_ms)
        self.pump(now_ms)

    def _refuse(self, change: Change, now_ms: int) -> None:
        topic_partition = change.partition.topic_partition
        waiting = self.waiting.get(topic_partition)
        if waiting is None or waiting.partition is not change.partition:
            return  # it is settled already
        if self.reported.get(topic_partition) != change.proposal.partition_epoch:  # else not the last word
            self.on_refused(change.partition, change.proposal, now_ms)


def _request(broker_id: int, broker_epoch: int, changes: Iterable[Change]) -> "AlterPartitionRequest":
    from ottla.wire.messages.alter_partition import (  # a broker that is alone has no use for it
        AlterPartitionRequest,
        BrokerState,
        PartitionData,
        TopicData,
    )

    topics: dict[bytes, TopicData] = {}
    for partition, proposal in changes:
        topic = topics.setdefault(partition.topic_id, TopicData(topic_id=partition.topic_id))
        topic.partitions.append(
            PartitionData(
                partition_index=partition.topic_partition.partition,
                leader_epoch=partition.leader_epoch,
                new_isr_with_epochs=[
                    BrokerState(broker_id=member, broker_epoch=epoch) for member, epoch in proposal.isr
                ],
                partition_epoch=proposal.partition_epoch,
            )
        )
    return AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch, topics=list(topics.values()))
