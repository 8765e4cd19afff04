"""One segment of a log that is verified: its batches, and its indexes against them.

One walk in reads of 1 MiB. The indexes are compared with the batches on the way, so memory does not grow with
the log. Behind bytes that make no sense, the walk goes on with the next sound batch.

What a broker would do about damage follows `recovery`, and changes with it.
"""

from dataclasses import dataclass
from itertools import pairwise

from ottla.base.errors import ApiError
from ottla.base.files import Buffer, File
from ottla.log.epochs import FILE_NAME, NO_EPOCH, LeaderEpochs
from ottla.log.index import (
    OFFSET_ENTRY_SIZE,
    RELATIVE_OFFSET_MAX,
    TIME_ENTRY_SIZE,
    IndexFileError,
    OffsetIndex,
    TimeIndex,
    read_index,
)
from ottla.log.producers import Producers, marker_of
from ottla.log.recovery import is_hole
from ottla.log.scan import TornError, batches, find_batch, headers
from ottla.log.transaction_index import AbortedTransaction, TransactionIndex
from ottla.log.verify.findings import Finding, Findings, Meaning, Severity, Work
from ottla.records.batch import HEADER_SIZE, MAGIC, BatchHeader, crc_ok, read_header
from ottla.records.check import check_records
from ottla.records.record import open_body

_UNREAD = "the broker does not look there, and readers are answered CORRUPT_MESSAGE"
_SERVED = "the broker does not look there and serves the batch; consumers that check checksums refuse it"
_REBUILT = "it is built anew from the log when it is first needed"
_MISLEADS = "it is not noticed, and a search by time may find the wrong offset"
_SHOWN = "it is not noticed, and consumers that read what is committed only see records that are not"
_HIDDEN = "it is not noticed, and consumers that read what is committed only may not see records that are"
_DIVERGES = "it is not noticed, and a follower may cut its log in the wrong place"


@dataclass(slots=True, kw_only=True)
class Course:
    """What is known of a partition, and how far the walk over its segments has come."""

    clean: bool
    recovery_point: int
    high_watermark: int
    start: int
    epochs: LeaderEpochs
    end: int | None = None  # the next offset; None behind damage
    epoch: int = -1
    gap_offsets: int = 0
    first_gap: tuple[str, int, int, int] | None = None  # file, position, from, to
    cleaned_to: int = 0
    is_expected_to_have_gaps: bool = False  # its cleaner or its name says so
    is_compacted: bool = False  # its batches say so
    producers: Producers | None = None  # who has a transaction open; None behind damage
    meaning: Meaning | None = None


