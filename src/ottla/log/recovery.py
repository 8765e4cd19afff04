"""Opening a partition's folder: tidy up, find the valid end, and restore what was only in memory.

After a clean shutdown nothing is scanned. After any other, batches from the recovery point on are checked one
by one: the log is cut at the first byte that is not valid, and segments behind a cut are removed. What lies
below the recovery point was synced; it is walked over at most, and never cut while something sound comes
after the damage: that is for its readers to hear of.

A segment begins where the one before it ended when it was begun. So one that ends earlier has lost its tail,
at the end of a batch or all of it, as files do that were never synced: what comes after is removed as after
any other cut. Else a replica would keep the hole, and lose what is in it once it leads. Only compaction makes
such gaps itself, below a recovery point that is durable before it does; `dense_from` says from where on
there are none.

Checkpoints are believed only as far as the log bears them out. A recovery point or a log start beyond the end
of a log that holds records is of another log (one of the same name, deleted since): it is ignored and
reported, and everything is checked. Kafka removes the records of a log that ends before its start offset.

Leftovers: `.deleted`, `.cleaned` and `.tmp` files are removed, a `.swap` file of a compaction takes the place
of what it replaces, an index without its log is removed. Every step that changed something is in the report,
as data: the shell logs it.
"""

import errno
import os.path
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.base.files import File, Files, UnfitFileError
from ottla.base.ids import TopicPartition
from ottla.log.config import LogConfig
from ottla.log.directories import LogDirectoryError
from ottla.log.epochs import FILE_NAME, LeaderEpochs
from ottla.log.index import RELATIVE_OFFSET_MAX, SWAP
from ottla.log.producer_replay import rebuild_transactions, restore_producers
from ottla.log.producer_trail import ProducerTrail
from ottla.log.producers import Producers
from ottla.log.scan import TornError
from ottla.log.segment import SEGMENT_BYTES_MAX, SUFFIXES, Segment, file_name
from ottla.log.transaction_index import TransactionIndex

DELETED = ".deleted"
CLEANED = ".cleaned"
_REMOVED_ON_OPEN = (DELETED, CLEANED, ".tmp")


class Repair(NamedTuple):
    """One thing that was changed on disk, or given up, while a log was opened."""

    what: str
    path: str
    detail: str = ""


@dataclass(slots=True)
class RecoveryReport:
    topic_partition: TopicPartition
    directory: str
    clean: bool
    created: bool = False
    segments_scanned: int = 0
    bytes_cut: int = 0
    segments_removed: int = 0
    repairs: list[Repair] = field(default_factory=list)


class Loaded(NamedTuple):
    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    producers: Producers
    snapshot_at: int  # where a durable snapshot of them was found; -1: none
    epochs: LeaderEpochs
    report: RecoveryReport


