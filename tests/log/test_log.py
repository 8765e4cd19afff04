"""Appending, reading and rolling."""

import errno

import pytest
from tests.log.helpers import FOLDER, NOW, append, batch, open_log, put, records, run_syncs, values
from tests.log.simdisk import SimDisk

from ottla.base.errors import ApiError, ErrorCode
from ottla.log.directories import DirectoryFiles, LogDirectoryError
from ottla.log.segment_reader import Read
from ottla.records.batch import assign, read_header


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def test_a_batch_gets_the_next_offsets_and_the_leaders_epoch(disk):
    log = open_log(disk)
    assert put(log, "a", "b") == (0, 1, -1, 0, False)
    assert append(log, batch("c"), epoch=3) == (2, 2, -1, 0, False)
    assert (log.log_start_offset, log.log_end_offset, log.safe_end) == (0, 3, 3)
    header = read_header(log.read(2, 1000, end=3).records)
    assert (header.base_offset, header.leader_epoch) == (2, 3)
    assert values(log) == ["a", "b", "c"]


def test_a_batch_is_one_write(disk):
    log = open_log(disk)
    view = batch("a", "b")
    append(log, view)
    assert bytes(disk.nodes[f"{FOLDER}/{0:020d}.log"].data) == bytes(view)


def test_a_read_inside_a_batch_gives_the_whole_batch(disk):
    log = open_log(disk)
    put(log, "a", "b", "c")
    put(log, "d")
    read = log.read(1, 1 << 20, end=4)
    assert read_header(read.records).base_offset == 0
    assert read.next_offset == 4


def test_a_read_ends_before_the_batch_that_reaches_the_high_watermark(disk):
    log = open_log(disk)
    for value in "abc":
        put(log, value, value)
    assert values(log, end=4) == ["a", "a", "b", "b"]
    assert values(log, end=3) == ["a", "a"]
    assert log.read(4, 100, end=4).records == b""
    assert log.read(0, 100, end=1) == Read(b"", 0)


def test_a_read_outside_of_the_log_is_out_of_range(disk):
    log = open_log(disk)
    put(log, "a")
    assert log.read(1, 100, end=1) == Read(b"", 1)
    for offset in (-1, 2):
        with pytest.raises(ApiError) as error:
            log.read(offset, 100, end=1)
        assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_limited_read_gives_only_whole_batches_and_goes_on_where_it_stopped(disk):
    log = open_log(disk, index_interval_bytes=200)
    for number in range(300):
        put(log, f"{number}")
    size = len(batch("100"))
    read = log.read(0, 10 * size + 5, end=300)
    reads = disk.reads
    read = log.read(read.next_offset, 10 * size, end=300)
    assert disk.reads == reads + 1
    assert read_header(read.records).base_offset == 10
    assert values(log, max_bytes=10 * size + 5) == [str(number) for number in range(300)]
    assert values(log, max_bytes=size) == [str(number) for number in range(300)]


def test_a_large_batch_is_never_starved(disk):
    log = open_log(disk)
    put(log, "x" * 5000)
    put(log, "b")
    for limit in (0, 1, 100):
        read = log.read(0, limit, end=2, at_least_one=True)
        assert (len(read.records), read.next_offset) == (len(batch("x" * 5000)), 1)
        assert log.read(0, limit, end=2, at_least_one=False) == Read(b"", 0)


def test_a_read_at_the_end_is_one_read_of_the_disk(disk):
    log = open_log(disk)
    for _ in range(1000):
        put(log, "v" * 50)
    reads = disk.reads
    log.read(995, 1 << 20, end=1000)
    log.read(995, 1 << 20, end=998)
    assert disk.reads == reads + 2


def test_segments_roll_before_they_grow_too_large_and_reads_cross_them(disk):
    size = len(batch("000"))
    log = open_log(disk, segment_bytes=3 * size)
    for number in range(10):
        put(log, f"{number:03}")
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6, 9]
    assert all(segment.size <= 3 * size for segment in log.segments)
    assert values(log) == [f"{number:03}" for number in range(10)]
    assert values(log, 4, end=8) == ["004", "005", "006", "007"]
    assert log.size == 10 * size


def test_many_old_segments_keep_only_a_few_files_open(disk):
    log = open_log(disk, segment_bytes=100)
    for number in range(20):
        put(log, f"{number}")
    run_syncs(log)
    assert values(log) == [str(number) for number in range(20)]
    assert len(disk.open_files) <= 5


