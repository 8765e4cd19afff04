"""One partition's folder that is verified: which files are there, the small ones, and all segments."""

import os.path
import re
from collections.abc import Iterator
from itertools import pairwise

from ottla.base.ids import INTERNAL_TOPICS, KRAFT_TOPIC, TopicPartition
from ottla.log import checkpoint_format, epochs, partition_metadata
from ottla.log.config_copy import TOPIC_CONFIG, read_topic_copy
from ottla.log.index import SWAP, IndexFileError
from ottla.log.producer_replay import last_snapshot
from ottla.log.producers import Producers
from ottla.log.recovery import CLEANED, DELETED
from ottla.log.segment import SUFFIXES, file_name
from ottla.log.snapshots import SNAPSHOT, SnapshotError, decode
from ottla.log.transaction_index import ENTRY, TransactionIndex
from ottla.log.verify.findings import Finding, Findings, Severity, Work
from ottla.log.verify.segment import Course, SegmentCheck

_KRAFT_FILES = re.compile(r"quorum-state|\d+-\d+\.checkpoint\Z")
_LEFTOVERS = {
    DELETED: "it is removed",
    CLEANED: "it is removed",
    SWAP: "the compaction that wrote it is finished, or undone if it had not come far enough",
    ".tmp": "it is removed",
}


