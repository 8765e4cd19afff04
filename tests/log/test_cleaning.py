"""What compaction keeps, what it drops, and what it never changes."""

import pytest
from tests.log.cleaning_helpers import (
    COMPACT,
    begin,
    close_segment,
    compact,
    content,
    headers,
    keyed,
    place,
    state,
    write,
)
from tests.log.helpers import NOW, append, newest, open_log, records
from tests.log.simdisk import SimDisk

from ottla.base.files import Syncable
from ottla.log.compaction import rewrite
from ottla.log.compaction.rewrite import CleaningError, clean
from ottla.log.recovery import CLEANED
from ottla.records.batch import set_crc
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.records.control import build_marker

CODECS = list(Codec)


def test_the_latest_value_of_every_key_stays_at_its_offset():
    log = open_log(SimDisk(), **COMPACT)
    write(log, ("a", "1"), ("b", "1"), ("a", "2"))
    write(log, ("c", "1"), ("b", "2"))
    close_segment(log)
    write(log, ("a", "3"))
    compact(log)
    assert content(log) == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2"), (5, "a", "3")]
    assert log.cleaned_to == 5


@pytest.mark.parametrize("codec", CODECS)
def test_records_keep_time_headers_and_codec(codec):
    log = open_log(SimDisk(), **COMPACT)
    made = [
        NewRecord(b"k%d" % (n % 40), b"v%d" % n, (("h", b"%d" % n), ("none", None)), NOW - 500 + n * 7)
        for n in range(100)
    ]
    append(log, memoryview(build_batch(made, codec=codec)), epoch=3)
    before = {one.offset: one for one in records(log)}
    close_segment(log)
    compact(log)
    (header,) = headers(log)
    assert header.codec is codec
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (0, 99, 3)
    after = records(log)
    assert [one.offset for one in after] == list(range(60, 100))
    assert all(before[one.offset] == one for one in after)
    assert header.max_timestamp == max(one.timestamp for one in after)


def test_the_newest_timestamp_is_that_of_the_records_that_are_left():
    log = open_log(SimDisk(), **COMPACT)
    made = [
        NewRecord(b"a", b"1", (), NOW + 500),
        NewRecord(b"b", b"1", (), NOW),
        NewRecord(b"a", b"2", (), NOW),
    ]
    append(log, memoryview(build_batch(made)))
    close_segment(log)
    compact(log)
    assert headers(log)[0].max_timestamp == NOW
    assert newest(log).offset == 1


def test_time_of_appending_is_kept():
    log = open_log(SimDisk(), **COMPACT, message_timestamp_type="LogAppendTime")
    write(log, ("a", "1"), ("b", "1"), ("a", None), at=5)
    close_segment(log)
    compact(log)
    assert [one.timestamp for one in records(log)] == [NOW, NOW]


def test_a_tombstone_stays_for_its_time_after_it_was_first_seen_and_then_goes():
    log = open_log(SimDisk(), **COMPACT, delete_retention_ms=1000)
    write(log, ("a", "1"), ("b", "1"), at=NOW - 40)
    write(log, ("a", None), ("c", "1"), at=NOW - 30)
    close_segment(log)
    compact(log)
    assert content(log) == [(1, "b", "1"), (2, "a", None), (3, "c", "1")]
    assert [one.timestamp for one in records(log)] == [NOW - 40, NOW - 30, NOW - 30]
    assert [header.has_delete_horizon for header in headers(log)] == [False, True]
    assert headers(log)[1].base_timestamp == NOW + 1000
    write(log, ("d", "1"))
    close_segment(log)
    compact(log, now_ms=NOW + 999)
    assert (2, "a", None) in content(log)
    write(log, ("d", "2"))
    close_segment(log)
    compact(log, now_ms=NOW + 1000)
    assert content(log) == [(1, "b", "1"), (3, "c", "1"), (5, "d", "2")]


def test_a_batch_of_tombstones_only_goes_as_a_whole():
    log = open_log(SimDisk(), **COMPACT, delete_retention_ms=10)
    write(log, ("a", "1"))
    write(log, ("a", None), ("b", None))
    for turn in range(2):
        write(log, ("c", str(turn)))
        close_segment(log)
        compact(log, now_ms=NOW + 100 * turn)
    assert content(log) == [(4, "c", "1")]


