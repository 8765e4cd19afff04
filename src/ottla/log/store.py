"""All logs of a broker, in one or more log directories.

A log directory holds a folder per partition and the checkpoints of all of them. A clean-shutdown marker says
that nothing needs recovery; it is removed, durably, as soon as the logs are open, so that a crash leaves none
behind.

Checkpoints know partitions by name only. What one says of a deleted partition, or says wrongly, must never be
taken for the log that has the name next: so a name that may still stand in a checkpoint is `stale`, and
before it is used again all checkpoints are written anew, once for however many names.

Rules: work per tick does not grow with the number of partitions. A log that will want a sync announces it
(`on_due`) and waits in a heap; the rest runs at intervals. A deleted partition's folder is renamed
at once, so that its name is free, and removed file.delete.delay.ms later.

Left out: a failed directory is not taken offline yet: the OSError goes to the caller.
"""

import hashlib
import os.path
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from ottla.base.config import override
from ottla.base.files import Files
from ottla.base.ids import TopicPartition
from ottla.log import checkpoint
from ottla.log.checkpoint import CheckpointError
from ottla.log.cleaner import Cleaner
from ottla.log.cleaning import CleanFailed, CleanOutcome, CleanTask
from ottla.log.config import LogConfig, StoreConfig
from ottla.log.durability import Sync
from ottla.log.log import Log
from ottla.log.recovery import RecoveryReport

FILE_NAME_MAX = 255
_FOLDER = re.compile(r"(.+)-(\d+)\Z")
_DELETED_FOLDER = re.compile(r".+-\d+\.[0-9a-f]{32}-delete\Z")


class StoreReport(NamedTuple):
    """What opening found: which directories were shut down cleanly, what was repaired in which log."""

    clean: dict[str, bool]
    logs: list[RecoveryReport]
    problems: list[str]

    def lines(self) -> list[str]:
        """What an operator should read: nothing after a clean shutdown of sound logs."""
        repairs = [
            f"{log.topic_partition}: {repair.what} {repair.path} {repair.detail}".rstrip()
            for log in self.logs
            for repair in log.repairs
        ]
        return self.problems + repairs


