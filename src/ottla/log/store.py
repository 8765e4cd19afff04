"""All logs of a broker, in one or more log directories.

A log directory holds a folder per partition and the checkpoints of all of them. A clean-shutdown marker says
that nothing needs recovery; it is removed, durably, as soon as the logs are open, so that a crash leaves none
behind.

A directory whose disk refuses anything is reported (`on_failed`) or raised (`LogDirectoryError`), and taken
offline with `fail`: its logs are abandoned as they are, its partitions are `lost`, and nothing touches it
until the next start. Whatever is done for all logs or directories goes on with the others.

Rules: work per tick does not grow with the number of partitions. A log that will want a sync announces it
(`on_due`) and waits in a heap; the rest runs at intervals. A deleted partition's folder is renamed
at once, so that its name is free, and removed file.delete.delay.ms later.
"""

import errno
import logging
import os.path
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from ottla.base.files import Files
from ottla.base.ids import TopicPartition
from ottla.base.log_fields import fields
from ottla.log.catalog import Catalog
from ottla.log.checkpoint_format import CLEAN_SHUTDOWN, clean_shutdown_marker
from ottla.log.checkpoints import Checkpoints
from ottla.log.chores import OnChore, run_at_once
from ottla.log.cold import Warming
from ottla.log.compaction.cleaner import Cleaner
from ottla.log.compaction.task import CleanFailed, CleanOutcome, CleanTask
from ottla.log.config import LogConfig, StoreConfig
from ottla.log.directories import Directories, LogDirectoryError, raise_failure
from ottla.log.directory_moves import Moves
from ottla.log.durability import Sync
from ottla.log.log import Log
from ottla.log.partition_metadata import PARTITION_METADATA, format_partition_metadata
from ottla.log.producer_limit import ProducerLimit
from ottla.log.store_loader import LoadProgress, StoreLoader, StoreReport, TopicConfigs, TopicIds
from ottla.log.trash import Trash

logger = logging.getLogger(__name__)

PRODUCERS_CHECK_MS = 1_000
TIMES_LOOK_MS = 200  # until it is looked again whether a worker has read them
# What keeps a cleaner from writing its copy harms nothing that is there: try again later, with more room.
_CLEANED_LATER = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})


@dataclass(slots=True)
class RetentionCounts:
    """What retention has deleted since the broker started."""

    segments: int = 0
    bytes: int = 0


