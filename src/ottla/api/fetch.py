"""Fetch (key 1): record batches from many partitions, as soon as there are enough bytes or the time is up.

Whole batches are returned as they are on disk, beginning with the one that holds the fetch offset. The
first partition that has anything gives at least one batch, however large (KIP-74), so that no limit can
starve a reader. A session (KIP-227) remembers what is wanted; its answers leave out partitions with
nothing new. A partition named twice in one request is read once, as named last.

v4 isolation level · v5 log_start_offset · v6 KAFKA_STORAGE_ERROR · v7 sessions · v9 leader epochs · v11 rack
v12 flexible, diverging epoch · v13 topic ids · v15 replica state · v16 leader hints
v18 high watermark of the follower
Left out: aborted transactions (no transactions yet); replicas (a fetch with a replica id is refused).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.api.call import Call
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.broker import Broker
from ottla.broker.offline import report_damage
from ottla.broker.parked import Key, Parked
from ottla.replication.partition import Partition
from ottla.replication.sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, Session, Wanted
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

TOPIC_IDS_SINCE = 13
STORAGE_ERROR_SINCE = 6
READ_COMMITTED = 1
FETCH_BYTES_MIN = 64 * 1024
WAIT_MS_MAX = 300_000


def fetch(call: Call, request: FetchRequest) -> FetchResponse | Parked:
    bytes_max = min(request.max_bytes, _bytes_max(call.broker))
    replica_id = request.replica_state.replica_id if request.replica_state else request.replica_id
    try:
        wanted, session, incremental = _resolve(call, request)
    except ApiError as error:
        return FetchResponse(error_code=error.code, session_id=NO_SESSION)
    ongoing = Fetch(
        broker=call.broker,
        wanted=wanted,
        session=session,
        incremental=incremental,
        by_id=call.version >= TOPIC_IDS_SINCE,
        is_replica=replica_id >= 0,
        read_committed=request.isolation_level == READ_COMMITTED,
        bytes_min=min(request.min_bytes, bytes_max),
        bytes_max=bytes_max,
        knows_storage_error=call.version >= STORAGE_ERROR_SINCE,
    )
    if request.max_wait_ms <= 0 or not wanted or ongoing.is_satisfied():
        return ongoing.respond()
    return Parked(
        keys=tuple(ongoing.available),
        deadline_ms=call.now_ms + _wait_ms(call.broker, request.max_wait_ms),
        ready=ongoing.ready,
        expire=lambda _now_ms: ongoing.respond(),
    )


def _wait_ms(broker: Broker, asked_ms: int) -> int:
    """A connection whose answer waits is not closed for being idle, so the wait itself has an end."""
    return min(asked_ms, WAIT_MS_MAX, broker.config.connections_idle_ms_max)


def _bytes_max(broker: Broker) -> int:
    """What one answer may hold. Clients that do not read what they asked for leave less for the next."""
    left = broker.config.unsent_bytes_max - broker.unsent_bytes
    return min(broker.config.fetch_bytes_max, max(left, FETCH_BYTES_MIN))


def _resolve(call: Call, request: FetchRequest) -> tuple[list[Wanted], Session | None, bool]:
    """What to read, under which session, and whether the answer may leave out what has not changed."""
    sessions = call.broker.sessions
    by_id = call.version >= TOPIC_IDS_SINCE
    asked = list({one.key: one for one in _asked(call, request, by_id)}.values())  # the last one counts
    if request.session_epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
        sessions.close(request.session_id)
        if request.session_epoch == FINAL_EPOCH or not asked:
            return asked, None, False
        session = sessions.open(asked, by_topic_id=by_id, now_ms=call.now_ms)
        return asked, session, False
    session = sessions.resume(
        request.session_id, request.session_epoch, by_topic_id=by_id, now_ms=call.now_ms
    )
    forgotten = [
        (topic.topic_id if by_id else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    sessions.update(session, asked, forgotten)
    wanted = list(session.wanted.values())
    if not wanted:
        sessions.close(session.id)
        return wanted, None, False
    for one in wanted:
        if by_id and not one.topic:
            one.topic = call.broker.image.topic_names.get(one.topic_id, "")
    return wanted, session, True


def _asked(call: Call, request: FetchRequest, by_id: bool) -> Iterable[Wanted]:
    names = call.broker.image.topic_names
    for topic in request.topics:
        name = names.get(topic.topic_id, "") if by_id else topic.topic
        for one in topic.partitions:
            yield Wanted(
                name, topic.topic_id, one.partition, one.fetch_offset, one.partition_max_bytes,
                one.current_leader_epoch, one.last_fetched_epoch,
            )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Fetch:
    """One request on its way: what it wants, and how many bytes wait in each partition."""

    broker: Broker
    wanted: list[Wanted]
    session: Session | None
    incremental: bool
    by_id: bool
    is_replica: bool
    read_committed: bool
    bytes_min: int
    bytes_max: int
    knows_storage_error: bool = True
    available: dict[TopicPartition, int] = field(default_factory=dict)
    by_partition: dict[TopicPartition, Wanted] = field(default_factory=dict)
    total: int = 0

    def is_satisfied(self) -> bool:
        """Enough bytes, or an error, which never waits."""
        for one in self.wanted:
            try:
                self._count(one.topic_partition, one)
            except (ApiError, OSError):
                return True  # reading it tells the client what is wrong
            self.by_partition[one.topic_partition] = one
        return self.total >= self.bytes_min

    def ready(self, key: Key, _now_ms: int) -> FetchResponse | None:
        """One partition moved: count it again. Enough, or an error: answer."""
        assert isinstance(key, TopicPartition), "a fetch waits for partitions"
        try:
            self._count(key, self.by_partition[key])
        except (ApiError, OSError):
            return self.respond()
        return self.respond() if self.total >= self.bytes_min else None

    def _count(self, id: TopicPartition, one: Wanted) -> None:
        ready = self._available(one)
        self.total += ready - self.available.get(id, 0)
        self.available[id] = ready

    def respond(self) -> FetchResponse:
        budget, results = self.bytes_max, []
        served: list[Wanted] = []
        for one in self.wanted:
            answer = self._read(one, budget, at_least_one=not served)
            if answer.records:
                budget -= len(answer.records)
                served.append(one)
            if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR and not self.knows_storage_error:
                answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if self._is_news(one, answer):
                results.append((one, answer))
        if self.session is not None:
            self.session.rotate(served)
        return FetchResponse(
            session_id=self.session.id if self.session else NO_SESSION, responses=_by_topic(results)
        )

    def _unknown(self, one: Wanted) -> ErrorCode | None:
        """The error for what does not exist, without raising it: a request may name very many of those."""
        if self.by_id and not one.topic:
            return ErrorCode.UNKNOWN_TOPIC_ID
        topic = self.broker.image.topics.get(one.topic)
        known = topic is not None and one.partition in topic.assignment
        return None if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _partition(self, one: Wanted) -> Partition:
        if self.by_id and not one.topic:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self.broker.partition(one.topic, one.partition)
        if self.by_id and partition.topic_id != one.topic_id:
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
        if self.is_replica:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition.check_leader(one.current_leader_epoch)
        return partition

    def _available(self, one: Wanted) -> int:
        partition = self._partition(one)
        log = partition.log
        if not log.log_start_offset <= one.fetch_offset <= log.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if _diverging(partition, one):
            raise ApiError(ErrorCode.NONE)
        return min(
            log.bytes_between(one.fetch_offset, partition.visible_end(self.read_committed)), one.max_bytes
        )

    def _read(self, one: Wanted, budget: int, *, at_least_one: bool) -> PartitionData:
        answer = PartitionData(partition_index=one.partition, high_watermark=-1, records=b"")
        unknown = self._unknown(one)
        if unknown is not None:
            answer.error_code = unknown
            return answer
        try:
            partition = self._partition(one)
            answer.high_watermark = partition.high_watermark
            answer.last_stable_offset = partition.last_stable_offset
            answer.log_start_offset = partition.log.log_start_offset
            answer.aborted_transactions = [] if self.read_committed else None
            answer.diverging_epoch = _diverging(partition, one)
            if answer.diverging_epoch is None:
                end = partition.visible_end(self.read_committed)
                limit = max(min(one.max_bytes, budget), 0)
                answer.records = partition.read(
                    one.fetch_offset, limit, end=end, at_least_one=at_least_one
                ).records
        except ApiError as error:
            answer.error_code, answer.aborted_transactions = error.code, None
            if error.code == ErrorCode.CORRUPT_MESSAGE:
                report_damage(self.broker, one.topic_partition, error)
            if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1
            if error.code in {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}:
                answer.current_leader = self._leader_hint(one)
        except OSError as error:
            answer.error_code = self.broker.storage_error(error)
        return answer

    def _leader_hint(self, one: Wanted) -> LeaderIdAndEpoch | None:
        topic = self.broker.image.topics.get(one.topic)
        state = topic.states.get(one.partition) if topic else None
        return LeaderIdAndEpoch(leader_id=state[0], leader_epoch=state[1]) if state else None

    def _is_news(self, one: Wanted, answer: PartitionData) -> bool:
        """An incremental answer holds only what has records, an error, or moved watermarks."""
        changed = (one.sent_high_watermark, one.sent_log_start) != (
            answer.high_watermark,
            answer.log_start_offset,
        )
        one.sent_high_watermark, one.sent_log_start = answer.high_watermark, answer.log_start_offset
        if answer.error_code:
            one.sent_high_watermark = -1
        return (
            not self.incremental
            or changed
            or bool(answer.records)
            or answer.error_code != ErrorCode.NONE
            or answer.diverging_epoch is not None
        )


def _diverging(partition: Partition, one: Wanted) -> EpochEndOffset | None:
    """Where the fetcher's log and ours part, if they do (KIP-595, KIP-320)."""
    if one.last_fetched_epoch < 0:
        return None
    epoch, end_offset = partition.end_offset_for_epoch(one.last_fetched_epoch)
    if epoch < 0 or one.fetch_offset < partition.log.log_start_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < one.last_fetched_epoch or end_offset < one.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


def _by_topic(results: list[tuple[Wanted, PartitionData]]) -> list[FetchableTopicResponse]:
    """Answers side by side for the same topic travel under one heading, in the order they were read."""
    topics: list[FetchableTopicResponse] = []
    for one, answer in results:
        last = topics[-1] if topics else None
        if last is None or last.topic != one.topic or last.topic_id != one.topic_id:
            topics.append(last := FetchableTopicResponse(topic=one.topic, topic_id=one.topic_id))
        last.partitions.append(answer)
    return topics