def test_a_tombstone_that_was_replaced_goes_at_once():
    log = open_log(SimDisk(), **COMPACT)
    write(log, ("a", None), ("a", "2"), ("b", None))
    close_segment(log)
    compact(log)
    assert content(log) == [(1, "a", "2"), (2, "b", None)]


def test_records_without_a_key_are_dropped():
    log = open_log(SimDisk(), **COMPACT)
    write(log, (None, "1"), ("a", "1"), (None, None))
    write(log, (None, "2"))
    write(log, ("b", "1"))
    close_segment(log)
    compact(log)
    assert content(log) == [(1, "a", "1"), (4, "b", "1")]


def test_the_clean_part_loses_what_the_dirty_part_replaces():
    log = open_log(SimDisk(), **COMPACT)
    write(log, ("a", "1"), ("b", "1"), ("c", "1"))
    write(log, ("x", "1"), ("x", "2"))
    write(log, ("only", "1"))
    close_segment(log)
    compact(log)
    write(log, ("b", "2"), ("only", "2"))
    close_segment(log)
    result = compact(log)
    assert content(log) == [(0, "a", "1"), (2, "c", "1"), (4, "x", "2"), (6, "b", "2"), (7, "only", "2")]
    assert result.stats.keys == 2


def test_a_clean_part_of_strange_batches_is_looked_at_one_by_one():
    """Tombstones without a horizon and keyless records, as another broker may have left them."""
    log = open_log(SimDisk(), **COMPACT)
    write(log, ("a", "1"), ("t", None))
    write(log, (None, "1"), ("b", "1"))
    write(log, (None, "1"))
    write(log, ("c", "1"), ("d", "1"))
    close_segment(log)
    log.cleaned_to = 6
    write(log, ("a", "2"))
    close_segment(log)
    compact(log)
    assert content(log) == [(1, "t", None), (3, "b", "1"), (5, "c", "1"), (6, "d", "1"), (7, "a", "2")]
    assert headers(log)[0].has_delete_horizon


def test_the_last_batch_of_a_producer_leaves_its_header():
    disk = SimDisk()
    log = open_log(disk, **COMPACT)
    append(log, keyed(("a", "1"), ("b", "1"), producer_id=7, producer_epoch=2, base_sequence=0))
    append(log, keyed(("a", "2"), producer_id=7, producer_epoch=2, base_sequence=2))
    write(log, ("a", "3"), ("b", "3"))
    close_segment(log)
    compact(log)
    assert content(log) == [(3, "a", "3"), (4, "b", "3")]
    empty = headers(log)[0]
    assert (empty.base_offset, empty.last_offset, empty.count) == (2, 2, 0)
    assert (empty.producer_id, empty.producer_epoch, empty.base_sequence) == (7, 2, 2)
    for name in disk.list(log.directory):
        if name.endswith(".snapshot"):
            disk.remove(f"{log.directory}/{name}")
    disk.crash()
    log = open_log(disk, **COMPACT)
    again = append(log, keyed(("a", "2"), producer_id=7, producer_epoch=2, base_sequence=2))
    assert (again.base_offset, again.duplicate) == (2, True)
    assert not append(log, keyed(("a", "4"), producer_id=7, producer_epoch=2, base_sequence=3)).duplicate


def test_the_last_batch_of_the_cleaning_leaves_its_header_so_that_readers_get_past_the_hole():
    log = open_log(SimDisk(), **COMPACT)
    write(log, ("a", "1"))
    write(log, (None, "dropped"))
    close_segment(log)
    compact(log)
    assert [(header.base_offset, header.count) for header in headers(log)] == [(0, 1), (1, 0)]
    read = log.read(1, 1000, end=2)
    assert (len(read.records), read.next_offset) == (61, 2)
    write(log, ("b", "1"))
    close_segment(log)
    compact(log)
    assert [(header.base_offset, header.count) for header in headers(log)] == [(0, 1), (2, 1)]


def transactional(*pairs, producer_id, sequence=0):
    return keyed(
        *pairs, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True
    )


def end(log, producer_id, committed):
    marker = build_marker(producer_id, 0, committed, coordinator_epoch=0, timestamp_ms=NOW)
    append(log, memoryview(marker), internal=True)


