"""What a partition knows of its idempotent and transactional producers.

Per producer id: its epoch and its last five batches, so that a batch sent again is answered with the offset
it got the first time. `check` decides about a batch before it is written and changes nothing; `update`
records one that was.

    same epoch, sequence among the last five batches          duplicate: the old answer again
    same epoch, sequence before those, known to be here       DUPLICATE_SEQUENCE_NUMBER
    same epoch, sequence not the next one                     OUT_OF_ORDER_SEQUENCE_NUMBER
    newer epoch, sequence not 0                               OUT_OF_ORDER_SEQUENCE_NUMBER
    older epoch                                               INVALID_PRODUCER_EPOCH
    no state, whatever the reason (KIP-360)                   accepted, if there is room
    no state, and no room for another                         THROTTLING_QUOTA_EXCEEDED

A producer nobody remembers may have had its first batch refused, and the one behind it taken. So a sequence
before its first one is OUT_OF_ORDER_SEQUENCE_NUMBER, as all old ones are in Kafka: clients take a duplicate
for success. Only where it began with 0 is all of it here; that is assumed of what comes from a snapshot,
which holds the last batch alone.

Whoever can write makes up as many producer ids as it likes, so there is room for PRODUCERS_MAX (design note
013). They are kept in the order in which they last wrote. Where there is no room, those that have been silent
for SILENT_MS are forgotten, as all are after `producer.id.expiration.ms`. No client sends a batch again that
late; whoever may do so is never forgotten for others, and it is new ids that are refused.

A sequence number follows 2^31 - 1 with 0. Transactions are followed as far as the last stable offset and the
index of those that were aborted (`transaction_index`) need it.
"""

from bisect import bisect_left, insort
from collections import deque
from itertools import islice, zip_longest
from typing import NamedTuple

from ottla.base.config import LONG_MAX
from ottla.base.errors import ApiError, ErrorCode
from ottla.log.transaction_index import AbortedTransaction
from ottla.log.verifications import Verifications
from ottla.records.batch import NO_SEQUENCE, SEQUENCES, BatchHeader
from ottla.records.control import EndTransaction, Marker, read_marker
from ottla.records.record import read_records

BATCHES_KEPT = 5
PRODUCERS_MAX = 50_000  # about 20 MB, and 3 MB in a snapshot
SPARE = PRODUCERS_MAX // 16  # a follower has room for so many more, so that it knows all that its leader does
SILENT_MS = 300_000  # Java sends again for two minutes (delivery.timeout.ms), librdkafka for five
NO_PRODUCER_EPOCH = -1
COMPLETED_MAX = 1_024
EPOCH_PER_TRANSACTION = 2  # since this transaction version


