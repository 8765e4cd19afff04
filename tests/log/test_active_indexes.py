"""The index files of the segment that is being written: there, and never wrong about what is in the log."""

import pytest
from tests.log.helpers import FOLDER, NOW, open_log, put, values
from tests.log.simdisk import SimDisk, page_cache, power_loss

from ottla.log.index import OffsetIndex, TimeIndex
from ottla.log.log import Log

INDEXES = (".index", ".timeindex")
SMALL = {"index_interval_bytes": 100}


def stored(disk: SimDisk, log: Log) -> tuple[OffsetIndex, TimeIndex]:
    """What the files of the active segment say; an error if they make no sense."""
    index, times = (disk.read(log.active.path(suffix)) for suffix in INDEXES)
    return OffsetIndex.from_bytes(index, log.active.size), TimeIndex.from_bytes(times)


def fill(log: Log, count: int = 20) -> None:
    for number in range(count):
        put(log, "x" * 50, at=NOW + number)


def test_they_are_there_from_the_first_batch_on_and_not_before():
    disk = SimDisk()
    log = open_log(disk)
    assert not [name for name in disk.list(FOLDER) if name.endswith(INDEXES)], "an empty log needs none"
    put(log, "a")
    assert all(disk.exists(log.active.path(suffix)) for suffix in INDEXES)
    stored(disk, log)


def test_a_new_segment_has_its_own():
    disk = SimDisk()
    log = open_log(disk, segment_bytes=1000)
    fill(log)
    assert len(log.segments) > 2
    for segment in log.segments:
        assert all(disk.exists(segment.path(suffix)) for suffix in INDEXES)
    assert disk.read(log.active.path(".index")) == b""


def test_after_a_clean_stop_and_start_they_hold_what_was_there_then():
    disk = SimDisk()
    log = open_log(disk, **SMALL)
    fill(log)
    log.close()
    log = open_log(disk, clean=True, recovery_point=20, **SMALL)
    before = [disk.read(log.active.path(suffix)) for suffix in INDEXES]
    assert before[0]
    fill(log)
    assert [disk.read(log.active.path(suffix)) for suffix in INDEXES] == before
    log.close()
    assert len(disk.read(log.active.path(".index"))) > len(before[0])


@pytest.mark.parametrize("keep", [page_cache, power_loss], ids=["kill", "power loss"])
def test_what_a_crash_left_in_them_is_replaced_when_writing_goes_on(keep):
    disk = SimDisk()
    log = open_log(disk, **SMALL)
    fill(log)
    log.close()
    log = open_log(disk, clean=True, recovery_point=20, **SMALL)
    log.active.file.truncate(log.active.size // 2)  # a disk that lost what it had called synced
    disk.crash(keep)
    log = open_log(disk, recovery_point=0, **SMALL)
    end = log.log_end_offset
    assert 0 < end < 20
    put(log, "new")
    index, times = stored(disk, log)
    assert index.positions[-1] < log.active.size
    assert times.last is not None
    assert times.last.offset < end
    assert values(log)[-1] == "new"


@pytest.mark.parametrize("kept", [0, 7])
def test_what_was_truncated_is_not_in_them_once_writing_goes_on(kept):
    disk = SimDisk()
    log = open_log(disk, **SMALL)
    fill(log)
    log.close()
    log = open_log(disk, clean=True, recovery_point=20, **SMALL)
    log.truncate_to(kept, NOW)
    put(log, "new")
    index, times = stored(disk, log)
    assert all(offset < kept for offset in index.offsets)
    assert all(offset < kept for offset in times.offsets)
    disk.crash()
    assert values(open_log(disk, **SMALL))[-1] == "new"


def test_a_log_that_was_left_without_them_gets_them_when_it_is_written():
    disk = SimDisk()
    log = open_log(disk, **SMALL)
    fill(log)
    for suffix in INDEXES:
        disk.remove(log.active.path(suffix))
    disk.crash()
    log = open_log(disk, **SMALL)
    put(log, "new")
    index, _ = stored(disk, log)
    assert len(index) > 3
