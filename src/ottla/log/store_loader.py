"""Opening the log directories of a broker: every partition in them, with what the checkpoints say of it.

A directory that cannot be read or written is passed over, and said; only if there is no other is it an error.

A partition may be found twice: its directory was offline while its topic was made anew elsewhere, or a crash
came in the middle of a move between directories. The copy that has the topic's present id counts; of two such
copies, the one that goes further, and the other is removed. It is said in any case.

A folder may hold what no broker made: links, FIFOs, sparse files of any size. Nothing of it is followed or
waited for. Each is named, with what to do; if it is in the place of a partition or of one of its files, that
partition is lost until the next start, and all others are served.
"""

import os.path
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.base.config import override
from ottla.base.files import FOLDER
from ottla.base.ids import TopicPartition
from ottla.log.catalog import Catalog
from ottla.log.checkpoint_format import (
    CHECKPOINTS,
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    CheckpointError,
    read_offsets,
)
from ottla.log.config import LogConfig
from ottla.log.directories import DirectoryFiles, LogDirectoryError
from ottla.log.folders import (
    PLAIN,
    is_deleted_folder,
    is_of_partition,
    misplaced,
    parse_folder,
    parse_future,
)
from ottla.log.log import Log
from ottla.log.partition_metadata import read_topic_id
from ottla.log.recovery import RecoveryReport
from ottla.log.trash import Trash

TopicConfigs = Callable[[str], Mapping[str, str]]
TopicIds = Callable[[str], bytes | None]


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


class LoadCancelledError(Exception):
    """Whoever asked for the logs does not want them any more."""


@dataclass(slots=True)
class LoadProgress:
    """How far the logs are open. Whoever waits for them may look at it and cancel it, from another thread,
    too: one that is cancelled ends before the next log that has to be recovered. (Those of a clean shutdown
    are open in no time, and can be shut down cleanly again.)"""

    remaining: dict[str, int] = field(default_factory=dict)  # partitions, by the directory that is loaded
    opened: int = 0
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def on_opened(self, directory: str) -> None:
        self.opened += 1
        self.remaining[directory] -= 1


class _Source(NamedTuple):
    """A directory that is being loaded. `offsets` is what its checkpoints say, by the name of the file."""

    disk: DirectoryFiles
    clean: bool
    offsets: Mapping[str, Mapping[TopicPartition, int]]


