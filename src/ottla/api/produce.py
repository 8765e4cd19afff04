"""Produce (key 0): append record batches to the logs of partitions.

acks=0   append, answer nothing; an error closes the connection, the only sign a client can get
acks=1   append, answer as soon as the log calls the batch safe
acks=-1  append, answer when the high watermark passes the batch, or the time is up

While it waits, this broker may stop leading: then nobody knows what becomes of the batch, and the answer is
NOT_LEADER_OR_FOLLOWER. Too few replicas in sync is NOT_ENOUGH_REPLICAS before the append, and
NOT_ENOUGH_REPLICAS_AFTER_APPEND after it. Where others may lead in our place without our knowledge
(`broker/leadership_proofs`), acks=1 waits for the proof, and what is wrong with a sequence is not said: this
broker may not know the latest of it. Where that lasts, nothing is appended: NOT_LEADER_OR_FOLLOWER.

Clients do not write to internal topics (INVALID_TOPIC_EXCEPTION), except for Kafka's admin client, which goes
by a client id of its own. What that writes is read before it is appended, so that no coordinator finds there
what it cannot read.

A batch that is large to check is checked by a worker; what is too much for this round of the loop, as others
were before it or as it has many batches, waits for the next (design note 010). The request is parked
meanwhile, and goes on with the batch it stopped at. What it still needs of its frame it has copied by then.
A batch with a producer id that gets no turn costs the connection: were what is behind it written, it would be
out of order for ever.

An error is one partition's and leaves the others alone. A batch already written by the same idempotent
producer is answered with the offset it got then.

A batch of a transaction may have to wait until its coordinator was asked about it
(`api/transactional_produce`); what is behind it on the connection waits, too, so the order stays.

A partition that is named twice in a request is INVALID_REQUEST. (Kafka takes the last of such batches, and
drops the others in silence.)

v3 record batches · v5 log_start_offset · v7 zstd · v8 per-record errors · v9 flexible · v10 leader hints ·
v11 TRANSACTION_ABORTABLE · v12 adds partitions to transactions · v13 ids
Left out: v0-v2 message sets (advertised, because old clients look for them, and refused).
"""

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ottla.api.call import Call, CloseConnection, Silence
from ottla.api.internal_topics import judge_of
from ottla.api.leaders import endpoints, leader_of
from ottla.api.leadership_proof import WAIT_MS, check_no_doubt
from ottla.api.named_partitions import named_once
from ottla.api.needs import TOPIC, WRITE
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import Buffer
from ottla.base.ids import TopicPartition
from ottla.base.log_fields import fields
from ottla.broker.broker import Broker
from ottla.broker.effects import RunJob
from ottla.broker.leadership_proofs import Proof
from ottla.broker.parked import ROUND, Key, Parked
from ottla.log.log import Appended
from ottla.log.validation import (
    LargeBatchError,
    LargeCheck,
    RejectedRecordsError,
    SpentError,
    budget_at_once,
    items_at_once,
)
from ottla.records.batch import HEADER_SIZE, TRANSACTIONAL, read_header
from ottla.records.check import Budget
from ottla.replication.partition import Partition
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from ottla.api.transactional_produce import Verifying

log = logging.getLogger(__name__)

PRODUCE = 0
LEGAL_ACKS = (-1, 0, 1)
TOPIC_IDS_SINCE = 13
SEQUENCE_ERRORS = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNKNOWN_PRODUCER_ID,
}
UNSURE_MS = 3_000  # after which it is asked whether this broker still leads
ITEMS_PER_BATCH = 16  # what a batch costs besides its records
TURN_MS_MAX = 30_000
ATTRIBUTES_AT = 22  # the low byte of a batch's attributes


class UnverifiedError(Exception):
    """A coordinator is being asked whether batches may be appended."""


