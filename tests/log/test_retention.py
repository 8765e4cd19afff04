"""Forgetting the head of a log, cutting its tail, and finding records by time."""

import pytest
from tests.log.helpers import FOLDER, NOW, append, batch, newest, open_log, put, run_syncs, values
from tests.log.simdisk import SimDisk

from ottla.base.errors import ApiError, ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec

SIZE = len(batch("000"))


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def filled(disk, count=9, **config):
    """Three records per segment, a second apart."""
    log = open_log(disk, segment_bytes=3 * SIZE, **config)
    for number in range(count):
        put(log, f"{number:03}", at=NOW + 1000 * number)
    return log


def bases(log):
    return [segment.base_offset for segment in log.segments]


def test_segments_whose_newest_record_is_too_old_are_deleted(disk):
    log = filled(disk, retention_ms=10_000)
    assert log.delete_old_segments(NOW + 12_000, 9) == 0
    assert log.delete_old_segments(NOW + 12_001, 9) == 1
    assert (bases(log), log.log_start_offset) == ([3, 6], 3)
    assert values(log) == [f"{number:03}" for number in range(3, 9)]
    with pytest.raises(ApiError) as error:
        log.read(2, 100, end=9)
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_active_segment_goes_too_and_the_offsets_stay(disk):
    log = filled(disk, retention_ms=10_000)
    assert log.delete_old_segments(NOW + 10**9, 9) == 3
    assert (bases(log), log.log_start_offset, log.log_end_offset) == ([9], 9, 9)
    assert log.delete_old_segments(NOW + 10**10, 9) == 0
    assert put(log, "next").base_offset == 9


def test_nothing_above_the_high_watermark_is_deleted(disk):
    log = filled(disk, retention_ms=1)
    assert log.delete_old_segments(NOW + 10**9, 5) == 1
    assert bases(log) == [3, 6]


def test_segments_without_timestamps_are_as_old_as_their_files(disk):
    disk.now_ms = NOW
    log = open_log(disk, segment_bytes=SIZE, retention_ms=1000)
    for _ in range(3):
        append(log, batch("000", at=-1))
    assert log.delete_old_segments(NOW + 1000, 3) == 0
    assert log.delete_old_segments(NOW + 1001, 3) == 3


def test_minus_one_keeps_everything_and_compact_ignores_time(disk):
    assert filled(disk, retention_ms=-1).delete_old_segments(NOW + 10**12, 9) == 0
    log = filled(SimDisk(), cleanup_policy=("compact",), retention_ms=1, retention_bytes=1)
    assert log.delete_old_segments(NOW + 10**12, 9) == 0


def test_the_oldest_segments_go_when_a_log_is_too_large(disk):
    log = filled(disk, retention_bytes=6 * SIZE)
    assert log.delete_old_segments(NOW, 9) == 1
    assert bases(log) == [3, 6]
    log = filled(SimDisk(), retention_bytes=6 * SIZE + 1)
    assert log.delete_old_segments(NOW, 9) == 0


def test_deleted_records_are_out_of_range_and_their_segments_follow(disk):
    log = filled(disk)
    log.advance_log_start(4)
    log.advance_log_start(2)
    assert log.log_start_offset == 4
    assert values(log) == [f"{number:03}" for number in range(4, 9)]
    assert log.delete_old_segments(NOW, 9) == 1
    assert (bases(log), log.log_start_offset) == ([3, 6], 4)
    with pytest.raises(ApiError):
        log.advance_log_start(10)


def test_deleted_files_are_renamed_first(disk):
    log = filled(disk, retention_ms=1)
    run_syncs(log)
    log.delete_old_segments(NOW + 10**9, 5)
    assert f"{FOLDER}/{0:020d}.log.deleted" in log.deleted
    assert sorted(log.deleted) == sorted(name for name in disk.nodes if name.endswith(".deleted"))
    assert not disk.exists(f"{FOLDER}/{0:020d}.log")