class AppendedBatch(NamedTuple):
    """One of the last batches of a producer."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class Producer:
    """The state of one producer id in one partition."""

    __slots__ = (
        "batches", "coordinator_epoch", "epoch", "is_whole", "last_timestamp", "seen_ms", "txn_first_offset",
    )  # fmt: skip

    def __init__(
        self, epoch: int = NO_PRODUCER_EPOCH, coordinator_epoch: int = -1, last_timestamp: int = -1
    ) -> None:
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.txn_first_offset = -1
        self.seen_ms = 0  # when it last wrote, by this broker's clock; 0 if that was before `restored_ms`
        self.is_whole = True  # every sequence of this epoch was written here
        self.batches: tuple[AppendedBatch, ...] = ()

    def remember(self, batch: AppendedBatch) -> None:
        self.batches = (*self.batches[1 - BATCHES_KEPT :], batch)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class Producers:
    """All producers of one partition. `end_offset` is how far into the log this state has come, `restored_ms`
    when that was read, if it was; `is_closed` where the broker as a whole has no room for new ones."""

    __slots__ = (
        "_completed", "_none_silent_before_ms", "_ongoing", "by_id", "end_offset", "is_closed", "restored_ms",
        "verifications",
    )  # fmt: skip

    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}
        self.end_offset = 0
        self.restored_ms = 0
        self.is_closed = False
        self.verifications = Verifications()
        self._none_silent_before_ms = 0
        self._ongoing: list[int] = []
        self._completed = deque[tuple[int, int]]()  # (first offset, that of the marker), both rise

    def check(self, header: BatchHeader, now_ms: int = 0) -> AppendedBatch | None:
        """None for a batch to be written, the earlier one for a duplicate, an error for anything else."""
        producer = self.by_id.get(header.producer_id)
        if self.verifications.by_id:
            self.verifications.check(header, is_new=producer is None)
        if producer is None:
            self._make_room(now_ms)
            return None
        if producer.epoch == NO_PRODUCER_EPOCH:
            return None
        epoch, first = header.producer_epoch, header.base_sequence
        if epoch < producer.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Producer {header.producer_id} has epoch {producer.epoch}, the batch has {epoch}.",
            )
        if epoch > producer.epoch:
            if first != 0:
                raise _out_of_order(header, 0)
        else:
            earlier = _sent_again(producer, header)
            if earlier is not None:
                return earlier
        if producer.txn_first_offset >= 0 and not header.is_transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"Producer {header.producer_id} wrote outside of the transaction it has open.",
            )
        return None

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        producer = self.by_id.get(producer_id)
        return producer is not None and producer.txn_first_offset >= 0 and producer.epoch == epoch

    def check_room(self, producer_id: int, now_ms: int) -> None:
        """Refuse a producer that is not known here, if there is no room for it."""
        if producer_id not in self.by_id:
            self._make_room(now_ms)

    def _make_room(self, now_ms: int) -> None:
        """For one more producer, or refuse it."""
        if (self.is_closed or len(self.by_id) >= PRODUCERS_MAX) and not self.forget_silent(SPARE, now_ms):
            where = "broker (ottla.producer.ids.max)" if self.is_closed else "partition"
            raise ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"As many producers have written within {SILENT_MS // 60_000} minutes as this {where} "
                "remembers; it takes no new one until some are silent.",
            )

    def update(self, header: BatchHeader, base_offset: int, now_ms: int = 0) -> None:
        """Remember a batch of records that was written at `base_offset`."""
        producer = self._writing(header, now_ms)
        delta = header.last_offset_delta
        if not producer.batches:
            producer.is_whole = header.base_sequence == 0
        producer.remember(
            AppendedBatch(
                header.base_sequence, header.last_sequence, base_offset + delta, delta, header.max_timestamp
            )
        )
        if header.is_transactional and producer.txn_first_offset < 0:
            producer.txn_first_offset = base_offset
            insort(self._ongoing, base_offset)
            self.verifications.on_opened(header.producer_id)

    def check_marker(self, marker: Marker) -> bool:
        """Whether the marker is here already; an error if its coordinator or producer has been replaced.

        From transaction version 2 on every transaction has an epoch of its own, and its marker the next one,
        so a marker of the epoch in which the producer writes is a late one of the transaction before. In
        older versions it may be the end of the one under way (KIP-890, KIP-1228).
        """
        producer = self.by_id.get(marker.producer_id)
        if producer is None:
            return False
        is_ended = (
            marker.transaction_version >= EPOCH_PER_TRANSACTION and marker.producer_epoch == producer.epoch
        )
        if marker.producer_epoch < producer.epoch or (is_ended and producer.txn_first_offset >= 0):
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Producer {marker.producer_id} has epoch {producer.epoch}, "
                f"the end of its transaction {marker.producer_epoch}.",
            )
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"A transaction of producer {marker.producer_id} was ended by a coordinator of epoch "
                f"{producer.coordinator_epoch}, later than {marker.coordinator_epoch}.",
            )
        return is_ended and marker.coordinator_epoch == producer.coordinator_epoch

    def check_internal(self, header: BatchHeader) -> None:
        """Records of this broker's own have no sequence, so the epoch is all there is to check."""
        self.check_marker(Marker(header.producer_id, header.producer_epoch, False, LONG_MAX, 0))

    def update_marker(
        self, header: BatchHeader, marker: EndTransaction, base_offset: int, now_ms: int = 0
    ) -> AbortedTransaction | None:
        """End the producer's transaction, and return it if it was aborted; a marker for one that wrote
        nothing here is only remembered."""
        self.verifications.on_ended(header.producer_id, header.producer_epoch)
        producer = self._writing(header, now_ms)
        producer.coordinator_epoch = marker.coordinator_epoch
        first_offset = producer.txn_first_offset
        if first_offset < 0:
            return None
        producer.txn_first_offset = -1
        ongoing = self._ongoing
        del ongoing[bisect_left(ongoing, first_offset)]
        self._complete(first_offset, base_offset)
        if marker.committed:
            return None
        stable = ongoing[0] if ongoing else base_offset + 1
        return AbortedTransaction(header.producer_id, first_offset, base_offset, stable)

    def _complete(self, first_offset: int, last_offset: int) -> None:
        """Remember a transaction until the high watermark has passed its end. One that began after another
        that ends later makes no difference; and of very many, neighbours are taken for one."""
        completed = self._completed
        while completed and completed[-1][0] > first_offset:
            completed.pop()
        completed.append((first_offset, last_offset))
        if len(completed) > COMPLETED_MAX:
            firsts, lasts = list(completed)[0::2], list(completed)[1::2]
            self._completed = deque(
                (first[0], last[1]) for first, last in zip_longest(firsts, lasts, fillvalue=completed[-1])
            )

    def _writing(self, header: BatchHeader, now_ms: int) -> Producer:
        """The producer of a batch, which is now the last that wrote. What is in the log is not refused: of
        too many, those go that have not written for longest."""
        by_id, producer_id = self.by_id, header.producer_id
        producer = by_id.pop(producer_id, None)
        if producer is None:
            producer = Producer()
            if len(by_id) >= PRODUCERS_MAX + SPARE:
                self.forget_first(SPARE)  # many at once, as finding the first takes a while
        by_id[producer_id] = producer
        producer.seen_ms = now_ms
        if producer.epoch != header.producer_epoch:
            producer.epoch, producer.batches = header.producer_epoch, ()
        producer.last_timestamp = header.max_timestamp
        return producer

    def epoch_of(self, producer_id: int) -> int:
        producer = self.by_id.get(producer_id)
        return NO_PRODUCER_EPOCH if producer is None else producer.epoch

    def forget_first(self, count: int) -> int:
        """Forget those that have not written for longest, unless they are in a transaction; how many."""
        idle = (producer_id for producer_id, producer in self.by_id.items() if producer.txn_first_offset < 0)
        first = list(islice(idle, max(count, 0)))
        for producer_id in first:
            del self.by_id[producer_id]
        return len(first)

    def forget_silent(self, count: int, now_ms: int) -> int:
        """Forget so many at most of those that have been silent for SILENT_MS, unless they are in a
        transaction; how many."""
        if now_ms < self._none_silent_before_ms:
            return 0
        silent = list[int]()
        for producer_id, producer in self.by_id.items():
            if producer.txn_first_offset >= 0:
                continue
            silent_ms = max(producer.seen_ms, self.restored_ms) + SILENT_MS
            if now_ms < silent_ms or len(silent) >= count:
                self._none_silent_before_ms = silent_ms
                break
            silent.append(producer_id)
        for producer_id in silent:
            del self.by_id[producer_id]
        return len(silent)

    def replay(self, header: BatchHeader, view: memoryview, now_ms: int = 0) -> AbortedTransaction | None:
        """Take in a batch that is in the log already, whoever wrote it, and return the transaction that it
        aborts. `now_ms` is 0 if the batch is not new."""
        aborted = None
        if header.producer_id >= 0:
            if not header.is_control:
                self.update(header, header.base_offset, now_ms)
            # Compaction may have emptied the batch of a marker whose transaction is long forgotten.
            elif header.count and (marker := marker_of(header, view)) is not None:
                aborted = self.update_marker(header, marker, header.base_offset, now_ms)
        self.end_offset = header.next_offset
        return aborted

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the oldest transaction began whose end is not yet below the high watermark."""
        completed, ongoing = self._completed, self._ongoing
        while completed and completed[0][1] < high_watermark:
            completed.popleft()
        if not completed:
            return ongoing[0] if ongoing else None
        return min(completed[0][0], ongoing[0]) if ongoing else completed[0][0]

    @property
    def oldest_transaction_timestamp(self) -> int | None:
        """When the producer of the oldest open transaction last wrote; None if there is none. The one who has
        been silent for longest comes first, and most often it is that one."""
        if not self._ongoing:
            return None
        oldest = (entry for entry in self.by_id.values() if entry.txn_first_offset == self._ongoing[0])
        return next((producer.last_timestamp for producer in oldest), None)

    def put(self, producer_id: int, producer: Producer) -> None:
        """Restore a producer from a snapshot."""
        self.by_id[producer_id] = producer
        if producer.txn_first_offset >= 0:
            insort(self._ongoing, producer.txn_first_offset)

    def clear(self, end_offset: int) -> None:
        self.by_id.clear()
        self._ongoing.clear()
        self._completed.clear()
        self.verifications.by_id.clear()
        self._none_silent_before_ms = 0
        self.end_offset = end_offset

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that are silent and not in a transaction; returns how many."""
        silent = [
            producer_id
            for producer_id, producer in self.by_id.items()
            if producer.txn_first_offset < 0 and now_ms - producer.last_timestamp >= expiration_ms
        ]
        for producer_id in silent:
            del self.by_id[producer_id]
        return len(silent)


