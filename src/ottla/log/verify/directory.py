"""Checking data directories that no broker uses: all that is in them is read, nothing is changed.

`verify` yields findings as they come: what is wrong, where, and what a broker would do about it when it
starts. That follows `recovery` and `store`, and changes with them. The topics of a keeper are not looked at:
a folder of a topic that was deleted is checked like any other.
"""

import os.path
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from ottla.base.files import FOLDER, WHOLE_BYTES_MAX, UnfitFileError
from ottla.base.ids import TopicPartition, uuid_text
from ottla.log import checkpoint_format, partition_metadata
from ottla.log.checkpoint_format import CHECKPOINTS
from ottla.log.config_copy import BROKER_CONFIG
from ottla.log.folders import (
    INCARNATION,
    KEEPER_DB,
    LOCK,
    META,
    PLAIN,
    is_of_partition,
    is_set_aside,
    misplaced,
    parse_folder,
)
from ottla.log.segment import SEGMENT_BYTES_MAX
from ottla.log.verify.findings import Finding, Findings, Severity, Work
from ottla.log.verify.partition import PartitionCheck

ALIKE_MAX = 20

_OWN_FILES = {LOCK, INCARNATION, BROKER_CONFIG}
_FILES = {META, checkpoint_format.CLEAN_SHUTDOWN, *CHECKPOINTS, "bootstrap.checkpoint", *_OWN_FILES}
_KEEPER = re.compile(rf"{re.escape(KEEPER_DB)}(-\w+)?\Z")


def verify(work: Work, directories: Sequence[str]) -> Findings:
    """Everything there is to say about directories of one broker, or of several.

    Of many findings that are alike in one file, the first ones are given, and then how many more there are.
    """
    seen: Counter[tuple[str, str]] = Counter()
    last: dict[tuple[str, str], Finding] = {}
    for finding in _verify(work, directories):
        alike = finding.path, re.sub(r"\d+", "#", finding.problem)
        seen[alike] += 1
        if seen[alike] <= ALIKE_MAX:
            yield finding
        else:
            last[alike] = finding
    for alike, finding in last.items():
        problem = f"{seen[alike] - ALIKE_MAX} more of these; the last: {finding.problem}"
        yield finding._replace(problem=problem)


def _verify(work: Work, directories: Sequence[str]) -> Findings:
    checks = [DirectoryCheck(work, path) for path in directories]
    for check in checks:
        yield from check.run()
    first_paths: dict[tuple[str, str, TopicPartition], str] = {}
    topic_ids: dict[tuple[str, str], dict[bytes, str]] = defaultdict(dict)
    for check in checks:
        cluster = check.meta.get("cluster.id", "")
        for topic_partition, path in check.partitions.items():
            first = first_paths.setdefault((cluster, owner_of(check.meta), topic_partition), path)
            if first != path:
                fate = "one of the two is ignored, whatever it holds"
                yield Finding(Severity.ERROR, path, f"the same partition is in {first} as well", fate)
        for topic_partition, (topic_id, path) in check.topic_ids.items():
            paths_by_id = topic_ids[cluster, topic_partition.topic]
            if paths_by_id and topic_id not in paths_by_id:
                other_id, other = next(iter(paths_by_id.items()))
                problem = f"the topic id is {uuid_text(topic_id)}, but {other} says {uuid_text(other_id)}"
                fate = "the one that is not the topic's is taken for a deleted topic's, and is removed"
                yield Finding(Severity.ERROR, path, problem, fate)
            paths_by_id.setdefault(topic_id, path)


