"""What is durable, what may be acknowledged, and when a sync is due."""

import errno

import pytest
from tests.log.helpers import FOLDER, NOW, TP, append, batch, open_log, put, run_syncs, values
from tests.log.simdisk import SimDisk, power_loss

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.segment import file_name


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def settled(disk: SimDisk, **config) -> Log:
    """A new log whose folder is durable already."""
    log = open_log(disk, **config)
    run_syncs(log)
    disk.syncs.clear()
    return log


def run(sync) -> None:
    for file in sync.files:
        file.sync()


def test_without_a_flush_config_everything_may_be_acknowledged_and_nothing_is_synced(disk):
    log = settled(disk)
    for _ in range(1000):
        put(log, "v")
    assert log.safe_end == 1000
    assert log.next_sync(NOW + 10**9) is None
    assert log.recovery_point == 0


def test_the_batch_that_reaches_flush_messages_is_not_safe_before_its_sync(disk):
    log = settled(disk, flush_messages=3)
    put(log, "a", "b")
    assert log.safe_end == 2
    assert log.next_sync(NOW) is None
    put(log, "c", "d")
    put(log, "e")
    assert log.safe_end == 2
    sync = log.next_sync(NOW)
    assert sync.end_offset == 5
    assert log.next_sync(NOW) is None
    run(sync)
    assert log.safe_end == 2
    log.on_synced(sync, NOW)
    assert (log.safe_end, log.recovery_point) == (5, 5)
    assert log.next_sync(NOW) is None


def test_what_comes_while_a_sync_is_in_flight_waits_for_the_next(disk):
    log = settled(disk, flush_messages=1)
    put(log, "a")
    first = log.next_sync(NOW)
    put(log, "b")
    put(log, "c")
    run(first)
    log.on_synced(first, NOW)
    assert (log.safe_end, log.recovery_point) == (1, 1)
    second = log.next_sync(NOW)
    assert second.end_offset == 3
    run(second)
    log.on_synced(second, NOW)
    assert log.safe_end == 3
    assert len(second.files) == 1


def test_acknowledged_records_survive_a_loss_of_power_with_flush_messages(disk):
    log = open_log(disk, flush_messages=1, segment_bytes=300)
    for number in range(20):
        put(log, f"{number:03}")
        run_syncs(log)
        assert log.safe_end == number + 1
    put(log, "not acknowledged")
    recovery_point = log.recovery_point
    disk.crash(power_loss)
    log = open_log(disk, recovery_point=recovery_point, segment_bytes=300)
    assert values(log) == [f"{number:03}" for number in range(20)]
    assert log.epochs.entries == ((0, 0),)


def test_records_found_after_a_crash_are_not_safe_before_they_are_synced(disk):
    log = open_log(disk)
    put(log, "a", "b")
    disk.crash()
    log = open_log(disk, flush_messages=1)
    assert log.safe_end == 0
    run_syncs(log)
    assert log.safe_end == 2


def test_flush_ms_syncs_what_has_waited_that_long(disk):
    log = settled(disk, flush_ms=100)
    append(log, batch("a"), now_ms=NOW)
    append(log, batch("b"), now_ms=NOW + 90)
    assert log.safe_end == 2
    assert log.next_sync(NOW + 99) is None
    sync = log.next_sync(NOW + 100)
    append(log, batch("c"), now_ms=NOW + 101)
    run(sync)
    log.on_synced(sync, NOW + 110)
    assert log.recovery_point == 2
    assert log.next_sync(NOW + 150) is None
    assert log.next_sync(NOW + 201).end_offset == 3


def test_a_rolled_segment_is_synced_with_its_folder_but_the_active_one_is_not(disk):
    log = settled(disk, segment_bytes=100)
    put(log, "a")
    put(log, "b")
    sync = log.next_sync(NOW)
    assert sync.end_offset == 1
    run(sync)
    log.on_synced(sync, NOW)
    assert log.recovery_point == 1
    assert disk.syncs == [
        f"{FOLDER}/leader-epoch-checkpoint",
        f"{FOLDER}/{file_name(0, '.log')}",
        f"{FOLDER}/{file_name(0, '.index')}",
        f"{FOLDER}/{file_name(0, '.timeindex')}",
        f"{FOLDER}/{file_name(1, '.snapshot')}",
        FOLDER,
    ]


def test_a_file_that_a_sync_uses_is_closed_only_when_it_is_back(disk):
    log = settled(disk, flush_messages=1, segment_bytes=100)
    put(log, "a")
    sync = log.next_sync(NOW)
    log.truncate_fully_and_start_at(10, NOW)
    assert [file.path for file in disk.open_files] == [f"{FOLDER}/{file_name(0, '.log')}"]
    run(sync)
    log.on_synced(sync, NOW)
    assert disk.open_files == []
    assert log.recovery_point <= 10


def test_a_sync_says_nothing_of_records_that_replaced_the_ones_it_covered(disk):
    log = settled(disk, flush_messages=1)
    for value in "abc":
        put(log, value)
    sync = log.next_sync(NOW)
    run(sync)
    log.truncate_to(1, NOW)
    put(log, "new")
    put(log, "new")
    log.on_synced(sync, NOW)
    assert log.recovery_point == 1
    assert log.safe_end == 1
    run_syncs(log)
    assert log.safe_end == 3


def test_truncation_below_the_unsafe_part_forgets_it(disk):
    log = settled(disk, flush_messages=2)
    put(log, "a")
    put(log, "b")
    assert log.safe_end == 1
    log.truncate_to(1, NOW)
    assert log.safe_end == 1
    put(log, "c")
    assert log.safe_end == 1
    run_syncs(log)
    assert log.safe_end == 2


def test_an_abandoned_log_lets_go_of_its_files_even_with_a_sync_in_flight(disk):
    log = settled(disk, segment_bytes=100, flush_messages=1)
    put(log, "a")
    put(log, "b")
    sync = log.next_sync(NOW)
    put(log, "c")
    log.abandon()
    assert disk.open_files
    log.on_synced(sync, NOW)
    assert disk.open_files == []


def test_a_log_announces_when_it_wants_to_be_asked(disk):
    asked = []
    disk.make_directory(FOLDER)
    log = Log.open(
        disk,
        FOLDER,
        TP,
        LogConfig(flush_ms=500, flush_messages=3),
        now_ms=NOW,
        on_due=lambda _, due: asked.append(due),
    )
    assert asked == [0]
    run_syncs(log)
    asked.clear()
    append(log, batch("a"), now_ms=NOW)
    append(log, batch("b"), now_ms=NOW + 1)
    assert asked == [NOW + 500]
    append(log, batch("c"), now_ms=NOW + 2)
    append(log, batch("d"), now_ms=NOW + 3)
    assert asked == [NOW + 500, 0]


def test_a_new_config_counts_what_is_unsynced_already(disk):
    log = settled(disk)
    put(log, "a", "b")
    log.on_config(LogConfig(flush_messages=2), NOW)
    assert log.safe_end == 0
    run_syncs(log)
    assert log.safe_end == 2


def test_a_failed_sync_leaves_everything_unsafe(disk):
    log = settled(disk, flush_messages=1)
    put(log, "a")
    sync = log.next_sync(NOW)
    disk.fail("sync", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        run(sync)
    assert log.safe_end == 0
    assert log.next_sync(NOW) is None
