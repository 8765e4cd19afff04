"""Topics: list, show, create, add partitions, empty, delete."""

from dataclasses import dataclass, field
from typing import Annotated, TypeVar
from urllib.parse import quote

from ottla.console.actions import topics as actions
from ottla.console.actions.topics import PARTITIONS_MAX
from ottla.console.api.endpoints import NAME_MAX, PREFIX, Asked, naming
from ottla.console.api.shapes import Rule
from ottla.console.cluster import snapshot
from ottla.console.cluster.measurement import Measurement
from ottla.console.pages.topics import existing, row

T = TypeVar("T")
PAGE, PAGE_MAX = 100, 1000
CONFIGS_MAX, VALUE_MAX = 100, 10_000
MEASURED_S = 5.0  # to wait for sizes and offsets


@dataclass(frozen=True)
class ListQuery:
    after: Annotated[str, Rule("Names after this one, as `next` has it.")] = ""
    limit: Annotated[int, Rule("At most so many.", 1, PAGE_MAX)] = PAGE


@dataclass(frozen=True)
class TopicsQuery(ListQuery):
    internal: Annotated[bool, Rule("Those of the cluster itself as well.")] = False


@dataclass(frozen=True)
class TopicSummary:
    """Figures are as they were measured last, and null before that."""

    name: str
    partitions: int
    replicas: int
    internal: bool
    troubled: Annotated[int, Rule("Partitions without a leader, or with replicas that are not in sync.")]
    records: int | None
    bytes: int | None
    records_per_second: float | None


@dataclass(frozen=True)
class Topics:
    topics: list[TopicSummary]
    next: Annotated[str | None, Rule("The address of what comes after these; null at the end.")]


@dataclass(frozen=True)
class Partition:
    partition: int
    leader: Annotated[int | None, Rule("null: nobody leads it.")]
    replicas: list[int]
    isr: list[int]
    start: Annotated[int | None, Rule("The first offset that is there.")]
    end: Annotated[int | None, Rule("The offset that the next record gets.")]


@dataclass(frozen=True)
class TopicDetail:
    """Offsets are those of this moment."""

    name: str
    internal: bool
    bytes: Annotated[int | None, Rule("As it was measured last, replicas included; null before that.")]
    partitions: list[Partition]


@dataclass(frozen=True)
class NewTopic:
    name: Annotated[str, Rule("Letters, digits, `.`, `_` and `-`.", 1, NAME_MAX, r"[a-zA-Z0-9._-]+")]
    partitions: Annotated[int | None, Rule("null: as the broker has it.", 1, PARTITIONS_MAX)] = None
    replicas: Annotated[int | None, Rule("null: as the broker has it.", 1, 1000)] = None
    configs: Annotated[
        dict[str, Annotated[str, Rule("", most=VALUE_MAX)]],
        Rule("Settings by their names.", most=CONFIGS_MAX),
    ] = field(default_factory=dict)
    dry_run: Annotated[bool, Rule("Only ask whether the cluster would take it.")] = False


@dataclass(frozen=True)
class CreatedTopic:
    name: str
    created: Annotated[bool, Rule("false after a dry run.")]


@dataclass(frozen=True)
class Growth:
    partitions: Annotated[int, Rule("So many in all. They can only grow.", 1, PARTITIONS_MAX)]


def list_all(asked: Asked) -> Topics:
    view, query = asked.visit.cluster, asked.query
    measured = view.measured(wait_s=MEASURED_S)
    topics = [topic for topic in view.snapshot().topics.values() if query.internal or not topic.is_internal]
    chosen, after = after_name({topic.name: topic for topic in topics}, query)
    more = "&internal=true" if query.internal else ""
    return Topics([_summary(topic, measured) for topic in chosen], next_link("topics", query, after, more))


def after_name(named: dict[str, T], query: ListQuery) -> tuple[list[T], str | None]:
    """A page by names, which is the same while others come and go; and its last name, if there are more."""
    names = sorted(name for name in named if name > query.after)
    chosen = names[: query.limit]
    return [named[name] for name in chosen], chosen[-1] if len(names) > len(chosen) else None


def next_link(what: str, query: ListQuery, after: str | None, more: str = "") -> str | None:
    if after is None:
        return None
    return f"{PREFIX}/{what}?after={quote(after, safe='')}&limit={query.limit}{more}"


def _summary(topic: snapshot.Topic, measured: Measurement | None) -> TopicSummary:
    figures = row(topic, measured)
    return TopicSummary(
        topic.name,
        len(topic.partitions),
        topic.replication,
        topic.is_internal,
        len(topic.troubled),
        figures.records,
        figures.bytes,
        figures.rate,
    )


def show(asked: Asked) -> TopicDetail:
    topic, _ = existing(asked.visit)
    measured = asked.visit.cluster.measured()
    starts, ends = asked.visit.cluster.offsets(topic)
    return TopicDetail(
        topic.name,
        topic.is_internal,
        measured.sizes.get(topic.name) if measured else None,
        [
            Partition(
                partition.number,
                None if partition.is_offline else partition.leader,
                list(partition.replicas),
                list(partition.isr),
                starts.get((topic.name, partition.number)),
                ends.get((topic.name, partition.number)),
            )
            for partition in topic.partitions
        ],
    )


def create(asked: Asked) -> CreatedTopic:
    given: NewTopic = asked.body
    topic = actions.NewTopic(given.name, given.partitions or 0, given.replicas or 0, given.configs)
    if given.dry_run:
        actions.create(asked.visit.cluster, topic, validate_only=True)
        return CreatedTopic(given.name, created=False)
    with asked.visit.change(f"creates topic {given.name}"):
        actions.create(asked.visit.cluster, topic)
    return CreatedTopic(given.name, created=True)


def grow(asked: Asked) -> TopicDetail:
    topic, _ = existing(asked.visit)
    with naming("partitions"):
        actions.check_growth(topic, asked.body.partitions)
    with asked.visit.change(f"gives topic {topic.name} {asked.body.partitions} partitions"):
        actions.add_partitions(asked.visit.cluster, topic.name, asked.body.partitions)
    return show(asked)


def empty(asked: Asked) -> None:
    topic, _ = existing(asked.visit)
    with asked.visit.change(f"deletes all records of topic {topic.name}"):
        actions.empty(asked.visit.cluster, topic.name)


def delete(asked: Asked) -> None:
    topic, _ = existing(asked.visit)
    with asked.visit.change(f"deletes topic {topic.name}"):
        actions.delete(asked.visit.cluster, topic.name)
