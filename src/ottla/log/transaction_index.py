"""Which transactions were aborted in a segment: `.txnindex`, in Kafka's format.

    int16 version · int64 producer id · first offset · last offset (that of the marker) · last stable offset

A transaction stands in the index of the segment that has its marker, in the order of the markers. The last
stable offset is that of the moment: no transaction that ends later began before it. So a search for what was
aborted before an offset ends with the first entry that has at least this one.

There is no file for a segment without aborted transactions. One that makes no sense is built anew from the
batches (`producer_replay`), which takes a while, as a broker must know who had a transaction open before.

Not obvious: one transaction may stay open while very many others are aborted, and all of these then stand
between its first and its last offset. `_earliest` has the earliest first offset of every BLOCK entries, so
that a search passes over them quickly.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from operator import le, lt
from struct import Struct
from typing import NamedTuple

from ottla.base.files import Files
from ottla.log.index import SWAP, TRANSACTION_ENTRY_SIZE, IndexFileError, big_endian_table, read_index

ENTRY = Struct(">hqqqq")
ENTRIES_MAX = 1 << 16  # then a segment is full: its index stays small enough to be read at once
BLOCK = 256

_VERSION = 0
_WORDS = TRANSACTION_ENTRY_SIZE // 2  # of 16 bits: the version is one, every other field four


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    __slots__ = ("_earliest", "firsts", "lasts", "producer_ids", "stables")

    def __init__(self) -> None:
        self.producer_ids = array("q")
        self.firsts = array("q")
        self.lasts = array("q")
        self.stables = array("q")
        self._earliest = array("q")

    def __len__(self) -> int:
        return len(self.lasts)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return map(AbortedTransaction, self.producer_ids, self.firsts, self.lasts, self.stables)

    @property
    def is_full(self) -> bool:
        return len(self.lasts) >= ENTRIES_MAX

    def append(self, aborted: AbortedTransaction) -> None:
        """Add an entry, unless it is there already."""
        if self.lasts and aborted.last_offset <= self.lasts[-1]:
            return
        if len(self) % BLOCK:
            self._earliest[-1] = min(self._earliest[-1], aborted.first_offset)
        else:
            self._earliest.append(aborted.first_offset)
        self.producer_ids.append(aborted.producer_id)
        self.firsts.append(aborted.first_offset)
        self.lasts.append(aborted.last_offset)
        self.stables.append(aborted.last_stable_offset)

    def between(self, offset: int, upper: int) -> list[AbortedTransaction]:
        """What a reader of the records from `offset` to before `upper` must know."""
        start = bisect_left(self.lasts, offset)
        stop = min(bisect_left(self.stables, upper) + 1, len(self))
        firsts = self.firsts
        return [
            AbortedTransaction(self.producer_ids[at], firsts[at], self.lasts[at], self.stables[at])
            for block in range(start // BLOCK, -(-stop // BLOCK))
            if self._earliest[block] < upper
            for at in range(max(start, block * BLOCK), min(stop, (block + 1) * BLOCK))
            if firsts[at] < upper
        ]

    def ends_before(self, upper: int) -> bool:
        """Whether a later index may have a transaction that began before `upper`."""
        return not self.stables or self.stables[-1] < upper

    def truncate(self, offset: int) -> None:
        """Forget transactions that end at or after `offset`."""
        at = bisect_left(self.lasts, offset)
        for column in (self.producer_ids, self.firsts, self.lasts, self.stables):
            del column[at:]
        self._find_earliest()

    def _find_earliest(self) -> None:
        blocks = range(0, len(self), BLOCK)
        self._earliest = array("q", [min(self.firsts[at : at + BLOCK]) for at in blocks])

    def to_bytes(self) -> bytes:
        return b"".join([ENTRY.pack(_VERSION, *aborted) for aborted in self])

    @classmethod
    def from_bytes(cls, data: bytes, base_offset: int) -> "TransactionIndex":
        """The index of the segment that begins with `base_offset`."""
        if len(data) % TRANSACTION_ENTRY_SIZE:
            raise IndexFileError(f"{len(data)} bytes are not a whole number of entries")
        words = array("H", data)
        if any(words[0::_WORDS]):
            raise IndexFileError("an entry has another version than 0")
        index = cls()
        index.producer_ids, index.firsts, index.lasts, index.stables = (
            _column(words, at) for at in range(1, _WORDS, 4)
        )
        index._check(base_offset)
        index._find_earliest()
        return index

    def _check(self, base_offset: int) -> None:
        lasts, stables = self.lasts, self.stables
        if lasts and (lasts[0] < base_offset or not all(map(lt, lasts, lasts[1:]))):
            raise IndexFileError("transactions do not end one after the other")
        if not all(map(lt, self.firsts, lasts)) or min(self.firsts, default=0) < 0:
            raise IndexFileError("a transaction ends before it begins")
        if not all(map(le, stables, stables[1:])) or any(map(lt, lasts, (at - 1 for at in stables))):
            raise IndexFileError("a last stable offset cannot be right")


def read_transactions(files: Files, path: str, segment_size: int, base_offset: int) -> TransactionIndex:
    """Compaction leaves the file as `.swap` until the old ones cannot come back (`compaction/swap`)."""
    for name in (path, path + SWAP):
        if files.exists(name):
            return TransactionIndex.from_bytes(read_index(files, name, segment_size), base_offset)
    return TransactionIndex()


def write_transactions(files: Files, path: str, index: TransactionIndex) -> bool:
    """Whether there was something to write or to remove."""
    if index:
        files.write_atomic(path, index.to_bytes(), sync=False)
    elif files.exists(path):
        files.remove(path)
    else:
        return False
    return True


def _column(words: "array[int]", at: int) -> "array[int]":
    """The field that begins with the word `at` of every entry."""
    fields = array("H", bytes(8 * (len(words) // _WORDS)))
    for word in range(4):
        fields[word::4] = words[at + word :: _WORDS]
    return big_endian_table("q", fields.tobytes())
