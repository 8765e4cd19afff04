"""The segments of a log, oldest first, and their files: which are open, and which were let go.

Rules: base offsets rise; the last segment is `active`, the only one that is written. Of the others only the
few that were read last keep their files open. A segment that goes leaves its files behind as `.deleted`,
listed in `deleted`, for whoever removes them.

Not obvious: `bases` repeats the base offsets, as bisection over plain integers is quickest; and readers on a
fast path use `row`, the list itself.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import overload

from ottla.base.files import File, Files
from ottla.log.cold import WHOLE, ColdError, Piece, Warmth
from ottla.log.config import LogConfig
from ottla.log.durability import Durability
from ottla.log.index import IndexFileError
from ottla.log.producer_replay import rebuild_transactions
from ottla.log.recovery import DELETED
from ottla.log.segment import SUFFIXES, Segment
from ottla.log.segment_reader import Read, read
from ottla.log.snapshots import SNAPSHOT
from ottla.log.transaction_index import AbortedTransaction, TransactionIndex

_OPEN_MAX = 4


class SegmentList(Sequence[Segment]):
    """`durability` closes files, as a sync that is in flight may still use them."""

    __slots__ = ("_durability", "_open", "active", "bases", "deleted", "directory", "files", "row")

    def __init__(self, files: Files, directory: str, segments: list[Segment], durability: Durability) -> None:
        self.files = files
        self.directory = directory
        self.row = segments
        self.bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self.deleted: list[str] = []
        self._durability = durability
        self._open: dict[Segment, None] = {}

    def __len__(self) -> int:
        return len(self.row)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.row)

    @overload
    def __getitem__(self, at: int) -> Segment: ...
    @overload
    def __getitem__(self, at: slice) -> list[Segment]: ...
    def __getitem__(self, at: int | slice) -> Segment | list[Segment]:
        return self.row[at]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.row)

    def active_file(self) -> File:
        return self.active.file

    def bytes_between(self, offset: int, end: int, warmth: Warmth | None) -> int:
        """About how many bytes lie between two offsets; at least 1."""
        first = bisect_right(self.bases, offset) - 1
        last = bisect_right(self.bases, end) - 1
        total = self.row[last].estimate(end, warmth) - self.row[first].estimate(offset, warmth)
        total += sum(segment.size for segment in self.row[first:last])
        return max(total, 1)

    def read_closed(
        self, offset: int, max_bytes: int, end: int, at_least_one: bool, warmth: Warmth | None
    ) -> Read | None:
        """What the segments before the active one have of a read; None if there is nothing in them."""
        at = bisect_right(self.bases, offset) - 1
        while (segment := self.row[at]) is not self.active:
            segment.check_open(warmth)
            self.keep_open(segment)
            at += 1
            upper = self.bases[at]
            result = read(segment, offset, max_bytes, end, upper, at_least_one, warmth)
            # A segment may end before the next begins, as compaction leaves holes.
            if result.records or upper >= end or result.next_offset < upper:
                return result
        return None

    def keep_open(self, segment: Segment) -> None:
        """Keep the files of the few old segments that are being read open, and close the others."""
        opened = self._open
        opened.pop(segment, None)
        opened[segment] = None
        if len(opened) > _OPEN_MAX:
            coldest = next(iter(opened))
            del opened[coldest]
            self._durability.close(coldest.release())

    def close(self) -> None:
        for segment in self.row:
            self._durability.close(segment.release())
        self._open.clear()

    # Aborted transactions

    def transactions_of(self, segment: Segment) -> TransactionIndex:
        """Those that were aborted in a segment, from the batches if its index makes no sense."""
        try:
            return segment.transactions
        except IndexFileError:
            rebuild_transactions(self.files, self.directory, self.row, [segment])
            segment.save_transactions()
            path = segment.path(".txnindex")
            self._durability.add(path, self.files.syncable(path))
        return segment.transactions

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """A transaction was ended in the active segment."""
        index = self.transactions_of(self.active)
        index.append(aborted)
        self.active.set_transactions(index)

    def aborted_between(
        self, offset: int, upper: int, warmth: Warmth | None = None
    ) -> list[AbortedTransaction]:
        """What a reader of the records from `offset` to before `upper` must know."""
        aborted = list[AbortedTransaction]()
        if offset >= self.active.base_offset and not self.active.may_have_aborted:
            return aborted
        for segment in self.row[max(bisect_right(self.bases, offset) - 1, 0) :]:
            if segment.may_have_aborted:
                path = segment.path(".txnindex")
                if warmth is not None and not segment.knows_aborted and not warmth.has(path):
                    raise ColdError([Piece(self.files, path, 0, WHOLE)])
                index = self.transactions_of(segment)
                if segment is not self.active:
                    self.keep_open(segment)
                aborted += index.between(offset, upper)
                if not index.ends_before(upper):
                    break
        return aborted

    # Changing the list

    def begin(self, base_offset: int, config: LogConfig, now_ms: int) -> None:
        """A new segment behind the others."""
        segment = Segment(self.files, self.directory, base_offset, config, created_ms=now_ms)
        segment.create()
        self.active = segment
        self.row.append(segment)
        self.bases.append(base_offset)

    def drop_first(self, count: int) -> None:
        """Let go of the oldest segments."""
        gone = self.row[:count]
        del self.row[:count]
        del self.bases[:count]
        self._drop(gone)

    def drop_from(self, at: int) -> None:
        """Let go of the segments from a place in the list on; then comes `begin` or `reopen_last`."""
        gone = self.row[at:]
        del self.row[at:]
        del self.bases[at:]
        self._drop(gone)

    def reopen_last(self) -> Segment:
        """Write to the last segment again, which was closed."""
        self.active = self.row[-1]
        self._open.pop(self.active, None)
        return self.active

    def replace(self, old: Sequence[Segment], config: LogConfig, size: int) -> None:
        """Put the compacted segment of `size` bytes, whose files are in place, where `old` ones were."""
        new = Segment(self.files, self.directory, old[0].base_offset, config, size=size)
        at = self.row.index(old[0])
        self.row[at : at + len(old)] = [new]
        self.bases[at : at + len(old)] = [new.base_offset]

    def set_aside(self, segment: Segment, suffixes: Sequence[str]) -> None:
        """Let go of a segment, and rename its files to `.deleted`."""
        self._open.pop(segment, None)
        self._durability.close(segment.release())
        for suffix in suffixes:
            path = segment.path(suffix)
            if self.files.exists(path):
                self.files.rename(path, path + DELETED, sync=False)
                self.deleted.append(path + DELETED)

    def _drop(self, segments: list[Segment]) -> None:
        for segment in segments:
            self.set_aside(segment, (*SUFFIXES, SNAPSHOT))
