"""One partition's log: append at the end, read anywhere, forget the head, cut the tail.

Rules: offsets rise; a batch is written whole, with one write to the page cache, and never changed. `append`
is for the leader, which gives offsets and epochs; `append_batches` for a follower, which keeps those of its
leader. What may be acknowledged (`safe_end`) and what is durable (`recovery_point`) is kept by `durability`.

The invariant: log_start_offset <= offsets that can be read < log_end_offset, and the last of `segments` is
the only one that is written. `segment_list` keeps them, and their files.
"""

import os.path
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple
from zlib import crc32

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import Files
from ottla.base.ids import TopicPartition
from ottla.base.weakly import weakly
from ottla.log.cold import Warmth
from ottla.log.config import LogConfig
from ottla.log.directories import failure_of
from ottla.log.durability import Durability, Sync
from ottla.log.epochs import LeaderEpochs
from ottla.log.index import RELATIVE_OFFSET_MAX
from ottla.log.producer_replay import restore_producers, snapshot_offsets
from ottla.log.producers import Producers
from ottla.log.recovery import Loaded, Loader, RecoveryReport
from ottla.log.retention import deletable
from ottla.log.segment import Segment, file_name
from ottla.log.segment_list import SegmentList
from ottla.log.segment_reader import Read, read
from ottla.log.snapshots import SNAPSHOT, encode
from ottla.log.time_search import TimestampedOffset, Walk, offset_for_timestamp
from ottla.log.transaction_index import AbortedTransaction
from ottla.log.validation import Checked, Judge, Validator, check_replicated
from ottla.records.batch import LOG_APPEND_TIME, BatchHeader, assign
from ottla.records.check import Budget
from ottla.records.control import Marker, build_marker

ABORTED_MAX = 2_000  # transactions that a read names


