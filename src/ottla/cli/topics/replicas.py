"""Partitions as their replicas stand: who leads, who is in sync, who is missing, and which are in trouble."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli import output
from ottla.client.admin import configs as resources
from ottla.client.admin.configs import Resource
from ottla.client.admin.requests import Cluster
from ottla.client.properties import Where

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


class Trouble(NamedTuple):
    """What to look for; a partition in any of it is found."""

    under_replicated: bool = False
    under_min_isr: bool = False
    unavailable: bool = False

    def __str__(self) -> str:
        names = ("under-replicated", "under min.insync.replicas", "unavailable")
        return " or ".join(name for name, wanted in zip(names, self, strict=True) if wanted)


class Replicas(NamedTuple):
    topic: str
    partition: int
    leader: int | None
    replicas: list[int]
    isr: list[int]
    elr: list[int]
    offline: list[int]


def states(where: Where, names: Sequence[str] = ()) -> list[Replicas]:
    """Every partition of some topics, of all if none is named."""
    return [
        Replicas(
            topic.name or "",
            partition.partition_index,
            partition.leader_id if partition.leader_id >= 0 else None,
            partition.replica_nodes,
            partition.isr_nodes,
            partition.eligible_leader_replicas or [],
            partition.offline_replicas,
        )
        for topic in Cluster(where).topics(names)
        for partition in topic.partitions
    ]


def troubled(
    client: "AdminClient", where: Where, trouble: Trouble, names: Sequence[str] = ()
) -> list[Replicas]:
    partitions, minima = [], dict[str, int]()
    for partition in states(where, names):
        isr_min = 0
        if trouble.under_min_isr:
            if partition.topic not in minima:
                minima[partition.topic] = _isr_min(client, partition.topic)
            isr_min = min(minima[partition.topic], len(partition.replicas))
        if (
            (trouble.under_replicated and len(partition.isr) < len(partition.replicas))
            or len(partition.isr) < isr_min
            or ((trouble.unavailable or trouble.under_min_isr) and partition.leader is None)
        ):
            partitions.append(partition)
    return partitions


def _isr_min(client: "AdminClient", topic: str) -> int:
    settings = resources.describe(client, Resource("topic", topic))
    return next(int(setting.value or 0) for setting in settings if setting.name == "min.insync.replicas")


def show(partitions: Iterable[Replicas], trouble: Trouble, *, json: bool) -> None:
    rows = list(partitions)
    if json:
        output.show_json([partition._asdict() for partition in rows])
    elif rows:
        columns = ("topic", "partition", "leader", "replicas", "isr", "elr", "offline")
        output.show_table(
            columns,
            [
                (partition.topic, partition.partition, partition.leader, *map(_ids, partition[3:]))
                for partition in rows
            ],
        )
    else:
        output.say(f"no partition is {trouble}")


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
