"""The records of `__transaction_state`. The golden bytes are worked out by hand from Kafka's schemas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.coordinator.records import CorruptRecordError
from ottla.coordinator.turn import StoredRecord
from ottla.records.builder import NewRecord, build_batch
from ottla.records.check import Budget
from ottla.txn.records import TransactionEntry, check_body, parse, store
from ottla.txn.states import TransactionState
from ottla.txn.transaction import Transaction

KEY = bytes.fromhex("0000 0002 7478".replace(" ", ""))
V0 = bytes.fromhex(
    "0000"  # version
    "00000000000003e9 0007 0000ea60 01"  # producer id 1001, epoch 7, timeout 60 s, Ongoing
    "00000001 0001 70 00000002 00000000 00000002"  # topic p, partitions 0 and 2
    "0000000000000064 0000000000000032".replace(" ", "")  # updated at 100, started at 50
)
V1 = bytes.fromhex(
    "0001"
    "00000000000003e9 0007 0000ea60 03"  # PrepareAbort
    "02 02 70 03 00000000 00000002 00"
    "0000000000000064 0000000000000032"
    "03"  # three tags
    "00 08 00000000000003e8"  # previous producer id 1000
    "01 08 00000000000003ea"  # next producer id 1002
    "02 02 0002".replace(" ", "")  # client transaction version 2
)
ONGOING = Transaction(
    "tx",
    producer_id=1001,
    epoch=7,
    timeout_ms=60_000,
    update_ms=100,
    state=TransactionState.ONGOING,
    partitions=frozenset({TopicPartition("p", 0), TopicPartition("p", 2)}),
    start_ms=50,
)
PREPARED = Transaction(
    "tx",
    producer_id=1001,
    epoch=7,
    timeout_ms=60_000,
    update_ms=100,
    state=TransactionState.PREPARE_ABORT,
    partitions=ONGOING.partitions,
    start_ms=50,
    previous_producer_id=1000,
    next_producer_id=1002,
    client_version=2,
)

transactions = st.builds(
    Transaction,
    transactional_id=st.text(min_size=1, max_size=9),
    producer_id=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 2**15 - 1),
    timeout_ms=st.integers(-(2**31), 2**31 - 1),
    update_ms=st.integers(-1, 2**63 - 1),
    state=st.sampled_from([state for state in TransactionState if state is not TransactionState.EMPTY]),
    partitions=st.frozensets(
        st.builds(TopicPartition, st.text(min_size=1, max_size=4), st.integers(0, 9)), max_size=5
    ),
    start_ms=st.integers(-1, 2**63 - 1),
    previous_producer_id=st.integers(-1, 2**63 - 1),
    next_producer_id=st.integers(-1, 2**63 - 1),
    client_version=st.integers(0, 2**15 - 1),
)


def read(record: StoredRecord) -> Transaction:
    entry = parse(record)
    assert entry is not None
    assert entry.value is not None
    return Transaction.from_value(entry.transactional_id, entry.value)


def test_at_level_0_a_transaction_is_stored_without_tags() -> None:
    assert ONGOING.record(level=0) == StoredRecord(KEY, V0)
    assert read(StoredRecord(KEY, V0)) == ONGOING


@pytest.mark.parametrize("level", [0, 1, 2])
def test_what_only_tags_can_hold_is_stored_in_tags(level: int) -> None:
    assert PREPARED.record(level) == StoredRecord(KEY, V1)
    assert read(StoredRecord(KEY, V1)) == PREPARED


def test_tags_that_are_not_set_are_left_out() -> None:
    record = ONGOING.record(level=1)
    assert record.value is not None
    assert record.value[:2] == b"\0\1"
    assert record.value[-1:] == b"\0"
    assert read(record) == ONGOING


def test_a_tag_of_a_newer_kafka_is_passed_over() -> None:
    newer = V1.replace(bytes.fromhex("000000000000003203"), bytes.fromhex("000000000000003204"))
    assert read(StoredRecord(KEY, newer + bytes.fromhex("03020005"))) == PREPARED


def test_an_id_without_a_transaction_has_null_for_its_partitions() -> None:
    empty = Transaction("tx", producer_id=1, epoch=0, timeout_ms=1, update_ms=2)
    record = empty.record(level=2)
    assert record.value is not None
    assert record.value[17:18] == b"\0", "a compact null"
    assert read(record) == empty


@given(transactions)
def test_whatever_is_stored_is_read_back(transaction: Transaction) -> None:
    assert read(transaction.record(level=1)) == transaction


def test_a_tombstone_has_no_value() -> None:
    record = store(TransactionEntry("tx", None), 1)
    assert record == StoredRecord(KEY, None)
    assert parse(record) == TransactionEntry("tx", None)


def test_a_type_that_we_do_not_know_is_skipped() -> None:
    assert parse(StoredRecord(b"\0\1" + KEY[2:], V0)) is None


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        (b"\0", V0, "has no type"),
        (KEY, b"", "no type or version"),
        (KEY, b"\0\2" + V0[2:], "version 2; we read 0 to 1"),
        (KEY, V0[:-1], "corrupt"),
        (KEY[:-1], V0, "corrupt"),
        (KEY, V0.replace(b"\x00\x00\xea\x60\x01", b"\x00\x00\xea\x60\x06"), "state 6"),
        (KEY, V0.replace(b"\x03\xe9\x00\x07", b"\x03\xe9\xff\xff"), "producer id 1001 with epoch -1"),
        (KEY, V0[:2] + b"\xff" + V0[3:], "producer id -"),
    ],
)
def test_what_makes_no_sense_is_corrupt(key: bytes, value: bytes, problem: str) -> None:
    with pytest.raises(CorruptRecordError, match=problem):
        parse(StoredRecord(key, value))


@given(st.binary(max_size=40), st.binary(max_size=60))
def test_no_bytes_raise_anything_else(key: bytes, value: bytes) -> None:
    for prefix in (b"", b"\0\0", b"\0\0\0\2tx"):
        for version in (b"", b"\0\0", b"\0\1"):
            try:
                entry = parse(StoredRecord(prefix + key, version + value))
            except CorruptRecordError:
                continue
            assert entry is None or entry.value is not None


def test_what_an_admin_client_writes_is_read_first() -> None:
    def body(value: bytes) -> tuple[memoryview, int]:
        return memoryview(bytes(build_batch([NewRecord(KEY, value)])))[61:], 1

    check_body(*body(V0), Budget(1_000))
    with pytest.raises(ApiError, match="we read 0 to 1") as refused:
        check_body(*body(b"\0\7"), Budget(1_000))
    assert refused.value.code == ErrorCode.INVALID_RECORD