class LogStore:
    """`disks` are the directories that live; `offline` says why the others do not."""

    def __init__(
        self,
        files: Files,
        directories: Sequence[str],
        config: LogConfig,
        store_config: StoreConfig,
        on_failed: Callable[[LogDirectoryError], object] = raise_failure,
        on_chore: OnChore = run_at_once,
    ) -> None:
        self.config = config
        self.store_config = store_config
        self.wall_offset_ms = 0  # the time of day, against `now_ms`
        self._directories = Directories(files, directories, on_failed)
        self._catalog = Catalog(directories, self._on_due, lambda: self.checkpoints.write_recovery_points())
        self._trash = Trash(self._directories, on_chore)
        self.checkpoints = Checkpoints(self._directories, self._catalog, on_chore)
        self.cleaner = Cleaner(self._catalog.logs)
        self.retention_counts = RetentionCounts()
        self.moves = Moves(self._directories, self._catalog, self.checkpoints, self._trash, self._replace)
        self._producer_limit = ProducerLimit()
        self.progress = LoadProgress()
        self._due: list[tuple[int, int, Log]] = []
        self._sequence = 0
        self._on_chore = on_chore
        self._times: Warming | None = None
        self._next_ms: dict[str, int] = {}
        # What others look at, where it is kept.
        self.directories = self._directories.paths
        self.disks = self._directories.disks
        self.offline = self._directories.offline
        self.logs = self._catalog.logs
        self.lost = self._catalog.lost
        self.unfit = self._catalog.unfit
        self.high_watermarks = self._catalog.high_watermarks

    # Opening and closing

    def open_all(
        self, now_ms: int, topic_configs: TopicConfigs, topic_ids: TopicIds = lambda _topic: None
    ) -> StoreReport:
        """Open every partition found in the directories. `topic_configs` gives a topic's own config."""
        loader = StoreLoader(
            self._catalog, self._trash, self.config, now_ms,
            topic_configs=topic_configs, topic_ids=topic_ids, progress=self.progress,
        )  # fmt: skip
        for directory, disk in list(self.disks.items()):
            try:
                loader.load(disk)
            except LogDirectoryError as error:
                self.fail(directory, str(error))
                if not self.disks:
                    raise
                loader.report.problems.append(f"{directory} is offline: {error}")
        self.checkpoints.stale |= loader.stale()
        for topic_partition, directory in loader.unfinished_moves.items():
            if topic_partition in self.logs and directory in self.disks:
                self.moves.begin(topic_partition, directory)
        if loader.wrong:
            self.checkpoints.write_all()  # not before all logs are known: it is for all directories
        self._next_ms = {task: now_ms + interval for task, (interval, _) in self._tasks().items()}
        return loader.report

    def close(self) -> None:
        """Shut down cleanly: every log durable, then the checkpoints, then the marker that says so. A
        directory that fails meanwhile is reported, and gets no marker."""
        self._for_each_log(self._close)
        self.checkpoints.write_recovery_points()
        self.checkpoints.write_log_starts()
        self.checkpoints.write_high_watermarks(sync=True)
        for directory, disk in self.disks.items():
            if directory not in self._directories.failing:
                try:
                    disk.write_atomic(os.path.join(directory, CLEAN_SHUTDOWN), clean_shutdown_marker())
                except LogDirectoryError as error:
                    self._directories.report(error)

    def _close(self, log: Log) -> None:
        self.cleaner.forget(log)
        try:
            log.close()
        except LogDirectoryError:
            log.abandon()
            raise

    # Failure

    def fail(self, directory: str, reason: str) -> list[TopicPartition]:
        """Take a directory offline: the partitions that are lost until the next start."""
        if self.disks.pop(directory, None) is None:
            return []
        self.offline[directory] = reason
        self.moves.on_directory_failed(directory)
        directories = self._catalog.directories
        lost = [topic_partition for topic_partition, path in directories.items() if path == directory]
        for topic_partition in lost:
            log = self._catalog.remove(topic_partition)
            self.cleaner.forget(log)
            log.abandon()
            self.lost[topic_partition] = directory
        self._trash.forget(directory)
        return lost

    def _for_each_log(self, run: Callable[[Log], None]) -> None:
        """A directory that fails costs its own logs their turn, and no others."""
        for topic_partition, log in list(self.logs.items()):
            if self.directory_of(topic_partition) not in self._directories.failing:
                try:
                    run(log)
                except LogDirectoryError as error:
                    self._directories.report(error)

    # Partitions

    def get(self, topic_partition: TopicPartition) -> Log | None:
        return self.logs.get(topic_partition)

    def topic_id(self, topic_partition: TopicPartition) -> bytes | None:
        """The topic's id as partition.metadata has it."""
        return self._catalog.topic_ids.get(topic_partition)

    def directory_of(self, topic_partition: TopicPartition) -> str:
        return self._catalog.directories[topic_partition]

    def create(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        now_ms: int,
        *,
        no_configs: bool = False,
    ) -> Log:
        """A new, empty log, in the directory that holds the fewest; in another, if that one fails.
        `no_configs`: nothing is set for its topic, which its folder then says."""
        assert topic_partition not in self.logs, f"{topic_partition} exists"
        if topic_partition in self.checkpoints.stale:
            self.checkpoints.write_all()
        while True:
            sound = self._directories.sound()
            wish = self.moves.wishes.pop(topic_partition, None)
            directory = wish if wish in sound else self._catalog.emptiest(sound)
            folder = os.path.join(directory, str(topic_partition))
            try:
                log = self._catalog.open(
                    self.disks[directory], folder, topic_partition, config, now_ms=now_ms, clean=True
                )
                _write_topic_id(log, topic_id, no_configs=no_configs)
            except LogDirectoryError as error:
                self._directories.report(error)
                if len(sound) == 1:
                    raise
            else:
                self._catalog.put(log, directory, topic_id)
                return log

    def set_topic_id(
        self, topic_partition: TopicPartition, topic_id: bytes, *, no_configs: bool = False
    ) -> None:
        """A crash came before the file was written, or before it was durable."""
        _write_topic_id(self.logs[topic_partition], topic_id, no_configs=no_configs)
        self._catalog.topic_ids[topic_partition] = topic_id

    def delete(self, topic_partition: TopicPartition, now_ms: int) -> None:
        """Forget a partition. A sync of it that is in flight may still come back to the log."""
        directory = self.directory_of(topic_partition)
        self.moves.cancel(topic_partition)
        log = self._catalog.remove(topic_partition)
        self.checkpoints.stale.add(topic_partition)
        self.cleaner.forget(log)
        log.abandon()
        # If a crash undoes this, the partition comes back as one that nobody knows, and is deleted again.
        self._trash.add_folder(log, directory, now_ms, sync=False)

    def _replace(self, new: Log, directory: str, now_ms: int) -> None:
        """Let a log that was copied to another directory take the place of the one that it is a copy of."""
        topic_partition = new.topic_partition
        old_directory, topic_id = self.directory_of(topic_partition), self.topic_id(topic_partition)
        high_watermark = self.high_watermarks.get(topic_partition)
        old = self._catalog.remove(topic_partition)
        self._catalog.put(new, directory, topic_id)
        if high_watermark is not None:
            self.high_watermarks[topic_partition] = high_watermark
        self.checkpoints.stale.add(topic_partition)
        # Its new directory must know what was deleted from it before its old one forgets.
        self.checkpoints.write_log_starts(first=directory)
        self.checkpoints.write_recovery_points()
        self.cleaner.forget(old)
        old.abandon()
        self._trash.add_folder(old, old_directory, now_ms)

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
            if not self.cleaner.on_failed(log, outcome, self.store_config, now_ms):
                return False
            if outcome.errno and outcome.errno not in _CLEANED_LATER:
                error = OSError(outcome.errno, outcome.reason)
                raise LogDirectoryError(os.path.dirname(log.directory), error, log.directory)
            return False
        # What is put in place may have gaps between segments; recovery believes in those below these points.
        self.checkpoints.write_recovery_points()
        if os.path.dirname(log.directory) in self._directories.failing:
            return False
        return self.cleaner.on_cleaned(log, outcome, now_ms) or self._after_cleaning(log, now_ms)

    def on_folder_synced(self, log: Log, now_ms: int) -> bool:
        return self.cleaner.on_folder_synced(log) or self._after_cleaning(log, now_ms)

    def _after_cleaning(self, log: Log, now_ms: int) -> bool:
        """Nothing is lost with this checkpoint but time, so nothing waits for the disk."""
        self._trash.add_segments(log, now_ms)
        self.checkpoints.write_cleaner_offsets(sync=False)
        return False

    # Time

    def on_tick(self, now_ms: int, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Do what is due: retention, expiry of producers, checkpoints, removal of deleted files."""
        self._trash.remove_due(now_ms)
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
            "producer ids": (PRODUCERS_CHECK_MS, self._bound_producers),
            "recovery points": (
                config.recovery_checkpoint_interval_ms,
                lambda _: self.checkpoints.write_due(),
            ),
            "log starts": (
                config.start_checkpoint_interval_ms,
                lambda _: self.checkpoints.write_log_starts(is_later=True),
            ),
            "high watermarks": (
                config.high_watermark_checkpoint_interval_ms,
                lambda _: self.checkpoints.write_high_watermarks(),
            ),
        }

    def _retain(self, now_ms: int) -> None:
        if not self._know_times():
            self._next_ms["retention"] = now_ms + TIMES_LOOK_MS
            return
        self.checkpoints.write_recovery_points()  # what a power cut leaves of these removals is no hole then

        deleted: list[tuple[int, int]] = []

        def retain(log: Log) -> None:
            high_watermark = self.high_watermarks.get(log.topic_partition, log.log_start_offset)
            segments = log.segments.row.copy()
            count = log.delete_old_segments(now_ms + self.wall_offset_ms, high_watermark)
            freed = sum(segment.size for segment in segments[:count])
            self.retention_counts.segments += count
            self.retention_counts.bytes += freed
            self._trash.add_segments(log, now_ms)
            if count:
                deleted.append((count, freed))
                _say_deleted(log, count, freed)

        self._for_each_log(retain)
        if deleted:
            segments, freed = (sum(figures) for figures in zip(*deleted, strict=True))
            logger.info(
                "retention: %d partitions have lost %d segments, %d bytes", len(deleted), segments, freed,
                extra=fields(partitions=len(deleted), segments=segments, bytes=freed),
            )  # fmt: skip

    def _know_times(self) -> bool:
        """How old the oldest segments are is in their indexes, which are not read yet after a start: maybe
        thousands of files, which a worker brings into memory first."""
        unknown = [log.segments[0] for log in self.logs.values() if not log.segments[0].has_times]
        if unknown and self._times is None:
            self._times = Warming([piece for segment in unknown for piece in segment.time_pieces()])
            self._on_chore(self._times)
        if self._times is not None and not self._times.is_done:
            return False
        self._times = None
        return True

    def _expire_producers(self, now_ms: int) -> None:
        for log in self.logs.values():
            log.producers.expire(now_ms + self.wall_offset_ms, self.store_config.producer_id_expiration_ms)

    def _bound_producers(self, now_ms: int) -> None:
        producers = [log.producers for log in self.logs.values()]
        self._producer_limit.enforce(producers, self.store_config.producer_ids_max, now_ms)


def _say_deleted(log: Log, segments: int, freed: int) -> None:
    topic, partition = log.topic_partition
    logger.debug(
        "retention: %s begins at offset %d, without %d segments, %d bytes",
        log.topic_partition, log.log_start_offset, segments, freed,
        extra=fields(
            topic=topic, partition=partition, offset=log.log_start_offset, segments=segments, bytes=freed
        ),
    )  # fmt: skip


def _write_topic_id(log: Log, topic_id: bytes, *, no_configs: bool) -> None:
    path = os.path.join(log.directory, PARTITION_METADATA)
    data = format_partition_metadata(topic_id, no_configs=no_configs)
    log.files.write_atomic(path, data, sync=False)
    log.include_in_sync(path)
