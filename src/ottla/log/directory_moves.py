"""Moving a partition to another log directory of the same broker, while it is used (KIP-113).

A move fills a folder `topic-partition.<unique>-future` in the target directory. A worker copies the segment
files, oldest first, a slice at a time; files only grow at their end, so a copy of any prefix stays right.
When all that is missing is a little at the end, that is copied here, and the folder takes the place of the
old one: renamed to its real name first, then the old folder to `-delete`. A crash before that leaves the old
log, after it the new one; in between there are two whole copies, and `store_loader` keeps one. A `-future`
folder that is found at a start is thrown away, and the move begins anew.

Not obvious: while files are being copied nothing may replace or remove them. As with a cleaning, the log is
told so (`abort_work`): compaction and retention wait until it has moved, and a cut of the log begins the move
anew.
"""

import logging
import os.path
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.base.ids import TopicPartition
from ottla.base.log_fields import fields
from ottla.log.catalog import Catalog
from ottla.log.checkpoints import Checkpoints
from ottla.log.directories import Directories, DirectoryFiles
from ottla.log.epochs import FILE_NAME as EPOCHS
from ottla.log.folders import future_folder, unique
from ottla.log.log import Log
from ottla.log.partition_metadata import PARTITION_METADATA, format_partition_metadata
from ottla.log.segment import INDEX_SUFFIXES, SUFFIXES, Segment, file_name
from ottla.log.snapshots import SNAPSHOT, encode
from ottla.log.trash import Trash

log = logging.getLogger(__name__)

SLICE_BYTES = 16 << 20
CHUNK_BYTES = 1 << 20
TAIL_BYTES = 256 << 10
WISHES_MAX = 10_000


class MoveError(Exception):
    """What is on disk cannot be copied as it should be; the partition stays where it is."""


class CopySlice(NamedTuple):
    """Work for a worker: a part of a segment file, and with its last one the small files beside it."""

    source: DirectoryFiles
    target: DirectoryFiles
    path: str
    to: str
    at: int
    length: int
    beside: tuple[tuple[str, str], ...] = ()

    def run(self) -> None:
        with closing(self.source.open(self.path)) as reader, closing(self.target.open(self.to)) as writer:
            writer.truncate(self.at)
            done = 0
            while done < self.length:
                data = reader.read(self.at + done, min(CHUNK_BYTES, self.length - done))
                if not data:
                    raise MoveError(f"{self.path} ends at {self.at + done}, before {self.at + self.length}")
                writer.append(data)
                done += len(data)
            writer.sync()
        for path, to in self.beside:
            if self.source.exists(path):
                self.target.write_atomic(to, self.source.read(path))


@dataclass(eq=False)
class Move:
    """One partition on its way to `directory`."""

    log: Log
    directory: str
    disk: DirectoryFiles
    folder: str
    copied: dict[int, int] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    in_flight: CopySlice | None = None
    is_begun: bool = False
    is_cancelled: bool = False

    @property
    def topic_partition(self) -> TopicPartition:
        return self.log.topic_partition

    @property
    def size(self) -> int:
        return sum(self.copied.values())

    @property
    def lag(self) -> int:
        """How many offsets the copy is behind, in whole segments."""
        bases = (segment.base_offset for segment in self.log.segments)
        return self.log.log_end_offset - next(
            (base for base in bases if base not in self.finished),
            self.log.log_end_offset,
        )

    def next_slice(self) -> CopySlice | None:
        """What to copy next; None if so little is missing that the rest can be done at once."""
        for segment in self.log.segments:
            base, is_closed = segment.base_offset, segment is not self.log.active
            at = self.copied.get(base, 0)
            count = min(segment.size - at, SLICE_BYTES)
            if is_closed and base not in self.finished:
                is_last = at + count == segment.size
                return self._slice(segment, at, count, beside=is_last)
            if not is_closed and segment.size - at > TAIL_BYTES:
                return self._slice(segment, at, count, beside=False)
        return None

    def _slice(self, segment: Segment, at: int, count: int, *, beside: bool) -> CopySlice:
        suffixes = [suffix for suffix in (*SUFFIXES, SNAPSHOT) if suffix != ".log"] if beside else []
        pairs = tuple((segment.path(suffix), self.path(segment, suffix)) for suffix in suffixes)
        source = self.log.files
        assert isinstance(source, DirectoryFiles), "a log of a store"
        self.in_flight = CopySlice(
            source, self.disk, segment.path(), self.path(segment, ".log"), at, count, pairs
        )
        return self.in_flight

    def on_copied(self) -> None:
        done, self.in_flight = self.in_flight, None
        assert done is not None, "a slice came back that is not in flight"
        base = int(os.path.basename(done.path).split(".")[0])
        self.copied[base] = done.at + done.length
        if done.beside:
            self.finished.add(base)

    def path(self, segment: Segment, suffix: str) -> str:
        return os.path.join(self.folder, file_name(segment.base_offset, suffix))


