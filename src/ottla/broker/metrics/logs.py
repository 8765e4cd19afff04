"""The logs of this broker, their directories, and what retention takes away."""

from collections.abc import Callable, Iterator
from itertools import chain

from ottla.base.metrics import Family, Sample, counter, gauge, histogram
from ottla.broker.metrics.label_limits import OTHERS, LabelLimits
from ottla.broker.storage import Storage
from ottla.log.log import Log


class LogMetrics:
    SIZE = gauge("kafka_log_log_size", "Bytes of a partition's log on this broker.", "topic", "partition")
    SEGMENTS = gauge("kafka_log_log_numlogsegments", "Segments of a log.", "topic", "partition")
    START = gauge("kafka_log_log_logstartoffset", "The first offset of a log.", "topic", "partition")
    END = gauge("kafka_log_log_logendoffset", "The offset that a log gives next.", "topic", "partition")
    FLUSHES = counter("kafka_log_logflushstats_logflushrateandtimems_count", "Syncs of logs to their disks.")
    FLUSH_TIMES = histogram("ottla_log_flush_seconds", "How long syncs of logs to their disks took.")
    OFFLINE_DIRECTORIES = gauge(
        "kafka_log_logmanager_offlinelogdirectorycount", "Log directories that have failed."
    )
    IS_OFFLINE = gauge(
        "kafka_log_logmanager_logdirectoryoffline", "1 if a log directory has failed.", "logDirectory"
    )
    LOST = gauge("ottla_log_lost_partitions", "Partitions that are lost with failed log directories.")
    DELETED_SEGMENTS = counter(
        "ottla_log_retention_deleted_segments_total", "Segments that retention has deleted."
    )
    DELETED_BYTES = counter("ottla_log_retention_deleted_bytes_total", "Bytes of these segments.")

    def __init__(self, storage: Storage, limits: LabelLimits) -> None:
        self._storage = storage
        self._limits = limits

    def read(self, now_ms: int) -> Iterator[Family]:  # noqa: ARG002 - as every source
        storage, store = self._storage, self._storage.store
        labels, logs = self._limits.rows(store.logs)

        def samples(value: Callable[[Log], int]) -> Iterator[Sample]:
            return zip(labels, map(value, logs), strict=True)

        yield self.SIZE, chain(samples(_size), self._others(_size))
        yield self.SEGMENTS, chain(samples(_segments), self._others(_segments))
        yield self.START, samples(lambda log: log.log_start_offset)
        yield self.END, samples(lambda log: log.log_end_offset)
        yield self.FLUSHES, [((), sum(storage.flush_times.counts))]
        yield self.FLUSH_TIMES, [((), storage.flush_times)]
        yield self.OFFLINE_DIRECTORIES, [((), len(store.offline))]
        yield self.IS_OFFLINE, [((path,), int(path in store.offline)) for path in store.directories]
        yield self.LOST, [((), len(store.lost))]
        yield self.DELETED_SEGMENTS, [((), store.retention_counts.segments)]
        yield self.DELETED_BYTES, [((), store.retention_counts.bytes)]

    def _others(self, value: Callable[[Log], int]) -> Iterator[Sample]:
        """The logs of topics that have no series of their own, together."""
        if self._limits.has_partitions and self._limits.has_others:
            logs = list(self._storage.store.logs.values())
            has_own = self._limits.has_own
            yield (OTHERS, ""), sum(value(log) for log in logs if not has_own(log.topic_partition.topic))


def _size(log: Log) -> int:
    return log.size


def _segments(log: Log) -> int:
    return len(log.segments)
