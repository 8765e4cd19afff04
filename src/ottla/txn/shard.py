"""The state behind one partition of `__transaction_state`: its transactional ids and their transactions.

Who is refused, before the table in `states` is asked:

    there is no such id, or it has another producer id     INVALID_PRODUCER_ID_MAPPING
    another epoch than the producer's                      PRODUCER_FENCED
    the producer id that becomes the id's after markers    CONCURRENT_TRANSACTIONS

An end is written (Prepare), and handed to `send_markers` when it is committed; not before, or there could be
markers for an end that another coordinator never heard of. It is complete when all partitions have theirs. An
end of nothing needs no markers, and is written with its completion in one batch.

What ids hold in memory is counted (`memory`), for all shards of a broker together.
"""

import sys
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.coordinator.turn import Answer, StoredEnd, StoredRecord, TimerKey, Turn
from ottla.txn.config import TransactionConfig
from ottla.txn.expiry import Rounds
from ottla.txn.markers import EndedTransaction
from ottla.txn.memory import ID_BYTES, PARTITION_BYTES, held_bytes
from ottla.txn.records import TransactionEntry, parse, store
from ottla.txn.states import IDLE, STATES, Act, TransactionState
from ottla.txn.transaction import (
    EPOCH_BUMP_SINCE,
    EPOCH_MAX,
    LAST_CLIENT_EPOCH,
    NO_EPOCH,
    NO_ID,
    Transaction,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

END_BUMPS_SINCE = 5  # the version of EndTxn
ADDED_BY_BROKERS_SINCE = 4  # the version of AddPartitionsToTxn


class Producer(NamedTuple):
    """Who asks, as it says itself."""

    transactional_id: str
    producer_id: int
    epoch: int


class TransactionShard:
    """`level` is the level of transaction.version, `take_producer_id` gives an id that nobody had (ApiError:
    there is none just now), `send_markers` is given what has ended, `coordinator_epoch` is the leader epoch
    of this shard's partition, and `room_bytes` says how much more memory all transactional ids of this broker
    may take, for a new one or for one that is there."""

    def __init__(
        self,
        config: TransactionConfig,
        *,
        level: Callable[[], int],
        take_producer_id: Callable[[], int],
        send_markers: Callable[[EndedTransaction], None],
        coordinator_epoch: Callable[[], int],
        room_bytes: Callable[[bool], int] = lambda _is_new: sys.maxsize,
    ) -> None:
        self.config = config
        self.transactions: dict[str, Transaction] = {}
        self.held_bytes = 0
        self.missing: dict[str, set[TopicPartition]] = {}  # where the markers of an end are yet to be written
        self._level = level
        self._take_producer_id = take_producer_id
        self._send_markers = send_markers
        self._coordinator_epoch = coordinator_epoch
        self._room_bytes = room_bytes
        self._open: dict[str, int] = {}  # since when, by this broker's clock; -1: not looked at yet
        self._decided: dict[StoredRecord, Transaction] = {}  # what a turn's records mean, to spare parsing
        self._unsent: dict[str, int] = {}  # the offsets of ends whose markers are yet to be sent
        self._committed_below = 0
        self._is_loaded = False
        self._timeouts = Rounds("time out", config.abort_interval_ms, lambda: self._open, self._time_out)
        self._expiry = Rounds(
            "expire", config.expiration_interval_ms, lambda: self.transactions, self._expire
        )

    @property
    def open_count(self) -> int:
        """Transactions whose end is not decided."""
        return len(self._open)

    # What the runtime calls

    def replay(self, record: StoredRecord, offset: int, timestamp_ms: int) -> None:  # noqa: ARG002
        transaction = self._decided.get(record)
        if transaction is None:
            entry = parse(record)
            if entry is None:
                return
            transactional_id, value = entry
            if value is None:
                self._forget(transactional_id)
                return
            transaction = Transaction.from_value(transactional_id, value)
        transactional_id = transaction.transactional_id
        open_since_ms = self._open.get(transactional_id, -1)
        self._forget(transactional_id)
        self.transactions[transactional_id] = transaction
        self.held_bytes += held_bytes(transaction)
        if transaction.state is TransactionState.ONGOING:
            self._open[transactional_id] = open_since_ms
        elif transaction.is_prepared:
            self.missing[transactional_id] = set(transaction.partitions)
            self._unsent[transactional_id] = offset
            self._send_committed()

    def replay_end(self, end: StoredEnd) -> None:
        """Coordinators do not write in transactions here: who did has changed nothing of ours."""

    def _forget(self, transactional_id: str) -> None:
        transaction = self.transactions.pop(transactional_id, None)
        if transaction is not None:
            self.held_bytes -= held_bytes(transaction)
            self._open.pop(transactional_id, None)
            self.missing.pop(transactional_id, None)
            self._unsent.pop(transactional_id, None)

    def on_committed(self, below: int) -> None:
        self._committed_below = below
        self._send_committed()

    def _send_committed(self) -> None:
        """Hand out the ends that no other coordinator can miss any more."""
        if not self._is_loaded:
            return
        committed = []
        for transactional_id, offset in self._unsent.items():
            if offset >= self._committed_below:
                break  # they are in the order of the log
            committed.append(transactional_id)
        for transactional_id in committed:
            del self._unsent[transactional_id]
            transaction = self.transactions[transactional_id]
            if transaction.partitions:
                self._send_markers(transaction.ended(self._coordinator_epoch()))

    def on_loaded(self, turn: Turn) -> None:
        """Go on with what the coordinator before had decided."""
        self._is_loaded = True
        self._send_committed()
        for transactional_id, missing in self.missing.items():
            if not missing:
                turn.set_timer(("complete", transactional_id), turn.now_ms)
        self._timeouts.on_loaded(turn)
        self._expiry.on_loaded(turn)

    def on_timer(self, turn: Turn, key: TimerKey) -> None:
        match key:
            case ("time out", *_):
                self._timeouts.on_timer(turn, key)
            case ("expire", *_):
                self._expiry.on_timer(turn, key)
            case ("complete", str(transactional_id)):
                self._complete(turn, transactional_id)

    def _time_out(self, turn: Turn, transactional_id: str) -> None:
        """By the time of day, as in Kafka, or by this broker's clock: where the coordinator before had a time
        of day that is yet to come, a transaction would stay open until then."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None or transactional_id not in self._open:
            return
        if self._open[transactional_id] < 0:
            self._open[transactional_id] = turn.now_ms
        is_late = turn.now_ms - self._open[transactional_id] > transaction.timeout_ms
        if is_late or transaction.has_timed_out(turn.wall_ms):
            self._write_end(turn, self._aborted(transaction, turn.wall_ms))

    def _expire(self, turn: Turn, transactional_id: str) -> None:
        transaction = self.transactions.get(transactional_id)
        if transaction is None or transaction.state not in IDLE:
            return
        if transaction.update_ms <= turn.wall_ms - self.config.id_expiration_ms:
            turn.write(store(TransactionEntry(transactional_id, None), 0))

    def _write(self, turn: Turn, transaction: Transaction) -> None:
        level = self._level()
        record = transaction.record(level)
        if not turn.records:
            self._decided.clear()
        if transaction.is_tagged(level):
            self._decided[record] = transaction
        turn.write(record)

    def _write_end(self, turn: Turn, prepared: Transaction) -> None:
        """A transaction that nothing takes part in is over at once."""
        self._write(turn, prepared)
        if not prepared.partitions:
            self._write(turn, prepared.completed(turn.wall_ms))

    # Producers

    def init_producer_id(self, turn: Turn, answer: Answer, request: InitProducerIdRequest) -> None:
        """KIP-360: a producer that says what id and epoch it has goes on with the next epoch, if nobody has
        taken over from it; any other takes over from whoever there is."""
        if not 0 < request.transaction_timeout_ms <= self.config.timeout_ms_max:
            raise ApiError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"A transaction may take up to {self.config.timeout_ms_max} ms (transaction.max.timeout.ms).",
            )
        transactional_id = request.transactional_id or ""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            self._check_room(ID_BYTES + len(transactional_id), is_new=True)
            started = Transaction(
                transactional_id, self._take_producer_id(), 0, request.transaction_timeout_ms, turn.wall_ms
            )
            self._give(turn, answer, started, NO_EPOCH)
            return
        expected = None if request.producer_id == NO_ID else (request.producer_id, request.producer_epoch)
        if expected is not None:
            self._check_recovery(transaction, *expected)
        match STATES[transaction.state].inits:
            case ErrorCode() as code:
                raise ApiError(code)
            case Act.FENCE:
                self._write_end(turn, self._aborted(transaction, turn.wall_ms))
                turn.answer(
                    answer,
                    InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS, producer_epoch=-1),
                )
            case _:
                self._bump(turn, answer, transaction, request.transaction_timeout_ms, expected)

    @staticmethod
    def _check_recovery(transaction: Transaction, producer_id: int, epoch: int) -> None:
        """Kafka compares the epoch only where no transaction is open, so that there a producer that is fenced
        can abort what its successor has open."""
        if (producer_id, epoch) != (transaction.producer_id, transaction.epoch) and not transaction.was(
            producer_id, epoch
        ):
            raise ApiError(ErrorCode.PRODUCER_FENCED, "Another producer has taken over the transactional id.")

    def _bump(
        self,
        turn: Turn,
        answer: Answer,
        transaction: Transaction,
        timeout_ms: int,
        expected: tuple[int, int] | None,
    ) -> None:
        producer_id, epoch, last_epoch = transaction.producer_id, transaction.epoch, transaction.last_epoch
        if expected is None or expected == (producer_id, epoch):
            last_epoch = NO_EPOCH if expected is None else epoch
            if transaction.is_epoch_exhausted:
                producer_id, epoch = self._take_producer_id(), 0
            else:
                epoch += 1
        started = transaction.started(producer_id, epoch, timeout_ms, turn.wall_ms)
        self._give(turn, answer, started, last_epoch)

    def _give(self, turn: Turn, answer: Answer, started: Transaction, last_epoch: int) -> None:
        def remember() -> None:
            transaction = self.transactions[started.transactional_id]
            self.transactions[started.transactional_id] = transaction.after(last_epoch)

        self._write(turn, started)
        turn.once_stored(remember)
        turn.answer(
            answer, InitProducerIdResponse(producer_id=started.producer_id, producer_epoch=started.epoch)
        )

    def _check_room(self, growth: int, *, is_new: bool) -> None:
        if growth > 0 and growth > self._room_bytes(is_new):
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                "The transactional ids of this broker take all the memory they may have.",
            )

    # Partitions

    def add_partitions(
        self,
        turn: Turn,
        answer: Answer,
        producer: Producer,
        partitions: Collection[TopicPartition],
        client_version: int,
        reply: Any,
    ) -> None:
        transaction = self._transaction_of(producer)
        self._check(STATES[transaction.state].adds)
        is_open = transaction.state is TransactionState.ONGOING
        if not is_open or not transaction.partitions.issuperset(partitions):
            added = set(partitions) - transaction.partitions
            growth = sum(PARTITION_BYTES + len(topic) for topic, _ in added)
            self._check_room(growth, is_new=False)
            grown = transaction.grown(partitions, client_version, turn.wall_ms)
            if grown.stored_bytes_max > turn.batch_bytes_max:
                raise ApiError(
                    ErrorCode.MESSAGE_TOO_LARGE, "The transaction has more partitions than can be stored."
                )
            self._write(turn, grown)
        turn.answer(answer, reply)

    def verify(
        self,
        turn: Turn,
        answer: Answer,
        producer: Producer,
        partitions: Collection[TopicPartition],
        reply: Callable[[dict[TopicPartition, ErrorCode]], Any],
    ) -> None:
        """Which of the partitions take part in the producer's transaction (KIP-890)."""
        transaction = self._transaction_of(producer)
        self._check(STATES[transaction.state].verifies)
        errors = {
            topic_partition: ErrorCode.NONE
            if topic_partition in transaction.partitions
            else ErrorCode.TRANSACTION_ABORTABLE
            for topic_partition in partitions
        }
        turn.answer(answer, reply(errors))

    def _transaction_of(self, producer: Producer) -> Transaction:
        """The transaction, if it is the producer's."""
        transaction = self.transactions.get(producer.transactional_id)
        if transaction is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "There is no such transactional id.")
        if producer.producer_id == transaction.next_producer_id != NO_ID:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if producer.producer_id != transaction.producer_id:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "The transactional id has another producer id."
            )
        if producer.epoch != transaction.epoch or producer.epoch > LAST_CLIENT_EPOCH:
            raise ApiError(ErrorCode.PRODUCER_FENCED, "Another producer has taken over the transactional id.")
        return transaction

    @staticmethod
    def _check(cell: Act | ErrorCode) -> Act:
        if isinstance(cell, ErrorCode):
            raise ApiError(cell)
        return cell

    # The end

    def end(self, turn: Turn, answer: Answer, request: EndTxnRequest, version: int) -> None:
        """EndTxn. Up to v4 the epoch stays, since v5 every end moves it on (KIP-890)."""
        producer = Producer(request.transactional_id, request.producer_id, request.producer_epoch)
        if version < END_BUMPS_SINCE:
            transaction = self._transaction_of(producer)
            rules = STATES[transaction.state]
            act = self._check(rules.old_commit if request.committed else rules.old_abort)
            epoch, client_version, next_producer_id = transaction.epoch, 0, NO_ID
        else:
            transaction, act = self._producers_end(producer, committed=request.committed)
            client_version = EPOCH_BUMP_SINCE
            epoch, next_producer_id = self._moved_on(transaction) if act is not Act.ANSWER else (0, NO_ID)
        if act is not Act.ANSWER:
            transaction = transaction.prepared(
                committed=request.committed,
                epoch=epoch,
                client_version=client_version,
                next_producer_id=next_producer_id,
                now_ms=turn.wall_ms,
            )
            self._write_end(turn, transaction)
        response = EndTxnResponse()
        if version >= END_BUMPS_SINCE:
            response.producer_id, response.producer_epoch = transaction.producer_after_its_end
        turn.answer(answer, response)

    def _producers_end(self, producer: Producer, *, committed: bool) -> tuple[Transaction, Act]:
        transaction = self.transactions.get(producer.transactional_id)
        if transaction is not None and transaction.is_end_sent_again(producer.producer_id, producer.epoch):
            rules = STATES[transaction.state]
            return transaction, self._check(rules.commit_again if committed else rules.abort_again)
        transaction = self._transaction_of(producer)
        rules = STATES[transaction.state]
        return transaction, self._check(rules.commit if committed else rules.abort)

    def _moved_on(self, transaction: Transaction) -> tuple[int, int]:
        """The epoch after this one, and the producer id that follows where that is the last epoch."""
        next_producer_id = self._take_producer_id() if transaction.is_epoch_exhausted else NO_ID
        return min(transaction.epoch + 1, EPOCH_MAX), next_producer_id

    def _aborted(self, transaction: Transaction, now_ms: int) -> Transaction:
        """An abort by the coordinator, which fences the producer."""
        if self._level() >= EPOCH_BUMP_SINCE:
            client_version = EPOCH_BUMP_SINCE
            epoch, next_producer_id = self._moved_on(transaction)
        else:
            client_version, next_producer_id = 0, NO_ID
            epoch = min(transaction.epoch + 1, EPOCH_MAX)
        return transaction.prepared(
            committed=False,
            epoch=epoch,
            client_version=client_version,
            next_producer_id=next_producer_id,
            now_ms=now_ms,
        )

    def on_markers_written(
        self, turn: Turn, ended: EndedTransaction, partitions: Collection[TopicPartition]
    ) -> None:
        """These partitions have their marker. If another end has come meanwhile, that is of no use."""
        transaction = self.transactions.get(ended.transactional_id)
        if transaction is None or not transaction.is_prepared:
            return
        if (transaction.producer_id, transaction.epoch) != (ended.producer_id, ended.producer_epoch):
            return
        self.missing[ended.transactional_id].difference_update(partitions)
        self._complete(turn, ended.transactional_id)

    def complete_later(self, turn: Turn, transactional_id: str) -> None:
        """What says that an end is complete could not be stored: try that until it can."""
        turn.set_timer(("complete", transactional_id), turn.now_ms)

    def _complete(self, turn: Turn, transactional_id: str) -> None:
        transaction = self.transactions.get(transactional_id)
        if transaction is not None and transaction.is_prepared and not self.missing[transactional_id]:
            self._write(turn, transaction.completed(turn.wall_ms))

    # What it says

    def describe(self, transactional_id: str) -> tuple[Transaction, Collection[TopicPartition]]:
        """With the partitions that take part; of one that has ended, those that have no marker yet."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return transaction, self.missing.get(transactional_id, transaction.partitions)

    def listed(self) -> Iterator[Transaction]:
        return iter(list(self.transactions.values()))
