"""Idempotent producers: duplicates, gaps, epochs, transactions, and their memory on disk."""

import pytest
from tests.log.helpers import NOW, append, batch, idempotent, open_log, run_syncs, values
from tests.log.simdisk import SimDisk

from ottla.base.errors import ApiError, ErrorCode
from ottla.log import snapshots
from ottla.log.producers import Producers
from ottla.log.snapshots import SnapshotError
from ottla.records.control import Marker, build_marker

MAX = (1 << 31) - 1


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


@pytest.fixture
def log(disk):
    return open_log(disk)


def refused(log, view, **more) -> ErrorCode:
    end = log.log_end_offset
    with pytest.raises(ApiError) as error:
        append(log, view, **more)
    assert log.log_end_offset == end
    return error.value.code


def marker(
    committed: bool, *, producer_id: int = 7, epoch: int = 0, coordinator_epoch: int = 0
) -> memoryview:
    return memoryview(build_marker(producer_id, epoch, committed, coordinator_epoch, NOW))


def in_transactions(log) -> list[int]:
    """The producers whose transaction is open."""
    producers = log.producers.by_id.items()
    return [producer_id for producer_id, producer in producers if producer.txn_first_offset >= 0]


def test_a_batch_sent_again_is_answered_with_its_first_offset(log):
    append(log, batch("x"))
    first = append(log, idempotent(0, "a", "b"))
    append(log, idempotent(2, "c"))
    again = append(log, idempotent(0, "a", "b"))
    assert again == (1, 2, -1, 0, True)
    assert again[:4] == first[:4]
    assert values(log) == ["x", "a", "b", "c"]


def test_a_duplicate_of_broker_time_gets_the_first_time(disk):
    log = open_log(disk, message_timestamp_type="LogAppendTime")
    assert append(log, idempotent(0), now_ms=NOW).log_append_time_ms == NOW
    assert append(log, idempotent(0), now_ms=NOW + 50).log_append_time_ms == NOW


def test_the_last_five_batches_are_remembered_and_no_more(log):
    for sequence in range(6):
        append(log, idempotent(sequence))
    for sequence in range(1, 6):
        assert append(log, idempotent(sequence)) == (sequence, sequence, -1, 0, True)
    assert refused(log, idempotent(0)) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER


