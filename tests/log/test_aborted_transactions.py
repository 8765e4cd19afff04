"""Aborted transactions on disk and in memory: through rolls, restarts, crashes, cuts and damage."""

import errno

import pytest
from tests.log.helpers import FOLDER, NOW, append, batch, idempotent, open_log, run_syncs
from tests.log.read_committed import read_committed
from tests.log.simdisk import SimDisk, power_loss

from ottla.log import log as logs
from ottla.log import transaction_index
from ottla.log.log import Log
from ottla.log.segment import file_name
from ottla.records.batch import assign
from ottla.records.control import Marker, build_marker

FIRST = f"{FOLDER}/{file_name(0, '.txnindex')}"


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def wrote(log: Log, value: str, *, producer_id: int = 7, epoch: int = 0, sequence: int = 0) -> None:
    append(log, idempotent(sequence, value, producer_id=producer_id, epoch=epoch, transactional=True))


def end(log: Log, committed: bool, *, producer_id: int = 7, epoch: int = 1) -> None:
    marker = Marker(producer_id, epoch, committed, 0, 2)
    log.append_marker(marker, leader_epoch=0, now_ms=NOW, wall_ms=NOW)


def mixed(log: Log, *, roll: bool = False) -> Log:
    """Two aborted transactions, one of them begun before and ended after a committed one."""
    wrote(log, "aborted", producer_id=1)
    wrote(log, "kept", producer_id=2)
    if roll:
        log.roll(NOW)
    end(log, True, producer_id=2)
    wrote(log, "aborted", producer_id=1, sequence=1)
    end(log, False, producer_id=1)
    if roll:
        log.roll(NOW)
    append(log, batch("plain"))
    wrote(log, "aborted too", producer_id=3)
    end(log, False, producer_id=3)
    return log


def seen(log: Log) -> list[str]:
    for max_bytes in (1, 200, 1 << 20):
        values = [(record.value or b"").decode() for record in read_committed(log, max_bytes=max_bytes)]
        assert values == [(record.value or b"").decode() for record in read_committed(log)]
    return values


def aborted(log: Log) -> list[tuple[int, ...]]:
    return [tuple(transaction) for transaction in log.segments.aborted_between(0, 1 << 60)]


@pytest.mark.parametrize("roll", [False, True])
def test_a_reader_of_what_is_committed_can_leave_out_what_was_aborted(disk: SimDisk, roll: bool) -> None:
    log = mixed(open_log(disk), roll=roll)
    assert seen(log) == ["kept", "plain"]
    assert aborted(log) == [(1, 0, 4, 5), (3, 6, 7, 8)]


def test_a_follower_finds_them_as_its_leader_does(disk: SimDisk) -> None:
    leader = mixed(open_log(disk), roll=True)
    follower = open_log(other := SimDisk())
    offset = 0
    while offset < leader.log_end_offset:
        read = leader.read(offset, 1 << 20, end=leader.log_end_offset)
        follower.append_batches(memoryview(bytearray(read.records)), NOW)
        offset = read.next_offset
    assert aborted(follower) == aborted(leader)
    follower.close()
    assert other.exists(FIRST)


@pytest.mark.parametrize("roll", [False, True])
def test_after_a_clean_stop_the_index_is_read_from_its_file(disk: SimDisk, roll: bool) -> None:
    log = mixed(open_log(disk), roll=roll)
    before, end_offset = aborted(log), log.log_end_offset
    log.close()
    log = open_log(disk, clean=True, recovery_point=end_offset)
    assert aborted(log) == before
    assert seen(log) == ["kept", "plain"]


@pytest.mark.parametrize("recovery_point", [0, 3, 5])
@pytest.mark.parametrize("roll", [False, True])
def test_after_a_crash_the_index_is_built_anew_from_the_batches(
    disk: SimDisk, roll: bool, recovery_point: int
) -> None:
    log = mixed(open_log(disk), roll=roll)
    before = aborted(log)
    for name in disk.list(FOLDER):
        if name.endswith(".txnindex"):
            disk.write_atomic(f"{FOLDER}/{name}", b"nonsense")
    disk.crash()
    log = open_log(disk, recovery_point=recovery_point)
    assert aborted(log) == before
    assert seen(log) == ["kept", "plain"]
    log.close()
    assert aborted(open_log(disk, clean=True, recovery_point=8)) == before


