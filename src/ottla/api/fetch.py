"""Fetch (key 1): record batches from many partitions, as soon as there are enough bytes or the time is up.

Whole batches are returned as they are on disk, beginning with the one that holds the fetch offset. The
first partition that has anything gives at least one batch, however large (KIP-74), so that no limit can
starve a reader. A session (KIP-227) remembers what is wanted; its answers leave out partitions with
nothing new. A partition named twice in one request is read once, as named last.

A follower says who and which incarnation it is, on a connection that is proved to be its own (or it is told
TOPIC_AUTHORIZATION_FAILED, as in Kafka), and reads to the end of the log; to ask for an offset is to hold all
before it. Consumers read up to the high watermark, from the leader or, since v11, from any replica;
with a rack-aware selector the leader sends those from another rack to a replica in theirs (KIP-392). A leader
that says "nothing more" or "out of range" to a consumer must be sure that it still leads (`proven`).

v4 isolation level · v5 log_start_offset · v6 KAFKA_STORAGE_ERROR · v7 sessions · v9 leader epochs · v11 rack
v12 flexible, diverging epoch · v13 topic ids · v15 replica state · v16 leader hints
v18 high watermark of the follower
Left out: aborted transactions (no transactions yet).
"""

from dataclasses import dataclass, field
from typing import Any

from ottla.api.call import Call
from ottla.api.fetch_offsets import check_offset, diverging
from ottla.api.fetch_sessions import TOPIC_IDS_SINCE, resolve, unauthorized
from ottla.api.leaders import endpoints, leader_of
from ottla.api.proven import WAIT_MS, check_led
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import Buffer
from ottla.base.ids import TopicPartition
from ottla.broker.broker import Broker
from ottla.broker.config import RACK_AWARE_SELECTOR
from ottla.broker.offline import report_damage
from ottla.broker.parked import Key, Parked
from ottla.broker.proofs import Proof
from ottla.broker.replicas import Follows
from ottla.broker.slices import LARGE, Steps, finished
from ottla.replication.leader import Follower
from ottla.replication.partition import Partition
from ottla.replication.sessions import NO_SESSION, Session, Wanted
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

FOLLOWERS_SINCE = 11
NO_REPLICA = NEVER = -1
STORAGE_ERROR_SINCE = 6
READ_COMMITTED = 1
FETCH_BYTES_MIN = 64 * 1024
RECORDS_WAIT_MS = 25  # that records wait for the proof of what is said of other partitions
WAIT_MS_MAX = 300_000
LONG = 1_000  # partitions; an answer about more is made in slices
FEW = 60  # partitions; an answer about more waits where much is answered at the same time
PARTITION_BYTES = 400  # that a fetch holds for each while it waits, about


def fetch(call: Call, request: FetchRequest) -> Any:
    steps = _fetch(call, request)
    count = sum(len(topic.partitions) for topic in request.topics)
    if request.session_id and not call.broker.identities.is_broker(call.connection):
        count += call.broker.sessions.partitions(request.session_id)
    return steps if count > LONG else finished(steps)