@dataclass(slots=True)
class Tried:
    """What came of a batch that was tried before, on a budget of `share` items. It is taken out once: whoever
    kept an error would keep its frames, and the bytes that were received."""

    outcome: Appended | Exception | None
    share: int

    def take(self) -> Appended | None:
        outcome, self.outcome = self.outcome, None
        if not isinstance(outcome, Exception):
            return outcome
        try:
            raise outcome
        finally:
            del outcome  # or its traceback would lead back to it


@dataclass(slots=True)
class Unsafe:
    """An appended batch that is not as safe yet as its producer asked; or a refused one, whose producer is
    told so if this broker surely leads."""

    partition: Partition
    leader_epoch: int
    end_offset: int
    reply: PartitionProduceResponse
    is_refused: bool = False


@dataclass(slots=True)
class Produce:
    """One request on its way: what was answered so far, and what must become safe first."""

    broker: Broker
    connection: int
    acks: int
    asked_ms: int
    response: ProduceResponse
    deadline_ms: int = 0
    unsafe: list[Unsafe] = field(default_factory=list)

    def ready(self, _key: Key, now_ms: int) -> ProduceResponse | None:
        still = []
        for batch in self.unsafe:
            if self._must_wait(batch, now_ms):
                still.append(batch)  # noqa: PERF401 - a comprehension is a call more with every request
        self.unsafe = still
        return None if still else self.response

    def _must_wait(self, batch: Unsafe, now_ms: int) -> bool:
        """Is it still open what becomes of a batch? If not, its reply says it."""
        broker, partition = self.broker, batch.partition
        if broker.store.lost and self._is_lost(partition):
            self._fail(batch, ErrorCode.KAFKA_STORAGE_ERROR)
            return False
        if not partition.is_leader or partition.leader_epoch != batch.leader_epoch:
            self._fail(batch, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            leader = leader_of(broker, *partition.topic_partition)
            if leader is not None:
                self.hint(batch.reply, *leader)
            return False
        if batch.is_refused or partition.is_acknowledged(batch.end_offset, self.acks):
            needs_proof = batch.is_refused or self.acks != -1
            if not needs_proof or broker.proofs.led_at(partition, self.asked_ms, now_ms):
                return False
        elif self.acks == -1 and partition.is_under_min_isr:
            self._fail(batch, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            return False
        return self._may_wait(batch, now_ms)

    def _is_lost(self, partition: Partition) -> bool:
        name = partition.topic_partition
        return name in self.broker.store.lost and self.broker.partitions.get(name) is not partition

    def _may_wait(self, batch: Unsafe, now_ms: int) -> bool:
        """Not if it is in doubt whether this broker leads. What takes its time asks for a proof."""
        proofs, partition = self.broker.proofs, batch.partition
        if partition.topic_partition in proofs.in_doubt:
            self._fail(batch, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return False
        takes_long = (
            batch.is_refused or self.acks == 1 or now_ms >= min(self.asked_ms + UNSURE_MS, self.deadline_ms)
        )
        if takes_long and not proofs.led_at(partition, self.asked_ms, now_ms):
            proofs.ask_for(partition, self.asked_ms, now_ms)
        return True

    def park(self, now_ms: int) -> Parked:
        waiting = dict.fromkeys(batch.partition.topic_partition for batch in self.unsafe)
        unsure_ms = self.asked_ms + UNSURE_MS
        return Parked(
            keys=(*waiting, *map(Proof, waiting)),
            deadline_ms=min(self.deadline_ms, unsure_ms) if now_ms < unsure_ms else self.deadline_ms,
            ready=self.ready,
            expire=self.expire,
        )

    def hint(self, reply: PartitionProduceResponse, leader: int, epoch: int) -> None:
        """Say who leads, and where that is (KIP-951)."""
        reply.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
        named = {node.node_id for node in self.response.node_endpoints}
        self.response.node_endpoints += endpoints(
            self.broker, self.connection, {leader} - named, NodeEndpoint
        )

    @staticmethod
    def _fail(batch: Unsafe, code: ErrorCode) -> None:
        batch.reply.error_code, batch.reply.base_offset = code, -1
        batch.reply.log_append_time_ms = batch.reply.log_start_offset = -1

    def expire(self, now_ms: int) -> ProduceResponse | Parked:
        answer = self.ready(None, now_ms)
        if answer is not None:
            return answer
        if now_ms < self.deadline_ms:
            return self.park(now_ms)
        for batch in self.unsafe:
            late = ErrorCode.NOT_LEADER_OR_FOLLOWER if batch.is_refused else ErrorCode.REQUEST_TIMED_OUT
            self._fail(batch, late)
        return self.response


def produce(
    call: Call, request: ProduceRequest, tried: Tried | None = None
) -> ProduceResponse | Parked | None:
    """Produce. `tried`: what came of its only batch, if that was tried before (`single_produce`)."""
    ongoing = Produce(call.broker, call.connection, request.acks, call.now_ms, ProduceResponse())
    batches: list[tuple[TopicProduceResponse, PartitionProduceData]] = []
    has_authorizer = call.broker.access.authorizer is not None
    for topic in request.topic_data:
        reply = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[])
        ongoing.response.responses.append(reply)
        if has_authorizer and not _may_write(call, reply):
            reply.partition_responses = [_unauthorized(asked.index) for asked in topic.partition_data]
            continue
        for asked in topic.partition_data:
            batches.append((reply, asked))  # noqa: PERF401 - mostly it is one, and a comprehension a call
    if len(batches) > 1:
        batches = named_once(batches)
    size = 0
    for _, asked in batches:
        size += len(asked.records or b"")
    answer = Appending(request, ongoing, batches, size, tried=tried).go_on(call)
    if isinstance(answer, CloseConnection):
        raise answer
    return None if isinstance(answer, Silence) else answer


@dataclass(slots=True)
class Appending:
    """The batches of a request on their way into their logs, in their order."""

    request: ProduceRequest
    ongoing: Produce
    batches: list[tuple[TopicProduceResponse, PartitionProduceData]]
    size: int  # of the batches, in bytes
    done: int = 0
    check: LargeCheck | None = None  # of the batch that is next, if that is large
    is_copied: bool = False
    transaction: "Verifying | None" = None  # what is known of it, once a batch belongs to one
    tried: Tried | None = None  # of the batch that is next

    def go_on(self, call: Call) -> ProduceResponse | Parked | Silence | CloseConnection:
        """Append until all is done, or others must have their turn."""
        broker, self.ongoing.asked_ms = call.broker, call.now_ms
        budget = budget_at_once(self.size, broker.allowance.items_left)
        broker.allowance.items_left -= budget.items
        try:
            return self._append(call, budget)
        finally:
            broker.allowance.items_left += max(budget.items, 0)

    def _append(self, call: Call, budget: Budget) -> ProduceResponse | Parked | Silence | CloseConnection:
        begun, share = self.done, budget.items if self.tried is None else self.tried.share
        while self.done < len(self.batches):
            topic, asked = self.batches[self.done]
            try:
                if self.done:
                    budget.spend(ITEMS_PER_BATCH)
                reply = self._append_batch(call, topic, asked, budget)
            except LargeBatchError as large:
                if self.done == begun and share >= items_at_once(self.size):
                    self.check = large.check()  # more than it may ever cost at once
                return self._wait(call)
            except (SpentError, UnverifiedError):
                return self._wait(call)
            topic.partition_responses.append(reply)
            self.done += 1
            self.check = None
        return self._finish(call)

    def _append_batch(
        self, call: Call, topic: TopicProduceResponse, asked: PartitionProduceData, budget: Budget
    ) -> PartitionProduceResponse:
        """The next batch, into its log: what its producer is told, now or once it is safe."""
        broker, acks, check = call.broker, self.request.acks, self.check
        reply = PartitionProduceResponse(index=asked.index, base_offset=-1)
        name, partition = topic.name, None
        try:
            if acks not in LEGAL_ACKS:
                raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
            if call.version >= TOPIC_IDS_SINCE:
                name = call.topic_name(name, topic.topic_id, by_id=True)
            judge = judge_of(call, name) if check is None else None
            partition = broker.partitions.find(name, asked.index)
            check_no_doubt(broker, partition, call.now_ms)
            records = _records_of(asked)
            if records[ATTRIBUTES_AT] & TRANSACTIONAL:
                self._check_transaction(call, partition, records)
            appended = self._take_tried() or broker.replicas.append(
                partition,
                records if check is None else check.take(),
                acks=acks,
                now_ms=call.now_ms,
                wall_ms=broker.storage.wall_ms(call.now_ms),
                produce_version=call.version,
                budget=budget,
                judge=judge,
            )
        except ApiError as error:
            broker.traffic.on_refused_batch(name, error, len(asked.records or b""))
            self._refuse(broker, TopicPartition(name, asked.index), partition, reply, error)
        else:
            reply.base_offset = appended.base_offset
            reply.log_append_time_ms = appended.log_append_time_ms
            reply.log_start_offset = appended.log_start_offset
            count_produced(partition, appended, len(records))
            end_offset = appended.last_offset + 1
            is_last = self.done + 1 == len(self.batches)
            if acks != -1 or not is_last or partition.high_watermark < end_offset or broker.store.lost:
                self.ongoing.unsafe.append(Unsafe(partition, partition.leader_epoch, end_offset, reply))
        return reply

    def _take_tried(self) -> Appended | None:
        tried, self.tried = self.tried, None
        return None if tried is None else tried.take()

    def _check_transaction(self, call: Call, partition: Partition, records: memoryview) -> None:
        """The first batch of a transaction in a partition waits until the coordinator has confirmed it."""
        if self.transaction is None:
            from ottla.api.transactional_produce import Verifying  # few producers need it

            self.transaction = Verifying(call.version, self.request.transactional_id)
            self.transaction.begin(call, self._transactional(call))
        if self.transaction.is_open:
            raise UnverifiedError
        self.transaction.check(partition, records)

    def _transactional(self, call: Call) -> Iterator[tuple[Partition, memoryview]]:
        """What is still to be appended and belongs to a transaction, as far as its partition is here."""
        for topic, asked in self.batches[self.done :]:
            try:
                records = _records_of(asked)
                name = call.topic_name(topic.name, topic.topic_id, by_id=call.version >= TOPIC_IDS_SINCE)
                partition = call.broker.partitions.find(name, asked.index)
            except ApiError:
                continue  # which is said when it is its turn
            if records[ATTRIBUTES_AT] & TRANSACTIONAL:
                yield partition, records

    def _refuse(
        self,
        broker: Broker,
        topic_partition: TopicPartition,
        partition: Partition | None,
        reply: PartitionProduceResponse,
        error: ApiError,
    ) -> None:
        """Say why a batch is not in its log. What is wrong with a sequence is said if this broker surely
        leads."""
        if error.code in SEQUENCE_ERRORS and self.request.acks and partition is not None:
            refused = Unsafe(partition, partition.leader_epoch, 0, reply, is_refused=True)
            self.ongoing.unsafe.append(refused)
        reply.error_code, reply.error_message = error.code, error.message
        if isinstance(error, RejectedRecordsError):
            reply.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=reason)
                for index, reason in error.records
            ]
        if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            leader = leader_of(broker, *topic_partition)
            if leader is not None and leader[0] != broker.id:
                self.ongoing.hint(reply, *leader)

    def _wait(self, call: Call) -> Parked:
        """For the check of the next batch, for a coordinator, or for the next round."""
        check, rest = self.check, [asked for _, asked in self.batches[self.done :]]
        transaction = self.transaction
        if check is not None:
            rest[0].records = check.view  # a copy
        if not self.is_copied:
            self.is_copied = True
            for asked in rest:
                if isinstance(asked.records, memoryview):
                    asked.records = memoryview(bytearray(asked.records))

        def resume(_key: Key, now_ms: int) -> ProduceResponse | Parked | Silence | CloseConnection:
            try:
                return self.go_on(replace(call, now_ms=now_ms))
            except Exception:
                log.exception(
                    "bug: Produce v%d from client %r failed, correlation id %d",
                    call.version, call.client_id, call.correlation_id,
                    extra=fields(
                        api="Produce", version=call.version, client=call.client_id,
                        correlation=call.correlation_id, host=call.host,
                    ),
                )  # fmt: skip
                return CloseConnection("Produce failed")

        key: Key = ROUND if check is None else check
        if transaction is not None and transaction.is_open:
            key = transaction
        parked = Parked(
            keys=(key,),
            deadline_ms=call.now_ms + max(self.request.timeout_ms, TURN_MS_MAX),
            ready=resume,
            expire=lambda now_ms: self._expire(replace(call, now_ms=now_ms)),
            held_bytes=sum(len(asked.records or b"") for asked in rest),
            cost=max(items_at_once(self.size), 0 if check is None else check.count),
            outlives_client=self.request.acks == 0,
        )
        if check is not None and key is check:
            call.broker.outbox.put(RunJob(check, parked))
        return parked

    def _expire(self, call: Call) -> ProduceResponse | Parked | Silence | CloseConnection:
        """Too many were before it: what is not in its log yet will not be. A producer with an id sends it
        again in its order, on another connection, before anything that came behind it."""
        if self.transaction is not None and self.transaction.is_open:
            self.transaction.give_up()
            return self.go_on(call)
        if any(_has_producer(asked.records) for _, asked in self.batches[self.done :]):
            return CloseConnection("a batch got no turn in time, and those behind it must not be before it")
        for topic, asked in self.batches[self.done :]:
            late = PartitionProduceResponse(
                index=asked.index, error_code=ErrorCode.REQUEST_TIMED_OUT, base_offset=-1
            )
            topic.partition_responses.append(late)
        self.done = len(self.batches)
        return self._finish(call)

    def _finish(self, call: Call) -> ProduceResponse | Parked | Silence | CloseConnection:
        """All has been tried: answer, or wait until it is as safe as the producer asked."""
        ongoing, request = self.ongoing, self.request
        if request.acks == 0:
            replies = (reply for topic in ongoing.response.responses for reply in topic.partition_responses)
            if errors := Counter(reply.error_code for reply in replies if reply.error_code):
                call.broker.requests.by_key[PRODUCE].add_errors(errors)  # nobody is told, as in Kafka
                return CloseConnection("a produce with acks=0 failed")
            return Silence.NO_REPLY
        wait_ms = max(request.timeout_ms, WAIT_MS if request.acks == 1 else 0)
        ongoing.deadline_ms = call.now_ms + wait_ms
        if ongoing.unsafe and ongoing.ready(None, call.now_ms) is None:
            return ongoing.park(call.now_ms)
        return ongoing.response


def count_produced(partition: Partition, appended: Appended, size: int) -> None:
    """A producer's batch of `size` bytes, once it is in its log."""
    traffic = partition.traffic
    traffic.produce_requests += 1
    if not appended.duplicate:
        traffic.messages_in += appended.last_offset - appended.base_offset + 1
        traffic.bytes_in += size


def _may_write(call: Call, topic: TopicProduceResponse) -> bool:
    """A topic with an unknown id is refused for that."""
    name: str | None = topic.name
    if call.version >= TOPIC_IDS_SINCE:
        name = call.broker.image.topic_names.get(topic.topic_id)
    return name is None or call.allows(WRITE, TOPIC, name)


def _unauthorized(index: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, base_offset=-1
    )


def _records_of(asked: PartitionProduceData) -> memoryview:
    if not isinstance(asked.records, memoryview) or len(asked.records) < HEADER_SIZE:
        raise ApiError(ErrorCode.INVALID_RECORD, "There are no records in the request.")
    return asked.records


def _has_producer(records: Buffer | None) -> bool:
    return records is not None and len(records) >= HEADER_SIZE and read_header(records).producer_id >= 0