class LogStore:
    def __init__(
        self, files: Files, directories: Sequence[str], config: LogConfig, store_config: StoreConfig
    ) -> None:
        self.files = files
        self.directories = tuple(directories)
        self.config = config
        self.store_config = store_config
        self.logs: dict[TopicPartition, Log] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.cleaner = Cleaner(self.logs)
        self._ids: dict[TopicPartition, bytes] = {}
        self._homes: dict[TopicPartition, str] = {}
        self._counts = dict.fromkeys(self.directories, 0)
        self._stale: set[TopicPartition] = set()
        self._due: list[tuple[int, int, Log]] = []
        self._trash: list[tuple[int, int, str]] = []
        self.wall_offset_ms = 0  # the time of day, against `now_ms`
        self._sequence = 0
        self._written: dict[str, tuple[bytes, bool]] = {}
        self._next_ms: dict[str, int] = {}

    # Opening and closing

    def open_all(self, now_ms: int, topic_configs: Callable[[str], Mapping[str, str]]) -> StoreReport:
        """Open every partition found in the directories. `topic_configs` gives a topic's own config."""
        report = StoreReport({}, [], [])
        wrong = False
        for directory in self.directories:
            self.files.make_directory(directory)
            wrong |= self._open_directory(directory, now_ms, topic_configs, report)
        if wrong:
            self._write_all_checkpoints()  # not before all logs are known: it is for all directories
        self._next_ms = {task: now_ms + interval for task, (interval, _) in self._tasks().items()}
        return report

    def _open_directory(
        self,
        directory: str,
        now_ms: int,
        topic_configs: Callable[[str], Mapping[str, str]],
        report: StoreReport,
    ) -> bool:
        """True if a checkpoint says more than its log holds, and must not be there when that has grown."""
        marker = os.path.join(directory, checkpoint.CLEAN_SHUTDOWN)
        clean = self.files.exists(marker)
        report.clean[directory] = clean
        points = self._read_offsets(directory, checkpoint.RECOVERY_POINTS, report)
        starts = self._read_offsets(directory, checkpoint.LOG_STARTS, report)
        cleaned = self._read_offsets(directory, checkpoint.CLEANER_OFFSETS, report)
        watermarks = self._read_offsets(directory, checkpoint.HIGH_WATERMARKS, report)
        wrong = False
        for name in self.files.list(directory):
            path = os.path.join(directory, name)
            if _DELETED_FOLDER.match(name):
                self.files.remove_tree(path)
                continue
            found = parse_folder(name)
            if found is None:
                continue
            if found in self.logs:
                report.problems.append(
                    f"{path}: {found} is also in {self._homes[found]}; this copy is ignored"
                )
                continue
            log = Log.open(
                self.files,
                path,
                found,
                override(self.config, topic_configs(found.topic)),
                recovery_point=points.get(found, 0),
                clean=clean,
                log_start_offset=starts.get(found, 0),
                now_ms=now_ms,
                on_due=self._on_due,
                on_lowered=self._write_recovery_points,
            )
            end = log.log_end_offset
            log.cleaned_to = cleaned.get(found, 0) if cleaned.get(found, 0) <= end else 0
            if found in watermarks:
                self.high_watermarks[found] = min(watermarks[found], end)
            wrong = wrong or (
                log.recovery_point < points.get(found, 0)
                or log.log_start_offset < starts.get(found, 0)
                or end < max(cleaned.get(found, 0), watermarks.get(found, 0))
            )
            report.logs.append(log.report)
            self._put(log, directory, self._read_topic_id(path))
        self._stale |= (points.keys() | starts.keys() | cleaned.keys() | watermarks.keys()) - self.logs.keys()
        if clean:
            self.files.remove(marker)
            # Else a power cut could bring it back, and what is appended from now on would not be checked.
            self.files.syncable(directory).sync()
        return wrong

    def _read_offsets(self, directory: str, name: str, report: StoreReport) -> dict[TopicPartition, int]:
        try:
            return checkpoint.read_offsets(self.files, os.path.join(directory, name))
        except CheckpointError as problem:
            report.problems.append(str(problem))
            return {}

    def _read_topic_id(self, folder: str) -> bytes | None:
        path = os.path.join(folder, checkpoint.PARTITION_METADATA)
        return checkpoint.parse_partition_metadata(self.files.read(path)) if self.files.exists(path) else None

    def close(self, now_ms: int) -> None:
        """Shut down cleanly: every log durable, then the checkpoints, then the marker that says so."""
        for log in self.logs.values():
            self.cleaner.forget(log)
            log.close()
        self._write_recovery_points(now_ms)
        self._write_log_starts(now_ms)
        self.checkpoint_high_watermarks(self.high_watermarks, sync=True)
        for directory in self.directories:
            path = os.path.join(directory, checkpoint.CLEAN_SHUTDOWN)
            self.files.write_atomic(path, checkpoint.clean_shutdown_marker())

    # Partitions

    def get(self, topic_partition: TopicPartition) -> Log | None:
        return self.logs.get(topic_partition)

    def topic_id(self, topic_partition: TopicPartition) -> bytes | None:
        """The topic's id as partition.metadata has it."""
        return self._ids.get(topic_partition)

    def directory_of(self, topic_partition: TopicPartition) -> str:
        return self._homes[topic_partition]

    def create(self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig, now_ms: int) -> Log:
        """A new, empty log, in the directory that holds the fewest."""
        assert topic_partition not in self.logs, f"{topic_partition} exists"
        if topic_partition in self._stale:
            self._write_all_checkpoints()
        directory = min(self.directories, key=self._counts.__getitem__)
        folder = os.path.join(directory, str(topic_partition))
        self.files.make_directory(folder)
        metadata = os.path.join(folder, checkpoint.PARTITION_METADATA)
        self.files.write_atomic(metadata, checkpoint.format_partition_metadata(topic_id), sync=False)
        log = Log.open(
            self.files,
            folder,
            topic_partition,
            config,
            now_ms=now_ms,
            clean=True,
            on_due=self._on_due,
            on_lowered=self._write_recovery_points,
        )
        log.include_in_sync(metadata)
        self._put(log, directory, topic_id)
        return log

    def delete(self, topic_partition: TopicPartition, now_ms: int) -> None:
        """Forget a partition. A sync of it that is in flight may still come back to the log."""
        log = self.logs.pop(topic_partition)
        directory = self._homes.pop(topic_partition)
        self._counts[directory] -= 1
        self._stale.add(topic_partition)
        self._ids.pop(topic_partition, None)
        self.high_watermarks.pop(topic_partition, None)
        self.cleaner.forget(log)
        log.abandon()
        self._sequence += 1
        unique = hashlib.blake2b(
            f"{log.directory} {now_ms} {self._sequence}".encode(), digest_size=16
        ).hexdigest()
        name = deleted_folder(topic_partition, unique)
        # If a crash undoes this, the partition comes back as one that nobody knows, and is deleted again.
        self.files.rename(log.directory, os.path.join(directory, name), sync=False)
        self._discard(os.path.join(directory, name), now_ms + log.config.file_delete_delay_ms)

    def _put(self, log: Log, directory: str, topic_id: bytes | None) -> None:
        self.logs[log.topic_partition] = log
        self._homes[log.topic_partition] = directory
        self._counts[directory] += 1
        if topic_id is not None:
            self._ids[log.topic_partition] = topic_id

    # Syncing

    def due_syncs(self, now_ms: int) -> list[tuple[Log, Sync]]:
        """The syncs to hand to a worker now. Each comes back through its log's `on_synced`."""
        due = self._due
        syncs = []
        while due and due[0][0] <= now_ms:
            _, _, log = heappop(due)
            if self.logs.get(log.topic_partition) is log and (sync := log.next_sync(now_ms)) is not None:
                syncs.append((log, sync))
        return syncs

    @property
    def next_sync_ms(self) -> int | None:
        """When `due_syncs` will have something, as far as known."""
        return self._due[0][0] if self._due else None

    def _on_due(self, log: Log, due_ms: int) -> None:
        self._sequence += 1
        heappush(self._due, (due_ms, self._sequence, log))

    # Compaction

    def next_cleanings(
        self, last_stable: Callable[[Log], int], now_ms: int
    ) -> Iterable[tuple[Log, CleanTask]]:
        """The cleanings to hand to workers now; each comes back through `on_cleaned`."""
        return self.cleaner.next_tasks(self.store_config, last_stable, now_ms, now_ms + self.wall_offset_ms)

    def on_cleaned(self, log: Log, outcome: CleanOutcome, now_ms: int) -> bool:
        """True if the log's folder must be synced next; then comes `on_folder_synced`."""
        if isinstance(outcome, CleanFailed):
            self.cleaner.on_failed(log, outcome, self.store_config, now_ms)
            return False
        return self.cleaner.on_cleaned(log, outcome) or self._after_cleaning(log, now_ms)

    def on_folder_synced(self, log: Log, now_ms: int) -> bool:
        return self.cleaner.on_folder_synced(log) or self._after_cleaning(log, now_ms)

    def _after_cleaning(self, log: Log, now_ms: int) -> bool:
        """Nothing is lost with this checkpoint but time, so nothing waits for the disk."""
        self._discard_deleted(log, now_ms)
        self._write_cleaner_offsets(sync=False)
        return False

    # Time

    def on_tick(self, now_ms: int, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Do what is due: retention, expiry of producers, checkpoints, removal of deleted files."""
        while self._trash and self._trash[0][0] <= now_ms:
            self._remove(heappop(self._trash)[2])
        for task, (interval_ms, run) in self._tasks().items():
            if self._next_ms.get(task, now_ms) <= now_ms:
                self._next_ms[task] = now_ms + interval_ms
                self.high_watermarks.update(high_watermarks)
                run(now_ms)

    def _tasks(self) -> dict[str, tuple[int, Callable[[int], None]]]:
        config = self.store_config
        return {
            "retention": (config.retention_check_interval_ms, self._retain),
            "producers": (config.producer_id_expiration_check_interval_ms, self._expire_producers),
            "recovery points": (config.recovery_checkpoint_interval_ms, self._checkpoint),
            "log starts": (config.start_checkpoint_interval_ms, self._write_log_starts),
            "high watermarks": (
                config.high_watermark_checkpoint_interval_ms,
                lambda _: self.checkpoint_high_watermarks(self.high_watermarks),
            ),
        }

    def _retain(self, now_ms: int) -> None:
        for topic_partition, log in self.logs.items():
            high_watermark = self.high_watermarks.get(topic_partition, log.log_start_offset)
            log.delete_old_segments(now_ms + self.wall_offset_ms, high_watermark)
            self._discard_deleted(log, now_ms)

    def _expire_producers(self, now_ms: int) -> None:
        for log in self.logs.values():
            log.producers.expire(now_ms + self.wall_offset_ms, self.store_config.producer_id_expiration_ms)

    def _discard_deleted(self, log: Log, now_ms: int) -> None:
        for path in log.deleted:
            self._discard(path, now_ms + log.config.file_delete_delay_ms)
        log.deleted.clear()

    def _discard(self, path: str, due_ms: int) -> None:
        self._sequence += 1
        heappush(self._trash, (due_ms, self._sequence, path))

    def _remove(self, path: str) -> None:
        if not self.files.exists(path):
            return  # a segment of a partition that was deleted meanwhile went with its folder
        if path.endswith("-delete"):
            self.files.remove_tree(path)
        else:
            self.files.remove(path)

    # Checkpoints

    def checkpoint_high_watermarks(
        self, high_watermarks: Mapping[TopicPartition, int], *, sync: bool = False
    ) -> None:
        """Write them down. A lost one only makes a watermark start lower, so nothing waits for the disk."""
        self._write(checkpoint.HIGH_WATERMARKS, high_watermarks.items(), sync=sync)

    def _checkpoint(self, now_ms: int) -> None:
        """Stale names go here at the latest, so that they do not pile up."""
        if self._stale:
            self._write_all_checkpoints()
        else:
            self._write_recovery_points(now_ms)

    def _write_all_checkpoints(self) -> None:
        """Make durable that no checkpoint says anything of a log that is not there."""
        self._write_recovery_points()
        self._write_log_starts()
        self._write_cleaner_offsets(sync=True)
        self.checkpoint_high_watermarks(self.high_watermarks, sync=True)
        self._stale.clear()

    def _write_cleaner_offsets(self, *, sync: bool) -> None:
        offsets = ((key, log.cleaned_to) for key, log in self.logs.items() if log.cleaned_to)
        self._write(checkpoint.CLEANER_OFFSETS, offsets, sync=sync)

    def _write_recovery_points(self, _now_ms: int = 0) -> None:
        self._write(checkpoint.RECOVERY_POINTS, ((key, log.recovery_point) for key, log in self.logs.items()))

    def _write_log_starts(self, _now_ms: int = 0) -> None:
        """Only starts that the name of the first segment does not tell already."""
        starts = (
            (key, log.log_start_offset)
            for key, log in self.logs.items()
            if log.log_start_offset > log.segments[0].base_offset
        )
        self._write(checkpoint.LOG_STARTS, starts)

    def _write(self, name: str, offsets: Iterable[tuple[TopicPartition, int]], *, sync: bool = True) -> None:
        """Write a checkpoint into every directory, for the partitions that live there, where it changed."""
        by_home: dict[str, dict[TopicPartition, int]] = {directory: {} for directory in self.directories}
        for topic_partition, offset in offsets:
            home = self._homes.get(topic_partition)
            if home is not None:
                by_home[home][topic_partition] = offset
        for directory, found in by_home.items():
            path = os.path.join(directory, name)
            data = checkpoint.format_offsets(found)
            if self._written.get(path) not in ((data, sync), (data, True)):
                self.files.write_atomic(path, data, sync=sync)
                self._written[path] = (data, sync)


def parse_folder(name: str) -> TopicPartition | None:
    """The partition whose folder this is; topic names may hold dashes, dots and digits themselves."""
    match = _FOLDER.match(name)
    return TopicPartition(match[1], int(match[2])) if match and "." not in match[2] else None


def deleted_folder(topic_partition: TopicPartition, unique: str) -> str:
    suffix = f"-{topic_partition.partition}.{unique}-delete"
    return topic_partition.topic[: FILE_NAME_MAX - len(suffix)] + suffix