def _fetch(call: Call, request: FetchRequest) -> Steps:
    bytes_max = min(request.max_bytes, _bytes_max(call.broker))
    replica_id, replica_epoch = request.replica_id, NO_REPLICA
    if request.replica_state:
        replica_id, replica_epoch = request.replica_state.replica_id, request.replica_state.replica_epoch
    if replica_id >= 0 and not call.may_act_as(replica_id, "Fetch"):
        return unauthorized(request)
    try:
        wanted, session, incremental = yield from resolve(
            call, request, is_follower=replica_id in call.broker.image.brokers
        )
    except ApiError as error:
        return FetchResponse(error_code=error.code, session_id=NO_SESSION)
    ongoing = Fetch(
        broker=call.broker,
        wanted=wanted,
        session=session,
        incremental=incremental,
        by_id=call.version >= TOPIC_IDS_SINCE,
        replica_id=replica_id,
        replica_epoch=replica_epoch,
        leader_only=call.version < FOLLOWERS_SINCE,
        rack=_rack_to_serve(call.broker, request.rack_id),
        read_committed=request.isolation_level == READ_COMMITTED,
        bytes_min=min(request.min_bytes, bytes_max),
        bytes_max=bytes_max,
        asked_ms=call.now_ms,
        now_ms=call.now_ms,
        vouched_ms=session.answered_ms if session is not None and incremental else NEVER,
        knows_storage_error=call.version >= STORAGE_ERROR_SINCE,
    )
    is_urgent = request.max_wait_ms <= 0 or not wanted
    if replica_id >= 0:
        is_urgent |= ongoing.is_satisfied()  # it tells how far the follower is, even if it cannot wait
        call.broker.isr.pump(call.now_ms)
    if is_urgent or (replica_id < 0 and ongoing.is_satisfied()):
        return ongoing.respond_proven(call.now_ms)
    for partition in ongoing.unproven(call.now_ms):
        call.broker.proofs.ask_for(partition, call.now_ms, call.now_ms)  # there is time for it now
    keys: tuple[Key, ...] = tuple(ongoing.available)
    wait_ms = _wait_ms(call.broker, request.max_wait_ms)
    if replica_id >= 0:
        keys = (Follows(replica_id),)
        wait_ms = call.broker.replicas.wait_ms(replica_id, wait_ms, call.now_ms)
    return Parked(
        keys=keys, deadline_ms=call.now_ms + wait_ms, ready=ongoing.ready, expire=ongoing.respond_in_turn,
        held_bytes=PARTITION_BYTES * len(wanted) if len(wanted) > FEW else 0,
    )  # fmt: skip


def _rack_to_serve(broker: Broker, rack: str) -> str:
    """The consumer's rack, if there is a reason to look for a replica in it."""
    wanted = broker.config.replica_selector_class == RACK_AWARE_SELECTOR and rack != broker.config.rack
    return rack if wanted else ""


def _wait_ms(broker: Broker, asked_ms: int) -> int:
    """A connection whose answer waits is not closed for being idle, so the wait itself has an end."""
    return min(asked_ms, WAIT_MS_MAX, broker.config.connections_idle_ms_max)


def _bytes_max(broker: Broker) -> int:
    """What one answer may hold. Clients that do not read what they asked for leave less for the next."""
    left = broker.config.unsent_bytes_max - broker.unsent_bytes
    return min(broker.config.fetch_bytes_max, max(left, FETCH_BYTES_MIN))


