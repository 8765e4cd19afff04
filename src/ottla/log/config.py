"""The configuration of logs: what a topic may set (`LogConfig`), and what only a broker may (`StoreConfig`).

One row per key, with Kafka's names and defaults. A topic's config is the broker's with the topic's keys laid
over it (`base.config.override`); a `Log` receives the result and a new one whenever it changes.

Left out: remote.* and local.retention.* (no tiered storage).
"""

from dataclasses import dataclass

from ottla.base.config import LONG_MAX, ConfigType, at_least, between, key, one_of

HOUR_MS = 3_600_000
LONG = ConfigType.LONG
DOUBLE_MAX = 1.7976931348623157e308


def _gzip_level(value: int) -> str | None:
    return None if value == -1 or 1 <= value <= 9 else "must be -1 or between 1 and 9"


def _cleanup_policy(value: tuple[str, ...]) -> str | None:
    """An empty list is legal (KIP-1161)."""
    return one_of("delete", "compact")(value) if value else None


def _throttled(value: tuple[str, ...]) -> str | None:
    if value == ("*",):
        return None
    parts = [part.split(":") for part in value]
    if all(len(part) == 2 and part[0].isdigit() and part[1].isdigit() for part in parts):
        return None
    return "must be '*' or a list of partition:broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    segment_bytes: int = key(
        "log.segment.bytes", 1 << 30, "Roll a segment before it grows past this size.",
        check=at_least(14), topic="segment.bytes", dynamic=True,
    )  # fmt: skip
    segment_ms: int = key(
        "log.roll.ms", 168 * HOUR_MS, "Roll a segment when its records span more time than this.",
        type=LONG, check=at_least(1), topic="segment.ms", dynamic=True,
        synonyms=(("log.roll.hours", HOUR_MS),),
    )  # fmt: skip
    segment_jitter_ms: int = key(
        "log.roll.jitter.ms", 0, "Roll up to this much earlier, so that partitions do not all roll at once.",
        type=LONG, check=at_least(0), topic="segment.jitter.ms", dynamic=True,
        synonyms=(("log.roll.jitter.hours", HOUR_MS),),
    )  # fmt: skip
    segment_index_bytes: int = key(
        "log.index.size.max.bytes", 10 << 20, "Roll a segment when one of its indexes reaches this size.",
        check=at_least(4), topic="segment.index.bytes", dynamic=True,
    )  # fmt: skip
    index_interval_bytes: int = key(
        "log.index.interval.bytes", 4096,
        "Put an entry into the indexes once per this many bytes of records.",
        check=at_least(0), topic="index.interval.bytes", dynamic=True,
    )  # fmt: skip
    preallocate: bool = key(
        "log.preallocate", False, "Accepted for compatibility; segments grow as they are written.",
        topic="preallocate", dynamic=True,
    )  # fmt: skip
    retention_ms: int = key(
        "log.retention.ms", 168 * HOUR_MS, "Delete segments whose newest record is older; -1 keeps them.",
        type=LONG, check=at_least(-1), topic="retention.ms", dynamic=True,
        synonyms=(("log.retention.minutes", 60_000), ("log.retention.hours", HOUR_MS)),
    )  # fmt: skip
    retention_bytes: int = key(
        "log.retention.bytes", -1,
        "Delete the oldest segments of a partition above this size; -1 is no limit.",
        type=LONG, topic="retention.bytes", dynamic=True,
    )  # fmt: skip
    cleanup_policy: tuple[str, ...] = key(
        "log.cleanup.policy", ("delete",),
        "What happens to old segments: delete, compact, or both; with neither, everything is kept.",
        check=_cleanup_policy, topic="cleanup.policy", dynamic=True,
    )  # fmt: skip
    file_delete_delay_ms: int = key(
        "log.segment.delete.delay.ms", 60_000,
        "Keep a deleted file on disk for this long before removing it.",
        type=LONG, check=at_least(0), topic="file.delete.delay.ms", dynamic=True,
    )  # fmt: skip
    delete_retention_ms: int = key(
        "log.cleaner.delete.retention.ms", 24 * HOUR_MS, "Keep tombstones in compacted logs for this long.",
        type=LONG, check=at_least(0), topic="delete.retention.ms", dynamic=True,
    )  # fmt: skip
    min_cleanable_dirty_ratio: float = key(
        "log.cleaner.min.cleanable.ratio", 0.5,
        "Compact a log when at least this share of it is uncompacted.",
        check=between(0, 1), topic="min.cleanable.dirty.ratio", dynamic=True,
    )  # fmt: skip
    min_compaction_lag_ms: int = key(
        "log.cleaner.min.compaction.lag.ms", 0, "Leave a record uncompacted for at least this long.",
        type=LONG, check=at_least(0), topic="min.compaction.lag.ms", dynamic=True,
    )  # fmt: skip
    max_compaction_lag_ms: int = key(
        "log.cleaner.max.compaction.lag.ms", LONG_MAX,
        "Make a record eligible for compaction at the latest then.",
        type=LONG, check=at_least(1), topic="max.compaction.lag.ms", dynamic=True,
    )  # fmt: skip
    compression_type: str = key(
        "compression.type", "producer", "Store batches in this codec, or as the producer sent them.",
        check=one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"), topic="compression.type",
        dynamic=True,
    )  # fmt: skip
    compression_gzip_level: int = key(
        "compression.gzip.level", -1, "The level of gzip when compression.type is gzip.",
        check=_gzip_level, topic="compression.gzip.level", dynamic=True,
    )  # fmt: skip
    compression_lz4_level: int = key(
        "compression.lz4.level", 9, "The level of lz4 when compression.type is lz4.",
        check=between(1, 17), topic="compression.lz4.level", dynamic=True,
    )  # fmt: skip
    compression_zstd_level: int = key(
        "compression.zstd.level", 3, "The level of zstd when compression.type is zstd.",
        check=between(-131_072, 22), topic="compression.zstd.level", dynamic=True,
    )  # fmt: skip
    max_message_bytes: int = key(
        "message.max.bytes", 1_048_588, "Refuse a batch that is larger than this.",
        check=at_least(0), topic="max.message.bytes", dynamic=True,
    )  # fmt: skip
    message_timestamp_type: str = key(
        "log.message.timestamp.type", "CreateTime",
        "Whose clock a record carries: its producer's or the broker's.",
        check=one_of("CreateTime", "LogAppendTime"), topic="message.timestamp.type", dynamic=True,
    )  # fmt: skip
    message_timestamp_before_max_ms: int = key(
        "log.message.timestamp.before.max.ms", LONG_MAX,
        "Refuse records whose timestamp is older by more than this.",
        type=LONG, check=at_least(0), topic="message.timestamp.before.max.ms", dynamic=True,
    )  # fmt: skip
    message_timestamp_after_max_ms: int = key(
        "log.message.timestamp.after.max.ms", HOUR_MS,
        "Refuse records whose timestamp is ahead by more than this.",
        type=LONG, check=at_least(0), topic="message.timestamp.after.max.ms", dynamic=True,
    )  # fmt: skip
    min_insync_replicas: int = key(
        "min.insync.replicas", 1, "Refuse acks=all writes while fewer replicas than this are in sync.",
        check=at_least(1), topic="min.insync.replicas", dynamic=True,
    )  # fmt: skip
    unclean_leader_election_enable: bool = key(
        "unclean.leader.election.enable", False,
        "Allow a replica outside the ISR to lead, at the price of records.",
        topic="unclean.leader.election.enable", dynamic=True,
    )  # fmt: skip
    flush_messages: int = key(
        "log.flush.interval.messages", LONG_MAX,
        "Sync before acknowledging the record that makes this many unsynced.",
        type=LONG, check=at_least(1), topic="flush.messages", dynamic=True,
    )  # fmt: skip
    flush_ms: int = key(
        "log.flush.interval.ms", LONG_MAX, "Sync records that have been in memory only for this long.",
        type=LONG, check=at_least(0), topic="flush.ms", dynamic=True,
        synonyms=(("log.flush.scheduler.interval.ms", 1),),
    )  # fmt: skip
    leader_replication_throttled_replicas: tuple[str, ...] = key(
        "leader.replication.throttled.replicas", (),
        "Replicas (partition:broker, or *) to which their leader gives no more than its throttled rate.",
        check=_throttled, topic="leader.replication.throttled.replicas", dynamic=True,
    )  # fmt: skip
    follower_replication_throttled_replicas: tuple[str, ...] = key(
        "follower.replication.throttled.replicas", (),
        "Replicas (partition:broker, or *) for which their broker fetches no more than its throttled rate.",
        check=_throttled, topic="follower.replication.throttled.replicas", dynamic=True,
    )  # fmt: skip

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """Compaction only sees closed segments, so its longest lag bounds the time to roll as well."""
        return min(self.max_compaction_lag_ms, self.segment_ms) if self.compacts else self.segment_ms

    @property
    def compression_level(self) -> int | None:
        levels = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    retention_check_interval_ms: int = key(
        "log.retention.check.interval.ms", 300_000, "Look for segments to delete this often.",
        type=LONG, check=at_least(1), dynamic=True,
    )  # fmt: skip
    recovery_checkpoint_interval_ms: int = key(
        "log.flush.offset.checkpoint.interval.ms", 60_000,
        "Write down up to where logs are on disk this often.",
        check=at_least(0), dynamic=True,
    )  # fmt: skip
    start_checkpoint_interval_ms: int = key(
        "log.flush.start.offset.checkpoint.interval.ms", 60_000, "Write down where logs begin this often.",
        check=at_least(0), dynamic=True,
    )  # fmt: skip
    high_watermark_checkpoint_interval_ms: int = key(
        "replica.high.watermark.checkpoint.interval.ms", 5_000, "Write down the high watermarks this often.",
        type=LONG, check=at_least(0), dynamic=True,
    )  # fmt: skip
    producer_id_expiration_ms: int = key(
        "producer.id.expiration.ms", 24 * HOUR_MS,
        "Forget an idempotent producer that has been silent for this long.",
        check=at_least(1), dynamic=True,
    )  # fmt: skip
    producer_id_expiration_check_interval_ms: int = key(
        "producer.id.expiration.check.interval.ms", 600_000, "Look for silent producers this often.",
        check=at_least(1), dynamic=True,
    )  # fmt: skip
    producer_ids_max: int = key(
        "ottla.producer.ids.max", 200_000,
        "Remember so many idempotent producers, over all partitions; if more write, new ones are refused.",
        check=at_least(1), dynamic=True,
    )  # fmt: skip
    cleaner_enable: bool = key(
        "log.cleaner.enable", True, "Compact the logs of topics whose cleanup.policy says so.",
        dynamic=True,
    )  # fmt: skip
    cleaner_threads: int = key(
        "log.cleaner.threads", 1, "Compact up to this many logs at a time, each in a process of its own.",
        check=at_least(1), dynamic=True,
    )  # fmt: skip
    cleaner_io_bytes_per_second_max: float = key(
        "log.cleaner.io.max.bytes.per.second", DOUBLE_MAX,
        "Read and write no more than this per second in order to compact, all logs together.",
        check=at_least(1), dynamic=True,
    )  # fmt: skip
    cleaner_dedupe_buffer_bytes: int = key(
        "log.cleaner.dedupe.buffer.size", 128 << 20,
        "Memory for the keys that one round of compaction looks at, about 120 bytes and the key for each.",
        type=LONG, check=at_least(1024), dynamic=True,
    )  # fmt: skip
    cleaner_dedupe_load_factor: float = key(
        "log.cleaner.io.buffer.load.factor", 0.9, "The share of the memory for keys that may be filled.",
        check=between(0.01, 1), dynamic=True,
    )  # fmt: skip
    cleaner_io_buffer_bytes: int = key(
        "log.cleaner.io.buffer.size", 512 << 10, "Read this much of a log at a time in order to compact it.",
        check=at_least(1024), dynamic=True,
    )  # fmt: skip
    cleaner_backoff_ms: int = key(
        "log.cleaner.backoff.ms", 15_000, "Look for logs to compact this often while there are none.",
        type=LONG, check=at_least(0), dynamic=True,
    )  # fmt: skip