class Loader:
    """Opens one folder; used once."""

    def __init__(
        self,
        files: Files,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        recovery_point: int,
        clean: bool,
        log_start_offset: int,
        now_ms: int,
        dense_from: int | None = None,
    ) -> None:
        self.files = files
        self.directory = directory
        self.config = config
        self.recovery_point = recovery_point
        self.dense_from = dense_from
        self.clean = clean
        self.log_start_offset = log_start_offset
        self.now_ms = now_ms
        self.report = RecoveryReport(topic_partition, directory, clean)
        self.trail = ProducerTrail()
        self.scanned: dict[Segment, bool] = {}  # whether there may be ends of transactions in it
        self.epochs = LeaderEpochs(files, os.path.join(directory, FILE_NAME))

    def load(self) -> Loaded:
        is_new = self.files.make_directory(self.directory)
        names = [] if is_new else self._tidy(self.files.list(self.directory))
        segments = self._segments(names)
        knows_epochs = FILE_NAME in names and self.epochs.load()
        end = self._find_end(segments) if segments else self.log_start_offset
        if segments and end < self.recovery_point and not self.report.clean:
            self._did("ignored a recovery point", self.directory, f"{self.recovery_point} is after {end}")
            self.recovery_point, self.trail = 0, ProducerTrail()
            self.dense_from = None
            end = self._find_end(segments)
        if segments and end < self.log_start_offset:
            if any(segment.size for segment in segments):
                self._did("ignored a log start", self.directory, f"{self.log_start_offset} is after {end}")
                self.log_start_offset = 0
            else:
                self._remove(segments, f"it is empty, and the log starts at {self.log_start_offset}")
                segments, end = [], self.log_start_offset
        if not segments:
            segments = [self._segment(end, 0)]
            segments[0].create()
            self.report.created = True
        start = max(self.log_start_offset, segments[0].base_offset)
        if not knows_epochs:
            self._epochs_from_batches(segments)
        self.epochs.trim(start, end)
        producers, snapshot_at = restore_producers(
            self.files, self.directory, names, segments, start, end, self._did, self.trail
        )
        self._restore_transactions(segments, set(names))
        for segment in segments:
            # Ten thousand partitions at rest should not cost ten thousand file descriptors.
            _close(segment.take_file())
        return Loaded(
            segments,
            start,
            end,
            min(self.recovery_point, end),
            producers,
            snapshot_at if self.clean else -1,
            self.epochs,
            self.report,
        )

    def _tidy(self, names: list[str]) -> list[str]:
        if any(name.endswith(SWAP) for name in names):
            self._finish_swaps(names)
            names = self.files.list(self.directory)
        kept = []
        for name in names:
            if name.endswith(_REMOVED_ON_OPEN):
                path = os.path.join(self.directory, name)
                self.files.remove(path)
                self._did("removed a leftover", path)
            else:
                kept.append(name)
        return kept

    def _finish_swaps(self, names: list[str]) -> None:
        """Compaction had written and synced new files, and was about to put them into place.

        Kafka's rule: a swap counts only if its offset is below that of all `.cleaned` files; else the crash
        came before all of its files were renamed, and the old ones stand.
        """
        cleaned_min = min((_offset_of(name) for name in names if name.endswith(CLEANED)), default=1 << 63)
        for base_offset in sorted({_offset_of(name) for name in names if name.endswith(SWAP)}):
            if base_offset < cleaned_min:
                self._finish_swap(base_offset)
            # What marks an unfinished swap (see `swap`) goes last, the log file first.
            for suffix in SUFFIXES:
                path = os.path.join(self.directory, file_name(base_offset, suffix + SWAP))
                if self.files.exists(path):
                    self.files.remove(path)

    def _finish_swap(self, base_offset: int) -> None:
        target = os.path.join(self.directory, file_name(base_offset, ".log"))
        if self.files.exists(target + SWAP):
            self.files.rename(target + SWAP, target)
        if not self.files.exists(target):
            return
        self._did("finished a compaction", target)
        segment = self._segment(base_offset, self.files.size(target))
        end = self._walk_end(segment)
        for other in self.files.list(self.directory):
            if other.endswith(".log") and base_offset < _offset_of(other) < end:
                self._remove([self._segment(_offset_of(other), 0)], "compaction replaced it")
        transactions = segment.path(".txnindex")
        if self.files.exists(transactions + SWAP):
            if self.files.size(transactions + SWAP):
                self.files.rename(transactions + SWAP, transactions)
            elif self.files.exists(transactions):
                self.files.remove(transactions)  # it names transactions whose end is gone

    def _walk_end(self, segment: Segment) -> int:
        segment.rebuild_indexes()
        end = segment.load_tail()
        _close(segment.release())
        return end

    def _segments(self, names: list[str]) -> list[Segment]:
        present = set(names)
        segments = []
        for name in names:
            stem, suffix = os.path.splitext(name)
            if suffix == ".log" and stem.isdigit():
                segments.append(self._segment(int(stem), self._log_size(name)))
            elif suffix in SUFFIXES and stem + ".log" not in present:
                path = os.path.join(self.directory, name)
                self.files.remove(path)
                self._did("removed an index without a log", path)
        segments.sort(key=lambda segment: segment.base_offset)
        return segments

    def _log_size(self, name: str) -> int:
        path = os.path.join(self.directory, name)
        size = self.files.size(path)
        if size > SEGMENT_BYTES_MAX:
            unfit = UnfitFileError(errno.EFBIG, f"{size} bytes are too many for a segment; move it away")
            raise LogDirectoryError(os.path.dirname(self.directory), unfit, path)
        return size

    def _segment(self, base_offset: int, size: int) -> Segment:
        return Segment(
            self.files, self.directory, base_offset, self.config, size=size, created_ms=self.now_ms
        )

    def _find_end(self, segments: list[Segment]) -> int:
        """The log's end, after recovery where that is needed. Removes segments that cannot be kept."""
        if self.clean:
            try:
                return segments[-1].load_tail()
            except TornError as torn:
                self._did("did not trust the clean shutdown", segments[-1].path(), torn.reason)
        self.epochs.forget_from(self.recovery_point)
        end, is_known = segments[0].base_offset, False
        for at, segment in enumerate(segments):
            is_last = at + 1 == len(segments)
            if not is_last and segments[at + 1].base_offset <= self.recovery_point:
                continue
            if segment.base_offset < end or (is_known and is_hole(end, segment.base_offset, self.dense_from)):
                self._remove(segments[at:], f"offset {segment.base_offset} comes after {end - 1}")
                del segments[at:]
                break
            end, whole = self._recover(segment)
            is_known = True
            if not whole and not is_last:
                self._remove(segments[at + 1 :], "an earlier segment was cut")
                del segments[at + 1 :]
                break
            if not is_last:
                segment.save_indexes()
                _close(segment.release())
        return end

    def _recover(self, segment: Segment) -> tuple[int, bool]:
        self.report.segments_scanned += 1
        recovered = segment.recover(self.recovery_point, self.trail.note)
        self.scanned[segment] = recovered.has_markers
        for epoch, start_offset in recovered.epochs:
            self.epochs.note(epoch, start_offset)
        for damage in recovered.damage:
            where = f"{damage.size} bytes at {damage.position}: {damage.reason}"
            self._did("left damage in", segment.path(), where)
        if recovered.cut_bytes:
            self.report.bytes_cut += recovered.cut_bytes
            self._did(
                "cut off a tail",
                segment.path(),
                f"{recovered.cut_bytes} bytes at {segment.size}: {recovered.reason}",
            )
        return recovered.next_offset, not recovered.cut_bytes

    def _restore_transactions(self, segments: list[Segment], names: set[str]) -> None:
        """Those of segments that had to be scanned, or have lost all indexes, are found in the batches. For
        others a missing file says that none was aborted."""
        lost = []
        for segment in segments:
            if segment in self.scanned:
                has_markers = self.scanned[segment]
            elif segment.size and file_name(segment.base_offset, ".index") not in names:
                has_markers = _has_markers(segment)
            else:
                segment.may_have_aborted &= file_name(segment.base_offset, ".txnindex") in names
                continue
            segment.set_transactions(TransactionIndex())
            if has_markers:
                lost.append(segment)
            else:
                segment.save_transactions()
        if lost:
            rebuild_transactions(self.files, self.directory, segments, lost)
        for segment in lost:
            segment.save_transactions()

    def _epochs_from_batches(self, segments: list[Segment]) -> None:
        """The epoch file is missing or damaged: every batch still says in which epoch it was written."""
        if not any(segment.size for segment in segments):
            return
        self.epochs.clear()
        for segment in segments:
            try:
                for _, header in segment.headers_from(0):
                    self.epochs.note(header.leader_epoch, header.base_offset)
            except TornError as torn:
                self._did("could not read all leader epochs", segment.path(), torn.reason)
        self.epochs.write()
        self._did("rebuilt the leader epochs", self.epochs.path)

    def _remove(self, segments: list[Segment], why: str) -> None:
        for segment in segments:
            _close(segment.release())
            for suffix in SUFFIXES:
                if self.files.exists(segment.path(suffix)):
                    self.files.remove(segment.path(suffix))
            self.report.segments_removed += 1
            self._did("removed a segment", segment.path(), why)

    def _did(self, what: str, path: str, detail: str = "") -> None:
        self.report.repairs.append(Repair(what, path, detail))


def is_hole(end: int, base_offset: int, dense_from: int | None) -> bool:
    """Whether something was lost between the end of a segment and the next one's begin. A gap that is wider
    than a segment can be is a leader's, and not of this log's making."""
    if dense_from is None or base_offset <= dense_from:
        return False
    return 0 < base_offset - end <= RELATIVE_OFFSET_MAX


def _has_markers(segment: Segment) -> bool:
    try:
        return any(header.is_control for _, header in segment.headers_from(0))
    except TornError:
        return True  # who knows what comes behind the damage


def _offset_of(name: str) -> int:
    return int(name.split(".", 1)[0])


def _close(file: File | None) -> None:
    if file is not None:
        file.close()