@dataclass(slots=True, kw_only=True)
class Fetch:
    """One request on its way: what it wants, and how many bytes wait in each partition."""

    broker: Broker
    wanted: list[Wanted]
    session: Session | None
    incremental: bool
    by_id: bool
    replica_id: int
    replica_epoch: int
    leader_only: bool
    rack: str
    read_committed: bool
    bytes_min: int
    bytes_max: int
    asked_ms: int
    now_ms: int
    vouched_ms: int  # when a follower was given the answer it goes on from
    knows_storage_error: bool = True
    available: dict[TopicPartition, int] = field(default_factory=dict)
    by_partition: dict[TopicPartition, Wanted] = field(default_factory=dict)
    total: int = 0
    proven_ms: int = NEVER  # when it was last proven that this broker leads all that it must lead
    is_counted: bool = False  # the leader has heard how far this follower is

    @property
    def is_replica(self) -> bool:
        return self.replica_id >= 0

    @property
    def registered_epoch(self) -> int:
        """The follower's incarnation as we know it; -1 while it is not there."""
        registered = self.broker.image.brokers.get(self.replica_id)
        return registered.epoch if registered else NO_REPLICA

    def is_satisfied(self) -> bool:
        """Enough bytes, or an error, which never waits."""
        has_error = False
        for one in self.wanted:
            id = one.topic_partition
            self.by_partition[id] = one
            if self.replica_id >= 0 and (follower := self._quiet(one, id)) is not None:
                follower.caught_up_ms = follower.fetched_ms = self.now_ms
                follower.vouched_ms = self.vouched_ms
                if self.broker.proofs.is_awaited:
                    self.broker.proofs.on_follower_fetch(self.broker.partitions[id], self.now_ms)
                continue
            try:
                self._count(id, one)
            except (ApiError, OSError):
                has_error = True  # reading it tells the client what is wrong
                if not self.is_replica:
                    break
        self.is_counted = True
        return has_error or self.total >= self.bytes_min

    def ready(self, key: Key, now_ms: int) -> Any | None:
        """One partition moved: count it again. Enough, or an error: answer."""
        id = self.broker.replicas.grown if isinstance(key, Follows) else key
        if id is None:
            return self.respond_in_turn(now_ms)
        assert isinstance(id, TopicPartition), "a fetch waits for partitions"
        one = self.by_partition.get(id)
        if one is None:
            return None
        try:
            self._count(id, one)
        except (ApiError, OSError):
            return self.respond_in_turn(now_ms)
        return self.respond_in_turn(now_ms) if self.total >= self.bytes_min else None

    def _count(self, id: TopicPartition, one: Wanted) -> None:
        ready = self._available(one)
        self.total += ready - self.available.get(id, 0)
        self.available[id] = ready

    def respond_in_turn(self, now_ms: int) -> Any:
        """The answer, or the steps to it: one record, or one moment, may end the wait of very many."""
        if len(self.wanted) <= FEW or self.is_replica:
            return self.respond_proven(now_ms)
        return self._respond_in_turn(now_ms)

    def _respond_in_turn(self, woken_ms: int) -> Steps:
        yield
        return self.respond_proven(max(woken_ms, self.broker.slices.now_ms))

    def respond_proven(self, now_ms: int) -> Any:
        """The answer; if it speaks of an end, or of an offset out of range, once it is proven to be true."""
        unproven = self.unproven(now_ms)
        if not unproven:
            return self.respond(now_ms)
        for partition in unproven:
            self.broker.proofs.ask_for(partition, self.asked_ms, now_ms)
        return Parked(
            keys=tuple(key for partition in unproven for key in (Proof(partition.id), partition.id)),
            deadline_ms=now_ms + (RECORDS_WAIT_MS if self.total else WAIT_MS),
            ready=lambda _key, woken_ms: None if self.unproven(woken_ms) else self.respond(woken_ms),
            expire=self.respond,
        )

    def unproven(self, now_ms: int) -> list[Partition]:
        """The partitions of which there is nothing to give, and others may have led them since."""
        if self.is_replica:
            return []
        proofs, unproven = self.broker.proofs, []
        for one in self.wanted:
            partition = self.broker.partitions.get(one.topic_partition)
            if partition is None or partition.replication is None or not partition.is_leader:
                continue
            if self._has_records(partition, one):
                continue
            if not proofs.led_at(partition, self.asked_ms, now_ms):
                unproven.append(partition)
        if not unproven:
            self.proven_ms = now_ms
        return unproven

    def _has_records(self, partition: Partition, one: Wanted) -> bool:
        return partition.log.log_start_offset <= one.fetch_offset < self._end(partition)

    def _check_led(self, partition: Partition) -> None:
        if self.proven_ms != self.now_ms and not self.is_replica and partition.leader == self.broker.id:
            check_led(self.broker, partition, self.asked_ms, self.now_ms)

    def respond(self, now_ms: int) -> Any:
        """The answer, or the steps to it if it is long. Followers, who come again and again with very many
        partitions of which few have changed, are answered at once."""
        steps = self._respond(now_ms)
        is_long = len(self.wanted) > LONG and not (self.is_replica and self.incremental)
        return steps if is_long else finished(steps)

    def _respond(self, now_ms: int) -> Steps:
        """Records are read when there is a place for them, and as many as clients have left room for then: if
        none, not even a first batch. Until they are encoded they count as unsent."""
        yield LARGE
        self.now_ms = now_ms
        is_full = not self.is_replica and self.broker.unsent_bytes > self.broker.config.unsent_bytes_max
        budget, results = 0 if is_full else min(self.bytes_max, _bytes_max(self.broker)), []
        served: list[Wanted] = []
        read_bytes = 0
        try:
            for one in self.wanted:
                yield
                if self.replica_id >= 0 and self._quiet(one, one.topic_partition) is not None:
                    continue
                answer = self._read(one, budget - read_bytes, at_least_one=not (served or is_full))
                if answer.records:
                    read_bytes += len(answer.records)
                    self.broker.unsent_bytes += len(answer.records)
                    served.append(one)
                if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR and not self.knows_storage_error:
                    answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                if self._is_news(one, answer):
                    results.append((one, answer))
        finally:
            self.broker.unsent_bytes -= read_bytes
        if self.session is not None:
            self.session.rotate(served)
            self.session.answered_ms = now_ms
        hinted = [answer.current_leader.leader_id for _, answer in results if answer.current_leader]
        return FetchResponse(
            session_id=self.session.id if self.session else NO_SESSION,
            responses=_by_topic(results),
            node_endpoints=endpoints(self.broker, hinted, NodeEndpoint) if hinted else [],
        )

    def _quiet(self, one: Wanted, id: TopicPartition) -> Follower | None:
        """The follower, if nothing can come of this partition: it is in sync and at the end, the leader knows
        it, and there is no news for it. It follows thousands of such, and asks for all of them each time."""
        partition = self.broker.partitions.get(id)
        if not self.incremental or partition is None or partition.replication is None:
            return None
        leader, log = partition.replication, partition.log
        follower = leader.followers.get(self.replica_id)
        is_quiet = (
            follower is not None
            and follower.log_end == one.fetch_offset == log.log_end_offset
            and follower.broker_epoch == self.replica_epoch == self.registered_epoch
            and follower.log_start == one.log_start_offset
            and one.current_leader_epoch == partition.leader_epoch
            and one.topic_id == partition.topic_id
            and one.sent_high_watermark == partition.high_watermark
            and one.sent_log_start == log.log_start_offset
            and self.replica_id in leader.isr
        )
        return follower if is_quiet else None

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
            self._check_follower(partition, one)
        elif self.leader_only or partition.leader == self.broker.id:
            partition.check_leader(one.current_leader_epoch)
        else:
            partition.check_epoch(one.current_leader_epoch)
        return partition

    def _check_follower(self, partition: Partition, one: Wanted) -> None:
        """Only a follower of this epoch, in its present incarnation, gets anything (KIP-320, KIP-903)."""
        partition.check_leader(one.current_leader_epoch)
        if partition.replication is None or self.replica_id not in partition.replication.followers:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.replica_epoch < self.registered_epoch:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH)
        if self.replica_epoch > self.registered_epoch:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)  # we have not heard of it yet; it tries again

    def _check_settled(self, partition: Partition, one: Wanted) -> None:
        """Whoever has read all that a new leader knows to be committed may have seen more of the one before,
        and must not see the high watermark go back. It waits; if it must be told something, then with the one
        error after which every client tries again."""
        if not self.is_replica and not partition.is_settled and one.fetch_offset >= partition.high_watermark:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _end(self, partition: Partition) -> int:
        if self.is_replica:
            return partition.log.log_end_offset
        return partition.visible_end(self.read_committed)

    def _available(self, one: Wanted) -> int:
        partition = self._partition(one)
        log = partition.log
        check_offset(partition, one)
        if diverging(partition, one):
            raise ApiError(ErrorCode.NONE)
        if self.is_replica:
            if not self.is_counted and one.current_leader_epoch >= 0:
                self.broker.replicas.on_follower_fetch(
                    partition, self.replica_id, one.fetch_offset, one.log_start_offset, self.replica_epoch,
                    self.vouched_ms, self.now_ms,
                )  # fmt: skip
            if self._is_throttled(partition):
                return 0
        elif self.rack and self._preferred(partition, one) != NO_REPLICA:
            raise ApiError(ErrorCode.NONE)
        return min(log.bytes_between(one.fetch_offset, self._end(partition)), one.max_bytes)

    def _is_throttled(self, partition: Partition) -> bool:
        replicas = self.broker.replicas
        return replicas.is_throttled_leader(partition, self.replica_id) and replicas.is_leader_exceeded(
            self.now_ms
        )

    def _preferred(self, partition: Partition, one: Wanted) -> int:
        """The replica in the consumer's rack that has what it asks for and most of what comes next."""
        leader = partition.replication
        if leader is None:
            return NO_REPLICA
        brokers = self.broker.image.brokers
        near = [
            (follower.log_end, -id)
            for id, follower in leader.followers.items()
            if leader.is_in_sync(id)
            and id in brokers
            and brokers[id].rack == self.rack
            and 0 <= follower.log_start <= one.fetch_offset <= follower.log_end
        ]
        return -max(near)[1] if near else NO_REPLICA

    def _read(self, one: Wanted, budget: int, *, at_least_one: bool) -> PartitionData:
        answer = PartitionData(partition_index=one.partition, high_watermark=-1, records=b"")
        unknown = self._unknown(one)
        if unknown is not None:
            answer.error_code = unknown
            return answer
        try:
            partition = self._partition(one)
            self._check_settled(partition, one)
            if not self._has_records(partition, one):
                self._check_led(partition)
            answer.high_watermark = partition.high_watermark
            answer.last_stable_offset = partition.last_stable_offset
            answer.log_start_offset = partition.log.log_start_offset
            answer.aborted_transactions = [] if self.read_committed else None
            answer.diverging_epoch = diverging(partition, one)
            if answer.diverging_epoch is not None:
                self._check_led(partition)
            if self.rack:
                answer.preferred_read_replica = self._preferred(partition, one)
            if answer.diverging_epoch is None and answer.preferred_read_replica == NO_REPLICA:
                answer.records = self._read_records(partition, one, budget, at_least_one)
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

    def _read_records(self, partition: Partition, one: Wanted, budget: int, at_least_one: bool) -> Buffer:
        check_offset(partition, one)
        is_limited = self.is_replica and self.broker.replicas.is_throttled_leader(partition, self.replica_id)
        if is_limited and self.broker.replicas.is_leader_exceeded(self.now_ms):
            return b""
        limit = max(min(one.max_bytes, budget), 0)
        if self.broker.read_left <= 0:  # hundreds may ask for megabytes at once
            limit = min(limit, FETCH_BYTES_MIN)
        found = partition.read(
            one.fetch_offset, limit, end=self._end(partition), at_least_one=at_least_one
        ).records
        self.broker.read_left -= len(found)
        if is_limited:
            self.broker.replicas.leader_throttle.record(len(found), self.now_ms)
        return found

    def _leader_hint(self, one: Wanted) -> LeaderIdAndEpoch | None:
        found = leader_of(self.broker, one.topic, one.partition)
        return LeaderIdAndEpoch(leader_id=found[0], leader_epoch=found[1]) if found else None

    def _is_news(self, one: Wanted, answer: PartitionData) -> bool:
        """An incremental answer holds only what has records, an error, or moved watermarks."""
        changed = (one.sent_high_watermark, one.sent_log_start) != (
            answer.high_watermark,
            answer.log_start_offset,
        )
        one.sent_high_watermark, one.sent_log_start = answer.high_watermark, answer.log_start_offset
        if answer.error_code or answer.diverging_epoch is not None:
            one.sent_high_watermark = -1  # the fetcher did not take it up
        return (
            not self.incremental
            or changed
            or bool(answer.records)
            or answer.error_code != ErrorCode.NONE
            or answer.diverging_epoch is not None
            or answer.preferred_read_replica != NO_REPLICA
        )


def _by_topic(results: list[tuple[Wanted, PartitionData]]) -> list[FetchableTopicResponse]:
    """Answers side by side for the same topic travel under one heading, in the order they were read."""
    topics: list[FetchableTopicResponse] = []
    for one, answer in results:
        last = topics[-1] if topics else None
        if last is None or last.topic != one.topic or last.topic_id != one.topic_id:
            topics.append(last := FetchableTopicResponse(topic=one.topic, topic_id=one.topic_id))
        last.partitions.append(answer)
    return topics
