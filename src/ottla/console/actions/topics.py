"""Topics: create, add partitions, change configs, empty, delete; and what that would mean."""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.base.command_error import USAGE, CommandError
from ottla.client.admin import configs
from ottla.client.admin.configs import Resource
from ottla.client.librdkafka.errors import REQUEST_S, errors_explained
from ottla.console.cluster.settings import KINDS, TOPIC
from ottla.console.cluster.snapshot import Topic
from ottla.console.cluster.view import ClusterView

PARTITIONS_MAX = 100_000


class NewTopic(NamedTuple):
    """Zero partitions or replicas are as many as the broker's default."""

    name: str
    partitions: int = 0
    replicas: int = 0
    configs: Mapping[str, str] = {}  # nobody changes it


def create(view: ClusterView, topic: NewTopic, *, validate_only: bool = False) -> None:
    from confluent_kafka.admin import NewTopic as Wanted  # type: ignore[attr-defined]

    if not topic.name:
        raise CommandError("a topic has a name", USAGE)
    wanted = Wanted(
        topic.name,
        num_partitions=topic.partitions or -1,
        replication_factor=topic.replicas or -1,
        config=dict(topic.configs),
    )
    with errors_explained(f"topic {topic.name}"):
        asked = view.admin.create_topics(
            [wanted], operation_timeout=REQUEST_S, request_timeout=REQUEST_S, validate_only=validate_only
        )
        asked[topic.name].result(REQUEST_S)


def delete(view: ClusterView, name: str) -> None:
    with errors_explained(f"topic {name}"):
        asked = view.admin.delete_topics([name], operation_timeout=REQUEST_S, request_timeout=REQUEST_S)
        asked[name].result(REQUEST_S)


def check_growth(topic: Topic, partitions: int) -> None:
    """CommandError: it has as many already."""
    there = len(topic.partitions)
    if partitions <= there:
        raise CommandError(f"topic {topic.name} has {there} partitions already; they can only grow", USAGE)


def add_partitions(view: ClusterView, name: str, partitions: int, *, validate_only: bool = False) -> None:
    """So many in all."""
    from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

    if not 0 < partitions <= PARTITIONS_MAX:
        raise CommandError(f"a topic has 1 to {PARTITIONS_MAX:,} partitions", USAGE)
    with errors_explained(f"topic {name}"):
        asked = view.admin.create_partitions(
            [NewPartitions(name, partitions)], operation_timeout=REQUEST_S, validate_only=validate_only
        )
        asked[name].result(REQUEST_S)


def empty(view: ClusterView, name: str) -> None:
    """Delete all records that are there now; the topic stays."""
    from confluent_kafka import TopicPartition

    topic = view.snapshot().topics[name]
    ends = [TopicPartition(name, partition.number, -1) for partition in topic.partitions]
    with errors_explained(f"topic {name}"):
        for future in view.admin.delete_records(ends, request_timeout=REQUEST_S).values():
            future.result(REQUEST_S)


def change_configs(
    view: ClusterView, kind: str, name: str, new: Mapping[str, str], dropped: list[str]
) -> None:
    """Of a topic or a broker: set some, give others back their default."""
    configs.change(view.admin, Resource(kind, name), new, dropped)


class Loss(NamedTuple):
    """What goes with a topic."""

    records: int | None
    bytes: int | None
    groups: list[tuple[str, int]]  # that have committed offsets of it, with their members now
    is_internal: bool


def deletion_plan(view: ClusterView, name: str) -> Loss:
    topic = view.snapshot().topics[name]
    measured = view.measured(wait_s=5.0)
    if measured is None:
        return Loss(None, None, [], topic.is_internal)
    records = [measured.records(name, partition.number) for partition in topic.partitions]
    readers = [
        (group.id, len(group.members))
        for group in measured.groups.values()
        if any(position.topic == name for position in group.positions)
    ]
    there = [number for number in records if number is not None]
    return Loss(sum(there) if there else None, measured.sizes.get(name), readers, topic.is_internal)


class ConfigChange(NamedTuple):
    name: str
    before: str | None
    after: str | None  # None: back to what it inherits
    inherited: str | None
    remark: str


def config_doing(changes: list[ConfigChange], kind: int, name: str) -> str:
    """For the audit line."""
    return f"sets {', '.join(change.name for change in changes)} of {KINDS[kind]} {name}"


def config_plan(
    view: ClusterView, kind: int, name: str, new: Mapping[str, str], dropped: list[str]
) -> list[ConfigChange]:
    """What really changes. CommandError: a key is unknown or cannot be changed."""
    settings = {setting.name: setting for setting in view.settings(kind, name)}
    changes = []
    for key in [*new, *dropped]:
        setting = settings.get(key)
        if setting is None:
            raise CommandError(f"there is no config {key!r} here", USAGE)
        if setting.is_read_only:
            raise CommandError(f"{key} can only be set in the broker's file, before it starts", USAGE)
        after = new.get(key)
        if (after is None and setting.is_own) or (after is not None and after != (setting.value or "")):
            changes.append(
                ConfigChange(
                    key, setting.value, after, setting.inherited, _remark(kind, key, setting.value, after)
                )
            )
    return changes


def _remark(kind: int, key: str, before: str | None, after: str | None) -> str:
    """Consequences that surprise people."""
    if kind != TOPIC:
        return ""
    if key == "cleanup.policy" and after is not None and "delete" in after and "compact" in (before or ""):
        return "Records older than retention.ms go away, also those that are the last of their key."
    if key == "cleanup.policy" and after is not None and "compact" in after:
        return "Of each key only the last record stays. Records without a key are refused."
    if key in {"retention.ms", "retention.bytes"} and _shrinks(before, after):
        return "Records beyond the new limit are deleted soon, and cannot be had back."
    if key == "max.message.bytes" and _shrinks(before, after):
        return "Producers that send larger batches are refused."
    if key == "min.insync.replicas":
        return "Producers with acks=all are refused while fewer replicas are in sync."
    return ""


def _shrinks(before: str | None, after: str | None) -> bool:
    """-1 is without end."""
    try:
        old, new = int(before or ""), int(after or "")
    except ValueError:
        return after is None
    return new >= 0 and (old < 0 or new < old)