class Moves:
    """The moves of a store, and the wishes for partitions that are not there yet.

    `replace(log, directory, now_ms)` lets a copy that is whole take the place of the log.
    """

    def __init__(
        self,
        directories: Directories,
        catalog: Catalog,
        checkpoints: Checkpoints,
        trash: Trash,
        replace: Callable[[Log, str, int], None],
    ) -> None:
        self.by_topic_partition: dict[TopicPartition, Move] = {}
        self.wishes: dict[TopicPartition, str] = {}
        self._directories = directories
        self._catalog = catalog
        self._checkpoints = checkpoints
        self._trash = trash
        self._replace = replace
        self._sequence = 0

    def wish(self, topic_partition: TopicPartition, directory: str) -> None:
        """Where the partition should be made, when it is."""
        self.wishes.pop(topic_partition, None)
        self.wishes[topic_partition] = directory
        if len(self.wishes) > WISHES_MAX:
            del self.wishes[next(iter(self.wishes))]

    def begin(self, topic_partition: TopicPartition, directory: str) -> None:
        """Move a partition. One that is moving there already goes on; one that moves elsewhere turns."""
        move = self.by_topic_partition.get(topic_partition)
        if move is not None and move.directory == directory:
            return
        self.cancel(topic_partition)
        if self._catalog.directories[topic_partition] == directory:
            return
        if topic_partition in self._checkpoints.stale:
            self._checkpoints.write_all()
        self._begin(self._catalog.logs[topic_partition], directory)

    def _begin(self, source: Log, directory: str) -> None:
        self._sequence += 1
        seed = f"{source.directory} {directory} {self._sequence}"
        folder = os.path.join(directory, future_folder(source.topic_partition, unique(seed)))
        disk = self._directories.disks[directory]
        self.by_topic_partition[source.topic_partition] = Move(source, directory, disk, folder)

    def cancel(self, topic_partition: TopicPartition) -> None:
        """The partition stays where it is, or is gone."""
        move = self.by_topic_partition.pop(topic_partition, None)
        if move is not None:
            self._stop(move)

    def on_directory_failed(self, directory: str) -> None:
        for move in list(self.by_topic_partition.values()):
            if directory in {move.directory, os.path.dirname(move.log.directory)}:
                self.cancel(move.topic_partition)

    def ready(self) -> Iterator[Move]:
        """Moves that nothing keeps from going on, and nobody is working on."""
        for move in list(self.by_topic_partition.values()):
            if move.in_flight is None and (move.is_begun or move.log.abort_work is None):
                yield move

    def on_copied(self, move: Move) -> bool:
        """A worker is done with a slice, well or not. False if the move was cancelled meanwhile."""
        if move.is_cancelled:
            move.in_flight = None
            self._discard(move)
            return False
        move.on_copied()
        return True

    def go_on(self, move: Move, now_ms: int) -> CopySlice | Log:
        """The next slice; or, at the end, the log that has taken the place of the old one."""
        if not move.is_begun:
            self._make_folder(move)
        return move.next_slice() or self._swap(move, now_ms)

    def _make_folder(self, move: Move) -> None:
        move.is_begun = True
        move.log.abort_work = lambda: self._begin_anew(move)
        move.disk.make_directory(move.folder)
        topic_id = self._catalog.topic_ids.get(move.topic_partition)
        if topic_id is not None:
            path = os.path.join(move.folder, PARTITION_METADATA)
            move.disk.write_atomic(path, format_partition_metadata(topic_id))
        topic, partition = move.topic_partition
        log.info(
            "%s moves to %s: %d bytes", move.topic_partition, move.directory, move.log.size,
            extra=fields(topic=topic, partition=partition, directory=move.directory, bytes=move.log.size),
        )  # fmt: skip

    def _begin_anew(self, move: Move) -> None:
        self.cancel(move.topic_partition)
        self._begin(move.log, move.directory)

    def _stop(self, move: Move) -> None:
        move.is_cancelled = True
        if move.is_begun:
            move.log.abort_work = None
            if move.in_flight is None:
                self._discard(move)

    def _discard(self, move: Move) -> None:
        if move.directory in self._directories.disks:
            self._trash.add(move.folder, move.directory, 0)

    def _swap(self, move: Move, now_ms: int) -> Log:
        """Everything is copied but the very end: copy that, and let the copy be the log."""
        source, disk = move.log, move.disk
        self._copy_end(move)
        final = os.path.join(move.directory, str(move.topic_partition))
        disk.rename(move.folder, final)
        try:
            new = self._open_copy(move, final, now_ms)
        except OSError:
            with suppress(OSError):
                disk.rename(final, move.folder)
            raise
        del self.by_topic_partition[move.topic_partition]
        source.abort_work = None
        if new.log_end_offset != source.log_end_offset:
            new.abandon()
            self._trash.add_folder(new, move.directory, now_ms)
            raise MoveError(f"the copy ends at {new.log_end_offset}, not at {source.log_end_offset}")
        new.include_in_sync(os.path.join(final, file_name(new.log_end_offset, SNAPSHOT)), urgent=False)
        new.cleaned_to = source.cleaned_to
        self._replace(new, move.directory, now_ms)
        topic, partition = move.topic_partition
        log.info(
            "%s is in %s now", move.topic_partition, move.directory,
            extra=fields(topic=topic, partition=partition, directory=move.directory),
        )  # fmt: skip
        return new

    def _open_copy(self, move: Move, folder: str, now_ms: int) -> Log:
        source = move.log
        return self._catalog.open(
            move.disk,
            folder,
            move.topic_partition,
            source.config,
            recovery_point=max(source.recovery_point, source.active.base_offset),
            clean=True,
            log_start_offset=source.log_start_offset,
            now_ms=now_ms,
        )

    def _copy_end(self, move: Move) -> None:
        source, active, disk = move.log, move.log.active, move.disk
        with closing(disk.open(move.path(active, ".log"))) as file:
            at = move.copied.get(active.base_offset, 0)
            file.truncate(at)
            if active.size > at:
                file.append(active.read(at, active.size - at))
            if source.recovery_point > active.base_offset:
                file.sync()  # some of it was durable before, and must stay that
        if active.size:
            transactions = source.segments.transactions_of(active).to_bytes()
            for suffix, data in zip(INDEX_SUFFIXES, (*active.index_bytes(), transactions), strict=True):
                disk.write_atomic(move.path(active, suffix), data, sync=False)
        if source.files.exists(source.epochs.path):
            epochs = source.files.read(source.epochs.path)
            disk.write_atomic(os.path.join(move.folder, EPOCHS), epochs, sync=False)
        snapshot = os.path.join(move.folder, file_name(source.log_end_offset, SNAPSHOT))
        disk.write_atomic(snapshot, encode(source.producers), sync=False)
        disk.syncable(move.folder).sync()
