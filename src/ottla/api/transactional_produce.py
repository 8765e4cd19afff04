"""The batches of a Produce that belong to a transaction: what must be certain before they are appended
(KIP-890).

Where the producer's transaction is open in a partition, nothing more is. Everywhere else its coordinator is
asked first, for all partitions of the request at once: do they take part in it? Since v12 clients leave it
to us to say that they do from now on (transactions V2). The answer counts only if no marker came to the
partition meanwhile (`log/verifications`).

What clients are told, as in Kafka:

    without a transactional id               TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    batches of two producers in one request  INVALID_PRODUCER_ID_MAPPING
    not part of it                           TRANSACTION_ABORTABLE since v11, before that INVALID_TXN_STATE
    ended by a marker meanwhile              INVALID_TXN_STATE
    the transaction before is being ended    CONCURRENT_TRANSACTIONS since v12, before that as what follows
    the coordinator cannot say               NOT_ENOUGH_REPLICAS, after which every client tries again

In Kafka the first two are the answer for all partitions of the request, here for those of the batches.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.api.call import Call
from ottla.api.needs import TRANSACTIONAL_ID, WRITE
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.log.verifications import Verification
from ottla.records.batch import BatchHeader, crc_ok, read_header
from ottla.replication.partition import Partition

ABORTABLE_SINCE = 11
ADDS_SINCE = 12

_COORDINATOR_CANNOT_SAY = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.OPERATION_NOT_ATTEMPTED,  # it does not know another partition of the request yet
    }
)


@dataclass(slots=True, eq=False)
class Verifying:
    """The transaction of a request. It is the key under which the request waits while `is_open`."""

    version: int
    transactional_id: str | None
    producer: tuple[int, int] = (-1, -1)  # id and epoch
    verifications: dict[TopicPartition, Verification] = field(default_factory=dict)
    errors: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    is_open: bool = False
    is_needless: bool = False  # as an operator has set it
    is_allowed: bool = True

    def begin(self, call: Call, batches: Iterable[tuple[Partition, memoryview]]) -> None:
        """Ask about all batches that are the first of the transaction in their partition."""
        broker, adds = call.broker, self.version >= ADDS_SINCE
        self.is_needless = not adds and not broker.verifies_transactions
        if self.transactional_id is not None:
            self.is_allowed = call.allows(WRITE, TRANSACTIONAL_ID, self.transactional_id)
        if self.transactional_id is None or self.is_needless or not self.is_allowed:
            return
        for partition, records in batches:
            header, producers = read_header(records), partition.log.producers
            producer = header.producer_id, header.producer_epoch
            if self.producer == (-1, -1):
                self.producer = producer
            if producer != self.producer or not partition.is_leader or producers.is_in_transaction(*producer):
                continue
            if producer[0] >= 0 and crc_ok(records, header):
                self.verifications[partition.topic_partition] = producers.verifications.begin(
                    *producer, header.base_sequence, adds=adds
                )
        if self.verifications:
            self.is_open = True
            broker.verifier.verify(
                self.transactional_id,
                *self.producer,
                list(self.verifications),
                adds=adds,
                then=lambda errors, now_ms: self._on_verified(call, errors, now_ms),
                now_ms=call.now_ms,
            )

    def _on_verified(self, call: Call, errors: dict[TopicPartition, ErrorCode], now_ms: int) -> None:
        if self.is_open:
            self.errors, self.is_open = errors, False
            call.broker.waiting.wake(self, now_ms)

    def give_up(self) -> None:
        """The time of the request is up."""
        self.errors = dict.fromkeys(self.verifications, ErrorCode.NETWORK_EXCEPTION)
        self.is_open = False

    def check(self, partition: Partition, records: memoryview) -> None:
        """Refuse a batch that does not surely belong to an open transaction."""
        header = read_header(records)
        error = self._error(partition, header)
        if error is not None and partition.is_leader and header.producer_id >= 0 and crc_ok(records, header):
            raise error  # any other batch is refused for another reason

    def _error(self, partition: Partition, header: BatchHeader) -> ApiError | None:
        if self.transactional_id is None:
            return ApiError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "A batch of a transaction needs the transactional id in the request.",
            )
        if not self.is_allowed:
            return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if self.is_needless:
            return None
        producer = header.producer_id, header.producer_epoch
        if producer != self.producer:
            return ApiError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                "The request has transactional batches of two producers.",
            )
        code = self.errors.get(partition.topic_partition)
        if code is not None:
            return self._unverified(code)
        verification = self.verifications.get(partition.topic_partition)
        producers = partition.log.producers
        if producers.is_in_transaction(*producer) or (
            verification is not None and producers.verifications.holds(verification)
        ):
            return None
        return ApiError(ErrorCode.INVALID_TXN_STATE, "The transaction of the batch has ended.")

    def _unverified(self, code: ErrorCode) -> ApiError:
        if code == ErrorCode.CONCURRENT_TRANSACTIONS and self.version >= ADDS_SINCE:
            return ApiError(code, "The end of the transaction before is still being written.")
        if code in _COORDINATOR_CANNOT_SAY:
            return ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The coordinator cannot say whether the partition is part of the transaction: {code.name}.",
            )
        if code == ErrorCode.TRANSACTION_ABORTABLE and self.version < ABORTABLE_SINCE:
            code = ErrorCode.INVALID_TXN_STATE
        return ApiError(code, "The partition was not added to the transaction.")