def test_a_gap_and_a_partial_overlap_are_out_of_order(log):
    append(log, idempotent(0, "a", "b"))
    assert refused(log, idempotent(3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, idempotent(1, "b", "c")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, idempotent(2)).base_offset == 2


def test_an_old_epoch_is_fenced_and_a_new_one_starts_at_zero(log):
    append(log, idempotent(0, epoch=1))
    assert refused(log, idempotent(1, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(log, idempotent(1, epoch=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, idempotent(0, epoch=2)).base_offset == 1
    assert refused(log, idempotent(0, epoch=1)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_producer_nobody_remembers_may_begin_anywhere(log):
    assert append(log, idempotent(1234)).base_offset == 0
    assert append(log, idempotent(1235)).base_offset == 1


def test_what_comes_before_the_first_batch_of_a_producer_nobody_remembered_is_no_duplicate(log):
    """It was refused, perhaps, and the one behind it taken. Clients take a duplicate for success."""
    append(log, idempotent(3, "d"))
    assert refused(log, idempotent(0, "a", "b", "c")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, idempotent(0, "a", epoch=1))
    for sequence in range(1, 6):
        append(log, idempotent(sequence, epoch=1))
    assert refused(log, idempotent(0, "a", epoch=1)) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER


def test_sequences_wrap_around(log):
    append(log, idempotent(MAX - 1, "a", "b"))
    (producer,) = log.producers.by_id.values()
    producer.is_whole = True  # as after 2^31 records
    assert append(log, idempotent(0, "c")).base_offset == 2
    assert append(log, idempotent(MAX - 1, "a", "b")).duplicate
    append(log, idempotent(1, *("v" * 4)))
    over = idempotent(5, "a")
    assert append(log, over).base_offset == 7
    assert refused(log, idempotent(MAX - 5)) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER


def test_a_batch_may_cross_the_wrap(log):
    append(log, idempotent(MAX, "a", "b", "c"))
    assert append(log, idempotent(2, "d")).base_offset == 3
    assert append(log, idempotent(MAX, "a", "b", "c")).duplicate


def test_silent_producers_are_forgotten_unless_a_transaction_is_open(log):
    append(log, idempotent(0, producer_id=1))
    append(log, idempotent(0, producer_id=2, transactional=True))
    assert log.producers.expire(NOW + 99, 100) == 0
    assert log.producers.expire(NOW + 100, 100) == 1
    assert list(log.producers.by_id) == [2]


def test_state_survives_a_crash_by_snapshot_and_replay(disk):
    log = open_log(disk, segment_bytes=300)
    for sequence in range(10):
        append(log, idempotent(sequence))
    assert len(log.segments) > 2
    disk.crash()
    log = open_log(disk, segment_bytes=300)
    assert append(log, idempotent(9)) == (9, 9, -1, 0, True)
    assert refused(log, idempotent(11)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, idempotent(10)).base_offset == 10


@pytest.mark.parametrize(("first", "code"), [
    (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER), (1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
])  # fmt: skip
def test_after_a_crash_it_is_known_with_which_sequence_a_producer_began(disk, first, code):
    log = open_log(disk)
    for sequence in range(first, first + 8):
        append(log, idempotent(sequence))
    disk.crash()
    log = open_log(disk)
    assert append(log, idempotent(first + 7)).duplicate
    assert refused(log, idempotent(0)) is code


def test_a_snapshot_remembers_the_last_batch_only_and_it_is_read_after_a_clean_close(disk):
    log = open_log(disk)
    for sequence in (0, 3):
        append(log, idempotent(sequence, "a", "b", "c"))
    log.close()
    reads = disk.reads
    log = open_log(disk, clean=True, recovery_point=6)
    assert disk.reads - reads < 8
    assert append(log, idempotent(3, "a", "b", "c")) == (3, 5, -1, 0, True)
    assert refused(log, idempotent(0, "a", "b", "c")) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER


def test_truncation_takes_producers_back_too(disk):
    log = open_log(disk, segment_bytes=300)
    for sequence in range(8):
        append(log, idempotent(sequence))
    log.truncate_to(5, NOW)
    assert append(log, idempotent(5)).base_offset == 5


def test_the_last_stable_offset_waits_for_the_oldest_open_transaction(log):
    append(log, batch("x"))
    append(log, idempotent(0, "a", producer_id=1, transactional=True))
    append(log, idempotent(0, "b", producer_id=2, transactional=True))
    assert [log.last_stable_offset(high) for high in (0, 1, 3)] == [0, 1, 1]
    append(log, marker(True, producer_id=1), internal=True)
    assert log.last_stable_offset(3) == 1
    assert log.last_stable_offset(4) == 2
    append(log, marker(False, producer_id=2), internal=True)
    assert log.last_stable_offset(5) == 5
    assert in_transactions(log) == []


def test_open_transactions_survive_in_snapshots(disk):
    log = open_log(disk)
    append(log, idempotent(0, "a", transactional=True))
    log.close()
    log = open_log(disk, clean=True, recovery_point=1)
    assert log.last_stable_offset(1) == 0
    assert in_transactions(log) == [7]


def test_a_plain_record_inside_a_transaction_is_refused(log):
    append(log, idempotent(0, "a", transactional=True))
    assert refused(log, idempotent(1, "b")) is ErrorCode.INVALID_TXN_STATE
    append(log, idempotent(1, "b", transactional=True))


def test_markers_of_replaced_coordinators_and_producers_are_refused(log):
    def end(epoch: int, coordinator_epoch: int) -> ErrorCode:
        marker = Marker(7, epoch, True, coordinator_epoch, 0)
        try:
            log.append_marker(marker, leader_epoch=0, now_ms=NOW, wall_ms=NOW)
        except ApiError as error:
            return error.code
        return ErrorCode.NONE

    assert end(epoch=2, coordinator_epoch=3) is ErrorCode.NONE
    assert end(epoch=2, coordinator_epoch=2) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert end(epoch=1, coordinator_epoch=3) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.log_end_offset == 1
    assert refused(log, idempotent(4, epoch=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, idempotent(0, epoch=2)).base_offset == 1


def test_an_epoch_that_a_marker_raised_begins_at_zero(log):
    append(log, idempotent(0, "a", transactional=True))
    append(log, marker(True, epoch=1), internal=True)
    assert refused(log, idempotent(1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, idempotent(0, epoch=1))


def test_control_batches_that_are_empty_or_unknown_are_passed_over():
    producers = Producers()
    empty = memoryview(
        build := bytearray(batch(producer_id=7, producer_epoch=0, transactional=True, control=True))
    )
    from ottla.records.batch import read_header

    header = read_header(build)
    producers.replay(header._replace(count=0), empty)
    assert producers.by_id == {}
    unknown = batch(
        key=b"\x00\x00\x00\x09", producer_id=7, producer_epoch=0, transactional=True, control=True
    )
    producers.replay(read_header(unknown), unknown)
    assert producers.by_id == {}
    assert producers.end_offset == 1


def test_a_snapshot_is_kafkas_format(log):
    append(log, idempotent(5, "a", "b", transactional=True))
    data = snapshots.encode(log.producers)
    assert data[:2] == b"\x00\x01"
    assert data[6:10] == b"\x00\x00\x00\x01"
    fields = data[10:]
    assert len(fields) == 46
    assert fields[:10] == (7).to_bytes(8, "big") + b"\x00\x00"
    assert fields[10:26] == (6).to_bytes(4, "big") + (1).to_bytes(8, "big") + (1).to_bytes(4, "big")
    assert fields[26:] == NOW.to_bytes(8, "big") + b"\xff" * 4 + bytes(8)
    assert snapshots.encode(snapshots.decode(data, 2)) == data


@pytest.mark.parametrize("damage", [b"", b"\x00\x02" + bytes(8), b"\x00\x01" + bytes(8)])
def test_a_damaged_snapshot_is_refused(damage):
    with pytest.raises(SnapshotError):
        snapshots.decode(damage, 0)


def test_a_snapshot_with_a_wrong_count_is_refused():
    from crc32c import crc32c

    body = (3).to_bytes(4, "big")
    with pytest.raises(SnapshotError, match="do not fill"):
        snapshots.decode(b"\x00\x01" + crc32c(body).to_bytes(4, "big") + body, 0)


def test_a_producer_of_markers_only_has_no_batch_in_its_snapshot(log):
    append(log, marker(True), internal=True)
    restored = snapshots.decode(snapshots.encode(log.producers), 1)
    assert restored.by_id[7].last_sequence == -1
    append(log, idempotent(0))
    assert log.producers.by_id[7].last_sequence == 0


def test_snapshots_are_made_durable_with_the_segment(disk):
    log = open_log(disk, segment_bytes=100)
    for sequence in range(3):
        append(log, idempotent(sequence))
    run_syncs(log)
    assert [name for name in disk.syncs if name.endswith(".snapshot")] != []
