"""ISR changes on their way to the controller: AlterPartition (key 56), one request under way.

Rules: a proposal is sent, with all others that wait, until a newer state arrives from the keeper (then it is
no longer pending), or the controller says that it is not written and never will be. Whatever else comes
back, or does not, leaves open whether it was written: the leader goes on counting with both, and we ask
again, more and more slowly, whoever is the controller then.

A controller that does not answer may hear of it by way of the keeper (`unanswered`, design note 008). What
was once told there may be written at any time, whatever the controller answers to the same proposal on the
direct way: it stays there, and only a newer state settles it, which the controller writes in any case.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.controller.znodes import Proposed
from ottla.replication.leader import ProposeIsr
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.wire.messages.alter_partition import AlterPartitionRequest

RETRY_MS_MIN, RETRY_MS_MAX = 50, 500
UNANSWERED_MS = 1_000
UNANSWERED_MAX = 1_000  # so many at a time go into a node of the keeper
REFUSALS = {ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED}


@dataclass(slots=True)
class IsrChanges:
    broker: "Broker"
    waiting: dict[TopicPartition, Partition] = field(default_factory=dict)
    is_sent: bool = False
    due_ms: int = 0
    attempts: int = 0
    sent_ms: int = 0
    has_failed: bool = False  # the last request was not answered
    reported: dict[TopicPartition, int] = field(default_factory=dict)  # the partition epoch of what was told

    def note(self, partition: Partition) -> None:
        """A leader was given an input: it may have something to propose, or no longer."""
        leader = partition.replication
        if leader is not None and leader.pending is not None:
            self.has_failed = self.has_failed and bool(self.waiting)
            if partition.id not in self.waiting:
                self.due_ms, self.attempts = 0, 0
            self.waiting[partition.id] = partition
        else:
            self.waiting.pop(partition.id, None)
            self.reported.pop(partition.id, None)

    def next_ms(self) -> int | None:
        return self.due_ms if self.waiting and not self.is_sent and self._controller() >= 0 else None

    def _controller(self) -> int:
        """Who to ask; -1 while nobody can be."""
        controller = self.broker.image.controller_id
        return controller if controller in self.broker.image.brokers and self.broker.epoch >= 0 else -1

    def pump(self, now_ms: int) -> None:
        if self.is_sent or not self.waiting or now_ms < self.due_ms or (controller := self._controller()) < 0:
            return
        proposals = dict[tuple[bytes, int], tuple[Partition, ProposeIsr]]()
        for id, partition in sorted(self.waiting.items()):
            if partition.replication is None or partition.replication.pending is None:
                del self.waiting[id]
            else:
                proposals[(partition.topic_id, id.partition)] = partition, partition.replication.proposal()
        if not proposals:
            return
        request = _request(self.broker.id, self.broker.epoch, proposals.values())
        self.is_sent, self.sent_ms = True, now_ms
        self.broker.send(
            controller,
            "controller",
            request,
            lambda answer, answered_ms: self._on_answer(proposals, answer, answered_ms),
        )

    def unanswered(self, now_ms: int) -> tuple[Proposed, ...]:
        """What was proposed to a controller that does not answer, and what was told before and is still
        open."""
        is_silent = self.has_failed or (self.is_sent and now_ms - self.sent_ms >= UNANSWERED_MS)
        told = []
        for id, partition in sorted(self.waiting.items())[:UNANSWERED_MAX]:
            proposed = _proposed(partition)
            if proposed is not None and (is_silent or self.reported.get(id) == proposed[0]):
                self.reported[id] = proposed[0]
                told.append(Proposed(partition.topic_id, id.partition, partition.leader_epoch, *proposed))
        return tuple(told)

    def _on_answer(
        self, proposals: dict[tuple[bytes, int], tuple[Partition, ProposeIsr]], answer: Any, now_ms: int
    ) -> None:
        self.is_sent, self.has_failed = False, answer is None
        self.due_ms = now_ms + min(RETRY_MS_MIN << self.attempts, RETRY_MS_MAX)
        self.attempts = min(self.attempts + 1, 10)
        if answer is not None and not answer.error_code:
            for topic in answer.topics:
                for one in topic.partitions:
                    found = proposals.get((topic.topic_id, one.partition_index))
                    if found is not None and one.error_code in REFUSALS:
                        self._on_refused(*found, now_ms)
        self.pump(now_ms)

    def _on_refused(self, partition: Partition, proposal: ProposeIsr, now_ms: int) -> None:
        if self.broker.partitions.get(partition.id) is not partition:
            return
        if self.reported.get(partition.id) == proposal.partition_epoch:
            return  # not the last word
        if partition.on_refused(proposal, now_ms):
            self.broker.on_watermark(partition, now_ms)
        self.note(partition)


def _proposed(partition: Partition) -> tuple[int, tuple[tuple[int, int], ...]] | None:
    leader = partition.replication
    if leader is None or leader.pending is None:
        return None
    proposal = leader.proposal()
    return proposal.partition_epoch, proposal.isr


def _request(
    broker_id: int, broker_epoch: int, proposals: Iterable[tuple[Partition, ProposeIsr]]
) -> "AlterPartitionRequest":
    from ottla.wire.messages.alter_partition import (  # a broker that is alone has no use for it
        AlterPartitionRequest,
        BrokerState,
        PartitionData,
        TopicData,
    )

    topics: dict[bytes, TopicData] = {}
    for partition, proposal in proposals:
        topic = topics.setdefault(partition.topic_id, TopicData(topic_id=partition.topic_id))
        topic.partitions.append(
            PartitionData(
                partition_index=partition.id.partition,
                leader_epoch=partition.leader_epoch,
                new_isr_with_epochs=[BrokerState(broker_id=one, broker_epoch=at) for one, at in proposal.isr],
                partition_epoch=proposal.partition_epoch,
            )
        )
    return AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch, topics=list(topics.values()))
