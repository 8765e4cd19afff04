"""Logs at rest: opening, leading and closing what nobody writes to must not write either.

There may be ten thousand of them, and each file that is written again makes every start and stop longer.
"""

import pytest
from tests.log.helpers import NOW, append, batch, idempotent, open_log, put, run_syncs, values
from tests.log.simdisk import SimDisk, page_cache, power_loss

from ottla.base.ids import TopicPartition
from ottla.log.config import LogConfig, StoreConfig
from ottla.log.store import LogStore

ID = bytes(range(16))
T0 = TopicPartition("t", 0)
EPOCHS = "/data/t-0/leader-epoch-checkpoint"


class Watched(SimDisk):
    """Notes what is done to the files of partitions, apart from looking at them."""

    def __init__(self) -> None:
        super().__init__()
        self.touched: list[tuple[str, str]] = []

    def check(self, operation: str, path: str) -> None:
        if operation not in ("read", "list") and path.startswith("/data/t-0"):
            self.touched.append((operation, path))
        super().check(operation, path)


@pytest.fixture
def disk() -> Watched:
    return Watched()


def opened(disk: SimDisk) -> LogStore:
    store = LogStore(disk, ("/data",), LogConfig(), StoreConfig())
    store.open_all(NOW, lambda _: {})
    return store


def synced(store: LogStore) -> None:
    while due := store.due_syncs(NOW):
        for log, sync in due:
            for file in sync.files:
                file.sync()
            log.on_synced(sync, NOW)


def test_an_empty_log_that_is_led_has_two_files_and_each_is_written_once(disk):
    store = opened(disk)
    store.create(T0, ID, LogConfig(), NOW).assign_epoch(0)
    synced(store)
    store.close()
    assert [path.rpartition("/")[2] for operation, path in disk.touched if operation != "sync"] == [
        f"{0:020}.log",
        "partition.metadata",
    ]


def started_and_stopped(disk, epoch):
    """A life in which the log is led and nothing is written to it."""
    disk.touched.clear()
    store = opened(disk)
    store.logs[T0].assign_epoch(epoch)
    synced(store)
    store.close()


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_restart_without_writes_touches_no_file_of_an_empty_log(disk, epoch):
    store = opened(disk)
    store.create(T0, ID, LogConfig(), NOW).assign_epoch(0)
    synced(store)
    store.close()
    started_and_stopped(disk, epoch)
    assert disk.touched == []


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_restart_without_writes_only_reads_a_log_with_records(disk, epoch):
    store = opened(disk)
    log = store.create(T0, ID, LogConfig(), NOW)
    append(log, idempotent(0, "a"))
    append(log, batch("b"))
    store.close()
    started_and_stopped(disk, epoch)
    assert [touched for touched in disk.touched if touched[0] != "open"] == []
    store = opened(disk)
    assert values(store.logs[T0]) == ["a", "b"]
    assert append(store.logs[T0], idempotent(0, "a")).duplicate


def test_what_was_appended_since_the_start_is_in_the_indexes_and_the_snapshot_at_the_end(disk):
    for number in range(3):
        log = open_log(disk, clean=number > 0, recovery_point=number, index_interval_bytes=1)
        append(log, idempotent(number, "a"))
        log.close()
    log = open_log(disk, clean=True, recovery_point=3, index_interval_bytes=1)
    assert len(log.active.index) == 2  # of all but the first batch
    assert log.active.max_timestamp == NOW
    assert append(log, idempotent(2, "a")).duplicate


def test_an_index_is_written_again_after_a_cut_and_as_much_appended_as_was_cut(disk):
    log = open_log(disk, index_interval_bytes=1)
    put(log, "a"), put(log, "b"), put(log, "c")
    log.close()
    log = open_log(disk, clean=True, recovery_point=3, index_interval_bytes=1)
    log.truncate_to(1, NOW)
    put(log, "d", at=NOW + 5), put(log, "e", at=NOW + 7)
    log.close()
    log = open_log(disk, clean=True, recovery_point=3, index_interval_bytes=1)
    assert log.active.max_timestamp == NOW + 7
    assert values(log) == ["a", "d", "e"]


def test_producers_that_only_a_snapshot_remembers_are_not_forgotten_with_the_last_record(disk):
    log = open_log(disk, retention_ms=1)
    append(log, idempotent(0, "a"))
    assert log.delete_old_segments(NOW + 10, high_watermark=1) == 1
    log.close()
    assert append(open_log(disk, clean=True, start=1), idempotent(0, "a")).duplicate


