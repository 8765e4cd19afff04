"""Checkpoints know partitions by name: what they say of a deleted log must not touch its successor.

Also the marker of a clean shutdown, which must not come back after it was used.
"""

import pytest
from tests.log.cleaning_helpers import COMPACT
from tests.log.helpers import NOW, put, values
from tests.log.simdisk import SimDisk, power_loss
from tests.log.test_store import ID, T0, T1, opened, text, work

from ottla.base.ids import TopicPartition
from ottla.log.checkpoint_format import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from ottla.log.config import LogConfig

ALL = (RECOVERY_POINTS, LOG_STARTS, CLEANER_OFFSETS, HIGH_WATERMARKS)
NEW_ID = bytes(16)
LOG = f"/data/t-0/{0:020}.log"
CRASHES = pytest.mark.parametrize("between", ["nothing", "kill"])


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def with_old_log(disk, *, start=0, cleaned_to=0):
    """A store whose checkpoints all speak of a log with 100 records."""
    store = opened(disk)
    log = store.create(T0, ID, LogConfig(flush_messages=1), NOW)
    put(log, *"x" * 100)
    work(store)
    log.advance_log_start(start)
    log.cleaned_to = cleaned_to
    store.checkpoints.write_cleaner_offsets(sync=False)
    store.on_tick(NOW + 60_000, {T0: 100})
    return store


def made_again(disk, store, between, **config):
    """The topic is deleted and made again, perhaps with a crash between the two."""
    store.delete(T0, NOW + 60_001)
    if between == "kill":
        disk.crash()
        store = opened(disk)
    return store, store.create(T0, NEW_ID, LogConfig(**config), NOW + 60_002)


@CRASHES
def test_the_log_start_of_a_deleted_log_takes_nothing_from_its_successor(disk, between):
    store = with_old_log(disk, start=90)
    assert text(disk, LOG_STARTS) == "0\n1\nt 0 90\n"
    _, log = made_again(disk, store, between)
    for number in range(120):
        put(log, str(number))
    disk.crash()
    store = opened(disk)
    assert store.report.lines() == []
    assert values(store.logs[T0]) == [str(number) for number in range(120)]


@CRASHES
@pytest.mark.parametrize("count", [50, 120])
def test_the_recovery_point_of_a_deleted_log_does_not_spare_its_successor_the_check(disk, between, count):
    _, log = made_again(disk, with_old_log(disk), between)
    for number in range(count):
        put(log, f"{number:03}")
    size = len(disk.read(LOG)) // count
    disk.crash()
    disk.flip(LOG, 3 * size - 2)
    store = opened(disk)
    assert values(store.logs[T0]) == ["000", "001"]
    assert store.report.logs[0].bytes_cut == (count - 2) * size


@CRASHES
def test_the_cleaner_offset_of_a_deleted_log_does_not_make_its_successor_clean(disk, between):
    store = with_old_log(disk, cleaned_to=80)
    assert text(disk, CLEANER_OFFSETS) == "0\n1\nt 0 80\n"
    _, log = made_again(disk, store, between, **COMPACT)
    put(log, *"y" * 120)
    disk.crash()
    assert opened(disk).logs[T0].cleaned_to == 0


@CRASHES
def test_the_high_watermark_of_a_deleted_log_is_forgotten(disk, between):
    store, log = made_again(disk, with_old_log(disk), between)
    assert T0 not in store.high_watermarks
    put(log, *"y" * 120)
    disk.crash()
    assert opened(disk).high_watermarks == {}


def test_a_power_cut_does_not_bring_back_what_checkpoints_said_of_a_deleted_log(disk):
    store = with_old_log(disk, start=90, cleaned_to=80)
    store, log = made_again(disk, store, "nothing", flush_messages=1)
    put(log, *"y" * 50)
    work(store)
    disk.crash(power_loss, names=lambda number, count: True)
    assert [text(disk, name) for name in ALL] == ["0\n0\n"] * 4
    store = opened(disk)
    assert store.report.lines() == []
    assert values(store.logs[T0]) == ["y"] * 50


