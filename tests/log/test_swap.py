"""A cleaning is killed between every two operations on the disk, and what is found then is read."""

import pytest
from tests.log.cleaning_helpers import COMPACT, begin, close_segment, compact, content, place, state, write
from tests.log.helpers import NOW, TP, append, batch, open_log, records
from tests.log.simdisk import Crashed, SimDisk, page_cache, power_loss

from ottla.log.compaction.rewrite import clean
from ottla.log.compaction.task import CleanFailed
from ottla.log.config import StoreConfig
from ottla.log.log import Log

CONFIG = COMPACT | {"segment_bytes": 450, "delete_retention_ms": 1000}


def made(disk: SimDisk) -> Log:
    """Several segments that become fewer; one tombstone's time is over, and there is one that is young."""
    log = open_log(disk, **CONFIG)
    write(log, ("gone", "old"), ("a", "0"))
    write(log, ("gone", None), ("b", "0"))
    close_segment(log)
    compact(log, now_ms=NOW - 5000)
    for n in range(1, 9):
        write(log, ("a", str(n)), ("b", str(n)))
        write(log, (f"k{n}", "x" * 20))
        if n % 2:
            close_segment(log)
    write(log, ("k2", None))
    close_segment(log)
    write(log, ("b", "active"))
    log.flush()
    return log


EXPECTED = {"a": "8", "b": "active"} | {f"k{n}": "x" * 20 for n in (1, 3, 4, 5, 6, 7, 8)}


def whole(disk: SimDisk) -> tuple[list, list, int]:
    log = made(disk)
    before = content(log)
    cleaner, task = begin(log)
    result = clean(disk, task)
    assert len(result.groups) > 1
    assert any(len(group.bases) > 1 for group in result.groups)
    place(cleaner, log, result)
    return before, content(log), len(log.segments)


def test_the_new_segments_hold_what_they_should():
    before, after, _ = whole(SimDisk())
    assert set(after) < set(before)
    assert ("gone", None) not in [one[1:] for one in after]
    assert (len(before), len(after)) == (29, 11)


def crash_at(operation: int, keep, names=None) -> tuple[bool, SimDisk]:
    """Run a cleaning that stops before an operation; False if it came to its end."""
    disk = SimDisk()
    log = made(disk)
    cleaner, task = begin(log)
    disk.crash_after(operation)
    crashed = False
    try:
        place(cleaner, log, clean(disk, task))
    except Crashed:
        crashed = True
    disk.crash(keep, names)
    return crashed, disk


@pytest.mark.parametrize("keep", [page_cache, power_loss])
def test_killed_between_any_two_operations_the_log_reads_as_old_or_new(keep):
    before, after, _ = whole(SimDisk())
    by_offset = {offset: rest for offset, *rest in before}
    seen = set()
    operation, crashed = 0, True
    while crashed:
        crashed, disk = crash_at(operation, keep)
        log = open_log(disk, recovery_point=18, **CONFIG)
        found = content(log)
        assert state(log) == EXPECTED, operation
        assert all(by_offset[offset] == rest for offset, *rest in found)
        assert set(after) <= set(found) <= set(before), operation
        assert [one[0] for one in found] == sorted({one[0] for one in found})
        assert log.log_end_offset == 30
        for offset in range(31):
            assert [one.offset for one in records(log, offset)] == [
                one[0] for one in found if one[0] >= offset
            ]
        seen.add(len(found))
        left = [name for name in disk.nodes if name.endswith((".cleaned", ".swap", ".deleted", ".tmp"))]
        assert left == []
        compact(log, now_ms=NOW + 1)
        assert state(log) == EXPECTED
        operation += 1
    assert operation > 40
    assert {len(before), len(after)} <= seen


ORDERS = {
    "all": lambda number, count: True,
    "only the first": lambda number, count: number == 0,
    "only the last": lambda number, count: number == count - 1,
    "not the first": lambda number, count: number > 0,
    "not the last": lambda number, count: number < count - 1,
    "every other": lambda number, count: number % 2 == 0,
    "the others": lambda number, count: number % 2 == 1,
    "the second half": lambda number, count: number >= count // 2,
    "a third": lambda number, count: number % 3 == 0,
    "another third": lambda number, count: number % 3 == 1,
}


