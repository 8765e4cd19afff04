"""One segment of a log: a file of batches, named after its first offset, and the indexes beside it.

Rules: batches are appended whole and never change. The file is opened when it is first needed. The indexes of
the segment that is being written live in memory and go to disk when it is closed; their files are there from
the first batch on, for tools that expect them, and hold what is right for the batches that were there when
writing began. Those of an older one are read when they are first needed, and rebuilt if missing or wrong: by
the segment itself, except for the index of aborted transactions, which needs more than one segment to know.

Not obvious: a segment remembers where its last batches begin (`_tail`) and where sequential readers stopped
(`readers`), so that reading at the end, or going on where the last read ended, needs neither index nor scan.
"""

import os.path
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import TypeAlias

from ottla.base.files import Bytes, File, Files
from ottla.log.cold import WHOLE, ColdError, Piece, WarmFile, Warmth
from ottla.log.config import LogConfig
from ottla.log.index import (
    OFFSET_ENTRY_SIZE,
    RELATIVE_OFFSET_MAX,
    TIME_ENTRY_SIZE,
    IndexFileError,
    OffsetIndex,
    TimeIndex,
    read_index,
)
from ottla.log.scan import (
    LOOKUP_BYTES,
    Damage,
    Readable,
    Recovered,
    TornError,
    batches,
    corrupt,
    find_batch,
    find_offset,
    headers,
)
from ottla.log.sequential_readers import SequentialReaders
from ottla.log.transaction_index import TransactionIndex, read_transactions, write_transactions
from ottla.records.batch import NO_TIMESTAMP, BatchHeader, crc_ok

INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")
SUFFIXES = (".log", *INDEX_SUFFIXES)
SEGMENT_BYTES_MAX = (1 << 31) - 1  # what a position in an index can say
_TAIL_MAX = 128
_REBUILD_BYTES = 64 << 20  # how far to look for a sound batch behind damage, once for all readers


Note: TypeAlias = Callable[[BatchHeader, memoryview], None]


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


