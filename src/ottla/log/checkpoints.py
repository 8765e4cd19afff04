"""The checkpoints of all log directories: what they are made of, and when a name in one is stale.

Checkpoints know partitions by name only. What one says of a deleted partition, or says wrongly, must never be
taken for the log that has the name next: so a name that may still stand in a checkpoint is `stale`, and
before it is used again all checkpoints are written anew, once for however many names.

A directory that cannot be written is reported and passed over: the others' checkpoints do not wait for it.
"""

import os.path
from collections.abc import Callable, Iterable, Mapping

from ottla.base.ids import TopicPartition
from ottla.log import checkpoint
from ottla.log.directories import DirectoryFiles, LogDirectoryError
from ottla.log.log import Log


class Checkpoints:
    """`disks` are the directories that live, `homes` says in which of them a log is."""

    def __init__(
        self,
        disks: Mapping[str, DirectoryFiles],
        logs: Mapping[TopicPartition, Log],
        homes: Mapping[TopicPartition, str],
        on_failed: Callable[[LogDirectoryError], None],
    ) -> None:
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.stale: set[TopicPartition] = set()
        self._disks = disks
        self._logs = logs
        self._homes = homes
        self._on_failed = on_failed
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
            self.write_recovery_points()

    def write_high_watermarks(self, *, sync: bool = False) -> None:
        """A lost one only makes a watermark start lower, so nothing waits for the disk."""
        self._write(checkpoint.HIGH_WATERMARKS, self.high_watermarks.items(), sync=sync)

    def write_cleaner_offsets(self, *, sync: bool) -> None:
        offsets = ((key, log.cleaned_to) for key, log in self._logs.items() if log.cleaned_to)
        self._write(checkpoint.CLEANER_OFFSETS, offsets, sync=sync)

    def write_recovery_points(self) -> None:
        points = ((key, log.recovery_point) for key, log in self._logs.items())
        self._write(checkpoint.RECOVERY_POINTS, points)

    def write_log_starts(self, first: str | None = None) -> None:
        """Only starts that the name of the first segment does not tell already. A log that has just moved to
        `first` must be known there before it is forgotten where it was."""
        starts = (
            (key, log.log_start_offset)
            for key, log in self._logs.items()
            if log.log_start_offset > log.segments[0].base_offset
        )
        self._write(checkpoint.LOG_STARTS, starts, first=first)

    def _write(
        self,
        name: str,
        offsets: Iterable[tuple[TopicPartition, int]],
        *,
        sync: bool = True,
        first: str | None = None,
    ) -> None:
        """Write a checkpoint into every directory, for the partitions that live there, where it changed."""
        by_home: dict[str, dict[TopicPartition, int]] = {directory: {} for directory in self._disks}
        for topic_partition, offset in offsets:
            home = self._homes.get(topic_partition)
            if home in by_home:
                by_home[home][topic_partition] = offset
        for directory, found in sorted(by_home.items(), key=lambda one: one[0] != first):
            path = os.path.join(directory, name)
            data = checkpoint.format_offsets(found)
            if self._written.get(path) not in ((data, sync), (data, True)):
                try:
                    self._disks[directory].write_atomic(path, data, sync=sync)
                except LogDirectoryError as error:
                    self._on_failed(error)
                else:
                    self._written[path] = (data, sync)
