"""The cleaner of a broker's logs: what is being compacted, what comes next, what went wrong.

One cleaning is: a task for a worker (`next_tasks`), its result or error (`on_cleaned`), then the steps of a
swap with a sync of the folder after each (`on_folder_synced`), and at the end the checkpoint. A log that was
cut, deleted or is no longer compacted when the result comes keeps its old files.

Failures: damage in a log takes it off the list until the broker starts again; anything else (no space, a
worker that was killed) is tried again later. Either is counted, and said in `uncleanable`. Other logs go on.
"""

import os.path
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ottla.base.config import LONG_MAX
from ottla.base.ids import TopicPartition
from ottla.log.compaction.policy import Dirt, dirtiest, measure
from ottla.log.compaction.swap import Swap
from ottla.log.compaction.task import CleanFailed, CleanResult, CleanTask, Source
from ottla.log.config import StoreConfig
from ottla.log.log import Log
from ottla.log.recovery import CLEANED
from ottla.log.segment import Segment

_RETRY_BACKOFFS = 10

LastStable = Callable[[Log], int]


@dataclass(slots=True)
class Failure:
    """Why a log is not cleaned. Nothing is tried before `retry_ms`."""

    reason: str
    retry_ms: int


@dataclass(slots=True, kw_only=True)
class Progress:
    """What the cleaner did since the broker started."""

    cleanings: int = 0
    failures: int = 0
    discarded: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    map_utilization_max: float = 0.0
    last_ms: int = 0  # how long the last cleaning took
    looked_ms: int | None = None  # when logs were last looked at, and what the worst of them were then
    dirty_ratio_max: float = 0.0
    delay_ms_max: int = 0


@dataclass(slots=True)
class _Cleaning:
    task: CleanTask
    segments: list[Segment]
    begun_ms: int
    result: CleanResult | None = None
    swap: Swap | None = None
    is_aborted: bool = False

    def abort(self) -> None:
        """The log is about to be cut: what a worker makes of it is of no use any more."""
        self.is_aborted = True
        if self.swap is not None:
            self.swap.cancel()