class PartitionCheck:
    """`end` is where the log ends, once `run` is through; None if that cannot be known."""

    def __init__(
        self, work: Work, path: str, topic_partition: TopicPartition, names: list[str], *, clean: bool
    ) -> None:
        self.work, self.files, self.path, self.clean = work, work.files, path, clean
        self.topic_partition = topic_partition
        self.names = {name: os.path.splitext(name) for name in names}
        self.end: int | None = None
        self.topic_id: bytes | None = None

    def run(self, *, recovery_point: int, high_watermark: int, log_start: int, cleaned_to: int) -> Findings:
        stems = {stem for stem, suffix in self.names.values() if suffix == ".log" and stem.isdigit()}
        bases = sorted(map(int, stems))
        yield from self._names(stems)
        yield from self._metadata()
        yield from self._configs()
        course = Course(
            clean=self.clean,
            recovery_point=recovery_point,
            high_watermark=high_watermark,
            start=max(log_start, bases[0]) if bases else log_start,
            epochs=epochs.LeaderEpochs(self.files, os.path.join(self.path, epochs.FILE_NAME)),
            end=bases[0] if bases else log_start,
            cleaned_to=cleaned_to,
            is_expected_to_have_gaps=bool(cleaned_to) or self.topic_partition.topic in INTERNAL_TOPICS,
            producers=last_snapshot(self.files, self.path, bases[0]) if bases else Producers(),
            meaning=None if self.work.quick else self.work.meanings(self.topic_partition),
        )
        yield from self._epochs(course)
        for base, after in pairwise([*bases, None]):
            if base is not None:
                yield from self._segment(course, base, after)
        self.end = course.end
        if course.meaning is not None:
            yield from course.meaning.findings()
        yield from self._gaps(course)
        if self.end is not None:
            yield from self._late_epochs(course, self.end)
        yield from self._snapshots()

    def _segment(self, course: Course, base: int, after: int | None) -> Findings:
        path = os.path.join(self.path, file_name(base, ".log"))
        try:
            yield from SegmentCheck(self.work, course, path, base, after).run()
        except OSError as error:
            course.end = None
            problem = f"it cannot be read: {error.strerror or error}"
            yield Finding(Severity.ERROR, path, problem, "the broker stops when it has to read it")

    def _names(self, stems: set[str]) -> Findings:
        for name, (stem, suffix) in self.names.items():
            path = os.path.join(self.path, name)
            if suffix in _LEFTOVERS:
                problem = "left by a broker that was stopped at work"
                yield Finding(Severity.NOTE, path, problem, _LEFTOVERS[suffix])
            elif suffix in SUFFIXES and stem.isdigit():
                if stem not in stems:
                    yield Finding(Severity.WARNING, path, "an index without its log", "it is removed")
                elif suffix == ".txnindex":
                    yield from self._transactions(path, int(stem))
            elif not self._is_known(name, stem, suffix):
                yield Finding(Severity.NOTE, path, "nothing that a broker writes", "it is ignored")

    def _is_known(self, name: str, stem: str, suffix: str) -> bool:
        if self.topic_partition.topic == KRAFT_TOPIC and _KRAFT_FILES.match(name):
            return True
        is_snapshot = suffix == SNAPSHOT and stem.isdigit()
        return is_snapshot or name in (partition_metadata.PARTITION_METADATA, epochs.FILE_NAME, TOPIC_CONFIG)

    def _metadata(self) -> Findings:
        path = os.path.join(self.path, partition_metadata.PARTITION_METADATA)
        if partition_metadata.PARTITION_METADATA not in self.names:
            fate = "the partition is taken for one of the topic that has its name"
            yield Finding(Severity.NOTE, path, "the file is missing", fate)
            return
        self.topic_id = partition_metadata.parse_partition_metadata(self.files.read(path))
        if self.topic_id is None:
            yield Finding(Severity.WARNING, path, "it names no topic id", "it is ignored, as if missing")

    def _configs(self) -> Findings:
        if TOPIC_CONFIG in self.names and read_topic_copy(self.files, self.path, self.topic_id) is None:
            path, problem = (
                os.path.join(self.path, TOPIC_CONFIG),
                "it does not say what is set for the topic",
            )
            fate = "it is written again; without a keeper, nothing of the topic is deleted or compacted"
            yield Finding(Severity.WARNING, path, problem, fate)

    def _epochs(self, course: Course) -> Findings:
        path = course.epochs.path
        if not course.epochs.load() and epochs.FILE_NAME in self.names:
            fate = "it is built anew from the batches"
            yield Finding(Severity.WARNING, path, epoch_damage(self.files.read(path)), fate)

    def _late_epochs(self, course: Course, end: int) -> Findings:
        for entry in course.epochs.entries:
            if entry.start_offset > end:
                problem = f"epoch {entry.epoch} begins behind the log's end, which is {end}"
                fate = "the entry is dropped"
                yield Finding(Severity.WARNING, course.epochs.path, problem, fate, None, entry.start_offset)

    def _gaps(self, course: Course) -> Findings:
        if course.first_gap is not None:
            path, position, first, last = course.first_gap
            problem = f"{course.gap_offsets} offsets are missing in this log, the first are {first} to {last}"
            fate = "readers go on behind them; that is right for a compacted topic, and for no other"
            is_right = course.is_expected_to_have_gaps or course.is_compacted
            severity = Severity.NOTE if is_right else Severity.WARNING
            yield Finding(severity, path, problem, fate, position, first)

    def _snapshots(self) -> Findings:
        for name, (stem, suffix) in self.names.items():
            if suffix != SNAPSHOT or not stem.isdigit():
                continue
            path, offset = os.path.join(self.path, name), int(stem)
            try:
                producers = decode(self.files.read(path), offset).by_id
            except SnapshotError as error:
                fate = "it is removed, and the producers are found in the log again"
                yield Finding(Severity.WARNING, path, str(error), fate, 0)
                continue
            ends = (producer.batches[-1].last_offset for producer in producers.values() if producer.batches)
            last = max(ends, default=-1)
            if last >= offset:
                problem = f"a producer in it has written offset {last}, which was not there yet"
                yield Finding(Severity.ERROR, path, problem, "it is believed", None, last)
            elif self.end is not None and offset > self.end:
                problem = f"it is of a time when the log ended with {offset}; now that is {self.end}"
                yield Finding(Severity.NOTE, path, problem, "it is removed", None, offset)

    def _transactions(self, path: str, base: int) -> Findings:
        data, fate = self.files.read(path), "it is built anew from the log when it is first needed"
        try:
            TransactionIndex.from_bytes(data, base)
        except IndexFileError as error:
            for at, (version, _, first, last, stable) in enumerate_entries(data):
                if version != 0 or not base <= last > first >= 0 or stable > last + 1:
                    problem = (
                        f"version {version}, offsets {first} to {last}, stable up to {stable}: that cannot be"
                    )
                    yield Finding(Severity.WARNING, path, problem, fate, at, first)
            yield Finding(Severity.WARNING, path, str(error), fate, len(data) - len(data) % ENTRY.size)


def enumerate_entries(data: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(position, version, producer id, first offset, last offset, last stable offset) of a .txnindex."""
    for at in range(0, len(data) - ENTRY.size + 1, ENTRY.size):
        yield at, ENTRY.unpack_from(data, at)


def epoch_damage(data: bytes) -> str:
    """Why this is no leader-epoch-checkpoint."""
    try:
        lines = checkpoint_format.parse_lines(data.decode())
    except ValueError as error:
        return str(error)
    before = (-1, -1)
    for number, line in enumerate(lines, 3):
        match = re.fullmatch(r"(\d+) (\d+)", line)
        if match is None:
            return f"line {number} is no epoch and offset: {line!r}"
        entry = int(match[1]), int(match[2])
        if entry[0] <= before[0] or entry[1] < before[1]:
            return f"line {number} does not come after the one before it: {line!r}"
        before = entry
    return "it cannot be read"
