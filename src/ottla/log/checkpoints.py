"""The checkpoints of all log directories: what they are made of, and when a name in one is stale.

Checkpoints know partitions by name only. What one says of a deleted partition, or says wrongly, must never be
taken for the log that has the name next: so a name that may still stand in a checkpoint is `stale`, and
before it is used again all checkpoints are written anew, once for however many names.

A directory that cannot be written is reported and passed over: the others' checkpoints do not wait for it.

What is written from time to time, and may as well be written later, is written aside by a worker
(`log/chores`) and put into place when it is synced; unless something newer was written at once meanwhile.
"""

import os.path
from collections.abc import Callable, Iterable
from typing import TypeAlias

from ottla.base.ids import TopicPartition
from ottla.log import checkpoint_format
from ottla.log.catalog import Catalog
from ottla.log.chores import OnChore
from ottla.log.directories import Directories, DirectoryFiles, LogDirectoryError

ASIDE = ".next.tmp"


class Write:
    """A chore, twice: a checkpoint is written aside, and when it is in place its name is made durable."""

    def __init__(self, disk: DirectoryFiles, path: str, data: bytes, on_done: "OnWritten") -> None:
        self.disk, self.path, self.data = disk, path, data
        self.is_in_place = False
        self._on_done = on_done

    def run(self) -> None:
        if self.is_in_place:
            self.disk.syncable(self.disk.directory).sync()
        else:
            self.disk.write_atomic(self.path + ASIDE, self.data)

    def done(self, error: OSError | None) -> None:
        self._on_done(self, error)


OnWritten: TypeAlias = Callable[[Write, OSError | None], None]


class Checkpoints:
    def __init__(self, directories: Directories, catalog: Catalog, on_chore: OnChore) -> None:
        self._on_chore = on_chore
        self._under_way: dict[str, Write] = {}  # by path
        self.stale: set[TopicPartition] = set()
        self._directories = directories
        self._catalog = catalog
        self._written: dict[str, tuple[bytes, bool]] = {}

    def write_all(self) -> None:
        """Make durable that no checkpoint says anything of a log that is not there."""
        self.write_recovery_points()
        self.write_log_starts()
        self.write_cleaner_offsets(sync=True)
        self.write_high_watermarks(sync=True)
        self.stale.clear()

    def write_due(self) -> None:
        """Stale names go here at the latest, so that they do not pile up."""
        if self.stale:
            self.write_all()
        else:
            self.write_recovery_points(is_later=True)

    def write_high_watermarks(self, *, sync: bool = False) -> None:
        """A lost one only makes a watermark start lower, so nothing waits for the disk."""
        self._write(checkpoint_format.HIGH_WATERMARKS, self._catalog.high_watermarks.items(), sync=sync)

    def write_cleaner_offsets(self, *, sync: bool) -> None:
        offsets = (
            (topic_partition, log.cleaned_to)
            for topic_partition, log in self._catalog.logs.items()
            if log.cleaned_to
        )
        self._write(checkpoint_format.CLEANER_OFFSETS, offsets, sync=sync)

    def write_recovery_points(self, *, is_later: bool = False) -> None:
        points = (
            (topic_partition, log.recovery_point) for topic_partition, log in self._catalog.logs.items()
        )
        self._write(checkpoint_format.RECOVERY_POINTS, points, is_later=is_later)

    def write_log_starts(self, first: str | None = None, *, is_later: bool = False) -> None:
        """Only starts that the name of the first segment does not tell already. A log that has just moved to
        `first` must be known there before it is forgotten where it was."""
        starts = (
            (topic_partition, log.log_start_offset)
            for topic_partition, log in self._catalog.logs.items()
            if log.log_start_offset > log.segments[0].base_offset
        )
        self._write(checkpoint_format.LOG_STARTS, starts, first=first, is_later=is_later)

    def _write(
        self,
        name: str,
        offsets: Iterable[tuple[TopicPartition, int]],
        *,
        sync: bool = True,
        first: str | None = None,
        is_later: bool = False,
    ) -> None:
        """Write a checkpoint into every directory, for the partitions that live there, where it changed."""
        disks = self._directories.disks
        by_directory: dict[str, dict[TopicPartition, int]] = {directory: {} for directory in disks}
        for topic_partition, offset in offsets:
            directory = self._catalog.directories.get(topic_partition)
            if directory in by_directory:
                by_directory[directory][topic_partition] = offset
        for directory, contents in sorted(by_directory.items(), key=lambda item: item[0] != first):
            path = os.path.join(directory, name)
            data = checkpoint_format.format_offsets(contents)
            if self._written.get(path) in ((data, sync and not is_later), (data, True)):
                continue
            if is_later:
                if path not in self._under_way and directory not in self._directories.failing:
                    self._under_way[path] = write = Write(disks[directory], path, data, self._on_written)
                    self._on_chore(write)
                continue
            self._under_way.pop(path, None)
            try:
                disks[directory].write_atomic(path, data, sync=sync)
            except LogDirectoryError as error:
                self._directories.report(error)
            else:
                self._written[path] = (data, sync)

    def _on_written(self, write: Write, error: OSError | None) -> None:
        """Put it into place, unless it is outdated; then its name is synced."""
        if self._under_way.get(write.path) is not write:
            return
        if error is None and write.disk.directory in self._directories.disks and not write.is_in_place:
            try:
                write.disk.rename(write.path + ASIDE, write.path, sync=False)
            except LogDirectoryError as failure:
                error = failure
            else:
                write.is_in_place = True
                self._written[write.path] = (write.data, False)
                self._on_chore(write)
                return
        del self._under_way[write.path]
        if error is None:
            self._written[write.path] = (write.data, True)
        elif isinstance(error, LogDirectoryError) and error.directory in self._directories.disks:
            self._directories.report(error)
