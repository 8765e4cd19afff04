"""What is known of a transactional id: its producer, and the transaction that is open or was the last.

A `Transaction` does not change: each step gives the next one, which becomes the truth when its record is
replayed. All of it is stored, but for `last_epoch` of an id without a transaction: whoever takes over cannot
tell an InitProducerId that is sent again from that of a fenced producer, and fences it, as Kafka does.

The producer's epoch is what fences. It grows when a producer starts, when the coordinator aborts, and, since
transactions V2 (KIP-890), at every end; so a request of an earlier transaction has an earlier epoch. The last
epoch of an id is kept for markers. Then comes a new producer id (`next_producer_id`), which becomes the
current one when the markers, which have the old id, are written.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.base.ids import TopicPartition
from ottla.coordinator.turn import StoredRecord
from ottla.txn.markers import EndedTransaction
from ottla.txn.records import (
    TAGGED_SINCE,
    TransactionEntry,
    TransactionLogValue,
    TransactionPartitions,
    store,
)
from ottla.txn.states import BY_NUMBER, PREPARED, STATES, TransactionState, check_step

NO_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_MAX: Final = (1 << 15) - 1
LAST_CLIENT_EPOCH: Final = EPOCH_MAX - 1  # what a producer may have; beyond it there is one to fence it with
EPOCH_BUMP_SINCE: Final = 2  # the level of transaction.version
_BATCH_BYTES, _TOPIC_BYTES, _PARTITION_BYTES = 200, 8, 4  # in a record, at most
NO_PARTITIONS: Final = frozenset[TopicPartition]()


@dataclass(frozen=True, slots=True)
class Transaction:
    """Times are times of day. `start_ms` is -1 while there is no transaction."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    update_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = NO_PARTITIONS
    start_ms: int = -1
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    client_version: int = 0
    last_epoch: int = field(default=NO_EPOCH, compare=False)

    # Stored

    @classmethod
    def from_value(cls, transactional_id: str, value: TransactionLogValue) -> "Transaction":
        state = BY_NUMBER[value.transaction_status]
        return cls(
            transactional_id=transactional_id,
            producer_id=value.producer_id,
            epoch=value.producer_epoch,
            timeout_ms=value.transaction_timeout_ms,
            update_ms=value.transaction_last_update_timestamp_ms,
            state=state,
            partitions=frozenset(
                TopicPartition(listed.topic, index)
                for listed in value.transaction_partitions or ()
                for index in listed.partition_ids
            ),
            start_ms=value.transaction_start_timestamp_ms,
            previous_producer_id=value.previous_producer_id,
            next_producer_id=value.next_producer_id,
            client_version=value.client_transaction_version,
            last_epoch=_epoch_before_end(state, value.client_transaction_version, value.producer_epoch),
        )

    def is_tagged(self, level: int) -> bool:
        """Is all of it stored at a level of transaction.version? What only version 1 of the record can hold
        is written in that, if a producer asks for it at a level that does not have it."""
        return level >= TAGGED_SINCE or self.client_version > 0 or self.next_producer_id != NO_ID

    def record(self, level: int) -> StoredRecord:
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(self.partitions):
            by_topic.setdefault(topic, []).append(index)
        value = TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=STATES[self.state].number,
            transaction_partitions=None
            if self.state is TransactionState.EMPTY
            else [TransactionPartitions(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()],
            transaction_last_update_timestamp_ms=self.update_ms,
            transaction_start_timestamp_ms=self.start_ms,
            client_transaction_version=self.client_version,
        )
        version = TAGGED_SINCE if self.is_tagged(level) else 0
        return store(TransactionEntry(self.transactional_id, value), version)

    @property
    def stored_bytes_max(self) -> int:
        """How large a batch with it can become, in any state and version: what can be opened can be ended."""
        topics = {topic for topic, _ in self.partitions}
        return (
            _BATCH_BYTES
            + len(self.transactional_id.encode())
            + sum(len(topic) + _TOPIC_BYTES for topic in topics)
            + _PARTITION_BYTES * len(self.partitions)
        )

    # Steps

    def started(self, producer_id: int, epoch: int, timeout_ms: int, now_ms: int) -> "Transaction":
        """A producer has, or has again, this id and epoch."""
        return self._next(
            TransactionState.EMPTY,
            now_ms,
            producer_id=producer_id,
            epoch=epoch,
            timeout_ms=timeout_ms,
            partitions=NO_PARTITIONS,
            start_ms=-1,
        )

    def grown(
        self, partitions: Collection[TopicPartition], client_version: int, now_ms: int
    ) -> "Transaction":
        return self._next(
            TransactionState.ONGOING,
            now_ms,
            partitions=self.partitions.union(partitions),
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            client_version=client_version,
        )

    def prepared(
        self, *, committed: bool, epoch: int, client_version: int, next_producer_id: int, now_ms: int
    ) -> "Transaction":
        return self._next(
            TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT,
            now_ms,
            epoch=epoch,
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            client_version=client_version,
            next_producer_id=next_producer_id,
        )

    def completed(self, now_ms: int) -> "Transaction":
        return self._next(
            TransactionState.COMPLETE_COMMIT if self.is_commit else TransactionState.COMPLETE_ABORT,
            now_ms,
            producer_id=self.producer_after_its_end[0],
            epoch=self.producer_after_its_end[1],
            next_producer_id=NO_ID,
            partitions=NO_PARTITIONS,
        )

    def after(self, last_epoch: int) -> "Transaction":
        """The same, remembering the epoch that the producer had before."""
        return replace(self, last_epoch=last_epoch)

    def _next(self, state: TransactionState, now_ms: int, **changes: Any) -> "Transaction":
        check_step(self.state, state)
        last_epoch = _epoch_before_end(
            state, changes.get("client_version", self.client_version), changes.get("epoch", self.epoch)
        )
        return replace(
            self,
            state=state,
            update_ms=now_ms,
            previous_producer_id=self.producer_id,
            last_epoch=last_epoch,
            **changes,
        )

    # What it says

    @property
    def is_prepared(self) -> bool:
        return self.state in PREPARED

    @property
    def is_commit(self) -> bool:
        return self.state is TransactionState.PREPARE_COMMIT

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.epoch >= LAST_CLIENT_EPOCH

    @property
    def producer_after_its_end(self) -> tuple[int, int]:
        """The id and epoch that the producer goes on with, and is told when the end is decided."""
        if self.client_version >= EPOCH_BUMP_SINCE and self.next_producer_id != NO_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.epoch

    def was(self, producer_id: int, epoch: int) -> bool:
        """Whether this is what the producer had before its last step: it may not have heard of that."""
        before = self.producer_id if self.epoch > 0 else self.previous_producer_id
        return (producer_id, epoch) == (before, self.last_epoch)

    def is_end_sent_again(self, producer_id: int, epoch: int) -> bool:
        """Not so where the end has not moved the epoch on: who had the one before is fenced."""
        return self.client_version >= EPOCH_BUMP_SINCE and self.was(producer_id, epoch)

    def has_timed_out(self, now_ms: int) -> bool:
        return self.state is TransactionState.ONGOING and self.start_ms + self.timeout_ms < now_ms

    def ended(self, coordinator_epoch: int) -> EndedTransaction:
        return EndedTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=self.is_commit,
            partitions=self.partitions,
            coordinator_epoch=coordinator_epoch,
            transaction_version=self.client_version,
        )


def _epoch_before_end(state: TransactionState, client_version: int, epoch: int) -> int:
    """The producer's, if the end of a transaction has moved it on."""
    if client_version < EPOCH_BUMP_SINCE or state in (TransactionState.EMPTY, TransactionState.ONGOING):
        return NO_EPOCH
    return epoch - 1 if epoch > 0 else LAST_CLIENT_EPOCH