def marker_of(header: BatchHeader, view: memoryview) -> EndTransaction | None:
    """The marker in a control batch, or None if it is a control batch of another kind."""
    record = read_records(view, header)[0]
    return read_marker(record.key, record.value)


def _sent_again(producer: Producer, header: BatchHeader) -> AppendedBatch | None:
    """The same batch among the last five, None if it is the next one, else an error."""
    first, last = header.base_sequence, header.last_sequence
    batches = producer.batches
    if not batches:
        # Only a marker has been seen in this epoch, and a marker does not count.
        if first != 0:
            raise _out_of_order(header, 0)
        return None
    newest = batches[-1]
    expected = (newest.last_sequence + 1) % SEQUENCES
    if first == expected:
        return None
    for batch in batches:
        if batch.first_sequence == first and batch.last_sequence == last:
            return batch
    # Sequences live on a circle of 2^31; what is less than half of it behind the window is old, not ahead.
    behind = (batches[0].first_sequence - first) % SEQUENCES
    if producer.is_whole and 0 < behind < SEQUENCES // 2:
        raise ApiError(
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
            f"Sequence {first} of producer {header.producer_id} is before its last {len(batches)} batches.",
        )
    raise _out_of_order(header, expected)


def _out_of_order(header: BatchHeader, expected: int) -> ApiError:
    return ApiError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"Producer {header.producer_id} epoch {header.producer_epoch} sent sequence {header.base_sequence}, "
        f"expected {expected}.",
    )