def test_an_aborted_record_replaces_nothing_and_goes_and_a_committed_one_stays():
    log = open_log(SimDisk(), **COMPACT)
    write(log, ("a", "1"), ("b", "1"), ("c", "1"))
    append(log, transactional(("a", "aborted"), producer_id=1))
    append(log, transactional(("b", "2"), ("c", "2"), producer_id=2))
    write(log, ("c", "3"))
    end(log, 1, committed=False)
    end(log, 2, committed=True)
    close_segment(log)
    compact(log)
    assert [one for one in content(log) if one[1] in {"a", "b", "c"}] == [
        (0, "a", "1"), (4, "b", "2"), (6, "c", "3"),
    ]  # fmt: skip
    assert sum(header.is_control for header in headers(log)) == 2


@pytest.mark.parametrize(("committed", "left"), [(True, ["2"]), (False, ["1", "2"])])
def test_a_transaction_whose_marker_is_behind_the_cleaning_counts_as_the_marker_says(committed, left):
    log = open_log(SimDisk(), **COMPACT)
    write(log, ("a", "1"), ("b", "1"))
    append(log, transactional(("a", "2"), producer_id=1))
    close_segment(log)
    end(log, 1, committed=committed)
    compact(log)
    assert [value for _, key, value in content(log) if key == "a"] == left


def test_full_memory_ends_a_round_and_the_next_one_goes_on():
    log = open_log(SimDisk(), **COMPACT)
    for n in range(60):
        write(log, (f"k{n % 20}", str(n)), (f"other{n}", "x"))
    write(log, ("k0", "last"))
    close_segment(log)
    rounds = 0
    while (result := compact(log, cleaner_dedupe_buffer_bytes=2048)) is not None:
        assert result.stats.keys <= 18
        assert result.end_offset == log.cleaned_to
        rounds += 1
    assert rounds > 3
    assert state(log) == {f"other{n}": "x" for n in range(60)} | {
        f"k{n}": str(n + 40) for n in range(1, 20)
    } | {"k0": "last"}
    assert [key for _, key, _ in content(log)].count("k7") == 1


def test_small_segments_become_one_and_a_large_one_stays_alone():
    disk = SimDisk()
    log = open_log(disk, **(COMPACT | {"segment_bytes": 1000}))
    for n in range(6):
        write(log, (f"k{n}", "x" * (900 if n == 3 else 30)))
        close_segment(log)
    bases = [segment.base_offset for segment in log.segments]
    assert bases == [0, 1, 2, 3, 4, 5, 6]
    compact(log)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 4, 6]
    assert [key for _, key, _ in content(log)] == [f"k{n}" for n in range(6)]
    assert sorted(
        name for name in disk.list(log.directory) if name.endswith((".log", ".cleaned", ".swap"))
    ) == [f"{base:020d}.log" for base in (0, 3, 4, 6)]


def test_groups_keep_to_the_size_of_an_index_and_the_range_of_relative_offsets():
    log = open_log(SimDisk(), **(COMPACT | {"segment_index_bytes": 24}))
    for n in range(4):
        write(log, (f"k{n}", "v"))
        write(log, (f"l{n}", "v"))
        close_segment(log)
    compact(log)
    assert len(log.segments) > 2
    far = open_log(SimDisk(), **COMPACT)
    write(far, ("a", "1"))
    close_segment(far)
    far.append_batches(keyed(("b", "1"), base_offset=(1 << 31) + 5), NOW)
    close_segment(far)
    write(far, ("c", "1"))
    close_segment(far)
    compact(far)
    assert [segment.base_offset for segment in far.segments] == [0, (1 << 31) + 5, (1 << 31) + 7]


def test_a_segment_that_loses_nothing_keeps_its_file():
    disk = SimDisk()
    log = open_log(disk, **(COMPACT | {"segment_bytes": 130}))
    write(log, ("a", "x" * 50))
    write(log, ("b", "x" * 50))
    write(log, ("c", "x" * 50))
    before = [disk.nodes[segment.path()] for segment in log.segments]
    close_segment(log)
    result = compact(log)
    assert result.groups == ()
    assert [disk.nodes[segment.path()] for segment in log.segments[:3]] == before
    assert log.cleaned_to == 3


def test_indexes_of_a_cleaned_segment_lead_to_its_records():
    log = open_log(SimDisk(), **COMPACT)
    for n in range(200):
        write(log, (f"k{n % 50}", str(n)), at=NOW + n)
    close_segment(log)
    compact(log)
    assert len(log.segments[0].index) > 5
    for offset in range(0, 200, 7):
        assert [one.offset for one in records(log, offset)] == list(range(max(offset, 150), 200))
    assert log.offset_for_timestamp(NOW).offset == 150
    assert log.offset_for_timestamp(NOW + 177).offset == 177


