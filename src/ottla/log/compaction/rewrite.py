"""Cleaning one log, as a worker process does it: read closed segments, write compacted ones beside them.

`clean` touches nothing but files named `.cleaned`, and reads nothing but what the `CleanTask` names: it can
be killed at any time, and what it left is thrown away. Two passes: the first learns the latest offset of
every key in the dirty part, the second rewrites all segments from the log's first up to where the first came.
Segments go together into one as long as the next is sure to fit (Kafka judges by the sizes before cleaning,
and so ends up with more files). One that loses nothing, and is alone, keeps its file.

When it is done, the new files are on disk, and the owner of the log puts them into place (see `swap`). What
was written is handed to `Syncs` piece by piece: the disk may be at work while the next records are read.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from ottla.base.errors import ApiError
from ottla.base.files import File, Files, Syncable
from ottla.log.compaction.batch_filter import Filter, LastWrite
from ottla.log.compaction.offset_map import OffsetMap
from ottla.log.compaction.task import CleanResult, CleanStats, CleanTask, Group, Source
from ottla.log.compaction.transactions import CleanedTransactions
from ottla.log.config import LogConfig
from ottla.log.index import (
    OFFSET_ENTRY_SIZE,
    RELATIVE_OFFSET_MAX,
    TIME_ENTRY_SIZE,
    TRANSACTION_ENTRY_SIZE,
    IndexFileError,
)
from ottla.log.producer_replay import rebuild_transactions
from ottla.log.recovery import CLEANED
from ottla.log.scan import TornError, batches
from ottla.log.segment import INDEX_SUFFIXES, SUFFIXES, Segment
from ottla.log.transaction_index import ENTRIES_MAX, AbortedTransaction, TransactionIndex
from ottla.records.batch import BatchHeader

GROUP_MAX = 100  # so many are renamed at one go by the owner of the log, who has other things to do
_WRITE_BYTES = 1 << 20
_SYNC_BYTES = 32 << 20

# Called with the bytes read or written since the last call; it may wait, to keep to a rate.
Pace = Callable[[int], None]


class Syncs(Protocol):
    """Makes files durable, at once or in the order of `begin`; `finish` waits, and raises what went wrong."""

    def begin(self, file: Syncable) -> None: ...
    def finish(self) -> None: ...


class SyncsAtOnce:
    def begin(self, file: Syncable) -> None:
        file.sync()

    def finish(self) -> None:
        pass


class CleaningError(Exception):
    """A log that cannot be cleaned, because of what is in it; the message says where."""


def clean(
    files: Files, task: CleanTask, pace: Pace = lambda _: None, syncs: Syncs | None = None
) -> CleanResult:
    """Do the work. `CleaningError` for damage, `OSError` as it comes."""
    cleaning = _Cleaning(files, task, pace, syncs or SyncsAtOnce())
    try:
        return cleaning.run()
    except TornError as torn:
        raise CleaningError(str(torn)) from None
    except ApiError as problem:
        raise CleaningError(f"{cleaning.where[0]} at {cleaning.where[1]}: {problem}") from None


class _Cleaning:
    def __init__(self, files: Files, task: CleanTask, pace: Pace, syncs: Syncs) -> None:
        self.files = files
        self.task = task
        self.pace = pace
        self.syncs = syncs
        self.stats = CleanStats()
        self.where = ("", 0)
        self.config = LogConfig(
            segment_index_bytes=task.segment_index_bytes, index_interval_bytes=task.index_interval_bytes
        )

    def run(self) -> CleanResult:
        task, stats = self.task, self.stats
        latest = self._learn()
        keep = Filter(
            latest,
            {producer_id: LastWrite(offset, epoch) for producer_id, offset, epoch in task.producers},
            CleanedTransactions(self._aborted()),
            upper=task.upper,
            now_ms=task.now_ms,
            delete_retention_ms=task.delete_retention_ms,
        )
        groups = tuple(self._rewrite_all(keep, latest.next_offset))
        stats.keys = len(latest.offsets)
        stats.map_utilization = latest.bytes_used / max(task.memory_bytes, 1)
        self.syncs.begin(self.files.syncable(task.directory))
        self.syncs.finish()
        return CleanResult(end_offset=latest.next_offset, groups=groups, stats=stats)

    # The first pass

    def _learn(self) -> OffsetMap:
        task = self.task
        aborted = [*self._aborted(), *(AbortedTransaction(*beyond) for beyond in task.aborted_beyond)]
        dirty = (transaction for transaction in aborted if transaction.last_offset >= task.first_dirty)
        latest = OffsetMap(task.first_dirty, task.memory_bytes, CleanedTransactions(dirty))
        for source, after in zip(task.sources, self._uppers(), strict=True):
            if after <= task.first_dirty:
                continue
            for header, view in self._batches(source):
                latest.take(header, view)
                self.stats.map_bytes_read += header.size
                if latest.is_full:
                    latest.decide()
                    return latest
            # Offsets at the end of a segment may be missing; they are clean as well.
            latest.next_offset = max(latest.next_offset, after)
        latest.decide()
        return latest

    def _uppers(self) -> list[int]:
        return [source.base_offset for source in self.task.sources[1:]] + [self.task.upper]

    # The second pass

    def _rewrite_all(self, keep: Filter, end: int) -> Iterator[Group]:
        pairs = zip(self.task.sources, self._uppers(), strict=True)
        left = deque(pair for pair in pairs if pair[0].base_offset < end)
        while left:
            group = self._rewrite(left, keep)
            if group is not None:
                yield group

    def _rewrite(self, left: deque[tuple[Source, int]], keep: Filter) -> Group | None:
        """Write a segment that replaces the next ones, as many as are sure to fit into it.

        None if it would be the one that is there.
        """
        target = Segment(self.files, self.task.directory, left[0][0].base_offset, self.config)
        paths = {suffix: target.path(suffix) + CLEANED for suffix in SUFFIXES}
        for path in paths.values():
            if self.files.exists(path):
                self.files.remove(path)
        sources: list[Source] = []
        changed, keep.retained = False, TransactionIndex()
        out = _Output(self.files.open(paths[".log"]), self.pace, self.syncs)
        try:
            while left and (not sources or self._fits(target, len(sources), len(keep.retained), *left[0])):
                sources.append(left.popleft()[0])
                changed = self._filter(sources[-1], target, out, keep) or changed
            out.write()
        except BaseException:
            out.file.close()
            raise
        is_needed = changed or len(sources) > 1
        self.syncs.begin(_Closing(out.file, is_needed))
        if not is_needed:
            self.files.remove(paths[".log"])
            return None
        index, times = target.index_bytes()
        transactions = keep.retained.to_bytes()
        for suffix, data in ((".index", index), (".timeindex", times), (".txnindex", transactions)):
            self.files.write_atomic(paths[suffix], data, sync=False)
            self.syncs.begin(self.files.syncable(paths[suffix]))
        return Group(bases=tuple(source.base_offset for source in sources), size=target.size)

    def _fits(self, target: Segment, count: int, aborted: int, source: Source, after: int) -> bool:
        """Whether all of one more segment would fit, in bytes, index entries and offsets."""
        task = self.task
        index, times, transactions = (
            self.files.size(path) if self.files.exists(path) else 0
            for path in map(self._segment(source).path, INDEX_SUFFIXES)
        )
        return (
            count < GROUP_MAX
            and target.size + source.size <= task.segment_bytes
            and OFFSET_ENTRY_SIZE * len(target.index) + index <= task.segment_index_bytes
            and TIME_ENTRY_SIZE * len(target.times) + times <= task.segment_index_bytes
            and aborted + transactions // TRANSACTION_ENTRY_SIZE <= ENTRIES_MAX
            and after - 1 - target.base_offset <= RELATIVE_OFFSET_MAX
        )

    def _filter(self, source: Source, target: Segment, out: "_Output", keep: Filter) -> bool:
        """Write what is left of a segment; whether that is less than all of it, or something else."""
        stats, changed = self.stats, False
        for header, view in self._batches(source):
            stats.bytes_read += header.size
            stats.records_read += header.count
            kept = keep.apply(header, view)
            if kept is None or kept[1] is not view:
                changed = True
            if kept is not None:
                out.append(kept[1])
                target.note(kept[0].last_offset, kept[0].size, kept[0].max_timestamp)
                stats.bytes_written += kept[0].size
                stats.records_written += kept[0].count
        return changed

    def _aborted(self) -> Iterator[AbortedTransaction]:
        """All that are in the indexes of what is cleaned."""
        segments = [self._segment(source) for source in self.task.sources]
        for segment in segments:
            try:
                yield from segment.transactions
            except IndexFileError:
                rebuild_transactions(self.files, self.task.directory, segments, [segment])
                yield from segment.transactions
            self._close(segment)

    # Reading

    @staticmethod
    def _close(segment: Segment) -> None:
        file = segment.release()
        if file is not None:
            file.close()

    def _segment(self, source: Source) -> Segment:
        return Segment(self.files, self.task.directory, source.base_offset, self.config, size=source.size)

    def _batches(self, source: Source) -> Iterator[tuple[BatchHeader, memoryview]]:
        segment = self._segment(source)
        if not source.size:
            return
        if not self.files.exists(segment.path()):
            raise FileNotFoundError(segment.path())
        file = self.files.open(segment.path())
        paced = 0
        try:
            for position, header, view in batches(file, 0, source.size, self.task.read_bytes):
                self.where = (file.path, position)
                if position - paced >= _WRITE_BYTES:
                    self.pace(position - paced)
                    paced = position
                yield header, view
            self.pace(source.size - paced)
        finally:
            file.close()


class _Output:
    """The cleaned log file, written in large pieces, of which the disk hears early."""

    __slots__ = ("_parts", "_size", "_syncs", "_told", "file", "pace")

    def __init__(self, file: File, pace: Pace, syncs: Syncs) -> None:
        self.file = file
        self.pace = pace
        self._syncs = syncs
        self._parts: list[memoryview | bytearray] = []
        self._size = 0
        self._told = 0

    def append(self, batch: memoryview | bytearray) -> None:
        self._parts.append(batch)
        self._size += len(batch)
        if self._size >= _WRITE_BYTES:
            self.write()
            if self.file.size - self._told >= _SYNC_BYTES:
                self._told = self.file.size
                self._syncs.begin(self.file)

    def write(self) -> None:
        if self._size:
            self.file.append(b"".join(self._parts))
            self.pace(self._size)
            self._parts, self._size = [], 0


class _Closing(NamedTuple):
    """The end of a file that is written: it stays open until the syncs before are done, so that none of them
    misses an error of the disk."""

    file: File
    is_needed: bool

    def sync(self) -> None:
        try:
            if self.is_needed:
                self.file.sync()
        finally:
            self.file.close()
