"""Reading partitions into the answer of a fetch: what consumers' and followers' fetches have in common.

What is wanted was read together from one request and its session. Who fetches decides which partitions may be
read, to where, and what else is said of them (`consumer_fetch`, `follower_fetch`).

What is not in memory is brought in by a worker, for all partitions of the answer together, and then the
answer is made anew (`log/cold`): it is true when it is given, whatever became of the partitions meanwhile.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.api.leaders import endpoints, leader_of
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import Buffer
from ottla.base.ids import TopicPartition
from ottla.broker.broker import Broker
from ottla.broker.effects import RunJob
from ottla.broker.long_work import Steps
from ottla.broker.parked import Key, Parked
from ottla.log.cold import NOTHING_YET, ColdError, Piece, ReadAhead, Warmth, WarmUp
from ottla.log.segment_reader import Read
from ottla.log.transaction_index import AbortedTransaction as Aborted
from ottla.replication.partition import Partition
from ottla.replication.sessions import NO_SESSION, Session, Wanted
from ottla.replication.traffic import TopicTraffic
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from ottla.broker.usage import Usage

NO_REPLICA = -1
FETCH_BYTES_MIN = 64 * 1024
WAIT_MS_MAX = 300_000
DISK_WAIT_MS = 10_000  # for the disk, while its client waits for the answer
LONG = 1_000  # partitions; an answer about more is made in slices
FEW = 60  # partitions; an answer about more waits where much is answered at the same time
ANSWER_BYTES = 50  # that a partition has in an answer besides its records, about
ABORTED_BYTES = 1_000  # that take about as long to read as it takes to name an aborted transaction
PARTITION_BYTES = 400  # that a fetch holds for each while it waits, about

# Reads a partition into its answer: so many bytes at most, or a first batch of any size.
Fill: TypeAlias = Callable[[PartitionData, Wanted, int, bool], Partition]


@dataclass(slots=True)
class Missing:
    """What is not in memory of the partitions of an answer. `is_left_out`: the disk was too slow for it."""

    pieces: list[Piece] = field(default_factory=list)
    ahead: list[ReadAhead] = field(default_factory=list)
    of: set[Hashable] = field(default_factory=set)  # partitions
    is_left_out: bool = False
    _bytes: int = 0

    def add(self, wanted: Wanted, cold: ColdError) -> None:
        self.of.add(wanted.key)
        self.pieces += cold.pieces
        if cold.ahead is not None:
            self.ahead.append(cold.ahead)
        self._bytes += cold.size

    def take_bytes(self) -> int:
        """How much of the answer it will be, once."""
        taken, self._bytes = self._bytes, 0
        return taken


@dataclass(slots=True)
class Failure:
    """Why a log could not be read. It is taken out once: whoever kept an error would keep its frames, and
    what was read in them."""

    error: Exception | None

    def take(self) -> Exception | None:
        error, self.error = self.error, None
        return error


@dataclass(slots=True, kw_only=True)
class PartitionReads:
    """What a fetch wants, and how many bytes wait in each partition."""

    broker: Broker
    connection: int
    wanted: list[Wanted]
    session: Session | None
    incremental: bool
    by_id: bool
    bytes_min: int
    bytes_max: int
    knows_storage_error: bool = True
    denied: Collection[str] = ()  # topics that whoever fetches may not read
    usage: "Usage | None" = None  # of the fetcher's quotas, if it has any
    find_denied: Callable[[], Collection[str]] | None = None  # now: ACLs may have changed while it waited
    available: dict[TopicPartition, int] = field(default_factory=dict)
    by_partition: dict[TopicPartition, Wanted] = field(default_factory=dict)
    total: int = 0
    given: list[tuple[TopicTraffic, int]] = field(default_factory=list)  # bytes, as the answer has them
    warmth: Warmth = NOTHING_YET
    missing: Missing | None = None
    failure: Failure | None = None  # of the log, if its only partition was read before
    has_refused: bool = False
    uncounted: set[Hashable] | None = None  # partitions whose fetch is not counted yet, if others' are

    # -- waiting ----------------------------------------------------------------------------------

    def count(self, topic_partition: TopicPartition, available: int) -> None:
        """So many bytes can be read of a partition now."""
        self.total += available - self.available.get(topic_partition, 0)
        self.available[topic_partition] = available

    @property
    def is_enough(self) -> bool:
        return self.total >= self.bytes_min

    def park(
        self,
        keys: tuple[Key, ...],
        deadline_ms: int,
        ready: Callable[[Key, int], object],
        expire: Callable[[int], object],
    ) -> Parked:
        count = len(self.wanted)
        return Parked(
            keys=keys, deadline_ms=deadline_ms, ready=ready, expire=expire,
            held_bytes=PARTITION_BYTES * count if count > FEW else 0,
        )  # fmt: skip

    def wait_ms(self, asked_ms: int) -> int:
        """A connection whose answer waits is not closed for being idle, so the wait itself has an end."""
        return min(asked_ms, WAIT_MS_MAX, self.broker.config.connections_idle_ms_max)

    # -- the answer -------------------------------------------------------------------------------

    @property
    def is_first(self) -> bool:
        """Is it read for the first time, for a consumer whom nothing limits?"""
        return (
            self.usage is None
            and self.find_denied is None
            and self.failure is None
            and self.missing is None
            and self.warmth is NOTHING_YET
        )

    def take_failure(self) -> Exception | None:
        """What came of an earlier read, which then says nothing about the next."""
        failure, self.failure = self.failure, None
        return None if failure is None else failure.take()

    def respond(
        self,
        wanted: Iterable[Wanted],
        fill: Fill,
        now_ms: int,
        *,
        is_full: bool = False,
    ) -> Steps:
        """Records are read when there is a place for them, and as many as clients have left room for then: if
        none (`is_full`), not even a first batch. Until they are encoded they count as unsent. They are not
        given if that is more than the fetcher's quota. None if something has to be read from the disk first:
        then comes `bring_in`."""
        broker = self.broker
        budget, results = 0 if is_full else min(self.bytes_max, answer_bytes_max(broker)), []
        served: list[Wanted] = []
        read_bytes, at_least_one = 0, not is_full
        try:
            for asked in wanted:
                yield
                answer = self._read(asked, fill, budget - read_bytes, at_least_one)
                if answer.records:
                    read_bytes += len(answer.records)
                    broker.allowance.unsent_bytes += len(answer.records)
                    served.append(asked)
                    at_least_one = False
                elif self.missing is not None:
                    budget -= self.missing.take_bytes()
                    at_least_one = False
                if self._is_news(asked, answer):
                    results.append((asked, answer))
        finally:
            broker.allowance.unsent_bytes -= read_bytes
        if self.missing is not None and not self.missing.is_left_out:
            self._take_back(results)
            return None
        if self.usage is not None:
            answer_bytes = read_bytes + ANSWER_BYTES * len(results)
            if self.usage.charge_fetch(answer_bytes, now_ms):
                return self._throttled(results)
        if self.session is not None:
            self.session.rotate(served)
            self.session.answered_ms = now_ms
        hinted = []
        if self.has_refused:
            hinted = [answer.current_leader.leader_id for _, answer in results if answer.current_leader]
        return FetchResponse(
            session_id=self.session.id if self.session else NO_SESSION,
            responses=_by_topic(results),
            node_endpoints=endpoints(broker, self.connection, hinted, NodeEndpoint) if hinted else [],
        )

    def bring_in(self, now_ms: int, respond: Callable[[int], Any]) -> Parked:
        """Have a worker read what is missing, and answer then."""
        assert self.missing is not None, "something is missing"
        job, ahead = WarmUp(self.missing.pieces), self.missing.ahead
        self.warmth, self.uncounted, self.missing = self.warmth.with_more(job.pieces), self.missing.of, None

        def expire(expired_ms: int) -> Any:
            self.missing = Missing(is_left_out=True)
            return respond(expired_ms)

        parked = self.park((job,), now_ms + DISK_WAIT_MS, lambda _job, ready_ms: respond(ready_ms), expire)
        self.broker.outbox.put(RunJob(job, parked))
        for chore in ahead:
            self.broker.outbox.do(chore)
        return parked

    def _take_back(self, results: list[tuple[Wanted, PartitionData]]) -> None:
        """What was to be said is not said: it is news the next time."""
        self.given.clear()
        for wanted, _ in results:
            wanted.sent_high_watermark = -1

    def _throttled(self, results: list[tuple[Wanted, PartitionData]]) -> FetchResponse:
        """An answer without anything. A session that would begin with it does not."""
        self._take_back(results)
        if self.session is not None and not self.incremental:
            self.broker.sessions.close(self.session.id)
            self.session = None
        return FetchResponse(session_id=self.session.id if self.session else NO_SESSION)

    def _read(self, wanted: Wanted, fill: Fill, limit: int, at_least_one: bool) -> PartitionData:
        answer = PartitionData(partition_index=wanted.partition, high_watermark=-1, records=b"")
        unknown = self._unknown(wanted)
        if unknown is not None:
            answer.error_code = unknown
            return answer
        limit = max(min(wanted.max_bytes, limit), 0)
        if self.broker.allowance.read_left <= 0:  # hundreds may ask for megabytes at once
            limit = min(limit, FETCH_BYTES_MIN)
        try:
            traffic = fill(answer, wanted, limit, at_least_one).traffic
        except ApiError as error:
            answer.error_code, answer.aborted_transactions = error.code, None
            if error.code == ErrorCode.CORRUPT_MESSAGE:
                self.broker.storage.report_damage(wanted.topic_partition, error)
            if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1
            if error.code in {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}:
                answer.current_leader = self._leader_hint(wanted)
            self._count_refused(wanted, error.code)
            self._hide_storage_error(answer)
        except ColdError as cold:
            self.missing = self.missing or Missing()
            self.missing.add(wanted, cold)
        except OSError as error:
            answer.error_code = self.broker.storage.failed(error)
            self._count_refused(wanted, answer.error_code)
            self._hide_storage_error(answer)
        else:
            if self.uncounted is None or wanted.key in self.uncounted:
                traffic.fetch_requests += 1
            if answer.records:
                self.given.append((traffic, len(answer.records)))
        return answer

    def _count_refused(self, wanted: Wanted, code: ErrorCode) -> None:
        self.has_refused = True
        if self.uncounted is None or wanted.key in self.uncounted:
            self.broker.traffic.on_refused_fetch(wanted.topic, code)

    def _hide_storage_error(self, answer: PartitionData) -> None:
        if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR and not self.knows_storage_error:
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _unknown(self, wanted: Wanted) -> ErrorCode | None:
        """The error for what does not exist, or may not be read, without raising it: a request may name very
        many of those."""
        if self.by_id and not wanted.topic:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if wanted.topic in self.denied:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        topic = self.broker.image.topics.get(wanted.topic)
        exists = topic is not None and wanted.partition in topic.assignment
        return None if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def partition(self, wanted: Wanted) -> Partition:
        if self.by_id and not wanted.topic:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        if wanted.topic in self.denied:
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = self.broker.partitions.find(wanted.topic, wanted.partition)
        if self.by_id and partition.topic_id != wanted.topic_id:
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
        return partition

    def describe(self, answer: PartitionData, partition: Partition) -> None:
        """How far a partition goes."""
        answer.high_watermark = partition.high_watermark
        answer.last_stable_offset = partition.last_stable_offset
        answer.log_start_offset = partition.log.log_start_offset

    def records(
        self, partition: Partition, wanted: Wanted, limit: int, *, end: int, at_least_one: bool
    ) -> Buffer:
        read = partition.log.read(
            wanted.fetch_offset, limit, end=end, at_least_one=at_least_one, warmth=self.warmth
        )
        return taken(self.broker, read)

    def _leader_hint(self, wanted: Wanted) -> LeaderIdAndEpoch | None:
        leader = leader_of(self.broker, wanted.topic, wanted.partition)
        return LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]) if leader else None

    def _is_news(self, wanted: Wanted, answer: PartitionData) -> bool:
        """An incremental answer holds only what has records, an error, or moved watermarks."""
        high_watermark, log_start = answer.high_watermark, answer.log_start_offset
        changed = wanted.sent_high_watermark != high_watermark or wanted.sent_log_start != log_start
        wanted.sent_high_watermark, wanted.sent_log_start = high_watermark, log_start
        if answer.error_code or answer.diverging_epoch is not None:
            wanted.sent_high_watermark = -1  # the fetcher did not take it up
        return (
            not self.incremental
            or changed
            or bool(answer.records)
            or answer.error_code != ErrorCode.NONE
            or answer.diverging_epoch is not None
            or answer.preferred_read_replica != NO_REPLICA
        )


def is_long(count: int) -> bool:
    """Is an answer about so many partitions made in slices?"""
    return count > LONG


def answer_bytes_max(broker: Broker) -> int:
    """What one answer may hold. Clients that do not read what they asked for leave less for the next."""
    config = broker.config
    left = config.unsent_bytes_max - broker.allowance.unsent_bytes
    return min(config.fetch_bytes_max, max(left, FETCH_BYTES_MIN))


def taken(broker: Broker, read: Read) -> Buffer:
    """The records of a read. What comes next is brought in meanwhile."""
    broker.allowance.read_left -= len(read.records)
    if read.ahead is not None:
        broker.outbox.do(read.ahead)
    return read.records


def named_aborted(broker: Broker, aborted: list[Aborted]) -> list[AbortedTransaction]:
    """What was aborted among the records of an answer, which a client leaves out."""
    broker.allowance.read_left -= ABORTED_BYTES * len(aborted)
    return [
        AbortedTransaction(producer_id=transaction.producer_id, first_offset=transaction.first_offset)
        for transaction in aborted
    ]


def check_offset(partition: Partition, wanted: Wanted) -> None:
    """A replica that does not lead cannot know where the log ends: there may be more than it has."""
    log = partition.log
    if log.log_start_offset <= wanted.fetch_offset <= log.log_end_offset:
        return
    if log.log_end_offset < wanted.fetch_offset and not partition.is_leader:
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
    raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)


def diverging(partition: Partition, wanted: Wanted) -> EpochEndOffset | None:
    """Where the fetcher's log and ours part, if they do (KIP-595, KIP-320)."""
    if wanted.last_fetched_epoch < 0:
        return None
    epoch, end_offset = partition.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch < 0 or wanted.fetch_offset < partition.log.log_start_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


def _by_topic(results: list[tuple[Wanted, PartitionData]]) -> list[FetchableTopicResponse]:
    """Answers side by side for the same topic travel under one heading, in the order they were read."""
    if len(results) == 1:
        ((wanted, answer),) = results
        return [FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id, partitions=[answer])]
    topics: list[FetchableTopicResponse] = []
    for wanted, answer in results:
        last = topics[-1] if topics else None
        if last is None or last.topic != wanted.topic or last.topic_id != wanted.topic_id:
            topics.append(last := FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id))
        last.partitions.append(answer)
    return topics