@pytest.mark.parametrize("order", ORDERS)
def test_whatever_part_of_the_renames_the_disk_kept_the_latest_values_are_there(order):
    before, after, _ = whole(SimDisk())
    operation, crashed = 0, True
    while crashed:
        crashed, disk = crash_at(operation, power_loss, ORDERS[order])
        log = open_log(disk, recovery_point=18, **CONFIG)
        assert state(log) == EXPECTED, operation
        assert set(after) <= set(content(log)) <= set(before), operation
        operation += 1


@pytest.mark.parametrize("keep", [page_cache, power_loss])
def test_recovery_itself_may_be_killed_between_any_two_operations(keep):
    operation, crashed, seen = -1, True, set()
    while crashed:
        operation += 1
        crashed, disk = crash_at(operation, page_cache)
        left = frozenset(disk.nodes)
        if left in seen or not any(name.endswith(".swap") for name in left):
            continue
        seen.add(left)
        names, durable = disk.nodes, disk.durable
        for step in range(100):
            disk.nodes, disk.durable = dict(names), dict(durable)
            disk.crash_after(step)
            try:
                open_log(disk, recovery_point=18, **CONFIG)
            except Crashed:
                disk.crash(keep)
                log = open_log(disk, recovery_point=18, **CONFIG)
                assert state(log) == EXPECTED, (operation, step)
                disk.crash()
                continue
            disk.crash()
            break
    assert operation > 40


def test_a_reader_goes_on_across_the_swap_without_gap_or_repeat():
    disk = SimDisk()
    log = made(disk)
    _, after, _ = whole(SimDisk())
    latest = {offset for offset, _, _ in after}
    cleaner, task = begin(log)
    result = clean(disk, task)
    offset, seen = 0, []

    def read_some() -> None:
        nonlocal offset
        found = log.read(offset, 100, end=log.log_end_offset)
        assert found.next_offset > offset
        offset = found.next_offset
        seen.extend(one.offset for one in records(log, 0, offset) if one.offset not in seen)

    read_some()
    wants_sync = cleaner.on_cleaned(log, result, NOW)
    while wants_sync:
        read_some()
        disk.syncable(log.directory).sync()
        wants_sync = cleaner.on_folder_synced(log)
    while offset < log.log_end_offset:
        read_some()
    assert latest <= set(seen)
    assert seen == sorted(set(seen))


def test_old_files_stay_as_deleted_and_their_snapshots_go_with_them():
    disk = SimDisk()
    log = made(disk)
    compact(log)
    assert any(path.endswith(".log.deleted") for path in log.deleted)
    assert all(disk.exists(path) for path in log.deleted)
    bases = {segment.base_offset for segment in log.segments}
    snapshots = {int(name[:20]) for name in disk.list(log.directory) if name.endswith(".snapshot")}
    assert snapshots <= bases | {0}


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_a_crash_after_a_cut_does_not_bring_back_what_was_cleaned(steps):
    disk = SimDisk()
    log = made(disk)
    cleaner, task = begin(log)
    result = clean(disk, task)
    for step in range(steps):
        assert cleaner.on_folder_synced(log) if step else cleaner.on_cleaned(log, result, NOW)
        disk.syncable(log.directory).sync()
    log.truncate_to(9, NOW)
    append(log, batch("new"))
    expected = content(log)
    disk.crash()
    assert content(open_log(disk, recovery_point=0, **CONFIG)) == expected


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4])
def test_a_log_that_is_cut_meanwhile_keeps_no_files_of_the_cleaning(steps):
    disk = SimDisk()
    log = made(disk)
    cleaner, task = begin(log)
    result = clean(disk, task)
    wants_sync = False
    for step in range(steps):
        wants_sync = cleaner.on_folder_synced(log) if step else cleaner.on_cleaned(log, result, NOW)
        disk.syncable(log.directory).sync()
    log.truncate_to(9, NOW)
    assert log.log_end_offset <= 9
    kept = content(log)
    append(log, batch("new"))
    if steps:
        assert wants_sync
        assert not cleaner.on_folder_synced(log)
    else:
        assert not cleaner.on_cleaned(log, result, NOW)
    assert cleaner.progress.discarded == 1
    assert log.abort_work is None
    assert content(log) == [*kept, (log.log_end_offset - 1, "k", "new")]
    disk.crash()
    log = open_log(disk, recovery_point=0, **CONFIG)
    assert content(log)[:-1] == kept
    assert content(log)[-1][2] == "new"