def test_a_closed_segments_index_is_on_disk_before_the_recovery_point_passes_it(disk: SimDisk) -> None:
    log = mixed(open_log(disk), roll=True)
    before, recovery_point = aborted(log), 0
    run_syncs(log)
    recovery_point = log.recovery_point
    assert recovery_point == 5
    disk.crash(keep=power_loss)
    log = open_log(disk, recovery_point=recovery_point)
    assert aborted(log)[0] == before[0]


@pytest.mark.parametrize("damage", [b"", b"x" * 33, b"x" * 34, bytes(34), b"x" * 34_000, None])
@pytest.mark.parametrize("has_snapshots", [True, False])
def test_a_damaged_index_is_built_anew_when_it_is_needed(
    disk: SimDisk, damage: bytes | None, has_snapshots: bool
) -> None:
    """None: all indexes of the log were deleted, which operators do to have them built anew. An empty file
    cannot be told from the index of a segment in which nothing was aborted, so its log is opened after a
    crash."""
    log = mixed(open_log(disk), roll=True)
    before = aborted(log)
    log.close()
    for name in disk.list(FOLDER):
        path = f"{FOLDER}/{name}"
        if (name.endswith(".snapshot") and not has_snapshots) or (damage is None and "index" in name):
            disk.remove(path)
        elif name.endswith(".txnindex"):
            disk.write_atomic(path, damage or b"")
    log = open_log(disk, clean=damage != b"", recovery_point=8 if damage != b"" else 0)
    assert aborted(log) == before
    assert seen(log) == ["kept", "plain"]
    log.close()
    assert aborted(open_log(disk, clean=True, recovery_point=8)) == before


def test_damage_in_the_log_costs_no_more_than_what_it_destroyed(disk: SimDisk) -> None:
    log = mixed(open_log(disk))
    before = aborted(log)
    position = log.active.locate(5)  # the plain record
    log.close()
    disk.flip(f"{FOLDER}/{file_name(0, '.log')}", position + 16)
    disk.write_atomic(FIRST, b"nonsense")
    assert aborted(open_log(disk, clean=True, recovery_point=8)) == before


@pytest.mark.parametrize("cut", range(9))
@pytest.mark.parametrize("roll", [False, True])
def test_a_cut_takes_back_what_ended_behind_it(disk: SimDisk, roll: bool, cut: int) -> None:
    log = mixed(open_log(disk), roll=roll)
    before = aborted(log)
    log.truncate_to(cut, NOW)
    left = [entry for entry in before if entry[2] < cut]
    assert aborted(log) == left
    assert log.last_stable_offset(log.log_end_offset) == (
        0 if 0 < cut <= 4 else 6 if cut == 7 else log.log_end_offset
    )
    append(log, batch("next"))
    log.close()
    log = open_log(disk, clean=True, recovery_point=log.log_end_offset)
    assert aborted(log) == left
    disk.crash()
    assert aborted(open_log(disk)) == left


def test_deleting_a_segment_deletes_its_index(disk: SimDisk) -> None:
    log = mixed(open_log(disk, retention_ms=1), roll=True)
    log.delete_old_segments(NOW + 10, log.log_end_offset)
    assert [name for name in disk.list(FOLDER) if name.endswith(".txnindex")] == []
    assert len([name for name in disk.list(FOLDER) if name.endswith(".txnindex.deleted")]) == 2
    assert aborted(log) == []


def test_deleted_records_of_an_open_transaction_hold_nothing_back(disk: SimDisk) -> None:
    log = open_log(disk)
    wrote(log, "deleted")
    append(log, batch("a"))
    append(log, batch("b"))
    log.advance_log_start(2)
    assert log.last_stable_offset(3) == 2


def test_a_segment_with_very_many_aborted_transactions_is_full(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_index, "ENTRIES_MAX", 3)
    log = open_log(disk)
    for epoch in range(8):
        wrote(log, "x", epoch=epoch)
        end(log, False, epoch=epoch + 1)
    assert [segment.base_offset for segment in log.segments] == [0, 6, 12]
    assert len(aborted(log)) == 8
    assert seen(log) == []