class StoreLoader:
    """Loads the directories of a store into its catalog; used once."""

    def __init__(
        self,
        catalog: Catalog,
        trash: Trash,
        config: LogConfig,
        now_ms: int,
        *,
        topic_configs: TopicConfigs,
        topic_ids: TopicIds,
        progress: LoadProgress,
    ) -> None:
        self.report = StoreReport({}, [], [])
        self.wrong = False  # a checkpoint says more than its log holds, and must not be there when that grew
        self.unfinished_moves: dict[TopicPartition, str] = {}
        self._named: list[tuple[str, set[TopicPartition]]] = []
        self._catalog = catalog
        self._trash = trash
        self._config = config
        self._now_ms = now_ms
        self._topic_configs = topic_configs
        self._topic_ids = topic_ids
        self._progress = progress

    def load(self, disk: DirectoryFiles) -> None:
        """Open every partition of a directory. LogDirectoryError if it cannot be read or written."""
        directory = disk.directory
        try:
            if not disk.exists(directory):
                disk.make_directory(directory)
            self._load(directory, disk)
        except LogDirectoryError:
            self.report.clean.pop(directory, None)
            self._progress.remaining.pop(directory, None)
            raise

    def stale(self) -> set[TopicPartition]:
        """What a checkpoint names that is not, or no longer, in its directory."""
        directories = self._catalog.directories
        return {
            topic_partition
            for directory, named in self._named
            for topic_partition in named
            if directories.get(topic_partition) != directory
        }

    def _load(self, directory: str, disk: DirectoryFiles) -> None:
        marker = os.path.join(directory, CLEAN_SHUTDOWN)
        clean = self.report.clean[directory] = disk.exists(marker)
        offsets = {name: self._read_offsets(disk, directory, name) for name in CHECKPOINTS}
        source = _Source(disk, clean, offsets)
        kinds = disk.kinds(directory)
        self._progress.remaining[directory] = sum(
            kind == FOLDER and parse_folder(name) is not None for name, kind in kinds.items()
        )
        for name in disk.list(directory):
            path, kind = os.path.join(directory, name), kinds.get(name, PLAIN)
            topic_partition = parse_folder(name)
            if (why := misplaced(name, kind)) is not None:
                self._pass_over(topic_partition, directory, f"{path} is {why}")
            elif kind != FOLDER:
                continue
            elif is_deleted_folder(name):
                disk.remove_tree(path)
            elif (moving := parse_future(name)) is not None:
                disk.remove_tree(path)
                self.unfinished_moves[moving] = directory
            elif topic_partition is not None:
                if self._progress.is_cancelled and not clean:
                    raise LoadCancelledError
                self._load_folder(source, path, topic_partition)
                self._progress.on_opened(directory)
        named = {topic_partition for by_partition in offsets.values() for topic_partition in by_partition}
        self._named.append((directory, named))
        if clean:
            disk.remove(marker)
            # Else a power cut could bring it back, and what is appended from now on would not be checked.
            disk.syncable(directory).sync()

    def _load_folder(self, source: _Source, path: str, topic_partition: TopicPartition) -> None:
        disk = source.disk
        for name, kind in sorted(disk.kinds(path).items()):
            is_in_the_way = is_of_partition(name)
            if is_in_the_way or kind != FOLDER:
                what = f"{os.path.join(path, name)} is {kind}"
                self._pass_over(topic_partition if is_in_the_way else None, disk.directory, what)
        if topic_partition in self._catalog.unfit:
            return
        try:
            topic_id = read_topic_id(disk, path)
            if not self._is_stale_copy(topic_partition, topic_id, path):
                log = self._open_log(source, path, topic_partition)
                self._take_in(log, disk.directory, topic_id)
        except LogDirectoryError as error:
            if not error.is_unfit:
                raise
            self._pass_over(topic_partition, disk.directory, f"{error.filename}: {error.strerror}")

    def _pass_over(self, topic_partition: TopicPartition | None, directory: str, what: str) -> None:
        """Something that no broker made, perhaps in the place of a partition."""
        if topic_partition is None:
            self.report.problems.append(f"{what}; it is ignored")
            return
        self._catalog.unfit.add(topic_partition)
        if topic_partition not in self._catalog.logs:
            self._catalog.lost[topic_partition] = directory
        self.report.problems.append(
            f"{what}; it is not opened, and {topic_partition} is not served until it is moved away and the"
            " broker restarts"
        )

    def _open_log(self, source: _Source, path: str, topic_partition: TopicPartition) -> Log:
        offsets = source.offsets
        point = offsets[RECOVERY_POINTS].get(topic_partition, 0)
        start = offsets[LOG_STARTS].get(topic_partition, 0)
        cleaned = offsets[CLEANER_OFFSETS].get(topic_partition, 0)
        watermark = offsets[HIGH_WATERMARKS].get(topic_partition)
        config = override(self._config, self._topic_configs(topic_partition.topic))
        # A log that was ever compacted has a recovery point, or had one that is gone. Nor does an empty
        # cleanup.policy say that it never was.
        may_have_gaps = (config.compacts or not config.deletes) and not point and not cleaned
        log = self._catalog.open(
            source.disk,
            path,
            topic_partition,
            config,
            recovery_point=point,
            clean=source.clean,
            log_start_offset=start,
            dense_from=None if may_have_gaps else max(point, cleaned),
            now_ms=self._now_ms,
        )
        end = log.log_end_offset
        log.cleaned_to = cleaned if cleaned <= end else 0
        if watermark is not None:
            self._catalog.high_watermarks[topic_partition] = min(watermark, end)
        self.wrong |= (
            log.recovery_point < point or log.log_start_offset < start or end < max(cleaned, watermark or 0)
        )
        self.report.logs.append(log.report)
        return log

    def _is_stale_copy(self, topic_partition: TopicPartition, topic_id: bytes | None, path: str) -> bool:
        """Whether the partition was found before, and that copy is of the topic as it is now, unlike this."""
        catalog = self._catalog
        if topic_partition not in catalog.logs:
            return False
        present = self._topic_ids(topic_partition.topic)
        if present is None or topic_id == present or catalog.topic_ids.get(topic_partition) != present:
            return False
        self._ignore(topic_partition, path)
        return True

    def _take_in(self, log: Log, directory: str, topic_id: bytes | None) -> None:
        """Of two copies of a partition, keep the better one."""
        catalog, topic_partition = self._catalog, log.topic_partition
        other = catalog.logs.get(topic_partition)
        if other is None:
            catalog.put(log, directory, topic_id)
            return
        other_id, other_directory = (
            catalog.topic_ids.get(topic_partition),
            catalog.directories[topic_partition],
        )
        is_better = self._rank(log, topic_id) > self._rank(other, other_id)
        worse, where = (other, other_directory) if is_better else (log, directory)
        if is_better:
            catalog.remove(topic_partition)
            catalog.put(log, directory, topic_id)
        worse.abandon()
        self._ignore(topic_partition, worse.directory)
        if topic_id is not None and topic_id == other_id:
            self._trash.add_folder(worse, where, self._now_ms)  # it would be taken for the log one day

    def _rank(self, log: Log, topic_id: bytes | None) -> tuple[bool, int, int, int]:
        present = self._topic_ids(log.topic_partition.topic)
        is_present = present is not None and topic_id == present
        return is_present, log.latest_epoch, log.log_end_offset, log.log_start_offset

    def _ignore(self, topic_partition: TopicPartition, path: str) -> None:
        directory = self._catalog.directories[topic_partition]
        self.report.problems.append(f"{path}: {topic_partition} is also in {directory}; this copy is ignored")

    def _read_offsets(self, disk: DirectoryFiles, directory: str, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(disk, os.path.join(directory, name))
        except CheckpointError as problem:
            self.report.problems.append(str(problem))
            return {}
