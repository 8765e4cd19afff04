"""Topics: the list, one topic with its partitions, readers and settings."""

from typing import NamedTuple

from starlette.responses import Response

from ottla.client.admin.groups import Group
from ottla.console.charts import partition_map
from ottla.console.cluster.measurement import Measurement
from ottla.console.cluster.settings import TOPIC
from ottla.console.cluster.snapshot import Snapshot, Topic
from ottla.console.figures import duration, size
from ottla.console.visit import MissingError, Visit

ROWS_MAX = 20_000  # more take seconds to write and to read


class TopicRow(NamedTuple):
    """What a line of the list shows. All of them are made for every page, so nothing is worked out twice."""

    topic: Topic
    is_fine: bool
    records: int | None
    rate: float | None
    bytes: int | None
    retention: str
    policy: str


def show_all(visit: Visit) -> Response:
    snapshot, measured = visit.cluster.snapshot(), visit.cluster.measured()
    is_troubled, is_internal = visit.query("trouble") == "1", visit.query("internal") == "1"
    topics = [
        topic
        for topic in snapshot.topics.values()
        if (topic.troubled if is_troubled else True) and (is_internal or is_troubled or not topic.is_internal)
    ]
    return visit.page(
        "topics.html",
        rows=[row(topic, measured) for topic in topics[:ROWS_MAX]],
        count=len(topics),
        measured=measured,
        is_troubled=is_troubled,
        is_internal=is_internal,
        hidden=len(snapshot.topics) - len(topics),
        snapshot=snapshot,
    )


def row(topic: Topic, measured: Measurement | None) -> TopicRow:
    if measured is None:
        return TopicRow(topic, not topic.troubled, None, None, None, "", "")
    records = [measured.records(topic.name, partition.number) for partition in topic.partitions]
    there = [number for number in records if number is not None]
    configs = measured.configs.get(topic.name, {})
    return TopicRow(
        topic,
        not topic.troubled,
        sum(there) if there else None,
        measured.rates.get(topic.name),
        measured.sizes.get(topic.name),
        retention(configs),
        configs.get("cleanup.policy", ""),
    )


def retention(configs: dict[str, str]) -> str:
    """For how long, and how much, in words."""
    if "delete" not in configs.get("cleanup.policy", "delete"):
        return "for ever"
    time_ms, bytes_ = configs.get("retention.ms", ""), configs.get("retention.bytes", "")
    parts = []
    if time_ms.isdigit():
        parts.append(duration(int(time_ms)))
    if bytes_.isdigit():
        parts.append(size(int(bytes_)))
    return " · ".join(parts) or ("for ever" if time_ms else "")


def show(visit: Visit) -> Response:
    topic, snapshot = existing(visit)
    measured = visit.cluster.measured()
    sizes: dict[int, dict[int, int]] = {}
    for directory in measured.directories if measured else []:
        for (name, number), bytes_ in directory.sizes.items():
            if name == topic.name:
                sizes.setdefault(number, {})[directory.broker] = bytes_
    return visit.page(
        "topic.html",
        topic=topic,
        row=row(topic, measured),
        measured=measured,
        sizes=sizes,
        map=partition_map(snapshot, [topic.name]),
        readers=readers(topic.name, measured),
    )


def show_readers(visit: Visit) -> Response:
    topic, _ = existing(visit)
    measured = visit.cluster.measured(wait_s=2.0)
    return visit.page(
        "topic_readers.html", topic=topic, readers=readers(topic.name, measured), measured=measured
    )


def show_settings(visit: Visit) -> Response:
    topic, _ = existing(visit)
    settings = visit.cluster.settings(TOPIC, topic.name)
    return visit.page("topic_settings.html", topic=topic, settings=settings)


def readers(name: str, measured: Measurement | None) -> list[tuple[Group, int, int]]:
    """Groups that have read it, with their lag here and their members in all."""
    rows = []
    for group in measured.groups.values() if measured else []:
        positions = [position for position in group.positions if position.topic == name]
        if positions:
            rows.append((group, sum(position.lag or 0 for position in positions), len(group.members)))
    return rows


def existing(visit: Visit) -> tuple[Topic, Snapshot]:
    """The topic that the address names."""
    name = visit.path("topic")
    snapshot = visit.cluster.snapshot(having=name)
    if name not in snapshot.topics:
        raise MissingError(f"There is no topic {name!r}, or you may not see it.", ("/topics", "Topics"))
    return snapshot.topics[name], snapshot