@dataclass(slots=True)
class Cleaner:
    logs: Mapping[TopicPartition, Log]
    progress: Progress = field(default_factory=Progress)
    uncleanable: dict[TopicPartition, Failure] = field(default_factory=dict)
    _running: dict[Log, _Cleaning] = field(default_factory=dict)
    _looked_ms: int | None = None

    def debt(self, last_stable: LastStable, wall_ms: int) -> list[Dirt]:
        """How dirty every compacted log is that has a closed segment, whether it can be cleaned or not."""
        return [
            measure(log, last_stable(log), wall_ms)
            for log in self.logs.values()
            if len(log.segments) > 1 and log.config.compacts
        ]

    def next_tasks(
        self, config: StoreConfig, last_stable: LastStable, now_ms: int, wall_ms: int
    ) -> Iterator[tuple[Log, CleanTask]]:
        """The cleanings to begin now. Logs are looked at again when one is done, else after a while."""
        looked_ms = self._looked_ms
        if not config.cleaner_enable or (
            looked_ms is not None and now_ms < looked_ms + config.cleaner_backoff_ms
        ):
            return
        self.progress.looked_ms = now_ms
        while len(self._running) < config.cleaner_threads:
            candidates = [
                dirt
                for dirt in self.debt(last_stable, wall_ms)
                if dirt.log.abort_work is None and not self._is_barred(dirt.log, now_ms)
            ]
            self.progress.dirty_ratio_max = max([dirt.ratio for dirt in candidates], default=0.0)
            self.progress.delay_ms_max = max([dirt.delay_ms for dirt in candidates], default=0)
            dirt = dirtiest(candidates)
            if dirt is None:
                break
            task = _task(dirt, config, wall_ms)
            self._running[dirt.log] = cleaning = _Cleaning(task, dirt.segments, now_ms)
            dirt.log.abort_work = cleaning.abort
            yield dirt.log, task
        self._looked_ms = now_ms

    def on_cleaned(self, log: Log, result: CleanResult, now_ms: int) -> bool:
        """A worker is done: begin to put its files into place. True if the folder must be synced now."""
        cleaning = self._running.get(log)
        if cleaning is None:
            return False  # the log was deleted meanwhile
        cleaning.result = result
        self.progress.last_ms = now_ms - cleaning.begun_ms
        cleaning.swap = Swap(log, cleaning.segments, result.groups)
        if cleaning.is_aborted or not log.config.compacts:
            cleaning.swap.cancel()
        return self._go_on(log, cleaning)

    def on_failed(self, log: Log, failed: CleanFailed, config: StoreConfig, now_ms: int) -> bool:
        """A worker could not do it, or died. False if nobody waits for it any more."""
        if self._end(log) is None:
            return False
        for name in log.files.list(log.directory):
            if name.endswith(CLEANED):
                log.files.remove(os.path.join(log.directory, name))
        self.progress.failures += 1
        delay_ms = LONG_MAX if failed.damaged else _RETRY_BACKOFFS * config.cleaner_backoff_ms
        self.uncleanable[log.topic_partition] = Failure(failed.reason, now_ms + delay_ms)
        self._looked_ms = None
        return True

    def on_folder_synced(self, log: Log) -> bool:
        """The next step of a swap. True if it needs a sync again."""
        cleaning = self._running.get(log)
        return cleaning is not None and self._go_on(log, cleaning)

    def forget(self, log: Log) -> None:
        """The log is deleted, or closed."""
        self._end(log)
        self.uncleanable.pop(log.topic_partition, None)

    def _go_on(self, log: Log, cleaning: _Cleaning) -> bool:
        assert cleaning.swap is not None
        assert cleaning.result is not None
        if cleaning.swap.step():
            return True
        self._end(log)
        self._looked_ms = None
        progress, stats = self.progress, cleaning.result.stats
        if cleaning.is_aborted or cleaning.swap.is_discarded:
            progress.discarded += 1
            return False
        log.cleaned_to = cleaning.result.end_offset
        self.uncleanable.pop(log.topic_partition, None)
        progress.cleanings += 1
        progress.bytes_read += stats.bytes_read
        progress.bytes_written += stats.bytes_written
        progress.records_read += stats.records_read
        progress.records_written += stats.records_written
        progress.map_utilization_max = max(progress.map_utilization_max, stats.map_utilization)
        return False

    def _end(self, log: Log) -> _Cleaning | None:
        log.abort_work = None
        return self._running.pop(log, None)

    def _is_barred(self, log: Log, now_ms: int) -> bool:
        failure = self.uncleanable.get(log.topic_partition)
        return failure is not None and now_ms < failure.retry_ms


def _task(dirt: Dirt, config: StoreConfig, wall_ms: int) -> CleanTask:
    log = dirt.log
    memory = config.cleaner_dedupe_buffer_bytes * config.cleaner_dedupe_load_factor
    return CleanTask(
        name=str(log.topic_partition),
        directory=log.directory,
        sources=tuple(
            Source(base_offset=segment.base_offset, size=segment.size) for segment in dirt.segments
        ),
        first_dirty=dirt.first_dirty,
        upper=dirt.upper,
        now_ms=wall_ms,
        segment_bytes=log.config.segment_bytes,
        segment_index_bytes=log.config.segment_index_bytes,
        index_interval_bytes=log.config.index_interval_bytes,
        delete_retention_ms=log.config.delete_retention_ms,
        memory_bytes=int(memory) // config.cleaner_threads,
        read_bytes=config.cleaner_io_buffer_bytes,
        bytes_per_second=config.cleaner_io_bytes_per_second_max / config.cleaner_threads,
        producers=tuple(
            (producer_id, producer.batches[-1].last_offset if producer.batches else -1, producer.epoch)
            for producer_id, producer in log.producers.by_id.items()
        ),
        aborted_beyond=tuple(log.segments.aborted_between(dirt.upper, dirt.upper)),
    )