class Segment:
    __slots__ = (
        "_file", "_first_timestamp", "_full", "_has_index_files", "_index", "_index_bytes_max",
        "_interval", "_max_offset", "_max_timestamp", "_rebuilt", "_saved_size", "_since_entry", "_tail_ends",
        "_tail_positions", "_times", "_transactions", "base_offset", "created_ms", "directory", "files",
        "may_have_aborted", "readers", "size",
    )  # fmt: skip

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        size: int = 0,
        created_ms: int = 0,
    ) -> None:
        self.files = files
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.configure(config)
        self._full = False
        self._rebuilt = False
        self._has_index_files = False
        self._saved_size = -1  # the size for which the index files are right
        self._file: File | None = None
        self._index: OffsetIndex | None = None if size else OffsetIndex()
        self._times: TimeIndex | None = None if size else TimeIndex()
        self._transactions: TransactionIndex | None = None if size else TransactionIndex()
        self.may_have_aborted = bool(size)  # transactions; until it is known that there are none
        self._since_entry = 0
        self._first_timestamp: int | None = None
        self._max_timestamp: int | None = None if size else NO_TIMESTAMP
        self._max_offset = base_offset
        self._tail_ends = array("q")
        self._tail_positions = array("q")
        self.readers = SequentialReaders()

    def path(self, suffix: str = ".log") -> str:
        return os.path.join(self.directory, file_name(self.base_offset, suffix))

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self.files.open(self.path())
        return self._file

    @property
    def index(self) -> OffsetIndex:
        if self._index is None:
            self._load_indexes()
        assert self._index is not None
        return self._index

    @property
    def times(self) -> TimeIndex:
        if self._times is None:
            self._load_indexes()
        assert self._times is not None
        return self._times

    @property
    def transactions(self) -> TransactionIndex:
        """Those that were aborted; `IndexFileError` if their file makes no sense."""
        if self._transactions is None:
            path = self.path(".txnindex")
            self.set_transactions(read_transactions(self.files, path, self.size, self.base_offset))
        assert self._transactions is not None
        return self._transactions

    @property
    def knows_aborted(self) -> bool:
        return self._transactions is not None

    def set_transactions(self, index: TransactionIndex) -> None:
        self._transactions, self.may_have_aborted = index, len(index) > 0
        self._full |= index.is_full

    @property
    def max_timestamp(self) -> int:
        """The newest timestamp in the segment, or -1."""
        if self._max_timestamp is None:
            self._load_indexes()
        assert self._max_timestamp is not None
        return self._max_timestamp

    @property
    def has_times(self) -> bool:
        """Is its newest timestamp known without reading anything?"""
        return self._max_timestamp is not None

    @property
    def first_timestamp(self) -> int:
        """The timestamp of the first batch, from which the time to roll is counted; -1 if there is none."""
        if self._first_timestamp is None and self.size:
            for _, header in headers(self.file, 0, self.size, LOOKUP_BYTES):
                self._first_timestamp = header.max_timestamp
                break
        return NO_TIMESTAMP if self._first_timestamp is None else self._first_timestamp

    def configure(self, config: LogConfig) -> None:
        self._interval = config.index_interval_bytes
        self._index_bytes_max = config.segment_index_bytes

    def must_roll(
        self, size: int, last_offset: int, max_timestamp: int, now_ms: int, roll_ms: int, bytes_max: int
    ) -> bool:
        """Whether the next batch belongs into a new segment: no room, too old, or beyond what an index can
        say.

        Time counts from the first batch's timestamp to the new one's, and by the clock only without
        timestamps.
        """
        if not self.size:
            return False
        if self.size + size > bytes_max or last_offset - self.base_offset > RELATIVE_OFFSET_MAX or self._full:
            return True
        first = self._first_timestamp
        if first is None:
            first = self.first_timestamp
        return (max_timestamp - first if first >= 0 else now_ms - self.created_ms) > roll_ms

    def create(self) -> None:
        """Make the file, so that a sync of the folder covers it."""
        self.files.open(self.path()).close()

    def append(self, view: memoryview, last_offset: int, max_timestamp: int) -> None:
        """Write one batch behind the last."""
        if not self._has_index_files:
            self._make_index_files()
        (self._file or self.file).append(view)
        self.note(last_offset, len(view), max_timestamp)

    def _make_index_files(self) -> None:
        """Not before something is written: ten thousand empty partitions are made, and kept, without. What a
        crash or a truncation left there, for a log that was longer, is replaced."""
        self.save_indexes()
        for suffix in () if self.size else (".index", ".timeindex"):
            file = self.files.open(self.path(suffix))
            if file.size:
                file.truncate(0)
            file.close()
        if not self.size:
            self.save_transactions()
        self._has_index_files = True

    def note(self, last_offset: int, size: int, max_timestamp: int) -> None:
        """Account for a batch of `size` bytes that now stands at the end of the file."""
        position = self.size
        if position == 0:
            self._first_timestamp = max_timestamp
        if self._max_timestamp is None or max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_offset = last_offset
        if self._since_entry > self._interval:
            self._add_entry(last_offset, position)
        self._since_entry += size
        self.size = position + size
        ends = self._tail_ends
        ends.append(last_offset)
        self._tail_positions.append(position)
        if len(ends) > _TAIL_MAX:
            del ends[: _TAIL_MAX // 2]
            del self._tail_positions[: _TAIL_MAX // 2]

    def _add_entry(self, last_offset: int, position: int) -> None:
        index, times = self.index, self.times
        index.append(last_offset - self.base_offset, position)
        times.append(self.max_timestamp, self._max_offset - self.base_offset)
        self._since_entry = 0
        self._full |= (
            OFFSET_ENTRY_SIZE * (len(index.offsets) + 1) > self._index_bytes_max
            or TIME_ENTRY_SIZE * (len(times.offsets) + 2) > self._index_bytes_max
        )

    def read(self, position: int, count: int, warmth: Warmth | None = None) -> Bytes:
        """With `warmth`, as everywhere: ColdError if it would have to wait for the disk (`log/cold`)."""
        file = self._file
        if file is None:
            self.check_open(warmth)
            file = self.file
        if warmth is None:
            return file.read(position, count)
        data = file.read_now(position, count)
        return warmth.read_missing(file, self.files, position, count) if data is None else data

    @property
    def is_open(self) -> bool:
        """Can it be read without opening a file?"""
        return (self._file is not None or not self.size) and self._index is not None

    def check_open(self, warmth: Warmth | None) -> None:
        if warmth is not None and not self.is_open and not warmth.has(self.path()):
            raise ColdError(self.pieces())

    def pieces(self) -> list[Piece]:
        """What is needed of its files before it can be read."""
        return [*self.time_pieces(), Piece(self.files, self.path(), 0, 0)]

    def time_pieces(self) -> list[Piece]:
        return [Piece(self.files, self.path(suffix), 0, WHOLE) for suffix in INDEX_SUFFIXES[:2]]

    def locate(self, offset: int, warmth: Warmth | None = None) -> int:
        """The position of the first batch that ends at or after `offset`; the segment's size if none does."""
        position = self._remembered(offset)
        if position is not None:
            return position
        try:
            return self._scan(offset, warmth)
        except TornError as torn:
            if self._rebuilt:
                raise corrupt(torn) from None
        # Either the log is damaged, or the index led us astray: then a new one will not.
        self.rebuild_indexes()
        return self.locate(offset)

    def estimate(self, offset: int, warmth: Warmth | None = None) -> int:
        """About `locate`, without reading the log: never behind it."""
        position = self._remembered(offset)
        if position is not None:
            return position
        self.check_open(warmth)
        return self.index.floor(offset - self.base_offset)

    def boundary(self, position: int) -> int:
        """The last position at or before the given one that is known to begin a batch."""
        return self.index.boundary(position)

    def _remembered(self, offset: int) -> int | None:
        ends = self._tail_ends
        if ends:
            at = bisect_left(ends, offset)
            if at == len(ends):
                return self.size
            if at or self._tail_positions[0] == 0:
                return self._tail_positions[at]
        return self.readers.position(offset)

    def readable(self, warmth: Warmth | None) -> Readable:
        """Its file, for who walks over it."""
        self.check_open(warmth)
        return self.file if warmth is None else WarmFile(self.file, self.files, warmth)

    def _scan(self, offset: int, warmth: Warmth | None) -> int:
        file = self.readable(warmth)
        start = self.index.floor(offset - self.base_offset)
        return find_offset(file, start, self.size, offset, self.base_offset if self._rebuilt else None)

    def headers_from(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        return headers(self.file, position, self.size)

    def batches_from(self, position: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        return batches(self.file, position, self.size)

    def load_tail(self) -> int:
        """Take up writing where the file ends: the next offset. `TornError` if no batch ends there."""
        index, last = self.index, self.times.last
        start = index.positions[-1] if index.positions else 0
        self._forget_tail()
        self._max_timestamp = NO_TIMESTAMP if last is None else last.timestamp
        self._max_offset = self.base_offset + (0 if last is None else last.offset)
        next_offset, end = self.base_offset, self.size
        self.size, self._since_entry = start, 0
        try:
            if end:  # ten thousand empty files need not be opened to learn that they are empty
                for _, header in headers(self.file, start, end):
                    next_offset = self._take_in(header, next_offset)
        finally:
            self.size = end
        return next_offset

    def _take_in(self, header: BatchHeader, expected: int) -> int:
        """Account for a batch found in the file, if it can follow the one before it; the next offset."""
        last_offset = header.base_offset + header.last_offset_delta
        if header.base_offset < expected or last_offset > self.base_offset + RELATIVE_OFFSET_MAX:
            raise TornError(self.path(), self.size, f"offset {header.base_offset} where {expected} belongs")
        self.note(last_offset, header.size, header.max_timestamp)
        return last_offset + 1

    def recover(self, check_from: int, note: Note = lambda _header, _view: None) -> Recovered:
        """Walk over all batches, build new indexes, and cut the file at the first byte that is not valid.

        Batches that end before `check_from` were synced: only their headers are read. The others are given to
        `note`. Damage to what was synced is left to its readers, if a sound batch follows.
        """
        end, epochs, damage = self.size, list[tuple[int, int]](), list[Damage]()
        self._reset()
        next_offset, reason, has_markers = self.base_offset, "", False
        while self.size < end and not reason:
            try:
                for header, view in self._checked(self.size, end, check_from):
                    next_offset = self._take_in(header, next_offset)
                    has_markers |= header.is_control
                    if view is not None:
                        note(header, view)
                    if not epochs or header.leader_epoch > epochs[-1][0]:
                        epochs.append((header.leader_epoch, header.base_offset))
            except TornError as torn:
                passed = self._pass_damage(end, next_offset, torn) if next_offset < check_from else None
                if passed is not None:
                    damage.append(passed)
                else:
                    reason = torn.reason
                    self.file.truncate(self.size)
        cut_bytes = end - self.size
        return Recovered(next_offset, cut_bytes, reason, tuple(epochs), tuple(damage), has_markers)

    def _pass_damage(self, end: int, next_offset: int, torn: TornError) -> Damage | None:
        """Go on with the next sound batch, if there is one, and let the index lead to it."""
        offsets = range(next_offset, self.base_offset + RELATIVE_OFFSET_MAX)
        sound = find_batch(self.file, self.size + 1, end, offsets)
        if sound is None:
            return None
        damage = Damage(self.size, sound - self.size, torn.reason)
        self._forget_tail()
        self.size, self._since_entry = sound, self._interval + 1
        return damage

    def _checked(
        self, begin: int, end: int, check_from: int
    ) -> Iterator[tuple[BatchHeader, memoryview | None]]:
        start = end
        for position, header in headers(self.file, begin, end):
            if header.last_offset >= check_from:
                start = position
                break
            yield header, None
        for position, header, view in batches(self.file, start, end):
            if not crc_ok(view, header):
                raise TornError(self.path(), position, "the checksum is wrong")
            yield header, view

    def rebuild_indexes(self) -> None:
        """Build the indexes anew from the batches' headers, as far as these make sense, and store them."""
        end, next_offset = self.size, self.base_offset
        self._reset()
        try:
            while self.size < end:
                try:
                    for _, header in headers(self.file, self.size, end):
                        next_offset = self._take_in(header, next_offset)
                except TornError as torn:
                    if self._pass_damage(min(end, self.size + _REBUILD_BYTES), next_offset, torn) is None:
                        # What was noted of the tail holds only if it reaches the end of the file.
                        self._forget_tail()
                        break
        finally:
            self.size = end
        self._rebuilt = True
        self.save_indexes()

    def _reset(self) -> None:
        self.size, self._saved_size, self._since_entry, self._full = 0, -1, 0, False
        self._index, self._times = OffsetIndex(), TimeIndex()
        self._first_timestamp, self._max_timestamp, self._max_offset = None, NO_TIMESTAMP, self.base_offset
        self._forget_tail()

    def _forget_tail(self) -> None:
        self._tail_ends, self._tail_positions = array("q"), array("q")
        self.readers = SequentialReaders()

    def _load_indexes(self) -> None:
        try:
            index = OffsetIndex.from_bytes(read_index(self.files, self.path(".index"), self.size), self.size)
            times = TimeIndex.from_bytes(read_index(self.files, self.path(".timeindex"), self.size))
        except (FileNotFoundError, IndexFileError):
            self.rebuild_indexes()
            return
        if not times.offsets and self.size:
            # A segment without any timestamp is rare; one whose time index was lost is not.
            self.rebuild_indexes()
            return
        self._index, self._times = index, times
        self._saved_size = self.size
        if self._max_timestamp is None:
            last = times.last
            self._max_timestamp = NO_TIMESTAMP if last is None else last.timestamp
            self._max_offset = self.base_offset + (0 if last is None else last.offset)

    def save_indexes(self) -> bool:
        """Write all indexes, the time index with the newest timestamp as its last entry; unless nothing was
        appended since they were written or read. True if that of transactions was written or removed."""
        if self.size == self._saved_size:
            return False
        if self.size:
            for suffix, table in zip((".index", ".timeindex"), self.index_bytes(), strict=True):
                self.files.write_atomic(self.path(suffix), table, sync=False)
        self._saved_size = self.size
        return self.save_transactions()

    def save_transactions(self) -> bool:
        index = self._transactions
        return index is not None and write_transactions(self.files, self.path(".txnindex"), index)

    def index_bytes(self) -> tuple[bytes, bytes]:
        """Both indexes as their files have them."""
        self.times.append(self.max_timestamp, self._max_offset - self.base_offset)
        return self.index.to_bytes(), self.times.to_bytes()

    def truncate(self, offset: int) -> int:
        """Remove the batch that holds `offset` and all after it; the offset that comes next."""
        position = self.locate(offset)
        self.index.truncate(offset - self.base_offset)
        self.times.truncate(offset - self.base_offset)
        self.file.truncate(position)
        self.size, self._saved_size, self._has_index_files = position, -1, False
        if not position:
            self._reset()
            return self.base_offset
        try:
            return self.load_tail()
        except TornError:
            # Damage just before the cut: what cannot be read goes too, and is replicated again.
            return self.recover(0).next_offset

    def take_file(self) -> File | None:
        """Hand over the open file, if any, to be closed; it is opened again when it is needed."""
        file, self._file = self._file, None
        return file

    def release(self) -> File | None:
        """Forget what can be read again, and hand over the open file."""
        file = self.take_file()
        if self.size:
            self._index = self._times = self._transactions = None
        self._forget_tail()
        return file
