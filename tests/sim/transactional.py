"""A transactional producer: what a client does to begin, fill and end a transaction, and what errors mean to
it. Three generations of clients speak three protocols:

    FIRST       as clients were before KIP-360: after any error, begin anew with InitProducerId
    EXPLICIT    partitions and groups are added before they are used; KIP-360 bumps the epoch after an error
    IMPLICIT    transactions V2 (KIP-890): the broker adds them, and every end bumps the epoch; where the
                cluster's transaction.version is lower than 2, it speaks as EXPLICIT does

Errors are of three kinds, as in Kafka's own client: again, abort this transaction, and begin anew.

A request of the older protocols that comes late can land in a later transaction of the same epoch: that is
what KIP-890 is about. So who speaks them, and was not answered, takes another epoch before it goes on.
With KIP-360 it names the one it has, and is refused if that is not the current one. Who names none takes over
from whoever has the id by now, and who may have committed more of the input: a new incarnation, which has to
read the group's offsets again (KIP-98). FIRST has no other way.

Who spoke EXPLICIT and now speaks IMPLICIT takes another epoch, too, as Kafka's own client does: a leader that
has not got the last marker yet would take the first batch for one of the transaction before.

What was sent may be on its way for seconds, behind a proxy, while its client gave up and sent it again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.sim.client import Client, Script
from tests.sim.ledger import Ledger
from tests.sim.producers import batch_of
from tests.sim.transactions import Told, Transaction, TransactionLedger
from tests.sim.world import ViolationError

from ottla.base.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

GROUP, TRANSACTION = 0, 1  # kinds of coordinators
FEATURE = "transaction.version"
LAG_MS = (300, 5_000)

AWAY = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
AGAIN = {
    *AWAY,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
OUTSIDE = {  # of the group, or of its generation (KIP-447)
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
}
ABORT = {
    *OUTSIDE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.UNKNOWN_PRODUCER_ID,
}
ANEW = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED}


class AbortError(Exception):
    """This transaction has to be aborted."""


class AnewError(Exception):
    """This producer is fenced, or cannot go on: another one has to begin anew."""


@dataclass(frozen=True)
class Versions:
    init: int
    add: int
    offsets: int
    end: int
    produce: int
    can_bump: bool = True
    is_implicit: bool = False


FIRST = Versions(init=1, add=0, offsets=2, end=1, produce=7, can_bump=False)
EXPLICIT = Versions(init=4, add=3, offsets=4, end=4, produce=11)
IMPLICIT = Versions(init=5, add=3, offsets=5, end=5, produce=12, is_implicit=True)
GENERATIONS = (FIRST, EXPLICIT, IMPLICIT)


@dataclass(frozen=True)
class Batch:
    partition: int
    values: list[str]
    sequence: int
    records: bytes


class TransactionalProducer(Client):
    """`generation` is the newest that it speaks, `versions` what it speaks in this transaction."""

    def __init__(
        self, *where: Any, ledger: Ledger, transactions: TransactionLedger, transactional_id: str,
        topic: str, generation: Versions,
    ) -> None:  # fmt: skip
        super().__init__(*where)
        self.ledger, self.transactions = ledger, transactions
        self.transactional_id, self.topic = transactional_id, topic
        self.generation = self.versions = generation
        draw = self.world.draw
        self.transaction_ms = draw(600, 4_000)
        self.request_ms = draw(300, 2_000)
        self.patience_ms = draw(800, 6_000)
        self.lateness = (0.0, 0.02, 0.1)[draw(0, 2)]
        self.producer_id, self.epoch = -1, -1
        self.sequences: dict[int, int] = {}
        self.is_in_doubt = False  # something of this epoch may be on its way still
        self.needs_epoch = False
        self.member_id, self.member_epoch = "", -1  # of a group
        self.is_started = False  # does the coordinator know of this transaction?

    def lag_ms(self) -> int:
        is_late = not self.world.is_calm and self.lateness and self.world.chance(self.lateness)
        return self.world.draw(*LAG_MS) if is_late else 0

    def step(self) -> None:
        """Before anything is sent; who dies in the middle does it here."""

    # Coordinators

    def coordinated(self, kind: int, key: str, request: Any, version: int | None) -> Script:
        """The coordinator's answer, or None."""
        self.step()
        name = f"{kind} {key}"
        if name not in self.coordinators:
            find = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            answer = yield self.ask(self.any_broker(), find, timeout_ms=1_000)
            if answer is None or answer.coordinators[0].error_code:
                return None
            self.coordinators[name] = answer.coordinators[0].node_id
        self.step()
        if isinstance(request, EndTxnRequest) and self.world.on_end is not None:
            self.world.on_end(self.coordinators[name])
        answer = yield self.ask(self.coordinators[name], request, version, self.request_ms)
        if answer is None:
            self.coordinators.pop(name, None)
            self.is_in_doubt = True
        return answer

    def insist(
        self, kind: int, key: str, request: Any, version: int, errors_of: Callable[[Any], list[int]],
        patience_ms: int | None = None,
    ) -> Script:  # fmt: skip
        """Until it is answered without an error, or with one that ends it. Answers that, and whether it was
        the first to come: what was not answered may have been done."""
        begun_ms, is_first = self.world.now_ms, True
        while True:
            answer = yield from self.coordinated(kind, key, request, version)
            codes = [] if answer is None else [code for code in errors_of(answer) if code]
            if answer is not None and not codes:
                return answer, is_first
            for code in codes:
                self.world.note(f"{self.name} is told {ErrorCode(code).name} for {type(request).__name__}")
                if code in AWAY:
                    self.coordinators.pop(f"{kind} {key}", None)
                if code not in AGAIN:
                    return answer, is_first
            is_first = False
            if patience_ms is not None and self.world.now_ms - begun_ms > patience_ms:
                raise AbortError(f"{type(request).__name__} takes too long")
            yield self.world.draw(10, 100)

    def refused(self, codes: list[int]) -> None:
        """Raise what these errors mean, if there are any."""
        for code in codes:
            if code in ANEW or (code in ABORT and not self.versions.can_bump):
                raise AnewError(ErrorCode(code).name)
            if code in ABORT:
                self.needs_epoch = True
                raise AbortError(ErrorCode(code).name)
            if code:
                raise ViolationError(f"{self.name} is told {ErrorCode(code).name}")

    # Epochs

    def init(self, *, is_new: bool = True) -> Script:
        """A producer id and its epoch: of a new incarnation, which fences those before it, or the next epoch
        of this one."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.transaction_ms,
            producer_id=-1 if is_new else self.producer_id,
            producer_epoch=-1 if is_new else self.epoch,
        )
        answer, _ = yield from self.insist(
            TRANSACTION, self.transactional_id, request, self.generation.init, lambda told: [told.error_code]
        )
        if answer.error_code in ABORT:
            raise AnewError(ErrorCode(answer.error_code).name)
        self.refused([answer.error_code])
        self.world.note(f"{self.name} is producer {answer.producer_id}, epoch {answer.producer_epoch}")
        self._adopt(answer.producer_id, answer.producer_epoch)
        self.is_in_doubt = self.needs_epoch = False

    def _adopt(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch, self.sequences = producer_id, epoch, {}

    def begin(self) -> Script:
        """Another epoch where that is necessary, and the protocol that the cluster has agreed upon."""
        if self.needs_epoch or (self.is_in_doubt and not self.versions.is_implicit):
            if not self.generation.can_bump:
                raise AnewError("something of this epoch may be on its way")
            yield from self.init(is_new=False)
        before, self.versions, self.is_in_doubt = self.versions, self.generation, False
        if self.generation.is_implicit:
            while (level := (yield from self.feature_level(self.any_broker(), FEATURE))) is None:
                self.step()
                yield 50
            self.versions = IMPLICIT if level >= 2 else EXPLICIT
            if self.versions.is_implicit and not before.is_implicit:
                yield from self.init(is_new=False)  # the last end did not bump the epoch
        self.is_started = self.versions.is_implicit  # or may be, as far as the client knows

    # What is in a transaction

    def add_partitions(self, partitions: list[int]) -> Script:
        if self.versions.is_implicit:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.topic, partitions=partitions)],
        )

        def errors_of(answer: Any) -> list[int]:
            topics = answer.results_by_topic_v3_and_below
            codes = [part.partition_error_code for topic in topics for part in topic.results_by_partition]
            return [code for code in codes if code != ErrorCode.OPERATION_NOT_ATTEMPTED] or codes

        answer, _ = yield from self.insist(
            TRANSACTION, self.transactional_id, request, self.versions.add, errors_of, self.patience_ms
        )
        self.refused(errors_of(answer))
        self.is_started = True

    def commit_offsets(self, group: str, topic: str, offsets: dict[int, int]) -> Script:
        if not self.versions.is_implicit:
            request: Any = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id, producer_id=self.producer_id,
                producer_epoch=self.epoch, group_id=group,
            )  # fmt: skip
            answer, _ = yield from self.insist(
                TRANSACTION, self.transactional_id, request, self.versions.add,
                lambda told: [told.error_code], self.patience_ms,
            )  # fmt: skip
            self.refused([answer.error_code])
            self.is_started = True
        parts = [
            TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
            for partition, offset in offsets.items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id, group_id=group, producer_id=self.producer_id,
            producer_epoch=self.epoch, generation_id=self.member_epoch, member_id=self.member_id,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=parts)],
        )  # fmt: skip

        def errors_of(answer: Any) -> list[int]:
            return [part.error_code for named in answer.topics for part in named.partitions]

        answer, _ = yield from self.insist(
            GROUP, group, request, self.versions.offsets, errors_of, self.patience_ms
        )
        self.refused(errors_of(answer))

    # Records

    def batches(self, records: dict[int, list[str]]) -> list[Batch]:
        """One or two of each partition."""
        made = []
        for partition, values in records.items():
            cut = self.world.draw(1, len(values))
            for piece in (values[:cut], values[cut:]):
                if piece:
                    sequence = self.sequences.get(partition, 0)
                    self.sequences[partition] = sequence + len(piece)
                    batch = batch_of(
                        self.world, piece, transactional=True, base_sequence=sequence,
                        producer_id=self.producer_id, producer_epoch=self.epoch,
                    )  # fmt: skip
                    made.append(Batch(partition, piece, sequence, batch))
        return made

    def send(self, batches: list[Batch]) -> Script:
        """Until all are acknowledged. Batches of one partition are on their way together."""
        begun_ms = self.world.now_ms
        while batches:
            left: list[Batch] = []
            for leader, led in self._by_leader(batches).items():
                left += led if leader < 0 else (yield from self._send_to(leader, led))
            batches = left
            if batches:
                if self.world.now_ms - begun_ms > self.patience_ms:
                    self.needs_epoch = True
                    raise AbortError(f"{batches[0].values} take too long")
                yield self.world.draw(5, 100)
                self.step()
                yield from self.refresh(self.topic)

    def _by_leader(self, batches: list[Batch]) -> dict[int, list[Batch]]:
        led: dict[int, list[Batch]] = {}
        for batch in batches:
            led.setdefault(self.leader_of(self.topic, batch.partition), []).append(batch)
        return led

    def _requests(self, batches: list[Batch]) -> list[list[Batch]]:
        """A request has one batch of a partition; some have all partitions, some one."""
        first: dict[int, Batch] = {}
        for batch in batches:
            first.setdefault(batch.partition, batch)
        rest = [batch for batch in batches if first[batch.partition] is not batch]
        apart = self.world.chance(0.5)
        groups = [[batch] for batch in first.values()] if apart else [list(first.values())]
        return groups + (self._requests(rest) if rest else [])

    def _send_to(self, leader: int, batches: list[Batch]) -> Script:
        self.step()
        groups = self._requests(batches)
        answers = yield [
            self.ask(leader, self._produce(group), self.versions.produce, self.request_ms) for group in groups
        ]
        left: list[Batch] = []
        for group, answer in zip(groups, answers, strict=True):
            parts = {} if answer is None else {
                part.index: part for part in answer.responses[0].partition_responses
            }  # fmt: skip
            for batch in group:
                is_behind = any(earlier.partition == batch.partition for earlier in left)
                if self._is_to_be_repeated(batch, parts.get(batch.partition), is_behind=is_behind):
                    left.append(batch)
        return left

    def _produce(self, batches: list[Batch]) -> ProduceRequest:
        parts = [PartitionProduceData(index=batch.partition, records=batch.records) for batch in batches]
        return ProduceRequest(
            transactional_id=self.transactional_id, acks=-1, timeout_ms=self.request_ms,
            topic_data=[TopicProduceData(name=self.topic, partition_data=parts)],
        )  # fmt: skip

    def _is_to_be_repeated(self, batch: Batch, part: Any, *, is_behind: bool) -> bool:
        if part is None:
            return True
        if not part.error_code or part.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            where = (self.topic_ids[self.topic], batch.partition)
            if part.error_code:
                self.ledger.on_duplicate(where, batch.values)
            else:
                self.world.note(f"{self.name} acked {part.base_offset} of {batch.partition}: {batch.values}")
                self.ledger.on_acknowledged(where, part.base_offset, batch.values, self.name)
            return False
        code = ErrorCode(part.error_code)
        self.world.note(f"{self.name} is told {code.name} for {batch.values} in {batch.partition}")
        if code in AGAIN or (code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and is_behind):
            return True
        if code is ErrorCode.INVALID_PRODUCER_EPOCH and self.versions.can_bump:
            self.needs_epoch = True
            raise AbortError(code.name)  # whether it is fenced is for the coordinator to say
        self.refused([code])
        return True

    # The end

    def end(self, transaction: Transaction, *, committed: bool) -> Script:
        if not self.is_started:
            return
        if committed:
            self.transactions.on_told(transaction, Told.ASKED)
        request = EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.producer_id,
            producer_epoch=self.epoch, committed=committed,
        )  # fmt: skip
        answer, is_first = yield from self.insist(
            TRANSACTION, self.transactional_id, request, self.versions.end, lambda told: [told.error_code]
        )
        code = answer.error_code
        if not code:
            self.world.note(f"{self.name} {'committed' if committed else 'aborted'} {transaction.name}")
            self.transactions.on_told(transaction, Told.COMMITTED if committed else Told.ABORTED)
            if self.versions.is_implicit:
                self._adopt(answer.producer_id, answer.producer_epoch)
                self.needs_epoch = False
            return
        if committed and is_first:
            self.transactions.on_told(transaction, Told.REFUSED)
        self.refused([code])
