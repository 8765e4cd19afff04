"""TxnOffsetCommit (key 28): remember how far a group has read, if a producer's transaction is committed;
answered when that is committed itself, as part of the transaction.

Before the first commit of a transaction in the group's partition of `__consumer_offsets`, the coordinator of
the transaction is asked whether that partition is part of it (KIP-890): a commit that comes late would be
counted to the producer's next transaction, or wait for an end that never comes. The transaction may end while
that is asked; then the commit is refused, INVALID_TXN_STATE.

Errors of partitions, members and generations are those of OffsetCommit; an epoch of a member that is out of
date is ILLEGAL_GENERATION. Before v2, COORDINATOR_LOAD_IN_PROGRESS is told as COORDINATOR_NOT_AVAILABLE,
since the clients of that time stop at the first.

v2 leader epochs · v3 flexible, who commits (KIP-447) · v4 TRANSACTION_ABORTABLE, before it INVALID_TXN_STATE
v5 the partition becomes part of the transaction (transactions V2)
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial

from ottla.api.call import Call
from ottla.api.coordinated import coordinated
from ottla.api.needs import GROUP, READ, TOPIC, TRANSACTIONAL_ID, WRITE
from ottla.api.offset_commit import fault_of, to_commit
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.long_work import Steps
from ottla.broker.parked import Parked
from ottla.coordinator.turn import Answer, Turn, Writer
from ottla.group.commits import Commit, OffsetToCommit
from ottla.group.shard import GroupShard
from ottla.log.verifications import Verification
from ottla.records.batch import NO_SEQUENCE
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

LOADING_SINCE, ABORTABLE_SINCE, ADDS_SINCE = 2, 4, 5


def txn_offset_commit(call: Call, request: TxnOffsetCommitRequest) -> Steps:
    refusal = ErrorCode.NONE
    if not call.allows(WRITE, TRANSACTIONAL_ID, request.transactional_id):
        refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not call.allows(READ, GROUP, request.group_id):
        refusal = ErrorCode.GROUP_AUTHORIZATION_FAILED
    response, offsets = yield from _check(call, request, refusal)
    if refusal:
        return response
    codes = {partition.error_code for topic in response.topics for partition in topic.partitions}
    if codes <= {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED}:
        return response
    commit = Commit(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        epoch=request.generation_id,
        retention_ms=-1,
        offsets=list(offsets.values()),
        version=call.version,
        writer=Writer(request.producer_id, request.producer_epoch),
    )
    return _Committing(request.transactional_id, commit, response).begin(call)


def _check(
    call: Call, request: TxnOffsetCommitRequest, refusal: ErrorCode
) -> Generator[None, None, tuple[TxnOffsetCommitResponse, dict[TopicPartition, OffsetToCommit]]]:
    """The answer, with the errors that are known already, and what is left to commit."""
    topics, limit = call.broker.image.topics, call.broker.coordinators.groups.config.metadata_bytes_max
    response, offsets = TxnOffsetCommitResponse(), dict[TopicPartition, OffsetToCommit]()
    for topic in request.topics:
        answer = TxnOffsetCommitResponseTopic(name=topic.name)
        response.topics.append(answer)
        topic_refusal = refusal
        if not refusal and not call.allows(READ, TOPIC, topic.name):
            topic_refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for partition in topic.partitions:
            yield
            index = partition.partition_index
            code = topic_refusal or fault_of(partition, topics.get(topic.name), limit)
            answer.partitions.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=code))
            if not code:
                offsets[TopicPartition(topic.name, index)] = to_commit(topic.name, partition)
    return response, offsets


@dataclass(slots=True, eq=False)
class _Committing:
    """A request on its way. It is the key under which it waits for the coordinator of the transaction."""

    transactional_id: str
    commit: Commit
    response: TxnOffsetCommitResponse
    verification: Verification | None = None
    errors: dict[TopicPartition, ErrorCode] | None = None  # what the coordinator of the transaction says

    def begin(self, call: Call) -> TxnOffsetCommitResponse | Parked:
        broker, writer = call.broker, self._writer
        if min(writer) < 0:
            error = ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "A transaction has a producer.")
            return self._refuse(call.version, error)
        adds = call.version >= ADDS_SINCE
        topic_partition = broker.coordinators.groups.partition_of(self.commit.group_id)
        is_here = topic_partition.partition in broker.coordinators.groups.runtime.shards
        if not self.commit.group_id or not is_here or not (adds or broker.verifies_transactions):
            return self._store(call)
        producers = broker.partitions[topic_partition].log.producers
        if producers.is_in_transaction(*writer):
            return self._store(call)
        self.verification = producers.verifications.begin(*writer, NO_SEQUENCE, adds=adds)
        broker.verifier.verify(
            self.transactional_id, *writer, [topic_partition], adds=adds,
            then=partial(self._on_verified, call), now_ms=call.now_ms,
        )  # fmt: skip
        if self.errors is not None:
            return self._go_on(call)
        return Parked(
            keys=(self,),
            deadline_ms=call.now_ms + self._timeout_ms(call),
            ready=lambda _key, now_ms: self._go_on(replace(call, now_ms=now_ms)),
            expire=lambda _now_ms: self._refuse(
                call.version, ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            ),
        )

    @property
    def _writer(self) -> Writer:
        assert self.commit.writer is not None
        return self.commit.writer

    @staticmethod
    def _timeout_ms(call: Call) -> int:
        return call.broker.coordinators.groups.config.commit_timeout_ms

    def _on_verified(self, call: Call, errors: dict[TopicPartition, ErrorCode], now_ms: int) -> None:
        self.errors = errors
        call.broker.waiting.wake(self, now_ms)

    def _go_on(self, call: Call) -> TxnOffsetCommitResponse | Parked:
        """The coordinator of the transaction has answered."""
        code = next((code for code in (self.errors or {}).values() if code), ErrorCode.NONE)
        if code == ErrorCode.TRANSACTION_ABORTABLE and call.version < ABORTABLE_SINCE:
            code = ErrorCode.INVALID_TXN_STATE
        elif code == ErrorCode.NETWORK_EXCEPTION:
            code = (
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            )  # old clients try again after this, and not after that
        if code:
            return self._refuse(call.version, ApiError(code))
        return self._store(call)

    def _store(self, call: Call) -> TxnOffsetCommitResponse | Parked:
        answer: TxnOffsetCommitResponse | Parked = coordinated(
            call,
            self.commit.group_id,
            partial(self._operate, call),
            partial(self._refuse, call.version),
            timeout_ms=self._timeout_ms(call),
        )
        return answer

    def _operate(self, call: Call, shard: GroupShard, turn: Turn, answer: Answer) -> None:
        if self.verification is not None:
            groups = call.broker.coordinators.groups
            producers = call.broker.partitions[groups.partition_of(self.commit.group_id)].log.producers
            if not producers.verifications.holds(self.verification) and not producers.is_in_transaction(
                *self._writer
            ):
                raise ApiError(ErrorCode.INVALID_TXN_STATE, "The transaction of the commit has ended.")
        shard.commit_offsets(turn, answer, self.commit, self.response)

    def _refuse(self, version: int, error: ApiError) -> TxnOffsetCommitResponse:
        code = error.code
        if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_SINCE:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        for topic in self.response.topics:
            for partition in topic.partitions:
                partition.error_code = partition.error_code or code
        return self.response
