"""The configuration of groups and of the topic their offsets are kept in.

One row per key, with Kafka's names and defaults. Keys that only make sense together are checked together,
when the config is made. A group may have values of its own for some keys (`base.config.override`); what was
stored for it under other limits counts as the nearest value that is allowed now (`config_of_group`).

Left out: share.* and streams.* keys of groups; group.coordinator.threads, group.coordinator.append.linger.ms
and offsets.load.buffer.size (one thread, one write per operation, no load buffer); offsets.topic.* beyond
those here; group.share.* and group.streams.*.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from ottla.base.config import (
    INT_MAX,
    ConfigError,
    ConfigType,
    at_least,
    between,
    key,
    one_of,
    override,
    rows_by_group_key,
)

MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")


def _migration_policy(value: str) -> str | None:
    allowed = ", ".join(MIGRATION_POLICIES)
    return None if value.lower() in MIGRATION_POLICIES else f"must be one of {allowed}"


def _protocols(value: tuple[str, ...]) -> str | None:
    problem = one_of("classic", "consumer")(value)
    return problem or (None if "classic" in value else "must have classic among them")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    session_timeout_ms_min: int = key(
        "group.min.session.timeout.ms", 6_000,
        "The shortest session a member of a classic group may ask for.",
        check=at_least(0),
    )  # fmt: skip
    session_timeout_ms_max: int = key(
        "group.max.session.timeout.ms", 1_800_000,
        "The longest session a member of a classic group may ask for.",
        check=at_least(0),
    )  # fmt: skip
    initial_rebalance_delay_ms: int = key(
        "group.initial.rebalance.delay.ms", 3_000,
        "Wait this long (at least 5 ms) for more members before an empty classic group first rebalances.",
        check=at_least(0),
    )  # fmt: skip
    members_max: int = key(
        "group.max.size", INT_MAX, "Refuse further members of a classic group beyond this number.",
        check=at_least(1),
    )  # fmt: skip
    member_bytes_max: int = key(
        "ottla.group.member.max.bytes", 1 << 20,
        "Refuse a member that says more than this about itself: its subscription, with its metadata.",
        check=at_least(1 << 10),
    )  # fmt: skip
    memory_bytes_max: int = key(
        "ottla.groups.max.bytes", 160 << 20,
        "Memory for all groups of this broker, half for offsets of groups without members; more is refused.",
        type=ConfigType.LONG, check=at_least(1 << 20),
    )  # fmt: skip
    rebalance_protocols: tuple[str, ...] = key(
        "group.coordinator.rebalance.protocols", ("classic", "consumer"),
        "The protocols that groups may use.",
        check=_protocols,
    )  # fmt: skip
    metadata_bytes_max: int = key(
        "offset.metadata.max.bytes", 4096, "Refuse a committed offset whose metadata string is longer.",
        check=at_least(0),
    )  # fmt: skip
    offsets_retention_minutes: int = key(
        "offsets.retention.minutes", 7 * 24 * 60,
        "Forget committed offsets this long after their group became empty or, where it has no members to "
        "judge by, after the last commit.",
        check=at_least(1),
    )  # fmt: skip
    offsets_retention_check_interval_ms: int = key(
        "offsets.retention.check.interval.ms", 600_000, "Look for committed offsets to forget this often.",
        type=ConfigType.LONG, check=at_least(1),
    )  # fmt: skip
    offsets_partitions: int = key(
        "offsets.topic.num.partitions", 50,
        "The number of partitions of __consumer_offsets when it is created; never change it after.",
        check=at_least(1),
    )  # fmt: skip
    offsets_replication_factor: int = key(
        "offsets.topic.replication.factor", 3,
        "The replication factor of __consumer_offsets when it is created.",
        type=ConfigType.SHORT, check=at_least(1),
    )  # fmt: skip
    offsets_segment_bytes: int = key(
        "offsets.topic.segment.bytes", 100 << 20,
        "The segment size of __consumer_offsets; small segments are compacted and loaded sooner.",
        check=at_least(1),
    )  # fmt: skip
    offsets_compression_codec: int = key(
        "offsets.topic.compression.codec", 0,
        "Compress what is written to __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        check=between(0, 4),
    )  # fmt: skip
    commit_timeout_ms: int = key(
        "offsets.commit.timeout.ms", 5_000,
        "Answer with an error if what a group wrote is not replicated within this time.",
        check=at_least(1),
    )  # fmt: skip
    consumer_session_timeout_ms: int = key(
        "group.consumer.session.timeout.ms", 45_000,
        "Remove a member of a consumer group that has been silent for this long.",
        check=at_least(1), group="consumer.session.timeout.ms",
    )  # fmt: skip
    consumer_session_timeout_ms_min: int = key(
        "group.consumer.min.session.timeout.ms", 45_000,
        "The shortest session a consumer group may be given.",
        check=at_least(1),
    )  # fmt: skip
    consumer_session_timeout_ms_max: int = key(
        "group.consumer.max.session.timeout.ms", 60_000, "The longest session a consumer group may be given.",
        check=at_least(1),
    )  # fmt: skip
    consumer_heartbeat_interval_ms: int = key(
        "group.consumer.heartbeat.interval.ms", 5_000,
        "How often members of a consumer group are told to send a heartbeat.",
        check=at_least(1), group="consumer.heartbeat.interval.ms",
    )  # fmt: skip
    consumer_heartbeat_interval_ms_min: int = key(
        "group.consumer.min.heartbeat.interval.ms", 5_000,
        "The shortest heartbeat interval a consumer group may be given.",
        check=at_least(1),
    )  # fmt: skip
    consumer_heartbeat_interval_ms_max: int = key(
        "group.consumer.max.heartbeat.interval.ms", 15_000,
        "The longest heartbeat interval a consumer group may be given.",
        check=at_least(1),
    )  # fmt: skip
    consumer_members_max: int = key(
        "group.consumer.max.size", INT_MAX, "Refuse further members of a consumer group beyond this number.",
        check=at_least(1),
    )  # fmt: skip
    consumer_assignors: tuple[str, ...] = key(
        "group.consumer.assignors", ("uniform", "range"),
        "The assignors consumer groups may use; the first is for members that name none.",
        check=one_of("uniform", "range"),
    )  # fmt: skip
    consumer_migration_policy: str = key(
        "group.consumer.migration.policy", "bidirectional",
        "Which way groups may change protocol while members are live: bidirectional, upgrade (classic to "
        "consumer), downgrade, or disabled.",
        check=_migration_policy,
    )  # fmt: skip

    def __post_init__(self) -> None:
        for kind in ("session.timeout", "heartbeat.interval"):
            stem = "consumer_" + kind.replace(".", "_")
            given, low, high = (getattr(self, f"{stem}_ms{end}") for end in ("", "_min", "_max"))
            if not low <= given <= high:
                raise ConfigError(
                    f"group.consumer.{kind}.ms: must be between group.consumer.min.{kind}.ms ({low}) and "
                    f"group.consumer.max.{kind}.ms ({high}), got '{given}'"
                )
        if self.consumer_heartbeat_interval_ms >= self.consumer_session_timeout_ms:
            raise ConfigError(
                "group.consumer.heartbeat.interval.ms: must be less than group.consumer.session.timeout.ms "
                f"({self.consumer_session_timeout_ms}), got '{self.consumer_heartbeat_interval_ms}'"
            )

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000

    @property
    def allows_upgrade(self) -> bool:
        return self.consumer_migration_policy.lower() in ("bidirectional", "upgrade")

    @property
    def allows_downgrade(self) -> bool:
        return self.consumer_migration_policy.lower() in ("bidirectional", "downgrade")


def config_of_group(config: GroupConfig, values: Mapping[str, str]) -> GroupConfig:
    """The config of a group for which these values are stored."""
    with suppress(ConfigError):
        return override(config, values)
    with suppress(ConfigError):
        return override(config, _nearest(config, values))
    return config


def _nearest(config: GroupConfig, values: Mapping[str, str]) -> dict[str, str]:
    nearest = {}
    for name, row in rows_by_group_key(GroupConfig).items():
        if name in values:
            low, high = (getattr(config, f"{row.attribute}_{end}") for end in ("min", "max"))
            nearest[name] = str(min(max(row.parse(name, values[name]), low), high))
    return nearest
