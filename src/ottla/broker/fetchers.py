"""The replicas on this broker that follow: they fetch from their leaders.

Rules: for every leader there is one `Fetcher`, and at most one fetch under way. A leader that is not
registered is not asked, and nobody is while this broker is not: nobody would count what it has. What is under
way when roles change is not called back: its answer finds another epoch, and is dropped.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.base.ids import TopicPartition
from ottla.broker.config import BrokerConfig
from ottla.broker.ports import SendRequest
from ottla.broker.replica_counts import ReplicaCounts
from ottla.controller.image import Image
from ottla.replication.leader import PROMISE_MS
from ottla.replication.partition import Partition
from ottla.replication.throttle import ReplicationThrottle

if TYPE_CHECKING:
    from ottla.replication.follower import Fetcher, Limits, Progress
    from ottla.wire.messages.fetch import FetchRequest
    from ottla.wire.messages.list_offsets import ListOffsetsRequest


@dataclass(slots=True)
class Fetchers:
    """`on_progress` is told what an answer did to the partitions."""

    broker_id: int
    image: Image
    config: Callable[[], BrokerConfig]
    send: SendRequest
    on_progress: "Callable[[Progress, int], None]"
    throttle: ReplicationThrottle
    counts: ReplicaCounts
    by_leader: "dict[int, Fetcher]" = field(default_factory=dict)
    leaders: dict[TopicPartition, int] = field(default_factory=dict)  # of what is followed here

    def follow_leader(self, partition: Partition) -> None:
        """A partition has another leader, or one in another epoch."""
        topic_partition = partition.topic_partition
        leader = partition.leader if partition.leader not in {-1, self.broker_id} else None
        before = self.leaders.pop(topic_partition, None)
        if before is not None and before != leader:
            self.by_leader[before].drop(topic_partition)
        if leader is not None:
            self.leaders[topic_partition] = leader
            self._fetcher(leader).follow(partition)

    def forget(self, topic_partition: TopicPartition) -> None:
        """A partition is no longer here."""
        leader = self.leaders.pop(topic_partition, None)
        if leader is not None:
            self.by_leader[leader].drop(topic_partition)

    def promise(self, partition: Partition) -> None:
        """Before this replica changes its role: the leader it has followed may count on it a while longer."""
        before = self.leaders.get(partition.topic_partition)
        vouched_ms = self.by_leader[before].vouched_ms if before is not None else None
        if before is not None and vouched_ms is not None:
            partition.promises[before] = vouched_ms + PROMISE_MS

    def _fetcher(self, leader: int) -> "Fetcher":
        from ottla.replication.follower import Fetcher  # a broker that is alone has no use for it

        fetcher = self.by_leader.get(leader)
        if fetcher is None:
            fetcher = self.by_leader[leader] = Fetcher(
                self.broker_id, leader, self._limits(), self._must_wait, self.counts.on_fetch_error
            )
        return fetcher

    def _limits(self) -> "Limits":
        from ottla.replication.follower import Limits

        config = self.config()
        return Limits(
            wait_ms_max=config.replica_fetch_wait_ms_max,
            bytes_min=config.replica_fetch_bytes_min,
            bytes_max=config.replica_fetch_response_bytes_max,
            partition_bytes_max=config.replica_fetch_bytes_max,
            backoff_ms=config.replica_fetch_backoff_ms,
        )

    def _must_wait(self, partition: Partition, now_ms: int) -> bool:
        """Have others like this follower used up the rate?"""
        return self.throttle.applies_to(partition, self.broker_id) and self.throttle.is_exceeded(now_ms)

    @property
    def _epoch(self) -> int:
        return self.image.epoch_of(self.broker_id)

    def pump(self, now_ms: int) -> None:
        """Send what is due."""
        epoch = self._epoch
        if epoch < 0:
            return
        for leader in sorted(self.by_leader):
            if leader in self.image.brokers:
                request = self.by_leader[leader].next_request(now_ms, epoch)
                if request is not None:
                    self._send(leader, request)

    def _send(self, leader: int, request: "FetchRequest | ListOffsetsRequest") -> None:
        def on_answer(answer: Any, now_ms: int) -> None:
            self._on_answer(leader, request, answer, now_ms)

        self.counts.fetch_requests += 1
        self.send(leader, "fetch", request, on_answer)

    def _on_answer(
        self, leader: int, request: "FetchRequest | ListOffsetsRequest", answer: Any, now_ms: int
    ) -> None:
        fetcher = self.by_leader[leader]
        progress = fetcher.on_answer(request, answer, now_ms)
        for topic_partition, size in progress.bytes.items():
            if self.throttle.applies_to(fetcher.followed[topic_partition].partition, self.broker_id):
                self.throttle.record(size, now_ms)
        for topic_partition in progress.failed:
            self.leaders.pop(topic_partition, None)
        self.on_progress(progress, now_ms)

    def next_ms(self) -> int | None:
        """When `pump` may have something to send."""
        if not self.by_leader or self._epoch < 0:
            return None
        brokers = self.image.brokers
        fetchers = (fetcher for leader, fetcher in self.by_leader.items() if leader in brokers)
        return min(
            (due_ms for fetcher in fetchers if (due_ms := fetcher.next_ms()) is not None), default=None
        )