class SegmentCheck:
    """`after` is where the next segment begins, None for the last one."""

    def __init__(self, work: Work, course: Course, path: str, base: int, after: int | None) -> None:
        self.work, self.course, self.path, self.base, self.after = work, course, path, base, after
        self.size = work.files.size(path)
        self.upper = base + RELATIVE_OFFSET_MAX + 1 if after is None else after
        self.index, self.times = OffsetIndex(), TimeIndex()
        self.transactions: TransactionIndex | None = TransactionIndex()  # None if they are built anew
        self.aborts: dict[int, tuple[int, AbortedTransaction | None]] = {}  # by the markers' offsets
        self.at = 0
        self.newest = -1
        self._entry = 0
        self._time = 0
        self._has_times = False

    @property
    def is_last(self) -> bool:
        return self.after is None

    @property
    def is_scanned(self) -> bool:
        """Whether recovery looks at every batch."""
        course = self.course
        return not course.clean and (self.after is None or self.after > course.recovery_point)

    def _is_behind_a_hole(self, end: int) -> bool:
        """What recovery would see; unlike it, this does not know whether the topic is compacted."""
        course = self.course
        dense_from = max(course.recovery_point, course.cleaned_to)
        may_be_compaction = not dense_from and (course.is_expected_to_have_gaps or course.is_compacted)
        return not course.clean and not may_be_compaction and is_hole(end, self.base, dense_from)

    def run(self) -> Findings:
        course = self.course
        self.work.totals.segments += 1
        self.work.totals.bytes += self.size
        yield from self._load_indexes()
        if course.end is not None and (self.base < course.end or self._is_behind_a_hole(course.end)):
            problem = f"it begins at {self.base}, but the segment before it ends with {course.end - 1}"
            fate = "this segment and all behind it are removed"
            if self.base < course.end and not self.is_scanned:
                fate = "it is not noticed, and offsets come twice"
            elif self.base > course.end and not max(course.recovery_point, course.cleaned_to):
                fate += ", unless the topic is compacted"
            yield Finding(Severity.ERROR, self.path, problem, fate, 0, self.base)
            course.end = self.base
        file = self.work.files.open(self.path)
        try:
            while self.at < self.size:
                yield from self._walk(file)
        finally:
            file.close()
        yield from self._rest_of_index()
        yield from self._rest_of_times()
        yield from self._against_transactions()

    def _walk(self, file: File) -> Findings:
        """Check batches up to the end or to the first byte that is none, and find where to go on."""
        course = self.course
        try:
            if self.work.quick:
                for position, header in headers(file, self.at, self.size):
                    yield from self._batch(position, header)
                    self._follow(header, file.read(position, header.size) if header.is_control else b"")
            else:
                for position, header, view in batches(file, self.at, self.size):
                    yield from self._content(file, position, header, view)
                    yield from self._batch(position, header)
                    self._follow(header, view)
        except TornError as torn:
            expected = self.base if course.end is None else course.end
            next_sound = find_batch(file, torn.position + 1, self.size, range(expected, self.upper))
            problem = f"no batch begins here: {torn.reason}"
            if next_sound is not None:
                problem += f"; the next sound one is {next_sound - torn.position} bytes on"
            yield self._damage(torn.position, problem, expected, is_tail=next_sound is None, is_torn=True)
            self._pass(self.size if next_sound is None else next_sound)

    def _pass(self, position: int) -> None:
        """Go on behind damage: what the indexes say of it is neither right nor wrong."""
        self.work.on_read(position - self.at)
        self.at, self.course.end, self.course.producers = position, None, None
        while self._entry < len(self.index) and self.index.positions[self._entry] < position:
            self._entry += 1
        self._time = len(self.times)

    # Batches

    def _content(self, file: File, position: int, header: BatchHeader, view: memoryview) -> Findings:
        offset, after = header.base_offset, position + header.size
        if not crc_ok(view, header):
            if after < self.size and not _begins_batch(file.read(after, HEADER_SIZE), offset):
                raise TornError(self.path, position, "its checksum is wrong, and nothing begins at its end")
            problem = "the checksum of the batch is wrong"
            yield self._damage(position, problem, offset, is_tail=after == self.size, is_torn=False)
            self._mean_nothing(offset, problem)
            return
        try:
            check_records(open_body(view, header), header.count)
            self._mean(header, view)
        except ApiError as error:
            fate = "it is not noticed, and consumers cannot read the batch"
            yield Finding(Severity.ERROR, self.path, _sentence(error), fate, position, offset)
            self._mean_nothing(offset, _sentence(error))

    def _mean(self, header: BatchHeader, view: memoryview) -> None:
        if self.course.meaning is not None:
            self.course.meaning.on_batch(self.path, header, view)

    def _mean_nothing(self, offset: int, problem: str) -> None:
        if self.course.meaning is not None:
            self.course.meaning.on_damage(self.path, offset, problem)

    def _damage(self, position: int, problem: str, offset: int, *, is_tail: bool, is_torn: bool) -> Finding:
        """Bytes that are no sound batch, and what a broker does about them."""
        course = self.course
        if course.clean:
            begin = self.index.positions[-1] if len(self.index) else 0
            is_found = is_torn and self.is_last and position >= begin
        else:
            is_found = self.is_scanned and (is_torn or offset >= course.recovery_point)
        if is_torn and not is_tail and offset < course.recovery_point:
            is_found = False  # what was synced is not cut while something sound comes after the damage
        if not is_found:
            fate = _UNREAD if is_torn else _SERVED
            return Finding(Severity.ERROR, self.path, problem, fate, position, offset)
        fate = f"the log is cut off here, which costs {self.size - position} bytes"
        if not self.is_last:
            fate += " and all segments behind this one"
        severity = Severity.ERROR
        never_promised = offset >= max(course.recovery_point, course.high_watermark)
        if self.is_last and is_tail and not course.clean and never_promised:
            severity, fate = Severity.WARNING, f"{fate}, as after any crash"
        return Finding(severity, self.path, problem, fate, position, offset)

    def _batch(self, position: int, header: BatchHeader) -> Findings:
        """What the header says, against the batches before it and the files beside it."""
        course, totals = self.course, self.work.totals
        totals.batches += 1
        totals.records += max(header.count, 0)
        self.work.on_read(header.size)
        base, last = header.base_offset, header.last_offset
        expected = self.base if course.end is None else course.end
        if base < expected or last >= self.upper:
            problem = f"offsets {base} to {last}, where {expected} to {self.upper - 1} belong"
            yield self._damage(position, problem, base, is_tail=False, is_torn=True)
        elif course.end is not None and base > expected:
            course.gap_offsets += base - expected
            course.first_gap = course.first_gap or (self.path, position, expected, base - 1)
        course.is_compacted |= header.count != header.last_offset_delta + 1
        if header.leader_epoch >= 0:
            yield from self._epoch(position, header)
        yield from self._against_index(position, header)
        yield from self._against_times(header)
        self.at, course.end = position + header.size, max(header.next_offset, expected)

    def _epoch(self, position: int, header: BatchHeader) -> Findings:
        course = self.course
        # The first entry may begin in the middle of a batch, where the log begins.
        epoch, offset = header.leader_epoch, min(max(header.base_offset, course.start), header.last_offset)
        checkpointed = course.epochs.epoch_for(offset)
        if epoch < course.epoch:
            problem = f"leader epoch {epoch} comes after {course.epoch}"
            yield Finding(Severity.ERROR, self.path, problem, _DIVERGES, position, offset)
        elif checkpointed not in (NO_EPOCH, epoch) and not (
            self.is_scanned and offset >= course.recovery_point
        ):
            problem = f"a batch of leader epoch {epoch}, but {FILE_NAME} says {checkpointed}"
            yield Finding(Severity.ERROR, self.path, problem, _DIVERGES, position, offset)
        course.epoch = max(epoch, course.epoch)

    # Transactions

    def _follow(self, header: BatchHeader, batch: Buffer) -> None:
        """Who begins a transaction, and whose is aborted."""
        producers = self.course.producers
        if producers is None or header.producer_id < 0:
            return
        view = memoryview(batch)
        try:
            aborted = producers.replay(header, view)
            marker = marker_of(header, view) if header.is_control and header.count else None
        except ApiError:
            return  # whatever is wrong with the batch was said
        if marker is not None and not marker.committed:
            self.aborts[header.base_offset] = header.producer_id, aborted

    def _against_transactions(self) -> Findings:
        """Every transaction that was aborted is in the index, and nothing else. What compaction took away of
        one may be in it still."""
        if self.course.producers is None or self.transactions is None or self.is_scanned:
            return
        path = self.path_of(".txnindex")
        entries = {entry.last_offset: entry for entry in self.transactions}
        for offset, (_, aborted) in self.aborts.items():
            entry = entries.get(offset)
            if aborted is None or (entry is not None and entry.producer_id != aborted.producer_id):
                continue
            if entry is None or entry.first_offset > aborted.first_offset:
                problem = (
                    f"producer {aborted.producer_id} aborted offsets {aborted.first_offset} to {offset}, "
                    + ("and there is no entry for it" if entry is None else f"not {entry.first_offset}")
                )
                yield Finding(Severity.ERROR, path, problem, _SHOWN, None, aborted.first_offset)
            elif entry.last_stable_offset > aborted.last_stable_offset:
                problem = (
                    f"when offset {offset} was written, {aborted.last_stable_offset} was the last stable "
                    f"offset, not {entry.last_stable_offset}"
                )
                yield Finding(Severity.ERROR, path, problem, _SHOWN, None, entry.first_offset)
        for offset, entry in entries.items():
            if self.aborts.get(offset, (None,))[0] != entry.producer_id:
                problem = f"producer {entry.producer_id} aborted nothing at offset {offset}"
                yield Finding(Severity.ERROR, path, problem, _HIDDEN, None, entry.first_offset)

    # Indexes

    def path_of(self, suffix: str) -> str:
        return self.path.removesuffix(".log") + suffix

    def _load_indexes(self) -> Findings:
        for suffix in (".index", ".timeindex"):
            path = self.path_of(suffix)
            if not self.work.files.exists(path):
                if self.size and not self.is_scanned:
                    yield Finding(Severity.NOTE, path, "the file is missing", _REBUILT)
                continue
            data = b""
            try:
                data = read_index(self.work.files, path, self.size)
                if suffix == ".index":
                    self.index = OffsetIndex.from_bytes(data, self.size)
                else:
                    self.times = TimeIndex.from_bytes(data)
                    self._has_times = True
            except IndexFileError as error:
                position = index_damage(data, suffix, self.size)
                yield Finding(Severity.WARNING, path, str(error), _REBUILT, position)
        self._load_transactions()

    def _load_transactions(self) -> None:
        """Damage was said by whoever looked at the names. Without any index all are built anew."""
        path, files = self.path_of(".txnindex"), self.work.files
        if not files.exists(path):
            self.transactions = TransactionIndex() if files.exists(self.path_of(".index")) else None
            return
        try:
            self.transactions = TransactionIndex.from_bytes(read_index(files, path, self.size), self.base)
        except IndexFileError:
            self.transactions = None

    def _against_index(self, position: int, header: BatchHeader) -> Findings:
        index = self.index
        while self._entry < len(index) and index.positions[self._entry] <= position:
            if index.positions[self._entry] < position:
                yield self._astray("no batch begins there")
            elif index.offsets[self._entry] + self.base < header.base_offset:
                yield self._astray(f"the batch there begins with {header.base_offset}")
            self._entry += 1

    def _rest_of_index(self) -> Findings:
        while self.course.end is not None and self._entry < len(self.index):
            yield self._astray("no batch begins there")
            self._entry += 1

    def _astray(self, why: str) -> Finding:
        offset = self.index.offsets[self._entry] + self.base
        problem = (
            f"it leads to byte {self.index.positions[self._entry]} of the log for offset {offset}, but {why}"
        )
        fate = _REBUILT if self.is_scanned else "it is built anew when a reader is led astray"
        position = self._entry * OFFSET_ENTRY_SIZE
        return Finding(Severity.WARNING, self.path_of(".index"), problem, fate, position, offset)

    def _against_times(self, header: BatchHeader) -> Findings:
        times = self.times
        while self._time < len(times) and times.offsets[self._time] + self.base < header.base_offset:
            yield from self._time_entry()
        self.newest = max(self.newest, header.max_timestamp)
        while self._time < len(times) and times.offsets[self._time] + self.base <= header.last_offset:
            yield from self._time_entry()

    def _time_entry(self) -> Findings:
        """An entry promises that nothing up to its offset is newer than its timestamp."""
        claimed, offset = self.times.timestamps[self._time], self.times.offsets[self._time] + self.base
        if claimed != self.newest:
            problem = f"up to offset {offset} the newest timestamp is {self.newest}, not {claimed}"
            is_harmful = claimed < self.newest and not self.is_scanned
            severity, fate = Severity.ERROR if is_harmful else Severity.WARNING, _MISLEADS
            if self.is_scanned:
                fate = _REBUILT
            position = self._time * TIME_ENTRY_SIZE
            yield Finding(severity, self.path_of(".timeindex"), problem, fate, position, offset)
        self._time += 1

    def _rest_of_times(self) -> Findings:
        """Entries behind the last batch; and whether a closed segment's newest timestamp is in its index."""
        last = self.times.last
        path = self.path_of(".timeindex")
        if self.course.end is None or self.is_scanned or not self._has_times:
            return
        if last is None:
            if self.newest >= 0:
                yield Finding(Severity.NOTE, path, "there is no entry in it", _REBUILT)
            return
        offset = last.offset + self.base
        position = (len(self.times) - 1) * TIME_ENTRY_SIZE
        if self._time < len(self.times):
            problem = f"the last entry is for offset {offset}, which is behind the segment's end"
            yield Finding(Severity.ERROR, path, problem, _MISLEADS, position, offset)
        elif last.timestamp < self.newest:
            problem = f"the last entry has {last.timestamp}, but the newest record {self.newest}"
            fate = "the segment is taken for older than it is, and may be deleted too early"
            yield Finding(Severity.ERROR, path, problem, fate, position, offset)


