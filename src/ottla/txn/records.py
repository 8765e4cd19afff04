"""The records of `__transaction_state`, in Kafka's formats.

The key is a transactional id, the value all that is known of it; without a value it is a tombstone. `store`
turns an entry into a record and `parse` turns it back.

Rules. Version 0 is written at feature level 0 (transaction.version), version 1 with its tagged fields since
level 1, as Kafka does; both are read, and tags that we do not know are passed over (KIP-915). A type that
we do not know is from a newer broker, and is skipped: `parse` gives None. Bytes that do not fit are corrupt:
to go on without them would leave a transaction open for ever, or let a fenced producer write.
"""

from dataclasses import field
from typing import Annotated, Final, NamedTuple

from ottla.base.files import Buffer
from ottla.coordinator.records import CorruptRecordError, check_records, prefix
from ottla.coordinator.turn import StoredRecord
from ottla.records.check import Budget
from ottla.txn.states import BY_NUMBER
from ottla.wire.codec import decode, encode
from ottla.wire.primitives import ProtocolError
from ottla.wire.schema import i8, i16, i32, i64, message, since, struct, tag

KEY_TYPE: Final = 0
TAGGED_SINCE: Final = 1  # the version of the value, and the feature level
_KEY_PREFIX: Final = KEY_TYPE.to_bytes(2, "big")


@message(key=-1, versions=(0, 0), flexible=None)
class TransactionLogKey:
    transactional_id: str


@struct
class TransactionPartitions:
    topic: str
    partition_ids: list[i32] = field(default_factory=list)


@message(key=-1, versions=(0, 1), flexible=1)
class TransactionLogValue:
    """Times are times of day. `transaction_partitions` is null where a transaction cannot have any."""

    producer_id: i64
    previous_producer_id: Annotated[i64, since(1), tag(0)] = -1
    next_producer_id: Annotated[i64, since(1), tag(1)] = -1
    producer_epoch: i16
    transaction_timeout_ms: i32
    transaction_status: i8
    transaction_partitions: list[TransactionPartitions] | None = None
    transaction_last_update_timestamp_ms: i64
    transaction_start_timestamp_ms: i64
    client_transaction_version: Annotated[i16, since(1), tag(2)] = 0


class TransactionEntry(NamedTuple):
    transactional_id: str
    value: TransactionLogValue | None


def store(entry: TransactionEntry, version: int) -> StoredRecord:
    """The record of an entry in a version of the value; of one without a value, its tombstone."""
    key = _KEY_PREFIX + encode(TransactionLogKey(transactional_id=entry.transactional_id), 0)
    if entry.value is None:
        return StoredRecord(key, None)
    return StoredRecord(key, version.to_bytes(2, "big") + encode(entry.value, version))


def parse(record: StoredRecord) -> TransactionEntry | None:
    """The entry of a record; None for a type we do not know. CorruptRecordError if it is malformed."""
    if prefix(record.key) != KEY_TYPE:
        return None
    try:
        key = decode(TransactionLogKey, 0, memoryview(record.key), 2)
        value = None if record.value is None else _value(record.value)
    except ProtocolError as error:
        raise CorruptRecordError(f"the record of a transaction is corrupt: {error}") from error
    if value is not None and (problem := _problem(value)):
        raise CorruptRecordError(
            f"the record of transactional id {key.transactional_id!r:.100} has {problem}"
        )
    return TransactionEntry(key.transactional_id, value)


def _value(encoded: bytes) -> TransactionLogValue:
    version = prefix(encoded)
    first, last = TransactionLogValue.VERSIONS  # type: ignore[attr-defined]
    if not first <= version <= last:
        raise CorruptRecordError(
            f"the record of a transaction has version {version}; we read {first} to {last}"
        )
    return decode(TransactionLogValue, version, memoryview(encoded), 2)


def _problem(value: TransactionLogValue) -> str | None:
    """Why a coordinator could not go on with a value."""
    if value.transaction_status not in BY_NUMBER:
        return f"state {value.transaction_status}, which is none that is stored"
    if value.producer_id < 0 or value.producer_epoch < 0:
        return f"producer id {value.producer_id} with epoch {value.producer_epoch}"
    return None


def check_body(body: Buffer, count: int, budget: Budget) -> None:
    """INVALID_RECORD, if the body of a batch that somebody else made holds what `parse` cannot read."""
    check_records(parse, body, count, budget)