def test_deleting_takes_leader_epochs_along(disk):
    log = open_log(disk, segment_bytes=SIZE, retention_bytes=SIZE)
    for epoch in range(4):
        append(log, batch("000"), epoch=epoch)
    log.delete_old_segments(NOW, 4)
    assert log.epochs.entries == ((3, 3),)


@pytest.mark.parametrize("offset", range(10))
def test_truncation_leaves_what_is_before_the_offset(disk, offset):
    log = filled(disk, index_interval_bytes=1)
    assert log.truncate_to(offset, NOW) == (offset < 9)
    expected = [f"{number:03}" for number in range(offset)]
    assert log.log_end_offset == offset
    assert values(log) == expected
    assert put(log, "new").base_offset == offset
    assert values(log) == [*expected, "new"]
    run_syncs(log)
    disk.crash()
    assert values(open_log(disk, segment_bytes=3 * SIZE)) == [*expected, "new"]


def test_truncation_inside_a_batch_removes_the_batch(disk):
    log = open_log(disk)
    put(log, "a")
    put(log, "b", "c", "d")
    log.truncate_to(2, NOW)
    assert log.log_end_offset == 1
    assert values(log) == ["a"]


def test_truncation_before_the_first_segment_begins_anew(disk):
    log = filled(disk, retention_bytes=3 * SIZE)
    log.delete_old_segments(NOW, 9)
    assert log.log_start_offset == 6
    log.truncate_to(4, NOW)
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries) == (4, 4, ())


def test_truncation_takes_the_newest_timestamp_back(disk):
    log = open_log(disk, index_interval_bytes=1)
    for number in range(6):
        put(log, f"{number}", at=NOW + number)
    log.truncate_to(3, NOW)
    assert newest(log) == (2, NOW + 2, 0)
    log.truncate_to(0, NOW)
    assert newest(log) is None


def test_starting_anew_forgets_everything(disk):
    log = filled(disk)
    log.truncate_fully_and_start_at(100, NOW)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (100, 100, 0)
    assert put(log, "x").base_offset == 100
    run_syncs(log)
    disk.crash()
    assert values(open_log(disk)) == ["x"]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_the_first_record_since_a_time_is_found_inside_its_batch(disk, codec):
    log = open_log(disk, segment_bytes=400, index_interval_bytes=50)
    for number in range(0, 60, 3):
        records = [NewRecord(b"k", b"v", (), NOW + 10 * at) for at in range(number, number + 3)]
        append(log, memoryview(build_batch(records, codec=codec)), epoch=number // 30)
    for number in range(60):
        for timestamp in (NOW + 10 * number - 9, NOW + 10 * number):
            assert log.offset_for_timestamp(timestamp) == (number, NOW + 10 * number, number // 30)
    assert log.offset_for_timestamp(0) == (0, NOW, 0)
    assert log.offset_for_timestamp(NOW + 591) is None
    assert newest(log) == (59, NOW + 590, 1)


def test_times_that_go_back_are_searched_from_the_start(disk):
    log = open_log(disk, index_interval_bytes=1, segment_bytes=5 * SIZE)
    for at in (5, 9, 3, 7, 12, 2, 11, 12):
        put(log, "000", at=at)
    expected = {5: 0, 6: 1, 9: 1, 10: 4, 12: 4}
    assert {at: log.offset_for_timestamp(at).offset for at in expected} == expected
    assert newest(log) == (4, 12, 0)


def test_records_before_the_log_start_are_not_found_by_time(disk):
    log = open_log(disk)
    for at in (1, 2, 3):
        put(log, "v", "v", at=at)
    log.advance_log_start(3)
    assert log.offset_for_timestamp(1) == (3, 2, 0)
    log.advance_log_start(6)
    assert log.offset_for_timestamp(1) is None


def test_times_are_found_in_a_segment_that_is_damaged_before_them_only_as_an_error(disk):
    log = open_log(disk, index_interval_bytes=10_000)
    for at in range(5):
        put(log, "000", at=at)
    disk.flip(f"{FOLDER}/{0:020d}.log", SIZE + 16)
    with pytest.raises(ApiError) as error:
        log.offset_for_timestamp(3)
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE
