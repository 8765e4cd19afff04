from ottla.log.sequential_readers import AHEAD_BYTES, SequentialReaders

SIZE = 10 * AHEAD_BYTES
STEP = AHEAD_BYTES // 2


def stopped_at(*stops: tuple[int, int]) -> SequentialReaders:
    readers = SequentialReaders()
    for offset, position in stops:
        readers.stop(offset, position)
    return readers


def test_nothing_is_brought_in_while_everything_is_in_memory():
    readers = stopped_at((7, 100))
    assert readers.position(7) == 100
    assert readers.ahead_of(7, 100 + STEP, SIZE) is None


def test_nothing_is_brought_in_for_one_who_has_not_stopped_where_it_begins():
    readers = stopped_at((7, 100))
    readers.on_missing()
    assert readers.ahead_of(8, 100 + STEP, SIZE) is None


def test_after_a_miss_what_comes_next_is_asked_for_once_and_half_a_window_at_a_time():
    readers = stopped_at((7, 0), (8, STEP), (9, 2 * STEP))
    readers.on_missing()
    assert readers.ahead_of(7, STEP, SIZE) == (STEP, STEP + AHEAD_BYTES)
    assert readers.ahead_of(7, STEP, SIZE) is None
    assert readers.ahead_of(8, STEP + 1, SIZE) is None
    assert readers.ahead_of(8, 2 * STEP, SIZE) == (STEP + AHEAD_BYTES, 2 * STEP + AHEAD_BYTES)


def test_who_is_elsewhere_begins_anew():
    readers = stopped_at((7, 0), (900, 6 * AHEAD_BYTES))
    readers.on_missing()
    assert readers.ahead_of(7, STEP, SIZE) == (STEP, STEP + AHEAD_BYTES)
    far = 6 * AHEAD_BYTES
    assert readers.ahead_of(900, far, SIZE) == (far, far + AHEAD_BYTES)
    assert readers.ahead_of(7, STEP, SIZE) == (STEP, STEP + AHEAD_BYTES)


def test_nothing_is_asked_for_behind_the_end():
    readers = stopped_at((7, 0))
    readers.on_missing()
    assert readers.ahead_of(7, SIZE - 10, SIZE) == (SIZE - 10, SIZE)
    assert readers.ahead_of(7, SIZE, SIZE) is None


def test_only_the_last_few_who_stopped_are_remembered():
    readers = stopped_at(*((offset, offset) for offset in range(100)))
    assert readers.position(0) is None
    assert readers.position(99) == 99