# Epochs at the end of a log


def test_an_epoch_without_a_record_is_not_in_the_file_before_there_is_one(disk):
    log = open_log(disk)
    append(log, epoch=0)
    log.assign_epoch(3)
    assert log.epochs.entries == ((0, 0), (3, 1))
    assert disk.read(EPOCHS) == b"0\n1\n0 0\n"
    append(log, epoch=3)
    assert disk.read(EPOCHS) == b"0\n2\n0 0\n3 1\n"


def follower_that_lost_the_only_record_of_epoch_5(disk: SimDisk):
    """Its file still knows the epoch, which begins where the log ends now."""
    log = open_log(disk)
    append(log, epoch=4)
    append(log, epoch=5)
    log.flush()
    log.abandon()
    path = log.active.path()
    del disk.nodes[path].data[disk.size(path) // 2 :]
    log = open_log(disk, recovery_point=1)
    assert (log.epochs.entries, log.log_end_offset) == (((4, 0),), 1)
    assert disk.read(EPOCHS) == b"0\n2\n4 0\n5 1\n"
    run_syncs(log)
    return log


def from_leader(offset: int, epoch: int) -> memoryview:
    leader = open_log(SimDisk(), start=offset)
    append(leader, epoch=epoch)
    return memoryview(bytearray(leader.read(offset, 1 << 20, end=offset + 1).records))


@pytest.mark.parametrize("keep", [page_cache, power_loss])
def test_an_epoch_that_only_the_file_knows_is_gone_before_a_record_of_an_older_one_takes_its_place(
    disk, keep
):
    log = follower_that_lost_the_only_record_of_epoch_5(disk)
    log.append_batches(from_leader(1, epoch=4), NOW)
    disk.nodes[log.active.path()].synced = disk.size(log.active.path())  # a disk may write that early
    disk.crash(keep)
    log = open_log(disk, recovery_point=1)
    assert log.log_end_offset == 2
    assert (log.epochs.entries, log.epochs.epoch_for(1)) == (((4, 0),), 4)


def test_no_record_is_written_if_the_file_cannot_be(disk):
    log = follower_that_lost_the_only_record_of_epoch_5(disk)
    disk.fail("write_atomic", 5, "leader-epoch")
    with pytest.raises(OSError, match="Input/output"):
        log.append_batches(from_leader(1, epoch=4), NOW)
    assert log.log_end_offset == 1
    disk.fail("write_atomic", 5, "leader-epoch")
    with pytest.raises(OSError, match="Input/output"):
        log.append_batches(from_leader(1, epoch=4), NOW)


def test_a_batch_without_an_epoch_settles_the_file_too(disk):
    log = follower_that_lost_the_only_record_of_epoch_5(disk)
    log.append_batches(from_leader(1, epoch=-1), NOW)
    assert disk.read(EPOCHS) == b"0\n1\n4 0\n"


def test_a_record_of_a_later_epoch_replaces_what_only_the_file_knows_without_a_sync(disk):
    log = follower_that_lost_the_only_record_of_epoch_5(disk)
    disk.syncs.clear()
    log.append_batches(from_leader(1, epoch=6), NOW)
    assert disk.read(EPOCHS) == b"0\n2\n4 0\n6 1\n"
    assert disk.syncs == []


def test_the_same_epoch_again_is_not_written_again(disk):
    log = follower_that_lost_the_only_record_of_epoch_5(disk)
    disk.touched.clear()
    log.assign_epoch(5)
    append(log, epoch=5)
    assert ("write_atomic", EPOCHS) not in disk.touched
    assert log.epochs.entries == ((4, 0), (5, 1))


def test_an_epoch_behind_the_end_of_the_log_does_not_stay_in_the_file(disk):
    log = open_log(disk)
    append(log, epoch=4), append(log, epoch=4), append(log, epoch=5)
    log.abandon()
    del disk.nodes[log.active.path()].data[100:]
    open_log(disk)
    assert disk.read(EPOCHS) == b"0\n1\n4 0\n"


def test_a_log_that_starts_anew_further_on_does_not_keep_what_only_the_file_knows(disk):
    log = follower_that_lost_the_only_record_of_epoch_5(disk)
    log.truncate_fully_and_start_at(9, NOW)
    assert disk.read(EPOCHS) == b"0\n0\n"
