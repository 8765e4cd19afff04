"""A follower's fetch: it reads to the end of the log, and to ask for an offset is to hold all before it.

Only a follower of this leader epoch, in its present incarnation, gets anything, and is counted (KIP-320,
KIP-903). That happens once, before its fetch waits; what it tells goes to `broker/replicas`, and what leaders
propose because of it is sent to the controller together.

A follower follows thousands of partitions, asks for all of them each time, and is answered at once: those of
which nothing can come are passed over (`_quiet`).
"""

from dataclasses import dataclass
from typing import Any

from ottla.api.partition_reads import PartitionReads, check_offset, diverging, is_long
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.long_work import LARGE, Steps, finished
from ottla.broker.parked import Key
from ottla.broker.replicas import Follows
from ottla.log.cold import ColdError
from ottla.replication.leader import Follower
from ottla.replication.partition import Partition
from ottla.replication.sessions import Wanted
from ottla.wire.messages.fetch import PartitionData


@dataclass(slots=True, kw_only=True)
class FollowerFetch:
    """One request on its way. `vouched_ms` is when the follower was given the answer it goes on from."""

    reads: PartitionReads
    replica_id: int
    replica_epoch: int
    now_ms: int
    vouched_ms: int

    def answer(self, max_wait_ms: int) -> Any:
        """At once, or as soon as there are enough bytes."""
        reads, broker, now_ms = self.reads, self.reads.broker, self.now_ms
        woken = broker.followers.woken
        is_satisfied = self._count()  # it tells how far the follower is, even if it cannot wait
        broker.isr.pump(now_ms)
        if broker.followers.woken != woken and not is_satisfied:
            is_satisfied = self._count_again()
        if max_wait_ms <= 0 or not reads.wanted or is_satisfied:
            return self._respond(now_ms)
        wait_ms = broker.followers.wait_ms(self.replica_id, reads.wait_ms(max_wait_ms), now_ms)
        return reads.park((Follows(self.replica_id),), now_ms + wait_ms, self._ready, self._respond)

    # -- counting and waiting ---------------------------------------------------------------------

    def _count(self) -> bool:
        """Let the leader of each partition know how far its follower is. Are there enough bytes, or something
        that is said at once?"""
        reads, proofs, can_wait = self.reads, self.reads.broker.proofs, True
        may_be_quiet = self._may_be_quiet
        for wanted in reads.wanted:
            topic_partition = wanted.topic_partition
            reads.by_partition[topic_partition] = wanted
            if may_be_quiet and (follower := self._quiet(wanted, topic_partition)) is not None:
                follower.caught_up_ms = follower.fetched_ms = self.now_ms
                follower.vouched_ms = self.vouched_ms
                if proofs.is_awaited:
                    proofs.on_follower_fetch(reads.broker.partitions[topic_partition], self.now_ms)
            elif not self._can_wait(topic_partition, wanted, is_first=True):
                can_wait = False
        return reads.is_enough or not can_wait

    def _count_again(self) -> bool:
        """What followers tell lets coordinators go on, and these may write, at once, to a partition that was
        counted already: nobody would wake this fetch for that."""
        can_wait = [self._can_wait(wanted.topic_partition, wanted) for wanted in self.reads.wanted]
        return self.reads.is_enough or not all(can_wait)

    def _ready(self, key: Key, now_ms: int) -> Any | None:
        """One partition moved: count its bytes again. Or there is another to follow."""
        if isinstance(key, Follows):
            return self._respond(now_ms)
        assert isinstance(key, TopicPartition), "a follower is woken for a partition"
        wanted = self.reads.by_partition.get(key)
        if wanted is None or (self._can_wait(key, wanted) and not self.reads.is_enough):
            return None
        return self._respond(now_ms)

    def _can_wait(self, topic_partition: TopicPartition, wanted: Wanted, *, is_first: bool = False) -> bool:
        """Count the bytes that wait in a partition. Errors, and where logs part, are said at once, by reading
        it. The first time the leader hears how far the follower is."""
        try:
            partition = self._partition(wanted)
            check_offset(partition, wanted)
            if diverging(partition, wanted) is not None:
                return False
            if is_first and wanted.current_leader_epoch >= 0:
                self.reads.broker.replicas.on_follower_fetch(
                    partition, self.replica_id, wanted.fetch_offset, log_start=wanted.log_start_offset,
                    broker_epoch=self.replica_epoch, vouched_ms=self.vouched_ms, now_ms=self.now_ms,
                )  # fmt: skip
            waiting = 0
            if not self._is_throttled(partition, self.now_ms):
                waiting = partition.log.bytes_between(
                    wanted.fetch_offset, partition.log.log_end_offset, self.reads.warmth
                )
        except (ApiError, ColdError, OSError):
            return False
        self.reads.count(topic_partition, min(waiting, wanted.max_bytes))
        return True

    def _is_throttled(self, partition: Partition, now_ms: int) -> bool:
        throttle = self.reads.broker.leader_throttle
        return throttle.applies_to(partition, self.replica_id) and throttle.is_exceeded(now_ms)

    # -- what nothing can come of -----------------------------------------------------------------

    @property
    def _may_be_quiet(self) -> bool:
        return self.reads.incremental and self.replica_epoch == self._registered_epoch

    @property
    def _registered_epoch(self) -> int:
        """The follower's incarnation as we know it; -1 while it is not there."""
        return self.reads.broker.image.epoch_of(self.replica_id)

    def _quiet(self, wanted: Wanted, topic_partition: TopicPartition) -> Follower | None:
        """The follower, if it is in sync and at the end, the leader knows it, and there is no news for it."""
        partition = self.reads.broker.partitions.get(topic_partition)
        if partition is None or partition.replication is None:
            return None
        leader, log = partition.replication, partition.log
        follower = leader.followers.get(self.replica_id)
        is_quiet = (
            follower is not None
            and follower.log_end == wanted.fetch_offset == log.log_end_offset
            and follower.broker_epoch == self.replica_epoch
            and follower.log_start == wanted.log_start_offset
            and wanted.current_leader_epoch == partition.leader_epoch
            and wanted.topic_id == partition.topic_id
            and wanted.sent_high_watermark == partition.high_watermark
            and wanted.sent_log_start == log.log_start_offset
            and self.replica_id in leader.isr
        )
        return follower if is_quiet else None

    # -- the answer -------------------------------------------------------------------------------

    def _respond(self, now_ms: int) -> Any:
        """The answer, or the steps to it if all of very many partitions are asked for."""
        steps = self._steps(now_ms)
        is_full = not self.reads.incremental
        return steps if is_full and is_long(len(self.reads.wanted)) else finished(steps)

    def _steps(self, now_ms: int) -> Steps:
        yield LARGE
        reads, self.now_ms = self.reads, now_ms
        wanted = reads.wanted
        if self._may_be_quiet:
            wanted = [asked for asked in wanted if self._quiet(asked, asked.topic_partition) is None]
        response = yield from reads.respond(wanted, self._fill, now_ms)
        if response is None:
            return reads.bring_in(now_ms, self._respond)
        reads.broker.traffic.replication_bytes_out += sum(size for _, size in reads.given)
        return response

    def _fill(self, answer: PartitionData, wanted: Wanted, limit: int, at_least_one: bool) -> Partition:
        partition = self._partition(wanted)
        self.reads.describe(answer, partition)
        answer.aborted_transactions = None
        answer.diverging_epoch = diverging(partition, wanted)
        if answer.diverging_epoch is not None:
            return partition
        check_offset(partition, wanted)
        throttle = self.reads.broker.leader_throttle
        is_limited = throttle.applies_to(partition, self.replica_id)
        if is_limited and throttle.is_exceeded(self.now_ms):
            return partition
        answer.records = self.reads.records(
            partition, wanted, limit, end=partition.log.log_end_offset, at_least_one=at_least_one
        )
        if is_limited:
            throttle.record(len(answer.records), self.now_ms)
        return partition

    def _partition(self, wanted: Wanted) -> Partition:
        """Only a follower of this epoch, in its present incarnation, gets anything."""
        partition = self.reads.partition(wanted)
        partition.check_leader(wanted.current_leader_epoch)
        if partition.replication is None or self.replica_id not in partition.replication.followers:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        registered_epoch = self._registered_epoch
        if self.replica_epoch < registered_epoch:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH)
        if self.replica_epoch > registered_epoch:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)  # we have not heard of it yet; it tries again
        return partition
