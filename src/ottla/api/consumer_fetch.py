"""A consumer's fetch: it reads what is committed, from the leader or, since v11, from any replica.

With a rack-aware selector the leader sends consumers of another rack to a replica in theirs (KIP-392). A
leader that says "nothing more" or "out of range" must be sure that it still leads (`leadership_proof`): such
an answer waits for the proof, and is refused without it.
"""

from dataclasses import dataclass
from typing import Any

from ottla.api.leadership_proof import WAIT_MS, check_led
from ottla.api.partition_reads import (
    FEW,
    NO_REPLICA,
    PartitionReads,
    answer_bytes_max,
    check_offset,
    diverging,
    is_long,
    named_aborted,
    taken,
)
from ottla.api.single_fetch import respond_single
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.leadership_proofs import Proof
from ottla.broker.long_work import LARGE, Steps, finished
from ottla.broker.parked import Key, Parked
from ottla.log.cold import ColdError
from ottla.replication.partition import Partition
from ottla.replication.sessions import Wanted
from ottla.wire.messages.fetch import FetchResponse, PartitionData

NEVER = -1
RECORDS_WAIT_MS = 25  # that records wait for the proof of what is said of other partitions


@dataclass(slots=True, kw_only=True)
class ConsumerFetch:
    """One request on its way."""

    reads: PartitionReads
    leader_only: bool
    rack: str  # where to look for a replica that is nearer, if that is wanted
    read_committed: bool
    asked_ms: int
    now_ms: int = NEVER  # when it is answered
    proven_ms: int = NEVER  # when it was last proven that this broker leads all that it must lead

    def answer(self, max_wait_ms: int) -> Any:
        """At once, or as soon as there are enough bytes."""
        reads, now_ms = self.reads, self.asked_ms
        if max_wait_ms <= 0 or not reads.wanted or self._is_satisfied():
            return self._respond_proven(now_ms)
        for partition in self._unproven(now_ms):
            reads.broker.proofs.ask_for(partition, now_ms, now_ms)  # there is time for it now
        reads.take_failure()
        deadline_ms = now_ms + reads.wait_ms(max_wait_ms)
        return reads.park(tuple(reads.available), deadline_ms, self._ready, self._respond_in_turn)

    # -- waiting ----------------------------------------------------------------------------------

    def _is_satisfied(self) -> bool:
        """Enough bytes, or something that is said at once."""
        reads = self.reads
        for wanted in reads.wanted:
            topic_partition = wanted.topic_partition
            reads.by_partition[topic_partition] = wanted
            if not self._can_wait(topic_partition, wanted):
                return True
        return reads.is_enough

    def _ready(self, key: Key, now_ms: int) -> Any | None:
        """One partition moved: count it again."""
        assert isinstance(key, TopicPartition), "a fetch waits for partitions"
        reads, wanted = self.reads, self.reads.by_partition[key]
        if reads.bytes_min <= 1 <= wanted.max_bytes and (answer := self._respond_single(now_ms)) is not None:
            return answer  # any record is enough
        if self._can_wait(key, wanted) and not reads.is_enough:
            reads.take_failure()
            return None
        return self._respond_in_turn(now_ms)

    def _can_wait(self, topic_partition: TopicPartition, wanted: Wanted) -> bool:
        """Count the bytes that wait in a partition. Errors, where logs part, and who is nearer to the
        consumer are said at once, by reading it."""
        try:
            partition = self._partition(wanted)
            check_offset(partition, wanted)
            if diverging(partition, wanted) is not None:
                return False
            if self.rack and self._preferred(partition, wanted) != NO_REPLICA:
                return False
            waiting = partition.log.bytes_between(
                wanted.fetch_offset, self._end(partition), self.reads.warmth
            )
        except (ApiError, ColdError, OSError):
            return False
        self.reads.count(topic_partition, min(waiting, wanted.max_bytes))
        return True

    def _respond_in_turn(self, now_ms: int) -> Any:
        """The answer, or the steps to it: one record, or one moment, may end the wait of very many."""
        return self._respond_proven(now_ms) if len(self.reads.wanted) <= FEW else self._wait_for_turn(now_ms)

    def _wait_for_turn(self, woken_ms: int) -> Steps:
        yield
        return self._respond_proven(max(woken_ms, self.reads.broker.slices.now_ms))

    # -- proof ------------------------------------------------------------------------------------

    def _respond_proven(self, now_ms: int) -> Any:
        """The answer; if it speaks of an end, or of an offset out of range, once it is proven to be true."""
        unproven = self._unproven(now_ms)
        if not unproven:
            return self._respond(now_ms)
        for partition in unproven:
            self.reads.broker.proofs.ask_for(partition, self.asked_ms, now_ms)
        names = [partition.topic_partition for partition in unproven]
        return Parked(
            keys=tuple(key for name in names for key in (Proof(name), name)),
            deadline_ms=now_ms + (RECORDS_WAIT_MS if self.reads.total else WAIT_MS),
            ready=lambda _key, woken_ms: None if self._unproven(woken_ms) else self._respond(woken_ms),
            expire=self._respond,
        )

    def _unproven(self, now_ms: int) -> list[Partition]:
        """The partitions of which there is nothing to give, and others may have led them since."""
        broker, unproven = self.reads.broker, []
        for wanted in self.reads.wanted:
            partition = broker.partitions.get(wanted.topic_partition)
            if partition is None or partition.replication is None or not partition.is_leader:
                continue
            if wanted.topic in self.reads.denied:
                continue
            if self._has_records(partition, wanted):
                continue
            if not broker.proofs.led_at(partition, self.asked_ms, now_ms):
                unproven.append(partition)
        if not unproven:
            self.proven_ms = now_ms
        return unproven

    def _has_records(self, partition: Partition, wanted: Wanted) -> bool:
        return partition.log.log_start_offset <= wanted.fetch_offset < self._end(partition)

    def _check_led(self, partition: Partition) -> None:
        broker = self.reads.broker
        if self.proven_ms != self.now_ms and partition.leader == broker.id:
            check_led(broker, partition, self.asked_ms, self.now_ms)

    # -- the answer -------------------------------------------------------------------------------

    def _respond(self, now_ms: int) -> Any:
        """The answer, or the steps to it if it is long."""
        answer = self._respond_single(now_ms)
        if answer is not None:
            return answer
        steps = self._steps(now_ms)
        return steps if is_long(len(self.reads.wanted)) else finished(steps)

    def _respond_single(self, now_ms: int) -> FetchResponse | None:
        """If it is about one partition, and there are records in it."""
        reads = self.reads
        if len(reads.wanted) != 1 or not reads.is_first or self.rack:
            return None
        room = min(reads.bytes_max, answer_bytes_max(reads.broker))
        answer = respond_single(
            reads.broker, reads.wanted[0], reads.session, room, now_ms, read_committed=self.read_committed
        )
        if isinstance(answer, FetchResponse):
            return answer
        reads.failure = answer
        return None

    def _steps(self, now_ms: int) -> Steps:
        yield LARGE
        reads, self.now_ms = self.reads, now_ms
        if reads.find_denied is not None and now_ms != self.asked_ms:
            reads.denied = reads.find_denied()
        is_full = reads.broker.allowance.unsent_bytes > reads.broker.config.unsent_bytes_max
        response = yield from reads.respond(reads.wanted, self._fill, now_ms, is_full=is_full)
        if response is None:
            return reads.bring_in(now_ms, self._respond_in_turn)
        for traffic, size in reads.given:
            traffic.bytes_out += size
        return response

    def _fill(self, answer: PartitionData, wanted: Wanted, limit: int, at_least_one: bool) -> Partition:
        partition = self._partition(wanted)
        self._check_settled(partition, wanted)
        if not self._has_records(partition, wanted):
            self._check_led(partition)
        self.reads.describe(answer, partition)
        answer.aborted_transactions = [] if self.read_committed else None
        answer.diverging_epoch = diverging(partition, wanted)
        if answer.diverging_epoch is not None:
            self._check_led(partition)
        if self.rack:
            answer.preferred_read_replica = self._preferred(partition, wanted)
        if answer.diverging_epoch is None and answer.preferred_read_replica == NO_REPLICA:
            check_offset(partition, wanted)
            self._raise_failure()
            if self.read_committed:
                self._fill_committed(answer, partition, wanted, limit, at_least_one)
            else:
                answer.records = self.reads.records(
                    partition, wanted, limit, end=self._end(partition), at_least_one=at_least_one
                )
        return partition

    def _raise_failure(self) -> None:
        error = self.reads.take_failure()
        try:
            if error is not None:
                raise error
        finally:
            del error  # or its traceback would lead back to it

    def _fill_committed(
        self, answer: PartitionData, partition: Partition, wanted: Wanted, limit: int, at_least_one: bool
    ) -> None:
        """Records up to the last stable offset, and what was aborted in them, which a client leaves out."""
        read, aborted = partition.log.read_committed(
            wanted.fetch_offset, limit, end=self._end(partition),
            at_least_one=at_least_one, warmth=self.reads.warmth,
        )  # fmt: skip
        answer.records = taken(self.reads.broker, read)
        answer.aborted_transactions = named_aborted(self.reads.broker, aborted)

    def _partition(self, wanted: Wanted) -> Partition:
        partition = self.reads.partition(wanted)
        if self.leader_only or partition.leader == self.reads.broker.id:
            partition.check_leader(wanted.current_leader_epoch)
        else:
            partition.check_epoch(wanted.current_leader_epoch)
        return partition

    @staticmethod
    def _check_settled(partition: Partition, wanted: Wanted) -> None:
        """Whoever has read all that a new leader knows to be committed may have seen more of the one before,
        and must not see the high watermark go back. It waits; if it must be told something, then with the one
        error after which every client tries again."""
        if not partition.is_settled and wanted.fetch_offset >= partition.high_watermark:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _end(self, partition: Partition) -> int:
        return partition.visible_end(self.read_committed)

    def _preferred(self, partition: Partition, wanted: Wanted) -> int:
        """The replica in the consumer's rack that has what it asks for and most of what comes next."""
        leader = partition.replication
        if leader is None:
            return NO_REPLICA
        brokers = self.reads.broker.image.brokers
        near = [
            (follower.log_end, -replica)
            for replica, follower in leader.followers.items()
            if leader.is_in_sync(replica)
            and replica in brokers
            and brokers[replica].rack == self.rack
            and 0 <= follower.log_start <= wanted.fetch_offset <= follower.log_end
        ]
        return -max(near)[1] if near else NO_REPLICA
