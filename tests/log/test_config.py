"""The rows of the log's configuration."""

import pytest

from ottla.base.config import LONG_MAX, ConfigError, load, override, rows, rows_by_topic_key
from ottla.log.config import LogConfig, StoreConfig


def test_every_row_may_change_while_the_broker_runs_and_says_what_it_does():
    for row in (*rows(LogConfig), *rows(StoreConfig)):
        assert row.dynamic
        assert row.doc.endswith(".")
        assert row.check is None or row.check(row.default) is None, row.name


def test_every_topic_key_of_kafka_is_there():
    assert set(rows_by_topic_key(LogConfig)) == {
        "cleanup.policy", "compression.gzip.level", "compression.lz4.level", "compression.type",
        "compression.zstd.level", "delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms",
        "follower.replication.throttled.replicas", "index.interval.bytes",
        "leader.replication.throttled.replicas",
        "max.compaction.lag.ms", "max.message.bytes", "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms", "message.timestamp.type", "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms", "min.insync.replicas", "preallocate", "retention.bytes", "retention.ms",
        "segment.bytes", "segment.index.bytes", "segment.jitter.ms", "segment.ms",
        "unclean.leader.election.enable",
    }  # fmt: skip


def test_coarser_units_are_synonyms():
    assert load(LogConfig, {"log.retention.hours": "2"}).retention_ms == 7_200_000
    assert load(LogConfig, {"log.retention.minutes": "3", "log.retention.hours": "2"}).retention_ms == 180_000
    assert load(LogConfig, {"log.retention.hours": "-1"}).retention_ms == -1
    assert load(LogConfig, {"log.roll.hours": "1"}).segment_ms == 3_600_000
    assert load(LogConfig, {"log.flush.scheduler.interval.ms": "7"}).flush_ms == 7


def test_a_topics_config_is_laid_over_the_brokers():
    config = override(
        LogConfig(segment_bytes=1000), {"cleanup.policy": "compact,delete", "flush.messages": "1"}
    )
    assert (config.segment_bytes, config.cleanup_policy, config.flush_messages) == (
        1000,
        ("compact", "delete"),
        1,
    )
    assert config.compacts
    assert config.deletes


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cleanup.policy", "shred"), ("compression.type", "rar"),
        ("compression.gzip.level", "0"), ("segment.bytes", "13"), ("retention.ms", "-2"),
        ("message.timestamp.type", "Now"), ("leader.replication.throttled.replicas", "x"),
        ("segment.bytes", "1e3"),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_by_name(key, value):
    with pytest.raises(ConfigError, match=key):
        override(LogConfig(), {key: value})


def test_throttled_replicas_are_pairs_or_a_star():
    for value in ("*", "0:1,1:2", ""):
        override(LogConfig(), {"leader.replication.throttled.replicas": value})


def test_levels_belong_to_their_codec():
    assert LogConfig(compression_type="zstd", compression_zstd_level=9).compression_level == 9
    assert LogConfig(compression_type="snappy").compression_level is None
    assert LogConfig().flush_messages == LONG_MAX