def test_a_read_ends_early_rather_than_to_name_very_many(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "ABORTED_MAX", 3)
    log = open_log(disk)
    for producer_id in range(10, 15):  # all of these must be named, as they began before
        wrote(log, "long", producer_id=producer_id)
    for epoch in range(8):
        wrote(log, "x", epoch=epoch)
        end(log, False, epoch=epoch + 1)
    for producer_id in range(10, 15):
        end(log, False, producer_id=producer_id)
    append(log, batch("plain"))
    end_offset = log.log_end_offset
    read, named = log.read_committed(6, 1 << 20, end=end_offset)
    assert (len(named), read.next_offset) == (6, 7)  # the five, and the one under way at 5
    assert seen(log) == ["plain"]


def test_of_a_log_without_aborted_transactions_no_index_is_looked_for(disk: SimDisk) -> None:
    log = open_log(disk)
    for _ in range(3):
        append(log, batch("a"))
        log.roll(NOW)
    log.close()
    log = open_log(disk, clean=True, recovery_point=3)
    asked = list[str]()
    disk.exists = lambda path: bool(asked.append(path))  # type: ignore[method-assign]
    assert log.segments.aborted_between(0, 3) == []
    assert asked == []


@pytest.mark.parametrize("follows", [False, True])
def test_a_marker_is_not_written_if_its_entry_could_not_be(disk: SimDisk, follows: bool) -> None:
    """As when no file descriptor is free to read the entries before it."""
    log = mixed(open_log(disk))
    wrote(log, "aborted", producer_id=4)
    log.close()
    log = open_log(disk, clean=True, recovery_point=9)
    disk.fail("read", errno.EMFILE, ".txnindex")
    marker = build_marker(4, 1, committed=False, coordinator_epoch=0, timestamp_ms=NOW)
    assign(marker, 9, 0)
    for _ in range(2):
        try:
            if follows:
                log.append_batches(memoryview(marker), NOW)
            else:
                end(log, False, producer_id=4)
        except OSError:
            assert log.log_end_offset == 9
    assert [entry[0] for entry in aborted(log)] == [1, 3, 4]
    assert seen(log) == ["kept", "plain"]


@pytest.mark.parametrize("names_stay", [True, False])
def test_power_that_is_lost_after_a_clean_stop_costs_no_aborted_transaction(
    disk: SimDisk, names_stay: bool
) -> None:
    """Where nothing is scanned, a missing file says that none was aborted."""
    log = mixed(open_log(disk))
    before, end_offset = aborted(log), log.log_end_offset
    log.close()
    disk.crash(keep=power_loss, names=lambda _at, _count: names_stay)
    log = open_log(disk, clean=True, recovery_point=end_offset)
    assert aborted(log) == before
    assert seen(log) == ["kept", "plain"]


@pytest.mark.parametrize("cut", [0, 5])
def test_power_that_is_lost_after_a_clean_stop_brings_no_transaction_back(disk: SimDisk, cut: int) -> None:
    """Those that were cut off, and whose offsets others have by now."""
    log = mixed(open_log(disk))
    log.close()
    log = open_log(disk, clean=True, recovery_point=log.log_end_offset)
    log.truncate_to(cut, NOW)
    left = aborted(log)
    log.close()
    disk.crash(keep=power_loss, names=lambda _at, _count: False)
    log = open_log(disk, clean=True, recovery_point=cut)
    assert aborted(log) == left
    wrote(log, "aborted at last", producer_id=9)
    end(log, False, producer_id=9)
    assert aborted(log) == [*left, (9, cut, cut + 1, cut + 2)]
    assert "aborted at last" not in seen(log)


def test_an_index_of_nonsense_where_nothing_was_aborted_is_removed_and_its_log_can_still_be_synced(
    disk: SimDisk,
) -> None:
    log = open_log(disk)
    wrote(log, "kept")
    end(log, True)
    log.close()
    disk.write_atomic(FIRST, b"x" * 33)
    log = open_log(disk, clean=True, recovery_point=2)
    assert seen(log) == ["kept"]
    append(log, batch("more"))
    log.flush()
    assert not disk.exists(FIRST)
