"""The sparse indexes of a segment: offset to position, and timestamp to offset.

An entry is added once per index.interval.bytes. In memory an index is columns of integers, searched by
bisection; on disk it is Kafka's: entries of 8 bytes (relative offset, position) or 12 (timestamp, relative
offset), big-endian. Offsets are relative to the segment's base offset, which is why a segment never spans
more than 2^31 - 1 of them.

Files are written whole, when a segment is closed or repaired, and are only a help: one that is missing or
makes no sense is rebuilt from the log. Apache Kafka leaves preallocated files with zeros behind the last
entry; these are not entries. Of a file that is larger than an index of its segment can be, no more is read
than that.
"""

import os.path
import sys
from array import array
from bisect import bisect_right
from operator import le, lt
from typing import Final, Literal, NamedTuple

from ottla.base.files import WHOLE_BYTES_MAX, Files
from ottla.records.batch import HEADER_SIZE

OFFSET_ENTRY_SIZE = 8
TIME_ENTRY_SIZE = 12
TRANSACTION_ENTRY_SIZE = 34
RELATIVE_OFFSET_MAX = (1 << 31) - 1
SWAP = ".swap"  # behind the name of a file that compaction is about to put into place


_SIZES: Final = {
    ".index": OFFSET_ENTRY_SIZE,
    ".timeindex": TIME_ENTRY_SIZE,
    ".txnindex": TRANSACTION_ENTRY_SIZE,
}


class IndexFileError(Exception):
    """An index file that cannot be right; the log it belongs to can."""


def read_index(files: Files, path: str, segment_size: int) -> bytes:
    """As much of an index file as its segment can need: an entry for each batch, and one more."""
    entry_size = _SIZES[os.path.splitext(path.removesuffix(SWAP))[1]]
    most = entry_size * min(segment_size // HEADER_SIZE + 1, WHOLE_BYTES_MAX // entry_size)
    data = files.read(path, most)
    if len(data) == most and (size := files.size(path)) > most:
        if size % entry_size:
            raise IndexFileError(f"{size} bytes are not a whole number of entries")
        if any(data[-entry_size:]):
            raise IndexFileError(f"there are more entries than {segment_size} bytes of batches can have")
    return data


class OffsetIndex:
    """Entry: the batch that begins at `position` ends with `offset`."""

    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        self.offsets = array("i")
        self.positions = array("i")

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, offset: int, position: int) -> None:
        self.offsets.append(offset)
        self.positions.append(position)

    def floor(self, offset: int) -> int:
        """Where to begin to look for `offset`: the start of a batch that is not after it."""
        at = bisect_right(self.offsets, offset)
        return self.positions[at - 1] if at else 0

    def boundary(self, position: int) -> int:
        """The last known start of a batch at or before `position`."""
        at = bisect_right(self.positions, position)
        return self.positions[at - 1] if at else 0

    def truncate(self, offset: int) -> None:
        """Forget entries at or after `offset`."""
        at = bisect_right(self.offsets, offset - 1)
        del self.offsets[at:]
        del self.positions[at:]

    def to_bytes(self) -> bytes:
        table = array("i", bytes(OFFSET_ENTRY_SIZE * len(self)))
        table[0::2] = self.offsets
        table[1::2] = self.positions
        return _big_endian(table)

    @classmethod
    def from_bytes(cls, data: bytes, segment_size: int) -> "OffsetIndex":
        table = _table(data, OFFSET_ENTRY_SIZE)
        index = cls()
        index.offsets, index.positions = table[0::2], table[1::2]
        _strictly_rising(index.offsets)
        _strictly_rising(index.positions)
        if index.positions and index.positions[-1] >= segment_size:
            raise IndexFileError("an entry points behind the end of the log")
        return index


class TimeEntry(NamedTuple):
    timestamp: int
    offset: int


class TimeIndex:
    """Entry: up to `offset`, no record is newer than `timestamp`."""

    __slots__ = ("offsets", "timestamps")

    def __init__(self) -> None:
        self.timestamps = array("q")
        self.offsets = array("i")

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def last(self) -> TimeEntry | None:
        return TimeEntry(self.timestamps[-1], self.offsets[-1]) if self.offsets else None

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry unless it says nothing new."""
        if timestamp >= 0 and (not self.timestamps or timestamp > self.timestamps[-1]):
            self.timestamps.append(timestamp)
            self.offsets.append(offset)

    def floor(self, timestamp: int) -> int:
        """The offset of the last entry that is older than `timestamp`; what is wanted comes after it."""
        at = bisect_right(self.timestamps, timestamp - 1)
        return self.offsets[at - 1] if at else 0

    def truncate(self, offset: int) -> None:
        at = bisect_right(self.offsets, offset - 1)
        del self.timestamps[at:]
        del self.offsets[at:]

    def to_bytes(self) -> bytes:
        table = array("i", bytes(TIME_ENTRY_SIZE * len(self)))
        halves = memoryview(self.timestamps).cast("B").cast("i").tolist()
        first, second = (1, 0) if sys.byteorder == "little" else (0, 1)
        table[0::3] = array("i", halves[first::2])
        table[1::3] = array("i", halves[second::2])
        table[2::3] = self.offsets
        return _big_endian(table)

    @classmethod
    def from_bytes(cls, data: bytes) -> "TimeIndex":
        table = _table(data, TIME_ENTRY_SIZE)
        index = cls()
        index.offsets = table[2::3]
        halves = array("i", bytes(8 * len(index.offsets)))
        first, second = (1, 0) if sys.byteorder == "little" else (0, 1)
        halves[first::2] = table[0::3]
        halves[second::2] = table[1::3]
        index.timestamps.frombytes(halves.tobytes())
        _strictly_rising(index.timestamps)
        if index.offsets and not (index.offsets[0] >= 0 and all(map(le, index.offsets, index.offsets[1:]))):
            raise IndexFileError("offsets do not rise")
        return index


def _table(data: bytes, entry_size: int) -> "array[int]":
    """The entries as one row of integers, without the zeros of a preallocated file."""
    if len(data) % entry_size:
        raise IndexFileError(f"{len(data)} bytes are not a whole number of entries")
    used = len(data.rstrip(b"\0"))
    return big_endian_table("i", data[: -(-used // entry_size) * entry_size])


def big_endian_table(typecode: Literal["i", "q"], data: bytes) -> "array[int]":
    table = array(typecode, data)
    if sys.byteorder == "little":
        table.byteswap()
    return table


def _big_endian(table: "array[int]") -> bytes:
    if sys.byteorder == "little":
        table.byteswap()
    return table.tobytes()


def _strictly_rising(column: "array[int]") -> None:
    if column and not (column[0] >= 0 and all(map(lt, column, column[1:]))):
        raise IndexFileError("entries are out of order")