class LateSyncs:
    """Syncs that have not begun when the last record is written."""

    def __init__(self) -> None:
        self.left: list[Syncable] = []

    def begin(self, file: Syncable) -> None:
        self.left.append(file)

    def finish(self) -> None:
        for file in self.left:
            file.sync()
        self.left.clear()


def test_syncs_may_come_late_and_are_done_with_when_there_is_a_result(monkeypatch):
    monkeypatch.setattr(rewrite, "_WRITE_BYTES", 1)
    monkeypatch.setattr(rewrite, "_SYNC_BYTES", 1)
    log = open_log(SimDisk(), **COMPACT)
    for names in (("a", "b"), ("a", "c")):
        for name in names:
            write(log, (name, "1"))
        close_segment(log)
    cleaner, task = begin(log)
    syncs = LateSyncs()
    place(cleaner, log, clean(log.files, task, syncs=syncs))
    assert not syncs.left
    assert [key for _, key, _ in content(log)] == ["b", "a", "c"]


def test_damage_is_reported_with_file_and_position_and_nothing_is_replaced():
    disk = SimDisk()
    log = open_log(disk, **COMPACT)
    write(log, ("a", "1"))
    write(log, ("a", "2"))
    close_segment(log)
    size = log.segments[0].size // 2
    path = log.segments[0].path()
    for at, what in ((size + 68, "checksum"), (size + 16, "not the header")):
        disk.flip(path, at)
        _, task = begin(log)
        with pytest.raises(CleaningError, match=f"(?s){path}.*{size}.*{what}|{path}.*{what}"):
            clean(disk, task)
        log.abort_work = None
        disk.flip(path, at)
    assert [value for _, _, value in content(log)] == ["1", "2"]


def test_a_malformed_record_inside_a_sound_batch_is_damage_too():
    disk = SimDisk()
    log = open_log(disk, **COMPACT)
    bad = bytearray(keyed(("abcdef", "1")))
    bad[65] = 60  # the key's length leaves the record
    set_crc(bad)
    log.append_batches(memoryview(bad), NOW)
    close_segment(log)
    _, task = begin(log)
    with pytest.raises(CleaningError, match=r"leave it|do not fit"):
        clean(disk, task)


def test_a_source_that_is_gone_is_not_made_again():
    disk = SimDisk()
    log = open_log(disk, **COMPACT)
    write(log, ("a", "1"))
    close_segment(log)
    _, task = begin(log)
    path = log.segments[0].path()
    disk.remove(path)
    with pytest.raises(FileNotFoundError):
        clean(disk, task)
    assert not disk.exists(path)


def test_leftovers_of_an_earlier_worker_are_not_written_behind():
    disk = SimDisk()
    log = open_log(disk, **COMPACT)
    write(log, ("a", "1"), ("a", "2"))
    close_segment(log)
    disk.write_atomic(log.segments[0].path() + CLEANED, b"half of something")
    compact(log)
    assert content(log) == [(1, "a", "2")]


def test_the_pace_is_told_of_all_that_is_read_and_written():
    log = open_log(SimDisk(), **(COMPACT | {"segment_bytes": 1 << 30}))
    for n in range(40):
        write(log, (f"k{n % 20}", "x" * 100_000))
    close_segment(log)
    _, task = begin(log)
    told: list[int] = []
    result = clean(log.files, task, told.append)
    assert sum(told) == result.stats.map_bytes_read + result.stats.bytes_read + result.stats.bytes_written
    assert len(told) > 6
    assert result.stats.records_written == 20


def test_a_log_that_begins_inside_a_batch_and_an_empty_closed_segment():
    disk = SimDisk()
    log = open_log(disk, **COMPACT)
    write(log, ("a", "1"), ("b", "1"), ("c", "1"))
    write(log, ("a", "2"), ("b", "2"))
    close_segment(log)
    log.advance_log_start(1)
    compact(log)
    assert content(log) == [(2, "c", "1"), (3, "a", "2"), (4, "b", "2")]
    write(log, ("a", None), ("b", None), ("c", None))
    close_segment(log)
    compact(log)
    for n in range(3):
        write(log, ("z", str(n)))
        close_segment(log)
        compact(log, now_ms=NOW + (n + 1) * 10**9)
    assert state(log) == {"z": "2"}
    disk.crash()
    log = open_log(disk, start=1, **COMPACT)
    assert state(log) == {"z": "2"}
