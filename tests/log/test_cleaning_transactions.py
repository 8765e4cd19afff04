"""Compaction and transactions: aborted records go, markers go later, and no reader is misled on the way."""

from random import Random

import pytest
from tests.log.cleaning_helpers import COMPACT, begin, close_segment, compact, content, headers, keyed, write
from tests.log.helpers import NOW, append, open_log
from tests.log.read_committed import read_committed
from tests.log.simdisk import Crashed, SimDisk

from ottla.log.compaction.rewrite import clean
from ottla.log.log import Log
from ottla.log.recovery import CLEANED
from ottla.records.batch import BatchHeader
from ottla.records.control import Marker

RETENTION_MS = 1_000


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


@pytest.fixture
def log(disk: SimDisk) -> Log:
    return open_log(disk, **COMPACT, delete_retention_ms=RETENTION_MS)


def wrote(log: Log, *pairs: tuple[str, str | None], producer_id: int = 1, epoch: int = 0) -> None:
    batch = keyed(*pairs, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
    append(log, batch)


def end(log: Log, committed: bool, *, producer_id: int = 1, epoch: int = 1) -> None:
    marker = Marker(producer_id, epoch, committed, 0, 2)
    log.append_marker(marker, leader_epoch=0, now_ms=NOW, wall_ms=NOW)


def dirty(log: Log) -> None:
    """Something for the next cleaning to do."""
    write(log, ("dirt", "x"))
    close_segment(log)


def markers(log: Log) -> list[BatchHeader]:
    return [header for header in headers(log) if header.is_control]


def seen(log: Log) -> list[tuple[int, str]]:
    records = read_committed(log, max_bytes=200)
    return [(record.offset, (record.value or b"").decode()) for record in records if record.key != b"dirt"]


def entries(log: Log) -> list[tuple[int, ...]]:
    return [tuple(transaction) for transaction in log.segments.aborted_between(0, 1 << 60)]


def latest(log: Log) -> dict[str, str | None]:
    return {key: value for _, key, value in content(log)}


def forget_producers(log: Log) -> None:
    """As after producer.id.expiration.ms."""
    assert log.producers.expire(NOW + (1 << 40), 1) == 1


def test_an_aborted_transaction_goes_first_its_entry_next_and_its_marker_last(log: Log) -> None:
    write(log, ("a", "1"))
    wrote(log, ("a", "aborted"), ("b", "aborted"))
    end(log, False)
    forget_producers(log)
    close_segment(log)
    compact(log)
    assert seen(log) == [(0, "1")]
    assert [value for _, key, value in content(log) if key in {"a", "b"}] == ["1"]
    assert entries(log) == [(1, 1, 3, 4)]  # a consumer may be in the middle of it
    assert [header.has_delete_horizon for header in markers(log)] == [False]

    dirty(log)
    compact(log, now_ms=NOW + 5)
    assert entries(log) == []
    (marker,) = markers(log)
    assert (marker.has_delete_horizon, marker.base_timestamp) == (True, NOW + 5 + RETENTION_MS)
    assert marker.max_timestamp == NOW

    dirty(log)
    compact(log, now_ms=NOW + 4 + RETENTION_MS)
    assert markers(log) == [marker]
    dirty(log)
    compact(log, now_ms=NOW + 5 + RETENTION_MS)
    assert markers(log) == []
    assert seen(log) == [(0, "1")]


def test_the_marker_of_a_committed_transaction_stays_as_long_as_one_of_its_records(log: Log) -> None:
    wrote(log, ("a", "1"), ("b", "1"))
    end(log, True)
    forget_producers(log)
    write(log, ("a", "2"))
    close_segment(log)
    compact(log)
    for _ in range(3):
        dirty(log)
        compact(log, now_ms=NOW + 10 * RETENTION_MS)
    assert len(markers(log)) == 1
    write(log, ("b", "2"))
    for wait in (0, 0, 2):
        dirty(log)
        compact(log, now_ms=NOW + (10 + wait) * RETENTION_MS)
    assert markers(log) == []
    assert seen(log) == [(3, "2"), (7, "2")]


@pytest.mark.parametrize("committed", [True, False])
def test_the_last_marker_of_an_active_producer_stays_whole(log: Log, disk: SimDisk, committed: bool) -> None:
    """Else its epoch would be forgotten, and a zombie could write."""
    wrote(log, ("a", "1"))
    end(log, committed)
    write(log, ("a", "2"))
    close_segment(log)
    for wait in range(4):
        compact(log, now_ms=NOW + wait * 2 * RETENTION_MS)
        dirty(log)
    assert [header.count for header in markers(log)] == [1]
    for name in disk.list(log.directory):
        if name.endswith(".snapshot"):
            disk.remove(f"{log.directory}/{name}")
    disk.crash()
    again = open_log(disk, **COMPACT, recovery_point=log.recovery_point)
    assert again.producers.by_id[1].epoch == 1


def test_the_last_batch_of_an_active_producer_is_emptied_and_stays(log: Log) -> None:
    wrote(log, ("a", "aborted"))
    append(
        log,
        keyed(("b", "aborted"), producer_id=1, producer_epoch=0, base_sequence=1, transactional=True),
    )
    log.append_marker(Marker(1, 0, False, 0, 1), leader_epoch=0, now_ms=NOW, wall_ms=NOW)
    write(log, ("a", "1"))
    close_segment(log)
    compact(log)
    assert [(header.base_offset, header.count) for header in headers(log)] == [(1, 0), (2, 1), (3, 1)]
    assert seen(log) == [(3, "1")]


def test_a_transaction_is_not_judged_before_its_marker_can_be_cleaned(log: Log) -> None:
    wrote(log, ("a", "1"))
    close_segment(log)
    end(log, False)
    compact(log)
    assert [value for _, key, value in content(log) if key == "a"] == ["1"]
    assert entries(log) == [(1, 0, 1, 2)]
    assert seen(log) == []
    close_segment(log)
    compact(log)
    assert [value for _, key, value in content(log) if key == "a"] == []


def test_nothing_is_cleaned_beyond_the_last_stable_offset(log: Log) -> None:
    wrote(log, ("a", "1"), producer_id=2)
    write(log, ("a", "2"))
    close_segment(log)
    assert begin(log, stable=log.last_stable_offset(log.log_end_offset))[1] is None


def test_indexes_of_merged_segments_stand_together(log: Log, disk: SimDisk) -> None:
    for epoch in range(3):
        wrote(log, ("a", "aborted"), epoch=epoch)
        end(log, False, epoch=epoch + 1)
        close_segment(log)
    before = entries(log)
    compact(log)
    assert len(log.segments) == 2
    assert entries(log) == before
    log.close()
    assert entries(open_log(disk, **COMPACT, clean=True, recovery_point=log.log_end_offset)) == before


def test_a_damaged_index_is_no_reason_not_to_clean_and_is_left_as_it_is(log: Log, disk: SimDisk) -> None:
    wrote(log, ("a", "aborted"))
    end(log, False)
    close_segment(log)
    path = log.segments[0].path(".txnindex")
    disk.write_atomic(path, b"nonsense")
    _, task = begin(log)
    result = clean(disk, task)
    assert disk.read(path) == b"nonsense"
    assert disk.read(path + CLEANED) != b""
    assert result.stats.records_written == 1


def test_while_new_segments_are_put_into_place_readers_know_what_was_aborted(log: Log) -> None:
    for epoch in range(2):
        wrote(log, ("a", "aborted"), epoch=epoch)
        wrote(log, ("b", str(epoch)), producer_id=2, epoch=epoch)
        end(log, False, epoch=epoch + 1)
        end(log, True, producer_id=2, epoch=epoch + 1)
        close_segment(log)
    cleaner, task = begin(log)
    result = clean(log.files, task)
    before = entries(log)
    wants_sync = cleaner.on_cleaned(log, result, NOW)
    while wants_sync:
        for segment in log.segments:
            log.segments.keep_open(segment)
        assert entries(log) == before
        assert seen(log)[-1] == (5, "1")
        log.files.syncable(log.directory).sync()
        wants_sync = cleaner.on_folder_synced(log)
    assert entries(log) == before


@pytest.mark.parametrize("seed", range(60))
def test_a_crash_while_files_are_put_into_place_never_leaves_an_entry_without_its_marker(seed: int) -> None:
    """Such an entry would hide whatever its producer writes next."""
    random, disk = Random(seed), SimDisk()
    log = open_log(disk, **COMPACT, delete_retention_ms=0)
    for epoch in range(2):
        wrote(log, ("a", "aborted"), epoch=epoch)
        end(log, False, epoch=epoch + 1)
        close_segment(log)
    forget_producers(log)
    wrote(log, ("a", "kept"), epoch=2)
    end(log, True, epoch=3)
    close_segment(log)
    log.flush()
    for step in range(8):
        disk.crash_after(random.randrange(2, 40))
        try:
            dirty(log)
            compact(log, now_ms=NOW + step)
        except Crashed:
            recovery_point = log.recovery_point
            disk.crash()
            log = open_log(disk, **COMPACT, recovery_point=recovery_point, delete_retention_ms=0)
        ends = {header.base_offset for header in markers(log)}
        assert {entry[2] for entry in entries(log)} <= ends
        assert [value for _, value in seen(log)] == ["kept"]


def test_what_a_transaction_deletes_stays_deleted_if_its_marker_is_cleaned_later(log: Log) -> None:
    write(log, ("a", "1"), ("b", "1"))
    wrote(log, ("a", None), ("b", "2"))
    close_segment(log)
    end(log, True)
    for wait in range(5):
        compact(log, now_ms=NOW + wait * 2 * RETENTION_MS)
        dirty(log)
        assert ("a", "1") not in latest(log).items(), "it was deleted"
    assert [value for _, key, value in content(log) if key in {"a", "b"}] == ["2"]


def test_what_is_aborted_behind_the_end_of_a_cleaning_replaces_nothing(log: Log) -> None:
    write(log, ("a", "1"))
    wrote(log, ("a", "aborted"))
    close_segment(log)
    end(log, False)
    for wait in range(5):
        compact(log, now_ms=NOW + wait * 2 * RETENTION_MS)
        dirty(log)
        assert seen(log) == [(0, "1")]
    assert [value for _, key, value in content(log) if key == "a"] == ["1"]
