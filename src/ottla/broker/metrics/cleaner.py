"""How compaction gets on. Names and units are those of Kafka's cleaner where it has the same."""

from collections.abc import Callable, Iterator

from ottla.base.metrics import Family, Sample, counter, gauge
from ottla.log.log import Log
from ottla.log.store import LogStore


class CleanerMetrics:
    MAX_DIRTY = gauge(
        "kafka_log_logcleanermanager_max_dirty_percent",
        "How much of the dirtiest log is not compacted, when logs were last looked at.",
    )
    SINCE_LAST_RUN = gauge(
        "kafka_log_logcleanermanager_time_since_last_run_ms",
        "Time since logs were last looked at for what to compact.",
    )
    UNCLEANABLE = gauge(
        "kafka_log_logcleanermanager_uncleanable_partitions_count",
        "Logs that could not be compacted.",
        "logDirectory",
    )
    UNCLEANABLE_BYTES = gauge(
        "kafka_log_logcleanermanager_uncleanable_bytes",
        "Bytes in these logs that no compaction has seen, but for the segment that is being written.",
        "logDirectory",
    )
    BUFFER_USE = gauge(
        "kafka_log_logcleaner_max_buffer_utilization_percent",
        "How full the table of keys was at most.",
    )
    RECOPY = gauge(
        "kafka_log_logcleaner_cleaner_recopy_percent",
        "How much of what was read was written again, in all compactions.",
    )
    CLEAN_TIME = gauge(
        "kafka_log_logcleaner_max_clean_time_secs", "How long the last compaction took, in seconds."
    )
    DELAY = gauge(
        "kafka_log_logcleaner_max_compaction_delay_secs",
        "For how long something has been older than max.compaction.lag.ms, when logs were last looked at.",
    )
    CLEANINGS = counter(
        "ottla_log_cleanings_total",
        "Compactions of logs: done, failed, or discarded as the log was cut or deleted meanwhile.",
        "result",
    )
    READ_BYTES = counter("ottla_log_cleaner_read_bytes_total", "Bytes read by compactions.")
    WRITTEN_BYTES = counter("ottla_log_cleaner_written_bytes_total", "Bytes written by compactions.")
    READ_RECORDS = counter("ottla_log_cleaner_read_records_total", "Records read by compactions.")
    WRITTEN_RECORDS = counter("ottla_log_cleaner_written_records_total", "Records that compactions kept.")

    def __init__(self, store: LogStore) -> None:
        self._store = store

    def read(self, now_ms: int) -> Iterator[Family]:
        progress = self._store.cleaner.progress
        yield self.MAX_DIRTY, [((), int(100 * progress.dirty_ratio_max))]
        looked_ms = progress.looked_ms
        yield self.SINCE_LAST_RUN, [] if looked_ms is None else [((), now_ms - looked_ms)]
        yield self.UNCLEANABLE, self._uncleanable(lambda _log: 1)
        yield self.UNCLEANABLE_BYTES, self._uncleanable(_dirty_bytes)
        yield self.BUFFER_USE, [((), int(100 * progress.map_utilization_max))]
        yield self.RECOPY, [((), 100 * progress.bytes_written // max(progress.bytes_read, 1))]
        yield self.CLEAN_TIME, [((), progress.last_ms / 1_000)]
        yield self.DELAY, [((), progress.delay_ms_max // 1_000)]
        yield (
            self.CLEANINGS,
            [
                (("done",), progress.cleanings),
                (("failed",), progress.failures),
                (("discarded",), progress.discarded),
            ],
        )
        yield self.READ_BYTES, [((), progress.bytes_read)]
        yield self.WRITTEN_BYTES, [((), progress.bytes_written)]
        yield self.READ_RECORDS, [((), progress.records_read)]
        yield self.WRITTEN_RECORDS, [((), progress.records_written)]

    def _uncleanable(self, value: Callable[[Log], int]) -> list[Sample]:
        sums = dict.fromkeys(self._store.directories, 0)
        for topic_partition in self._store.cleaner.uncleanable:
            log = self._store.get(topic_partition)
            if log is not None:
                sums[self._store.directory_of(topic_partition)] += value(log)
        return [((directory,), total) for directory, total in sums.items()]


def _dirty_bytes(log: Log) -> int:
    return sum(segment.size for segment in log.segments[:-1] if segment.base_offset >= log.cleaned_to)