def index_damage(data: bytes, suffix: str, log_size: int) -> int:
    """Where in an index file the first entry is that cannot be right."""
    size = OFFSET_ENTRY_SIZE if suffix == ".index" else TIME_ENTRY_SIZE
    used = -(-len(data.rstrip(b"\0")) // size) * size
    rows = [(data[at : at + size], at) for at in range(0, min(used, len(data) - size + 1), size)]
    columns = [(row[: size - 4], row[size - 4 :], at) for row, at in rows]
    numbers = [(_signed(first), _signed(second), at) for first, second, at in columns]
    if numbers and min(numbers[0][:2]) < 0:
        return 0
    for (first, second, _), (next_first, next_second, at) in pairwise(numbers):
        is_flat = next_second <= second if suffix == ".index" else next_second < second
        if next_first <= first or is_flat:
            return at
    if suffix == ".index":
        behind = [at for _, position, at in numbers if position >= log_size]
        if behind:
            return behind[0]
    return len(data) - len(data) % size


def _signed(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


def _begins_batch(data: bytes, offset: int) -> bool:
    if len(data) < HEADER_SIZE:
        return False
    header = read_header(data)
    return header.magic == MAGIC and header.size >= HEADER_SIZE and header.base_offset > offset


def _sentence(error: ApiError) -> str:
    text = str(error).rstrip(".")
    return text[:1].lower() + text[1:]