def test_the_checkpoints_are_written_once_for_all_partitions_of_a_topic(disk):
    store = opened(disk)
    ids = [TopicPartition("t", number) for number in range(20)]
    for id in ids:
        store.create(id, ID, LogConfig(), NOW)
    store.on_tick(NOW + 60_000, dict.fromkeys(ids, 0))
    disk.syncs.clear()
    for id in ids:
        store.delete(id, NOW + 60_001)
    assert disk.syncs == []
    for id in ids:
        store.create(id, NEW_ID, LogConfig(), NOW + 60_002)
    assert sorted(disk.syncs) == sorted(
        f"/data/{name}" for name in (RECOVERY_POINTS, CLEANER_OFFSETS, HIGH_WATERMARKS)
    )


def test_names_that_are_not_used_again_do_not_pile_up(disk):
    store = with_old_log(disk, start=90)
    store.delete(T0, NOW + 60_001)
    store.on_tick(NOW + 120_000, {})
    assert [text(disk, name) for name in ALL] == ["0\n0\n"] * 4
    disk.syncs.clear()
    store.create(T0, NEW_ID, LogConfig(), NOW + 120_001)
    assert disk.syncs == []


def test_what_a_checkpoint_says_wrongly_is_corrected_before_the_log_can_grow_into_it(disk):
    """As releases before this one may have left them behind."""
    store = opened(disk, "/data", "/more")
    put(store.create(T0, ID, LogConfig(), NOW), *"y" * 50)
    other = store.create(T1, ID, LogConfig(flush_messages=1), NOW)
    put(other, *"z" * 9)
    work(store)
    store.on_tick(NOW + 60_000, {})
    for name in ALL:
        disk.write_atomic(f"/data/{name}", b"0\n1\nt 0 90\n")
    disk.crash()
    store = opened(disk, "/data", "/more")
    log = store.logs[T0]
    assert (log.log_start_offset, log.recovery_point, log.cleaned_to) == (0, 0, 0)
    assert [line.split(" /")[0] for line in store.report.lines()] == [
        "t-0: ignored a recovery point",
        "t-0: ignored a log start",
    ]
    assert text(disk, RECOVERY_POINTS, "/more") == "0\n1\nt 1 9\n"
    put(log, *"y" * 50)
    disk.crash(power_loss, names=lambda number, count: True)
    disk.crash()
    assert text(disk, RECOVERY_POINTS) == "0\n1\nt 0 0\n"
    assert [text(disk, name) for name in (LOG_STARTS, CLEANER_OFFSETS)] == ["0\n0\n"] * 2
    assert opened(disk, "/data", "/more").report.lines() == []


def test_a_power_cut_does_not_bring_back_the_marker_of_a_clean_shutdown(disk):
    store = opened(disk)
    put(store.create(T0, ID, LogConfig(flush_messages=1), NOW), "a")
    store.close()
    log = opened(disk, config=LogConfig(flush_messages=1)).logs[T0]
    put(log, "b")
    log.flush()
    disk.crash(power_loss)
    assert not disk.exists("/data/.kafka_cleanshutdown")
    disk.flip(LOG, len(disk.read(LOG)) - 2)
    store = opened(disk)
    assert store.report.clean == {"/data": False}
    assert values(store.logs[T0]) == ["a"]


def test_deleted_partitions_no_longer_count_for_their_directory(disk):
    store = opened(disk, "/a", "/b")
    for number in range(4):
        store.create(TopicPartition("t", number), ID, LogConfig(), NOW)
    store.delete(TopicPartition("t", 1), NOW)
    store.delete(TopicPartition("t", 3), NOW)
    for number in (1, 3):
        store.create(TopicPartition("t", number), ID, LogConfig(), NOW)
        assert store.directory_of(TopicPartition("t", number)) == "/b"