def test_a_log_that_is_emptied_meanwhile():
    disk = SimDisk()
    log = made(disk)
    cleaner, task = begin(log)
    result = clean(disk, task)
    assert cleaner.on_cleaned(log, result, NOW)
    assert cleaner.on_folder_synced(log)
    log.truncate_fully_and_start_at(100, NOW)
    assert not cleaner.on_folder_synced(log)
    assert log.cleaned_to <= 100
    assert [name for name in disk.list(log.directory) if "swap" in name or "cleaned" in name] == []


def test_a_result_that_nobody_waits_for_is_ignored():
    disk = SimDisk()
    log = made(disk)
    cleaner, task = begin(log)
    result = clean(disk, task)
    cleaner.forget(log)
    assert not cleaner.on_cleaned(log, result, NOW)
    assert not cleaner.on_folder_synced(log)
    cleaner.on_failed(log, CleanFailed(reason="late"), StoreConfig(), NOW)
    assert cleaner.uncleanable == {}


def test_a_topic_that_is_no_longer_compacted_keeps_its_files():
    disk = SimDisk()
    log = made(disk)
    before = content(log)
    cleaner, task = begin(log)
    result = clean(disk, task)
    log.on_config(open_log(SimDisk(), cleanup_policy=("delete",)).config, NOW)
    place(cleaner, log, result)
    assert content(log) == before
    assert cleaner.progress.discarded == 1
    assert not [name for name in disk.nodes if name.endswith(".cleaned")]


def test_segments_that_went_meanwhile_are_not_brought_back():
    disk = SimDisk()
    log = made(disk)
    cleaner, task = begin(log)
    result = clean(disk, task)
    log.abort_work = None  # as if retention had not been held back
    log.advance_log_start(9)
    assert log.delete_old_segments(NOW, log.log_end_offset)
    before = content(log)
    place(cleaner, log, result)
    assert content(log) == before
    assert cleaner.progress.discarded == 1


def test_a_log_that_is_being_cleaned_keeps_its_segments():
    log = made(SimDisk())
    cleaner, _ = begin(log)
    log.advance_log_start(9)
    assert log.delete_old_segments(NOW, log.log_end_offset) == 0
    cleaner.on_failed(log, CleanFailed(reason="no space"), StoreConfig(), NOW)
    assert log.delete_old_segments(NOW, log.log_end_offset) > 0


def test_what_a_failed_worker_left_is_removed():
    disk = SimDisk()
    log = made(disk)
    cleaner, task = begin(log)
    clean(disk, task)
    assert [name for name in disk.nodes if name.endswith(".cleaned")]
    cleaner.on_failed(log, CleanFailed(reason="killed"), StoreConfig(), NOW)
    assert not [name for name in disk.nodes if name.endswith(".cleaned")]
    assert cleaner.uncleanable[TP].reason == "killed"
    assert cleaner.progress.failures == 1


@pytest.mark.parametrize("lost", [".log", ".index", ".timeindex", ".txnindex", "what is in .log"])
def test_new_files_that_somebody_else_touched_are_not_put_in_place(lost):
    """A cleaner that outlived the broker before uses the same names."""
    disk = SimDisk()
    log = made(disk)
    before = content(log)
    cleaner, task = begin(log)
    result = clean(disk, task)
    path = f"{log.directory}/{result.groups[-1].bases[0]:020}{lost.split()[-1]}.cleaned"
    disk.remove(path)
    if lost == "what is in .log":
        disk.open(path).close()
    place(cleaner, log, result)
    assert state(log) == EXPECTED
    assert set(content(log)) <= set(before)
    assert not [name for name in disk.list(log.directory) if name.endswith((".cleaned", ".swap"))]
