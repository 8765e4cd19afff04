"""The index of aborted transactions: its format, and what a search in it finds."""

from random import Random
from struct import pack

import pytest

from ottla.log.index import IndexFileError
from ottla.log.transaction_index import BLOCK, AbortedTransaction, TransactionIndex


def filled(*entries: tuple[int, int, int, int]) -> TransactionIndex:
    index = TransactionIndex()
    for entry in entries:
        index.append(AbortedTransaction(*entry))
    return index


def test_the_file_is_kafkas() -> None:
    index = filled((7, 3, 9, 3), (1 << 40, 0, 12, 13))
    data = index.to_bytes()
    assert data == pack(">hqqqq", 0, 7, 3, 9, 3) + pack(">hqqqq", 0, 1 << 40, 0, 12, 13)
    assert list(TransactionIndex.from_bytes(data, 0)) == list(index)


@pytest.mark.parametrize("entries", [
    [(1, 7, 3, 9, 3)],  # the version
    [(0, 7, 9, 3, 3)],  # ends before it begins
    [(0, 7, -1, 3, 3)],
    [(0, 7, 3, 9, 11)],  # stable behind its own end
    [(0, 7, 3, 9, 3), (0, 8, 4, 9, 3)],  # two ends at one offset
    [(0, 7, 3, 9, 9), (0, 8, 4, 12, 8)],  # the last stable offset goes back
])  # fmt: skip
def test_what_cannot_be_is_refused(entries: list[tuple[int, ...]]) -> None:
    with pytest.raises(IndexFileError):
        TransactionIndex.from_bytes(b"".join(pack(">hqqqq", *entry) for entry in entries), 0)


def test_an_end_before_the_segment_and_a_torn_entry_are_refused() -> None:
    data = filled((7, 3, 9, 3)).to_bytes()
    for damaged, base_offset in ((data, 10), (data[:-1], 0), (data + b"\0", 0)):
        with pytest.raises(IndexFileError):
            TransactionIndex.from_bytes(damaged, base_offset)


def test_a_search_finds_what_overlaps_and_nothing_else() -> None:
    index = filled((1, 0, 5, 2), (2, 2, 8, 9), (3, 10, 12, 13))
    firsts = lambda *bounds: [transaction.first_offset for transaction in index.between(*bounds)]  # noqa: E731
    assert firsts(0, 13) == [0, 2, 10]
    assert firsts(0, 2) == [0]
    assert firsts(6, 10) == [2]
    assert firsts(9, 10) == []
    assert firsts(12, 20) == [10]
    assert not index.ends_before(13)
    assert index.ends_before(14)


def history(seed: int, producers: int, length: int) -> list[AbortedTransaction]:
    """What producers aborted in a log, some of them rarely and some often."""
    random, open_at, aborted = Random(seed), dict[int, int](), []
    for offset in range(length):
        producer = min(int(random.expovariate(0.5)), producers - 1)
        if producer not in open_at:
            open_at[producer] = offset
        elif random.random() < 1 / (2 + producer * 20):
            first = open_at.pop(producer)
            stable = min(open_at.values(), default=offset + 1)
            aborted.append(AbortedTransaction(producer, first, offset, stable))
    return aborted


@pytest.mark.parametrize("seed", range(10))
def test_a_search_is_as_good_as_looking_at_every_entry(seed: int) -> None:
    entries = history(seed, 8, 4_000)
    index = TransactionIndex.from_bytes(filled(*entries).to_bytes(), 0)
    assert len(index) > 2 * BLOCK
    random = Random(seed)
    for _ in range(300):
        offset = random.randrange(4_000)
        upper = offset + random.choice((1, 10, 500))
        # A reader comes no further than the last stable offset: what began before is in the index.
        expected = [entry for entry in entries if entry.last_offset >= offset and entry.first_offset < upper]
        assert index.between(offset, upper) == expected
    cut = random.randrange(4_000)
    index.truncate(cut)
    assert list(index) == [entry for entry in entries if entry.last_offset < cut]
    assert index.between(0, cut) == list(index)


def test_a_transaction_that_was_open_for_long_does_not_make_every_search_long() -> None:
    """A hundred thousand others were aborted meanwhile."""
    index = TransactionIndex()
    for offset in range(10, 200_000, 2):
        index.append(AbortedTransaction(1, offset, offset + 1, 0))
    index.append(AbortedTransaction(2, 0, 300_000, 300_001))
    looked_at = 0

    class Counted(type(index.firsts)):  # type: ignore[misc]
        def __getitem__(self, at: int) -> int:
            nonlocal looked_at
            looked_at += 1
            return int(super().__getitem__(at))

    index.firsts = Counted("q", index.firsts)
    assert [entry.first_offset for entry in index.between(100, 104)] == [100, 102, 0]
    assert looked_at < 3 * BLOCK