def test_segments_roll_by_the_time_between_their_records(disk):
    log = open_log(disk, segment_ms=1000)
    put(log, "a", at=NOW)
    put(log, "b", at=NOW + 1000)
    put(log, "c", at=NOW + 1001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segments_without_timestamps_roll_by_the_clock(disk):
    log = open_log(disk, segment_ms=1000)
    append(log, batch("a", at=-1), now_ms=NOW)
    append(log, batch("b", at=-1), now_ms=NOW + 1001)
    assert len(log.segments) == 2


def test_jitter_rolls_earlier_but_the_same_way_every_time(disk):
    def bases():
        log = open_log(SimDisk(), segment_ms=1000, segment_jitter_ms=900)
        for number in range(20):
            put(log, "v", at=NOW + 100 * number)
        return [segment.base_offset for segment in log.segments]

    assert len(bases()) > 2
    assert bases() == bases()


def test_the_compaction_lag_bounds_the_time_to_roll_of_a_compacted_log(disk):
    log = open_log(disk, cleanup_policy=("compact",), max_compaction_lag_ms=10)
    put(log, "a", at=NOW)
    put(log, "b", at=NOW + 11)
    assert len(log.segments) == 2


def test_a_segment_rolls_when_its_index_is_full(disk):
    log = open_log(disk, segment_index_bytes=24, index_interval_bytes=1)
    for _ in range(20):
        put(log, "v")
    assert len(log.segments) > 3
    assert values(log) == ["v"] * 20


def test_a_segment_rolls_when_offsets_no_longer_fit_into_its_index(disk):
    log = open_log(disk)
    put(log, "a")
    for base in (1 << 31, 5 << 31):
        far = batch("far")
        assign(far, base, 0)
        log.append_batches(far, NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 5 << 31]
    assert values(log) == ["a", "far", "far"]


def test_an_empty_segment_is_replaced_when_the_first_offset_is_far_away(disk):
    log = open_log(disk)
    far = batch("far")
    assign(far, 1 << 32, 0)
    log.append_batches(far, NOW)
    assert [segment.base_offset for segment in log.segments] == [1 << 32]
    assert values(log, 1 << 32) == ["far"]


def test_rolling_an_empty_segment_changes_nothing(disk):
    log = open_log(disk)
    assert log.roll(NOW) is log.active
    put(log, "a")
    log.roll(NOW)
    log.roll(NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert log.deleted == []


def test_a_new_config_takes_effect_at_once(disk):
    log = open_log(disk)
    put(log, "a")
    log.on_config(type(log.config)(segment_bytes=80), NOW)
    put(log, "b")
    assert len(log.segments) == 2


def test_followers_keep_offsets_and_epochs(disk):
    leader, follower = open_log(disk), open_log(SimDisk())
    for epoch, value in enumerate("abc"):
        append(leader, batch(value), epoch=epoch)
    copy = memoryview(bytearray(leader.read(0, 1 << 20, end=3).records))
    assert follower.append_batches(copy, NOW) == (0, 2, -1, 0, False)
    assert follower.epochs.entries == leader.epochs.entries == ((0, 0), (1, 1), (2, 2))
    assert records(follower) == records(leader)


def test_followers_refuse_offsets_that_go_back_and_batches_that_changed(disk):
    log = open_log(disk)
    put(log, "a")
    with pytest.raises(ApiError) as error:
        log.append_batches(batch("again"), NOW)
    assert error.value.code is ErrorCode.INVALID_RECORD
    torn = batch("b")
    assign(torn, 1, 0)
    torn[-1] ^= 1
    with pytest.raises(ApiError) as error:
        log.append_batches(torn, NOW)
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE
    assert values(log) == ["a"]


def test_a_follower_may_have_holes_where_the_leader_was_compacted(disk):
    log = open_log(disk, segment_bytes=200)
    for offset in (3, 10, 20, 30):
        view = batch(str(offset))
        assign(view, offset, 0)
        log.append_batches(view, NOW)
    assert values(log, 0) == ["3", "10", "20", "30"]
    assert values(log, 11) == ["20", "30"]
    assert values(log, 4, end=11) == ["10"]
    assert values(log, 4, end=15) == ["10"]


def test_the_bytes_between_two_offsets_are_estimated_without_reading(disk):
    log = open_log(disk, segment_bytes=20_000, index_interval_bytes=100)
    for _ in range(500):
        put(log, "v" * 50)
    size = len(batch("v" * 50))
    reads = disk.reads
    assert log.bytes_between(500, 500) == 0
    assert log.bytes_between(499, 500) == size
    assert log.bytes_between(0, 499) == 499 * size
    assert abs(log.bytes_between(100, 500) - 400 * size) < 1000
    assert log.bytes_between(0, 1) >= 1
    assert disk.reads - reads < 20


def test_epochs_begin_when_a_leader_does_even_without_writes(disk):
    log = open_log(disk)
    put(log, "a")
    log.assign_epoch(5)
    assert log.latest_epoch == 5
    assert log.epochs.end_offset_for(0, log.log_end_offset) == (0, 1)


def test_a_failed_write_changes_nothing(disk):
    log = open_log(disk)
    put(log, "a")
    disk.fail("append", 28)
    with pytest.raises(OSError, match="space"):
        put(log, "b")
    assert log.log_end_offset == 1
    put(log, "c")
    assert values(log) == ["a", "c"]


def test_damage_in_the_middle_is_an_error_for_its_readers_only(disk):
    log = open_log(disk, segment_bytes=500, index_interval_bytes=10_000)
    for _ in range(100):
        put(log, "v")
    run_syncs(log)
    log.close()
    log = open_log(disk, recovery_point=100, clean=True, segment_bytes=500)
    position = 2 * len(batch("v")) + 16
    disk.flip(f"{FOLDER}/{0:020d}.log", position)
    assert log.read(4, 100, end=100).next_offset == 5
    assert log.read(3, 100, end=100).next_offset == 4
    with pytest.raises(ApiError) as error:
        log.read(2, 100, end=100)
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE
    assert len(values(log, 50)) == 50


def test_an_index_that_leads_a_limited_read_astray_is_rebuilt(disk):
    log = open_log(disk, index_interval_bytes=300)
    for number in range(200):
        put(log, f"{number:03}")
    log.close()
    data = disk.nodes[f"{FOLDER}/{0:020d}.index"].data
    for at in range(7, len(data), 8):
        data[at] += 3
    log = open_log(disk, recovery_point=200, clean=True, index_interval_bytes=300)
    assert values(log, max_bytes=3000) == [f"{number:03}" for number in range(200)]


def test_damage_ends_a_limited_read_with_an_error(disk):
    log = open_log(disk)
    for number in range(10):
        put(log, f"{number:03}")
    disk.flip(f"{FOLDER}/{0:020d}.log", 2 * len(batch("000")) + 16)
    with pytest.raises(ApiError) as error:
        log.read(0, 500, end=10)
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(ApiError) as error:
        log.read(2, 100, end=10)
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_follower_waits_for_its_disk_as_a_leader_does(disk):
    log = open_log(disk, flush_messages=1)
    log.append_batches(batch("a"), NOW)
    assert log.safe_end == 0
    run_syncs(log)
    assert log.safe_end == 1


def test_the_brokers_own_batches_need_no_sequence(disk):
    log = open_log(disk)
    own = batch("a", producer_id=5, producer_epoch=0, transactional=True)
    assert append(log, own, internal=True).base_offset == 0
    assert log.last_stable_offset(1) == 0


def test_a_log_that_lost_the_segment_to_write_to_fails_its_directory_whatever_the_reason() -> None:
    disk = SimDisk()
    log = open_log(DirectoryFiles(disk, "/data"))  # type: ignore[arg-type]
    far = memoryview(batch("a"))
    assign(far, 1 << 31, 0)
    disk.fail("open", errno.EMFILE, ".log")
    with pytest.raises(LogDirectoryError) as failed:
        log.append_batches(far, NOW)
    assert (failed.value.directory, failed.value.errno) == ("/data", errno.EMFILE)


def test_a_log_that_cannot_go_on_for_lack_of_descriptors_can_once_there_are_some() -> None:
    disk = SimDisk()
    log = open_log(DirectoryFiles(disk, "/data"), segment_bytes=200)  # type: ignore[arg-type]
    put(log, "a" * 60)
    disk.fail("open", errno.EMFILE, ".log")
    with pytest.raises(OSError, match="Errno") as failed:
        put(log, "b" * 60)
    assert not isinstance(failed.value, LogDirectoryError)
    put(log, "c" * 60)
    assert values(log) == ["a" * 60, "c" * 60]
