from tests.log.simdisk import SimDisk

from ottla.log.cold import Piece, ReadAhead
from ottla.log.sequential_readers import AHEAD_BYTES, SequentialReaders

SIZE = 10 * AHEAD_BYTES
STEP = AHEAD_BYTES // 2
NOBODY = -1


def stopped_at(*stops: tuple[int, int]) -> SequentialReaders:
    """By readers that are known from nowhere else."""
    readers = SequentialReaders()
    for offset, position in stops:
        readers.stop(offset, position, begun_at=NOBODY)
    return readers


def test_nothing_is_brought_in_while_everything_is_in_memory():
    readers = stopped_at((7, 100))
    assert readers.position(7) == 100
    assert readers.ahead_of(7, 100 + STEP, SIZE) is None


def test_nothing_is_brought_in_for_one_who_has_not_stopped_where_it_begins():
    readers = stopped_at((7, 100))
    readers.on_missing(8)
    assert readers.ahead_of(8, 100 + STEP, SIZE) is None


def test_after_a_miss_what_comes_next_is_asked_for_once_and_half_a_window_at_a_time():
    readers = stopped_at((7, 0))
    readers.on_missing(7)
    assert readers.ahead_of(7, STEP, SIZE) == (STEP, STEP + AHEAD_BYTES)
    assert readers.ahead_of(7, STEP, SIZE) is None
    readers.stop(8, STEP, begun_at=7)
    assert readers.ahead_of(8, STEP + 1, SIZE) is None
    readers.stop(9, STEP + 1, begun_at=8)
    assert readers.ahead_of(9, 2 * STEP, SIZE) == (STEP + AHEAD_BYTES, 2 * STEP + AHEAD_BYTES)


def test_readers_at_different_places_do_not_ask_for_each_others_bytes():
    far = 6 * AHEAD_BYTES
    readers = stopped_at((7, 0), (900, far - STEP))
    readers.on_missing(7)
    readers.on_missing(900)
    assert readers.ahead_of(7, STEP, SIZE) == (STEP, STEP + AHEAD_BYTES)
    assert readers.ahead_of(900, far, SIZE) == (far, far + AHEAD_BYTES)
    assert readers.ahead_of(7, STEP, SIZE) is None
    assert readers.ahead_of(900, far, SIZE) is None


def test_what_was_asked_for_and_is_missing_all_the_same_is_asked_for_again():
    """Nobody brought it in, or it is gone again."""
    readers = stopped_at((7, 0))
    readers.on_missing(7)
    assert readers.ahead_of(7, STEP, SIZE) is not None
    readers.stop(8, STEP, begun_at=7)
    readers.on_missing(8)
    assert readers.ahead_of(8, STEP + 1, SIZE) == (STEP + 1, STEP + 1 + AHEAD_BYTES)


def test_nothing_is_asked_for_behind_the_end():
    readers = stopped_at((7, 0))
    readers.on_missing(7)
    assert readers.ahead_of(7, SIZE - 10, SIZE) == (SIZE - 10, SIZE)
    assert readers.ahead_of(7, SIZE, SIZE) is None


def test_what_little_is_left_at_the_end_is_not_asked_for_with_every_read():
    """It may grow."""
    readers = stopped_at((7, 0))
    readers.on_missing(7)
    assert readers.ahead_of(7, 10, AHEAD_BYTES) == (10, AHEAD_BYTES)
    readers.stop(8, 10, begun_at=7)
    assert readers.ahead_of(8, 20, AHEAD_BYTES + 5) is None


def test_only_the_last_few_who_stopped_are_remembered():
    readers = stopped_at(*((offset, offset) for offset in range(100)))
    assert readers.position(0) is None
    assert readers.position(99) == 99


def test_what_is_brought_in_is_awaited_until_it_is_there():
    readers = SequentialReaders()
    ahead = ReadAhead([Piece(SimDisk(), "a", 100, 50)])
    readers.expect(ahead)
    assert [readers.is_awaited(at, at + 10) for at in (90, 91, 149, 150)] == [False, True, True, False]
    ahead.done(None)
    assert not readers.is_awaited(100, 150)


def test_what_nobody_has_brought_in_is_not_awaited():
    readers = SequentialReaders()
    readers.expect(ReadAhead([Piece(SimDisk(), "a", 100, 50)]))
    assert not readers.is_awaited(100, 150)