class Appended(NamedTuple):
    """Where a batch is in the log; `log_append_time_ms` is -1 where records keep their producer's time."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool


class Log:
    __slots__ = (
        "__weakref__", "_durability", "_on_lowered", "_roll_ms", "_segment_bytes", "_snapshot_at",
        "_validator", "abort_work", "cleaned_to", "config", "directory", "epochs", "files", "log_end_offset",
        "log_start_offset", "producers", "report", "segments", "topic_partition",
    )  # fmt: skip

    def __init__(
        self,
        files: Files,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        loaded: Loaded,
        *,
        now_ms: int,
        on_due: Callable[["Log", int], None] | None = None,
        on_lowered: Callable[[], None] | None = None,
    ) -> None:
        self.files = files
        self.directory = directory
        self.topic_partition = topic_partition
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.producers: Producers = loaded.producers
        self.producers.restored_ms = now_ms
        self.epochs: LeaderEpochs = loaded.epochs
        self.report: RecoveryReport = loaded.report
        self.cleaned_to = 0  # compaction has seen all below this
        self.abort_work: Callable[[], None] | None = None  # set while it is being compacted, or copied
        self._snapshot_at = loaded.snapshot_at
        self._on_lowered = on_lowered
        told = weakly(self, on_due) if on_due else lambda _due_ms: None
        self._durability = Durability(loaded.recovery_point, config, told)
        self.segments = SegmentList(files, directory, loaded.segments, self._durability)
        self.epochs.watch(
            weakly(self, lambda log: log.include_in_sync(log.epochs.path, directory, urgent=False))
        )
        self.on_config(config, now_ms)
        self._include_unsynced()

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        recovery_point: int = 0,
        clean: bool = False,
        log_start_offset: int = 0,
        dense_from: int | None = None,
        now_ms: int,
        on_due: Callable[["Log", int], None] | None = None,
        on_lowered: Callable[[], None] | None = None,
    ) -> "Log":
        """Open a partition's folder, or make it. `report` says what had to be repaired.

        `dense_from`: compaction left no gaps between segments after this offset; None if nobody knows.
        `on_due(log, due_ms)` is called when `next_sync` should be asked at `due_ms`; 0 is at once.
        `on_lowered()` is called when the recovery point went back, and must make that durable before it
        returns: else recovery would not check what is written from then on.
        """
        loader = Loader(
            files, directory, topic_partition, config, recovery_point=recovery_point, clean=clean,
            log_start_offset=log_start_offset, now_ms=now_ms, dense_from=dense_from,
        )  # fmt: skip
        return cls(
            files, directory, topic_partition, config, loader.load(),
            now_ms=now_ms, on_due=on_due, on_lowered=on_lowered,
        )  # fmt: skip

    # What it knows

    @property
    def recovery_point(self) -> int:
        return self._durability.recovery_point

    @property
    def safe_end(self) -> int:
        """The end offset up to which records may be acknowledged."""
        return self._durability.safe_end(self.log_end_offset)

    @property
    def active(self) -> Segment:
        return self.segments.active

    @property
    def deleted(self) -> list[str]:
        """The files of segments that are gone, to be removed."""
        return self.segments.deleted

    @property
    def size(self) -> int:
        return self.segments.size

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest

    def last_stable_offset(self, high_watermark: int) -> int:
        """What a read_committed consumer may see: all before the oldest transaction that is still open. What
        was deleted of one holds nothing back."""
        unstable = self.producers.first_unstable_offset(high_watermark)
        if unstable is None or unstable >= high_watermark:
            return high_watermark
        return max(unstable, self.log_start_offset)

    # Writing

    def append(
        self,
        batch: memoryview | Checked,
        *,
        leader_epoch: int,
        now_ms: int,
        wall_ms: int | None = None,
        produce_version: int = 13,
        internal: bool = False,
        budget: Budget | None = None,
        judge: Judge | None = None,
    ) -> Appended:
        """Append the one batch of a records field as leader; it must be writable and is changed.

        `wall_ms` is the time of day, which records carry and are judged by; `now_ms`, if that is not given.
        `internal` is for batches of this broker's own: coordinators' records and transaction markers.
        """
        time_ms = now_ms if wall_ms is None else wall_ms
        view, header = self._validator.check(
            batch, time_ms, produce_version, internal=internal, budget=budget, judge=judge
        )
        has_producer = header.producer_id >= 0
        if has_producer:
            if internal:
                if header.is_control:
                    self._prepare_marker(header)  # which `append_marker` has checked
                else:
                    self.producers.check_internal(header)
            elif (earlier := self.producers.check(header, now_ms)) is not None:
                stamp = earlier.timestamp if header.is_log_append_time else -1
                return Appended(earlier.base_offset, earlier.last_offset, stamp, self.log_start_offset, True)
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        timestamp = header.max_timestamp
        segment = self.segments.active
        if segment.must_roll(len(view), last_offset, timestamp, now_ms, self._roll_ms, self._segment_bytes):
            segment = self.roll(now_ms)
        assign(view, base_offset, leader_epoch)
        if leader_epoch != self.epochs.settled:
            self.epochs.assign(leader_epoch, base_offset)
        segment.append(view, last_offset, timestamp)
        self.log_end_offset = end = last_offset + 1
        if has_producer:
            aborted = self.producers.replay(header._replace(base_offset=base_offset), view, now_ms)
            if aborted is not None:
                self.segments.add_aborted(aborted)
        if end >= self._durability.flush_at:
            self._durability.on_append(base_offset, end, now_ms)
        stamp = timestamp if header.attributes & LOG_APPEND_TIME else -1
        return tuple.__new__(Appended, (base_offset, last_offset, stamp, self.log_start_offset, False))

    def append_marker(self, marker: Marker, *, leader_epoch: int, now_ms: int, wall_ms: int) -> Appended:
        """End a producer's transaction, as leader. One that was ended already is not ended again: its marker
        is somewhere before the end of the log."""
        if self.producers.check_marker(marker):
            last_offset = self.log_end_offset - 1
            return Appended(last_offset, last_offset, -1, self.log_start_offset, True)
        batch = memoryview(build_marker(*marker[:4], wall_ms))
        return self.append(batch, leader_epoch=leader_epoch, now_ms=now_ms, wall_ms=wall_ms, internal=True)

    def append_batches(self, view: memoryview, now_ms: int) -> Appended:
        """Append batches as they are, as follower. Offsets must go on where the log ends, or later."""
        checked = check_replicated(view, self.log_end_offset)
        for header, batch in checked:
            self._append_as_is(header, batch, now_ms)
        first_offset = checked[0][0].base_offset if checked else -1
        return Appended(first_offset, self.log_end_offset - 1, -1, self.log_start_offset, False)

    def _prepare_marker(self, header: BatchHeader) -> None:
        """Read what must be known to take in the end of a transaction, so that nothing fails behind it."""
        if header.is_control:
            self.segments.transactions_of(self.segments.active)

    def _append_as_is(self, header: BatchHeader, batch: memoryview, now_ms: int) -> None:
        self._prepare_marker(header)
        segment = self.segments.active
        if segment.must_roll(
            len(batch), header.last_offset, header.max_timestamp, now_ms, self._roll_ms, self._segment_bytes
        ) or (not segment.size and header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX):
            is_near = header.last_offset - self.log_end_offset <= RELATIVE_OFFSET_MAX
            segment = self.roll(now_ms, self.log_end_offset if is_near else header.base_offset)
        if header.leader_epoch != self.epochs.settled:
            self.epochs.assign(header.leader_epoch, header.base_offset)
        segment.append(batch, header.last_offset, header.max_timestamp)
        self.log_end_offset = header.next_offset
        if (aborted := self.producers.replay(header, batch, now_ms)) is not None:
            self.segments.add_aborted(aborted)
        if self.log_end_offset >= self._durability.flush_at:
            self._durability.on_append(header.base_offset, self.log_end_offset, now_ms)

    def assign_epoch(self, leader_epoch: int) -> None:
        """This replica leads in a new epoch, from here on, whether or not anything will be written in it."""
        self.epochs.begin(leader_epoch, self.log_end_offset)

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Close the active segment and begin a new one at the log's end; one that is empty is replaced."""
        base_offset = self.log_end_offset if base_offset is None else base_offset
        old = self.active
        if old.size:
            old.save_indexes()
            self._durability.add(old.path(), old.file)
            self.include_in_sync(old.path(".index"), old.path(".timeindex"))
            self._include_aborted(old)
            self._take_snapshot()
        elif old.base_offset == base_offset:
            return old
        else:
            self.segments.drop_from(len(self.segments) - 1)
        try:
            self._begin_segment(base_offset, now_ms)
        except OSError as error:  # without the old one nothing is left to write to, whatever the reason
            raise error if old.size else failure_of(self.files, error) from None
        if old.size:
            self.segments.keep_open(old)
        return self.active

    def _begin_segment(self, base_offset: int, now_ms: int) -> None:
        self.segments.begin(base_offset, self.config, now_ms)
        self._set_roll_ms()
        self.include_in_sync(self.directory)

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, end: int, at_least_one: bool = True,
        warmth: Warmth | None = None,
    ) -> Read:  # fmt: skip
        """Whole batches from the one that contains `offset`, below `end`, about `max_bytes` at most.

        A first batch that is larger than `max_bytes` comes whole if `at_least_one`, else not at all. Who
        must not wait for the disk gives `warmth` (`log/cold`).
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise self._out_of_range(offset)
        if end > self.log_end_offset:
            end = self.log_end_offset
        if offset >= end or (max_bytes <= 0 and not at_least_one):
            return Read(b"", offset)
        active = self.segments.active
        if offset < active.base_offset:
            result = self.segments.read_closed(offset, max_bytes, end, at_least_one, warmth)
            if result is not None:
                return result
        return read(active, offset, max_bytes, end, self.log_end_offset, at_least_one, warmth)

    def read_committed(
        self, offset: int, max_bytes: int, *, end: int, at_least_one: bool = True,
        warmth: Warmth | None = None,
    ) -> tuple[Read, list[AbortedTransaction]]:  # fmt: skip
        """As `read`, up to the last stable offset, and which of the transactions in it were aborted. A read
        ends early rather than to name very many."""
        result = self.read(offset, max_bytes, end=end, at_least_one=at_least_one, warmth=warmth)
        has_any = bool(result.records)
        aborted = self.segments.aborted_between(offset, result.next_offset, warmth) if has_any else []
        if len(aborted) > ABORTED_MAX:
            begun = sorted(transaction.first_offset for transaction in aborted)
            upper = next((first for first in begun[ABORTED_MAX:] if first > offset), end)
            shorter = self.read(offset, max_bytes, end=upper, at_least_one=at_least_one, warmth=warmth)
            if shorter.records:
                begun_before = [transaction for transaction in aborted if transaction.first_offset < upper]
                return shorter, begun_before
        return result, aborted

    def bytes_between(self, offset: int, end: int, warmth: Warmth | None = None) -> int:
        """About how many bytes a read from `offset` to `end` would give; never 0 if it would give any."""
        offset, end = max(offset, self.log_start_offset), min(end, self.log_end_offset)
        return self.segments.bytes_between(offset, end, warmth) if offset < end else 0

    def offset_for_timestamp(
        self, time: int, done: Sequence[Walk] | None = None, warmth: Warmth | None = None
    ) -> TimestampedOffset | None:
        """The first record that is at least as new as `time`. For `done` see `time_search`."""
        return offset_for_timestamp(self.segments.row, time, self.log_start_offset, done, warmth)

    # Forgetting

    def delete_old_segments(self, now_ms: int, high_watermark: int) -> int:
        """Apply retention: how many segments went. Their files stay as `.deleted`, listed in `deleted`.

        A log that is being cleaned or copied keeps its files until that is done.
        """
        if self.abort_work is not None:
            return 0
        count = deletable(
            self.segments.row,
            self.config,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=high_watermark,
            now_ms=now_ms,
        )
        if not count:
            return 0
        if count == len(self.segments):
            self.roll(now_ms)
        self.segments.drop_first(count)
        self.advance_log_start(max(self.log_start_offset, self.segments.bases[0]))
        return count

    def advance_log_start(self, offset: int) -> None:
        """Records below `offset` are gone for readers (DeleteRecords); their segments go with retention."""
        if offset > self.log_end_offset:
            raise self._out_of_range(offset)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Remove the batch that holds `offset` and all after it; False if there is nothing to remove."""
        if offset >= self.log_end_offset:
            # A broker that led and wrote nothing has an epoch that begins here, and no other log has it.
            self.epochs.truncate_from_end(self.log_end_offset)
            return False
        if offset < self.segments.bases[0]:
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        self._abort_work()
        self.segments.drop_from(bisect_right(self.segments.bases, offset))
        self.log_end_offset = end = self.segments.reopen_last().truncate(offset)
        self.log_start_offset = min(self.log_start_offset, end)
        self.segments.transactions_of(self.active).truncate(end)
        self._truncated(end)
        self.epochs.truncate_from_end(end)
        self._snapshot_at = -1
        names, start = self.files.list(self.directory), self.log_start_offset
        self.producers, _ = restore_producers(
            self.files, self.directory, names, self.segments.row, start, end
        )
        self.producers.restored_ms = now_ms
        self.include_in_sync(self.directory, urgent=False)  # or snapshots of what was cut may come back
        self._set_roll_ms()
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Forget everything; the next offset is `offset`."""
        self._abort_work()
        self.segments.drop_from(0)
        for snapshot in snapshot_offsets(self.files.list(self.directory)):
            self.files.remove(os.path.join(self.directory, file_name(snapshot, SNAPSHOT)))
        self.log_start_offset = self.log_end_offset = offset
        self._begin_segment(offset, now_ms)
        self._truncated(offset)
        self.epochs.clear()
        self.producers.clear(offset)
        self._snapshot_at = -1

    def _abort_work(self) -> None:
        if self.abort_work is not None:
            self.abort_work()

    def _truncated(self, offset: int) -> None:
        self.cleaned_to = min(self.cleaned_to, offset)
        if self._durability.on_truncated(offset) and self._on_lowered is not None:
            self._on_lowered()

    # Keeping

    def next_sync(self, now_ms: int) -> Sync | None:
        """What a worker thread should sync now, if anything; then comes `on_synced`. One at a time."""
        end, active = self.log_end_offset, self.active
        return self._durability.next(now_ms, end, active.base_offset, self.segments.active_file)

    def on_synced(self, sync: Sync, now_ms: int) -> None:
        self._durability.on_synced(sync, self.log_end_offset, now_ms)

    def on_sync_failed(self) -> None:
        self._durability.on_sync_failed()

    def flush(self) -> None:
        """Make everything durable now, in the caller's thread."""
        self._durability.flush(self.log_end_offset, self.segments.active_file)

    def on_config(self, config: LogConfig, now_ms: int) -> None:
        self.config = config
        self._validator = Validator(config)
        self._segment_bytes = config.segment_bytes
        self.active.configure(config)
        self._set_roll_ms()
        self._durability.configure(config, self.log_end_offset, now_ms)

    def close(self) -> None:
        """Shut down cleanly: everything durable, indexes and producers written."""
        if self.active.save_indexes():  # the next start believes this file, or that there is none
            self._include_aborted(self.active)
            self.include_in_sync(self.directory)
        self._take_snapshot()
        self.flush()
        self.abandon()

    def abandon(self) -> None:
        """Close the files and nothing else: the folder is to be deleted, or its disk is broken."""
        self.segments.close()
        self._durability.abandon()

    def _take_snapshot(self) -> None:
        end = self.log_end_offset
        if self._snapshot_at == end or (end == self.segments.bases[0] and not self.producers.by_id):
            return  # there is one already, or nothing that it would save anybody from replaying
        path = os.path.join(self.directory, file_name(end, SNAPSHOT))
        self.files.write_atomic(path, encode(self.producers), sync=False)
        self._snapshot_at = end
        self.include_in_sync(path)

    def include_in_sync(self, *paths: str, urgent: bool = True) -> None:
        """Have the next sync make these files and folders durable too."""
        for path in paths:
            self._durability.add(path, self.files.syncable(path), urgent=urgent)

    def _include_unsynced(self) -> None:
        """What a crash may have left in memory: names, epochs, closed segments above the recovery point."""
        if self.report.created or not self.report.clean:
            self.include_in_sync(self.epochs.path, self.directory, os.path.dirname(self.directory))
        for segment, upper in zip(self.segments, self.segments.bases[1:], strict=False):
            if upper > self.recovery_point:
                self.include_in_sync(segment.path())
                self._include_aborted(segment)

    def _include_aborted(self, segment: Segment) -> None:
        if segment.may_have_aborted:
            self.include_in_sync(segment.path(".txnindex"))

    def _set_roll_ms(self) -> None:
        jitter = min(self.config.segment_jitter_ms, self.config.segment_ms)
        # Something that differs between partitions and segments, and not between two runs.
        spread = crc32(self.active.path().encode()) % jitter if jitter else 0
        self._roll_ms = self.config.roll_ms - spread

    def _out_of_range(self, offset: int) -> ApiError:
        return ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Offset {offset} of {self.topic_partition} is outside of "
            f"[{self.log_start_offset}, {self.log_end_offset}].",
        )
