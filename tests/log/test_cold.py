"""Reads that would wait for the disk: who must not wait comes back, and finds the log as it is then."""

import errno
from collections.abc import Callable

import pytest
from tests.log.cleaning_helpers import COMPACT, begin, close_segment, place, state, write
from tests.log.helpers import NOW, batch, open_log, put, values
from tests.log.simdisk import SimDisk

from ottla.base.errors import ApiError, ErrorCode
from ottla.log import cold as cold_reads
from ottla.log import sequential_readers
from ottla.log.cold import NOTHING_YET, ROUNDS_MAX, ColdError, Warmth, WarmUp
from ottla.log.compaction.rewrite import clean
from ottla.log.log import Log
from ottla.log.segment_reader import Read
from ottla.log.time_search import TimestampedOffset, offset_of_max_timestamp
from ottla.records.batch import split
from ottla.records.record import read_records

SMALL = {"segment_bytes": 400, "index_interval_bytes": 100}
COUNT = 20


@pytest.fixture(autouse=True)
def _pieces_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or all of such a small file would be brought in with its first byte."""
    monkeypatch.setattr(cold_reads, "PIECE_BYTES_MIN", 1)


def filled(disk: SimDisk, count: int = COUNT) -> Log:
    log = open_log(disk, **SMALL)
    for number in range(count):
        put(log, f"value {number}", at=NOW + number)
    assert len(log.segments) == 4
    return log


def cold() -> tuple[SimDisk, Log]:
    """A log of several segments that nobody has open, and none of whose bytes are in memory."""
    disk = SimDisk()
    filled(disk).close()
    log = open_log(disk, recovery_point=COUNT, clean=True, **SMALL)
    disk.drop_caches()
    disk.waits.clear()
    return disk, log


def attempt(log: Log, offset: int, warmth: Warmth, max_bytes: int = 150) -> Read | ColdError:
    try:
        return log.read(offset, max_bytes, end=log.log_end_offset, warmth=warmth)
    except ColdError as missing:
        return missing


def brought_in(log: Log, offset: int, warmth: Warmth = NOTHING_YET) -> Read:
    """What a reader gets at last who comes back each time a worker is done."""
    while isinstance(outcome := attempt(log, offset, warmth), ColdError):
        WarmUp(outcome.pieces).run(lambda: None)
        warmth = warmth.with_more(outcome.pieces)
    return outcome


def said(read: Read) -> list[str]:
    views = split(memoryview(bytes(read.records)))
    return [record.value.decode() for header, view in views for record in read_records(view, header)]


def test_a_read_of_what_is_not_in_memory_waits_for_no_disk_until_a_worker_has_read_it():
    disk, log = cold()
    assert isinstance(attempt(log, 3, NOTHING_YET), ColdError)
    assert disk.waits == []
    assert said(brought_in(log, 3))[0] == "value 3"
    assert disk.waits == []


def test_what_is_in_memory_is_read_at_once():
    disk = SimDisk()
    log = filled(disk)
    log.read(0, 150, end=COUNT)  # its file is open from now on
    assert said(log.read(0, 150, end=COUNT, warmth=NOTHING_YET))[0] == "value 0"
    assert said(log.read(COUNT - 1, 150, end=COUNT, warmth=NOTHING_YET)) == [f"value {COUNT - 1}"]


def test_who_reads_one_piece_after_the_other_has_the_next_ones_brought_in_before():
    disk, log = cold()
    first = brought_in(log, 0)
    disk.drop_caches()
    missing = attempt(log, first.next_offset, NOTHING_YET)
    assert isinstance(missing, ColdError)
    (piece,) = missing.pieces
    assert missing.ahead is not None
    (ahead,) = missing.ahead.pieces
    assert (ahead.path, ahead.at) == (piece.path, piece.at + piece.size)
    assert brought_in(log, 4).records
    disk.drop_caches()
    elsewhere = attempt(log, 2, NOTHING_YET)
    assert isinstance(elsewhere, ColdError)
    assert elsewhere.ahead is None


def misses_of_a_sequential_reader(*, reads_ahead: bool) -> int:
    disk = SimDisk()
    log = open_log(disk, segment_bytes=1_000_000, index_interval_bytes=100)
    for number in range(1_000):
        put(log, f"value {number}", at=NOW + number)
    log.read(0, 150, end=1_000)  # its file is open from now on
    disk.drop_caches()
    disk.waits.clear()
    offset, misses, warmth = 0, 0, NOTHING_YET
    while offset < 990:
        outcome = attempt(log, offset, warmth, max_bytes=1_000)
        if isinstance(outcome, ColdError):
            misses += 1
            WarmUp(outcome.pieces).run(lambda: None)
            warmth = warmth.with_more(outcome.pieces)
        else:
            offset, warmth = outcome.next_offset, NOTHING_YET
        if reads_ahead and outcome.ahead is not None:
            outcome.ahead.run()
            outcome.ahead.done(None)
    assert disk.waits == []
    return misses


def test_a_reader_whose_next_bytes_are_brought_in_before_finds_few_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sequential_readers, "AHEAD_BYTES", 8_192)
    assert misses_of_a_sequential_reader(reads_ahead=False) > 10
    # Two until it is known to be sequential, and what little is left at the end.
    assert misses_of_a_sequential_reader(reads_ahead=True) <= 3


def test_what_a_worker_is_bringing_in_is_missing_until_it_is_done_or_its_reader_has_waited():
    """The kernel has it in memory earlier, but who touches it first pays for that."""
    disk, log = cold()
    first = brought_in(log, 0)
    disk.drop_caches()
    missing = attempt(log, first.next_offset, NOTHING_YET)
    assert isinstance(missing, ColdError)
    assert missing.ahead is not None
    second = brought_in(log, first.next_offset)
    missing.ahead.run()
    on_its_way = attempt(log, second.next_offset, NOTHING_YET)
    assert isinstance(on_its_way, ColdError)
    assert on_its_way.ahead is None  # it is not asked for again
    waited = attempt(log, second.next_offset, NOTHING_YET.with_more(on_its_way.pieces))
    missing.ahead.done(None)
    done = attempt(log, second.next_offset, NOTHING_YET)
    assert isinstance(waited, Read)
    assert isinstance(done, Read)
    assert said(waited) == said(done) != []
    assert disk.waits == []


def test_a_file_that_is_never_in_memory_is_read_in_the_end():
    disk, log = cold()
    warmth, rounds = NOTHING_YET, 0
    while isinstance(missing := attempt(log, 3, warmth), ColdError):
        rounds += 1
        warmth = warmth.with_more(missing.pieces)  # and nobody has read it
    assert rounds <= 2 * ROUNDS_MAX
    assert said(missing)[0] == "value 3"
    assert disk.waits != []


# What becomes of the segment meanwhile


def missing_of(log: Log, offset: int) -> ColdError:
    """Up to where the records themselves are missing: file and indexes are open."""
    warmth = NOTHING_YET
    while isinstance(missing := attempt(log, offset, warmth), ColdError):
        if len(missing.pieces) == 1:
            return missing
        WarmUp(missing.pieces).run(lambda: None)
        warmth = warmth.with_more(missing.pieces)
    raise AssertionError("nothing was missing")


def gone_on(log: Log, offset: int, missing: ColdError) -> Read:
    WarmUp(missing.pieces).run(lambda: None)
    return brought_in(log, offset, NOTHING_YET.with_more(missing.pieces))


def test_a_segment_that_is_deleted_meanwhile_is_out_of_range():
    disk, log = cold()
    missing = missing_of(log, 3)
    log.advance_log_start(10)
    assert log.delete_old_segments(NOW, COUNT) > 0
    with pytest.raises(ApiError) as refused:
        gone_on(log, 3, missing)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert said(brought_in(log, 10))[0] == "value 10"
    assert disk.waits == []


def test_of_a_segment_that_is_cut_meanwhile_and_written_anew_only_the_new_records_are_read():
    _, log = cold()
    missing = missing_of(log, 3)
    log.truncate_to(3, NOW)
    for number in range(3, 9):
        put(log, f"other {number}")
    assert said(gone_on(log, 3, missing))[0] == "other 3"


def test_a_segment_that_is_cut_away_meanwhile_has_nothing_to_give():
    _, log = cold()
    missing = missing_of(log, 12)
    log.truncate_to(2, NOW)
    with pytest.raises(ApiError) as refused:
        gone_on(log, 12, missing)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_segment_that_is_compacted_meanwhile_is_read_as_it_is_then():
    disk = SimDisk()
    log = open_log(disk, **COMPACT | SMALL)
    for number in range(12):
        write(log, ("a", f"value {number}"), ("b", f"value {number}"))
        close_segment(log)
    write(log, ("c", "active"))
    expected = state(log)
    disk.drop_caches()
    missing = missing_of(log, 0)
    cleaner, task = begin(log)
    place(cleaner, log, clean(disk, task))
    assert len(log.segments) < 12
    disk.drop_caches()
    read = gone_on(log, 0, missing)
    assert said(read)[0] == "value 11"
    assert state(log) == expected


def test_a_file_that_is_renamed_away_before_the_worker_comes_to_it_is_no_error():
    disk, log = cold()
    missing = missing_of(log, 3)
    log.truncate_fully_and_start_at(50, NOW)
    WarmUp(missing.pieces).run(lambda: None)
    assert values(log) == []
    assert not any(piece.path in disk.nodes and disk.nodes[piece.path].data for piece in missing.pieces)


def test_a_disk_that_fails_under_the_worker_is_met_by_who_comes_back():
    disk, log = cold()
    missing = missing_of(log, 3)
    disk.break_down("/data", errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        gone_on(log, 3, missing)


# Finding a record by its time


def test_a_search_by_time_asks_for_the_indexes_of_all_segments_at_once():
    disk, log = cold()
    with pytest.raises(ColdError) as missing:
        log.offset_for_timestamp(NOW + 5, (), NOTHING_YET)
    assert len({piece.path for piece in missing.value.pieces if piece.path.endswith(".timeindex")}) == 3
    by_time = searched(lambda warmth: log.offset_for_timestamp(NOW + 5, (), warmth))
    newest = searched(lambda warmth: offset_of_max_timestamp(log.segments.row, 0, (), warmth))
    assert (by_time.offset, newest.offset) == (5, COUNT - 1)
    assert disk.waits == []


def searched(search: Callable[[Warmth], TimestampedOffset | None]) -> TimestampedOffset:
    warmth = NOTHING_YET
    while True:
        try:
            record = search(warmth)
        except ColdError as missing:
            WarmUp(missing.pieces).run(lambda: None)
            warmth = warmth.with_more(missing.pieces)
        else:
            assert record is not None
            return record


def test_the_size_of_a_batch_says_how_much_is_missing():
    _, log = cold()
    missing = missing_of(log, 3)
    assert missing.size >= len(batch("value 3"))
