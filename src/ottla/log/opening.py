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
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.config import override
from ottla.base.files import FOLDER
from ottla.base.ids import TopicPartition, is_topic_name
from ottla.log import checkpoint, config_copy, epochs
from ottla.log.checkpoint import CheckpointError
from ottla.log.directories import DirectoryFiles, LogDirectoryError
from ottla.log.log import Log
from ottla.log.recovery import RecoveryReport

if TYPE_CHECKING:
    from ottla.log.store import LogStore

PLAIN = "a plain file"
PARTITION_MAX = (1 << 31) - 1
_FOLDER = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})\Z")
_LOOKS_LIKE_FOLDER = re.compile(r".*-\d+\Z", re.DOTALL)
_DELETED_FOLDER = re.compile(r".+-\d+\.[0-9a-f]{32}-delete\Z")
_FUTURE_FOLDER = re.compile(r"(.+-\d+)\.[0-9a-f]{32}-future\Z")

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


class Opening:
    """Opens the directories of a store; used once."""

    def __init__(
        self, store: "LogStore", now_ms: int, topic_configs: TopicConfigs, topic_ids: TopicIds
    ) -> None:
        self.report = StoreReport({}, [], [])
        self.wrong = False  # a checkpoint says more than its log holds, and must not be there when that grew
        self.unfinished_moves: dict[TopicPartition, str] = {}
        self._named: list[tuple[str, set[TopicPartition]]] = []
        self._store = store
        self._now_ms = now_ms
        self._topic_configs = topic_configs
        self._topic_ids = topic_ids

    def open(self, directory: str) -> None:
        store = self._store
        disk = store.disks[directory]
        try:
            if not disk.exists(directory):
                disk.make_directory(directory)
            self._open(directory, disk)
        except LogDirectoryError as error:
            self.report.clean.pop(directory, None)
            store.fail(directory, str(error))
            if not store.disks:
                raise
            self.report.problems.append(f"{directory} is offline: {error}")

    def stale(self) -> set[TopicPartition]:
        """What a checkpoint names that is not, or no longer, in its directory."""
        store = self._store
        return {
            id
            for directory, ids in self._named
            for id in ids
            if id not in store.logs or store.directory_of(id) != directory
        }

    def _open(self, directory: str, disk: DirectoryFiles) -> None:
        marker = os.path.join(directory, checkpoint.CLEAN_SHUTDOWN)
        clean = self.report.clean[directory] = disk.exists(marker)
        known = {
            name: self._read_offsets(disk, directory, name)
            for name in (
                checkpoint.RECOVERY_POINTS,
                checkpoint.LOG_STARTS,
                checkpoint.CLEANER_OFFSETS,
                checkpoint.HIGH_WATERMARKS,
            )
        }
        kinds = disk.kinds(directory)
        for name in disk.list(directory):
            path, kind = os.path.join(directory, name), kinds.get(name, PLAIN)
            found = parse_folder(name)
            if (why := misplaced(name, kind)) is not None:
                self._pass_over(found, directory, f"{path} is {why}")
            elif kind != FOLDER:
                continue
            elif _DELETED_FOLDER.match(name):
                disk.remove_tree(path)
            elif (moving := parse_future(name)) is not None:
                disk.remove_tree(path)
                self.unfinished_moves[moving] = directory
            elif found is not None:
                self._open_folder(disk, path, found, clean, known)
        self._named.append((directory, {id for offsets in known.values() for id in offsets}))
        if clean:
            disk.remove(marker)
            # Else a power cut could bring it back, and what is appended from now on would not be checked.
            disk.syncable(directory).sync()

    def _open_folder(
        self,
        disk: DirectoryFiles,
        path: str,
        id: TopicPartition,
        clean: bool,
        known: dict[str, dict[TopicPartition, int]],
    ) -> None:
        for name, kind in sorted(disk.kinds(path).items()):
            is_in_the_way = is_of_partition(name)
            if is_in_the_way or kind != FOLDER:
                what = f"{os.path.join(path, name)} is {kind}"
                self._pass_over(id if is_in_the_way else None, disk.directory, what)
        if id in self._store.unfit:
            return
        try:
            topic_id = read_topic_id(disk, path)
            if not self._is_stale_copy(id, topic_id, path):
                self._take_in(self._open_log(disk, path, id, clean, known), disk.directory, topic_id)
        except LogDirectoryError as error:
            if not error.is_unfit:
                raise
            self._pass_over(id, disk.directory, f"{error.filename}: {error.strerror}")

    def _pass_over(self, id: TopicPartition | None, directory: str, what: str) -> None:
        """Something that no broker made, perhaps in the place of a partition."""
        if id is None:
            self.report.problems.append(f"{what}; it is ignored")
            return
        self._store.unfit.add(id)
        if id not in self._store.logs:
            self._store.lost[id] = directory
        self.report.problems.append(
            f"{what}; it is not opened, and {id} is not served until it is moved away and the broker restarts"
        )

    def _open_log(
        self,
        disk: DirectoryFiles,
        path: str,
        id: TopicPartition,
        clean: bool,
        known: dict[str, dict[TopicPartition, int]],
    ) -> Log:
        point, start, cleaned, watermark = (offsets.get(id, 0) for offsets in known.values())
        store = self._store
        config = override(store.config, self._topic_configs(id.topic))
        # A log that was ever compacted has a recovery point, or had one that is gone. Nor does an empty
        # cleanup.policy say that it never was.
        may_have_gaps = (config.compacts or not config.deletes) and not point and not cleaned
        log = Log.open(
            disk,
            path,
            id,
            config,
            recovery_point=point,
            clean=clean,
            log_start_offset=start,
            dense_from=None if may_have_gaps else max(point, cleaned),
            now_ms=self._now_ms,
            on_due=store.on_due,
            on_lowered=store.checkpoints.write_recovery_points,
        )
        end = log.log_end_offset
        log.cleaned_to = cleaned if cleaned <= end else 0
        if id in known[checkpoint.HIGH_WATERMARKS]:
            store.high_watermarks[id] = min(watermark, end)
        self.wrong |= (
            log.recovery_point < point or log.log_start_offset < start or end < max(cleaned, watermark)
        )
        self.report.logs.append(log.report)
        return log

    def _is_stale_copy(self, id: TopicPartition, topic_id: bytes | None, path: str) -> bool:
        """Whether the partition was found before, and that copy is of the topic as it is now, unlike this."""
        if id not in self._store.logs:
            return False
        present = self._topic_ids(id.topic)
        if present is None or topic_id == present or self._store.topic_id(id) != present:
            return False
        self._ignore(id, path, self._store.directory_of(id))
        return True

    def _take_in(self, log: Log, directory: str, topic_id: bytes | None) -> None:
        store, id = self._store, log.topic_partition
        other = store.get(id)
        if other is not None:
            present = self._topic_ids(id.topic)
            ranks = [
                (
                    present is not None and known == present,
                    one.latest_epoch,
                    one.log_end_offset,
                    one.log_start_offset,
                )
                for one, known in ((other, store.topic_id(id)), (log, topic_id))
            ]
            home, known = store.directory_of(id), store.topic_id(id)
            worse, where = (log, directory) if ranks[1] <= ranks[0] else (other, home)
            if worse is other:
                store.remove(id)
                store.put(log, directory, topic_id)
            worse.abandon()
            self._ignore(id, worse.directory, store.directory_of(id))
            if known is not None and known == topic_id:
                store.discard_folder(worse, where, self._now_ms)  # it would be taken for the log one day
            return
        store.put(log, directory, topic_id)

    def _ignore(self, id: TopicPartition, path: str, home: str) -> None:
        self.report.problems.append(f"{path}: {id} is also in {home}; this copy is ignored")

    def _read_offsets(self, disk: DirectoryFiles, directory: str, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoint.read_offsets(disk, os.path.join(directory, name))
        except CheckpointError as problem:
            self.report.problems.append(str(problem))
            return {}


def misplaced(name: str, kind: str) -> str | None:
    """What an entry of a log directory is, if a broker neither makes nor opens such a thing."""
    is_partition = parse_folder(name) is not None
    if kind == FOLDER:
        if is_partition or not _LOOKS_LIKE_FOLDER.match(name):
            return None
        return "a folder with a name that no partition can have"
    if kind == PLAIN:
        return "a plain file with the name of a partition" if is_partition else None
    return kind


def is_of_partition(name: str) -> bool:
    """Whether a name in a partition's folder is, or begins as, that of a file that brokers use."""
    own = (checkpoint.PARTITION_METADATA, epochs.FILE_NAME, config_copy.TOPIC_CONFIG)
    return name[:1].isdigit() or name.startswith(own)


def parse_future(name: str) -> TopicPartition | None:
    """The partition whose move was to end in this folder."""
    match = _FUTURE_FOLDER.match(name)
    return parse_folder(match[1]) if match else None


def read_topic_id(disk: DirectoryFiles, folder: str) -> bytes | None:
    path = os.path.join(folder, checkpoint.PARTITION_METADATA)
    try:
        return checkpoint.parse_partition_metadata(disk.read(path))
    except FileNotFoundError:
        return None


def parse_folder(name: str) -> TopicPartition | None:
    """The partition whose folder this is; topic names may hold dashes, dots and digits themselves."""
    match = _FOLDER.match(name)
    if match is None or not is_topic_name(match[1]) or int(match[2]) > PARTITION_MAX:
        return None
    return TopicPartition(match[1], int(match[2]))