class DirectoryCheck:
    def __init__(self, work: Work, path: str) -> None:
        self.work, self.files, self.path = work, work.files, path
        self.clean = work.files.exists(os.path.join(path, checkpoint_format.CLEAN_SHUTDOWN))
        self.meta: dict[str, str] = {}
        self.partitions: dict[TopicPartition, str] = {}
        self.topic_ids: dict[TopicPartition, tuple[bytes, str]] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.offsets: dict[str, dict[TopicPartition, int]] = {}

    def run(self) -> Findings:
        names, kinds = self.files.list(self.path), self.files.kinds(self.path)
        yield from self._meta()
        for name in CHECKPOINTS:
            yield from self._checkpoint(name)
        partitions = {
            name: topic_partition for name in names if (topic_partition := parse_folder(name)) is not None
        }
        if partitions and not self.clean:
            problem = "the broker that used this directory did not shut it down"
            fate = "batches from the recovery points on are checked, and cut off where one is damaged"
            yield Finding(Severity.NOTE, self.path, problem, fate)
        for name in names:
            path = os.path.join(self.path, name)
            if name in (META, *CHECKPOINTS):
                continue  # it was read above
            if (why := misplaced(name, kinds.get(name, PLAIN))) is not None:
                yield self._misplaced(path, name, why, partitions.get(name))
            elif name in partitions:
                yield from self._partition(path, partitions[name])
            else:
                yield from self._other(path, name)
        for name in CHECKPOINTS:
            yield from self._against_logs(name)

    def _partition(self, path: str, topic_partition: TopicPartition) -> Findings:
        names = self.files.list(path)
        self.partitions[topic_partition] = path
        self.work.totals.partitions += 1
        strange = list(self._strange(path, topic_partition))
        yield from strange
        if any(finding.severity is Severity.ERROR for finding in strange):
            return  # nor does a broker look at the rest
        check = PartitionCheck(self.work, path, topic_partition, names, clean=self.clean)
        yield from check.run(
            recovery_point=self.offsets[checkpoint_format.RECOVERY_POINTS].get(topic_partition, 0),
            high_watermark=self.offsets[checkpoint_format.HIGH_WATERMARKS].get(topic_partition, 0),
            log_start=self.offsets[checkpoint_format.LOG_STARTS].get(topic_partition, 0),
            cleaned_to=self.offsets[checkpoint_format.CLEANER_OFFSETS].get(topic_partition, 0),
        )
        if check.end is not None:
            self.ends[topic_partition] = check.end
        if check.topic_id is not None:
            self.topic_ids[topic_partition] = (
                check.topic_id,
                os.path.join(path, partition_metadata.PARTITION_METADATA),
            )

    def _misplaced(self, path: str, name: str, why: str, topic_partition: TopicPartition | None) -> Finding:
        if name in _FILES or _KEEPER.match(name):
            return Finding(Severity.ERROR, path, why, "the broker does not start until it is gone")
        return unfit(path, why, topic_partition)

    def _strange(self, path: str, topic_partition: TopicPartition) -> Findings:
        """What is no plain file in a partition's folder, or claims more bytes than such a file can have."""
        kinds = self.files.kinds(path)
        for name in self.files.list(path):
            at, suffix = os.path.join(path, name), os.path.splitext(name)[1]
            if name in kinds:
                if is_of_partition(name) or kinds[name] != FOLDER:
                    yield unfit(at, kinds[name], topic_partition if is_of_partition(name) else None)
            elif suffix not in (".index", ".timeindex") and is_of_partition(name):
                size, most = self.files.size(at), SEGMENT_BYTES_MAX if suffix == ".log" else WHOLE_BYTES_MAX
                if size > most:
                    yield unfit(at, f"{size} bytes are too many for this file", topic_partition)

    def _other(self, path: str, name: str) -> Findings:
        if is_set_aside(name):
            fate = "it is removed" if name.endswith("-delete") else "it is ignored"
            yield Finding(Severity.NOTE, path, "a partition that was deleted, moved or given up", fate)
        elif name.endswith(".tmp"):
            yield Finding(Severity.NOTE, path, "left by a write that was cut short", "it is ignored")
        elif name not in _FILES and not _KEEPER.match(name):
            yield Finding(Severity.NOTE, path, "nothing that a broker writes", "it is ignored")

    def _meta(self) -> Findings:
        path = os.path.join(self.path, META)
        if not self.files.exists(path):
            fate = "it is written, with the cluster id that the keeper has, or a new one"
            yield Finding(Severity.NOTE, path, "the file is missing", fate)
            return
        try:
            self.meta = read_properties(self.files.read(path))
        except UnfitFileError as error:
            yield Finding(Severity.ERROR, path, str(error.strerror), "the broker does not start")
            return
        if not owner_of(self.meta).isdigit():
            problem = "it does not say whose directory this is (broker.id or node.id)"
            yield Finding(Severity.WARNING, path, problem, "any broker takes the directory for its own")
        if not self.meta.get("cluster.id"):
            fate = "the keeper's is used, or a new one"
            yield Finding(Severity.WARNING, path, "it has no cluster.id", fate)

    def _checkpoint(self, name: str) -> Findings:
        path = os.path.join(self.path, name)
        self.offsets[name] = {}
        try:
            if not self.files.exists(path) or not self.files.size(path):
                return  # Apache Kafka makes them empty, until there is something to say
            self.offsets[name] = checkpoint_format.read_offsets(self.files, path)
        except checkpoint_format.CheckpointError as error:
            problem = str(error).removeprefix(f"{path}: ")
            yield Finding(Severity.WARNING, path, problem, "it is ignored, and found out the slow way")
        except UnfitFileError as error:
            yield Finding(Severity.ERROR, path, str(error.strerror), "the directory is not opened")

    def _against_logs(self, name: str) -> Findings:
        path, offsets = os.path.join(self.path, name), self.offsets[name]
        gone = [topic_partition for topic_partition in offsets if topic_partition not in self.partitions]
        if gone:
            problem = f"{len(gone)} entries are for partitions that are not here, the first for {gone[0]}"
            yield Finding(Severity.NOTE, path, problem, "they are ignored")
        for topic_partition, offset in offsets.items():
            if offset > self.ends.get(topic_partition, offset):
                problem = (
                    f"{topic_partition} has {offset} here, but its log ends with {self.ends[topic_partition]}"
                )
                severity, fate = self._too_high(name)
                yield Finding(severity, path, problem, fate, None, offset)

    def _too_high(self, name: str) -> tuple[Severity, str]:
        match name:
            case checkpoint_format.RECOVERY_POINTS:
                return Severity.ERROR, "the log goes on from its end; what was on disk behind that is lost"
            case checkpoint_format.LOG_STARTS:
                return Severity.ERROR, "all segments are removed, and the log begins there, empty"
            case checkpoint_format.HIGH_WATERMARKS:
                severity = Severity.ERROR if self.clean else Severity.WARNING
                return severity, "the high watermark becomes the log's end; acknowledged records are lost"
        return Severity.WARNING, "the log is cleaned from its start"


def unfit(path: str, what: str, topic_partition: TopicPartition | None) -> Finding:
    """Something that no broker made; in the place of a partition or of one of its files, if one is given."""
    if topic_partition is None:
        return Finding(Severity.NOTE, path, what, "it is ignored")
    return Finding(
        Severity.ERROR, path, what, f"it is not opened, and {topic_partition} is not served until it is gone"
    )


def read_properties(data: bytes) -> dict[str, str]:
    """A properties file as simple as brokers write them."""
    lines = data.decode(errors="replace").splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}


def owner_of(meta: dict[str, str]) -> str:
    return meta.get("node.id", meta.get("broker.id", ""))
