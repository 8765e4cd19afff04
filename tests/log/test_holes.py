"""A segment nobody synced may lose its tail at the end of a batch, or all of it; no checksum tells."""

import errno

import pytest
from tests.log.cleaning_helpers import COMPACT, keyed
from tests.log.helpers import NOW, append, put, values
from tests.log.simdisk import SimDisk
from tests.log.test_store import ID, T0, opened, work

from ottla.base.files import File
from ottla.log.checkpoint_format import CLEANER_OFFSETS, RECOVERY_POINTS
from ottla.log.compaction.rewrite import clean
from ottla.log.config import LogConfig, StoreConfig
from ottla.log.log import Log
from ottla.log.store import LogStore


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def filled(disk, **config) -> Log:
    """Three segments of two records each, and an empty one."""
    log = opened(disk).create(T0, ID, LogConfig(**config), NOW)
    for number in range(6):
        put(log, str(number))
        if number % 2:
            log.roll(NOW)
    return log


def cut(disk, base_offset, size) -> None:
    file: File = disk.open(f"/data/t-0/{base_offset:020}.log")
    file.truncate(size)
    file.close()


def dirty(store):
    """A log whose second record is superseded, before a third that is too large to stand behind the first."""
    log = store.create(T0, ID, LogConfig(**COMPACT | {"segment_bytes": 250}), NOW)
    store.checkpoints.write_recovery_points()  # an old one
    for key, size in (("a", 40), ("b", 40), ("c", 120), ("b", 40)):
        append(log, keyed((key, "v" * size)))
        log.roll(NOW)
    work(store)
    (found,) = store.next_cleanings(lambda log: log.log_end_offset, NOW)
    return found


def compacted(disk) -> Log:
    store = opened(disk, topics={"t": {"cleanup.policy": "compact"}})
    log, task = dirty(store)
    must_sync = store.on_cleaned(log, clean(disk, task), NOW)
    while must_sync:
        disk.syncable(log.directory).sync()
        must_sync = store.on_folder_synced(log, NOW)
    return log


@pytest.mark.parametrize("left", [0, 1])
def test_what_follows_a_lost_tail_is_removed(disk, left):
    log = filled(disk)
    size = log.segments[1].size
    disk.crash()
    cut(disk, 2, left * size // 2)
    store = opened(disk)
    assert values(store.logs[T0]) == [str(number) for number in range(2 + left)]
    assert any(f"offset 4 comes after {1 + left}" in line for line in store.report.lines())
    put(store.logs[T0], "next")
    assert values(store.logs[T0])[-1] == "next"


def test_what_was_synced_is_kept_behind_a_lost_tail(disk):
    """Its readers hear of the gap from `ottla verify`; those behind it have been promised."""
    filled(disk)
    disk.write_atomic(f"/data/{RECOVERY_POINTS}", b"0\n1\nt 0 6\n")
    disk.crash()
    cut(disk, 2, 0)
    assert values(opened(disk).logs[T0]) == ["0", "1", "4", "5"]


def test_a_follower_begins_a_segment_where_its_log_ends_and_not_where_its_leader_has_the_next_record(disk):
    log = opened(disk).create(T0, ID, LogConfig(segment_bytes=100), NOW)
    for offset in (0, 7, 20):
        log.append_batches(keyed(("k", str(offset)), base_offset=offset), NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 8]
    disk.crash()
    assert values(opened(disk).logs[T0]) == ["0", "7", "20"]


def test_a_distance_that_no_segment_has_is_no_hole(disk):
    log = opened(disk).create(T0, ID, LogConfig(), NOW)
    for offset in (0, (1 << 31) + 5):
        log.append_batches(keyed(("k", str(offset)), base_offset=offset), NOW)
    assert len(log.segments) == 2
    disk.crash()
    assert values(opened(disk).logs[T0]) == ["0", str((1 << 31) + 5)]


def test_where_recovery_cannot_be_told_apart_from_compaction_nothing_is_removed(disk):
    """A recovery point that is ignored, beyond the end of a topic that was compacted once."""
    before = values(compacted(disk))
    disk.crash()
    disk.remove(f"/data/{CLEANER_OFFSETS}")
    disk.write_atomic(f"/data/{RECOVERY_POINTS}", b"0\n1\nt 0 999\n")
    assert values(opened(disk).logs[T0]) == before
    disk.crash()
    disk.write_atomic(f"/data/{RECOVERY_POINTS}", b"0\n1\nt 0 0\n")
    store = opened(disk, topics={"t": {"cleanup.policy": "compact"}})
    assert values(store.logs[T0]) == before


def test_without_a_durable_recovery_point_compacted_files_are_not_put_in_place(disk):
    failed = []
    store = LogStore(disk, ("/data",), LogConfig(), StoreConfig(), on_failed=failed.append)
    log, task = dirty(store)
    result = clean(disk, task)
    disk.fail("write_atomic", errno.ENOSPC, RECOVERY_POINTS)
    assert not store.on_cleaned(log, result, NOW)
    assert len(failed) == 1
    assert not any(name.endswith(".swap") for name in disk.list(log.directory))


def test_gaps_that_compaction_made_are_no_holes(disk):
    log = compacted(disk)
    before = values(log)
    ends = [segment.load_tail() for segment in log.segments[:-1]]
    assert any(end < after.base_offset for end, after in zip(ends, log.segments[1:], strict=True)), "a gap"
    disk.crash()
    disk.remove(f"/data/{CLEANER_OFFSETS}")  # which is written last: the crash came before
    store = opened(disk, topics={"t": {"cleanup.policy": "compact"}})
    assert not any("comes after" in line for line in store.report.lines())
    assert values(store.logs[T0]) == before


def test_nor_are_they_when_the_recovery_points_are_gone(disk):
    before = values(compacted(disk))
    disk.crash()
    disk.remove(f"/data/{RECOVERY_POINTS}")
    store = opened(disk, topics={"t": {"cleanup.policy": "compact"}})
    assert values(store.logs[T0]) == before
