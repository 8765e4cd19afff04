"""The rows of the groups' configuration."""

import pytest

from ottla.base.config import ConfigError, load, rows
from ottla.group.config import MIGRATION_POLICIES, GroupConfig
from ottla.group.consumer.assignors import ASSIGNORS


def test_every_row_says_what_it_does_and_has_a_default_that_passes_its_check():
    for row in rows(GroupConfig):
        assert row.doc.endswith(".")
        assert row.check is None or row.check(row.default) is None, row.name


def test_the_defaults_are_those_of_kafka():
    defaults = {row.name: row.text(row.default) for row in rows(GroupConfig)}
    assert defaults == {
        "group.min.session.timeout.ms": "6000",
        "group.max.session.timeout.ms": "1800000",
        "group.initial.rebalance.delay.ms": "3000",
        "group.max.size": "2147483647",
        "group.coordinator.rebalance.protocols": "classic,consumer",
        "offset.metadata.max.bytes": "4096",
        "offsets.retention.minutes": "10080",
        "offsets.retention.check.interval.ms": "600000",
        "offsets.topic.num.partitions": "50",
        "offsets.topic.replication.factor": "3",
        "offsets.topic.segment.bytes": "104857600",
        "offsets.topic.compression.codec": "0",
        "offsets.commit.timeout.ms": "5000",
        "group.consumer.session.timeout.ms": "45000",
        "group.consumer.min.session.timeout.ms": "45000",
        "group.consumer.max.session.timeout.ms": "60000",
        "group.consumer.heartbeat.interval.ms": "5000",
        "group.consumer.min.heartbeat.interval.ms": "5000",
        "group.consumer.max.heartbeat.interval.ms": "15000",
        "group.consumer.max.size": "2147483647",
        "group.consumer.assignors": "uniform,range",
        "group.consumer.migration.policy": "bidirectional",
        "ottla.group.member.max.bytes": "1048576",
        "ottla.groups.max.bytes": "167772160",
    }


def test_every_assignor_that_may_be_configured_exists():
    assert set(GroupConfig().consumer_assignors) == set(ASSIGNORS)


def test_retention_is_given_in_minutes_and_used_in_milliseconds():
    assert load(GroupConfig, {"offsets.retention.minutes": "2"}).offsets_retention_ms == 120_000


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [
        ("bidirectional", True, True), ("UPGRADE", True, False), ("downgrade", False, True),
        ("Disabled", False, False),
    ],
)  # fmt: skip
def test_the_migration_policy_says_which_way_groups_may_go(policy, up, down):
    config = load(GroupConfig, {"group.consumer.migration.policy": policy})
    assert policy.lower() in MIGRATION_POLICIES
    assert (config.allows_upgrade, config.allows_downgrade) == (up, down)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("group.consumer.migration.policy", "sideways", "must be one of bidirectional"),
        ("group.coordinator.rebalance.protocols", "consumer", "must have classic"),
        ("group.coordinator.rebalance.protocols", "classic,share", "must be one of classic"),
        ("group.consumer.assignors", "sticky", "must be one of uniform"),
        ("group.consumer.assignors", "", "must be one of uniform"),
        ("offsets.topic.compression.codec", "5", "must be between 0 and 4"),
        ("group.max.size", "0", "must be at least 1"),
    ],
)
def test_wrong_values_are_refused_and_the_message_names_the_key(key, value, problem):
    with pytest.raises(ConfigError, match=f"^{key}: {problem}"):
        load(GroupConfig, {key: value})


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("group.consumer.session.timeout.ms", "44999", "session.timeout"),
        ("group.consumer.session.timeout.ms", "60001", "session.timeout"),
        ("group.consumer.min.session.timeout.ms", "50000", "session.timeout"),
        ("group.consumer.heartbeat.interval.ms", "4999", "heartbeat.interval"),
        ("group.consumer.max.heartbeat.interval.ms", "1", "heartbeat.interval"),
    ],
)
def test_what_consumer_groups_are_given_lies_between_the_bounds(key, value, named):
    with pytest.raises(ConfigError, match=f"^group.consumer.{named}.ms: must be between"):
        load(GroupConfig, {key: value})


def test_a_heartbeat_interval_as_long_as_the_session_is_refused():
    with pytest.raises(ConfigError, match="must be less than"):
        load(
            GroupConfig,
            {
                "group.consumer.max.heartbeat.interval.ms": "60000",
                "group.consumer.heartbeat.interval.ms": "45000",
            },
        )
