"""Partitions as their replicas stand: who leads, who is in sync, who is missing, and which are in trouble."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli import output
from ottla.cli.configs import resources
from ottla.cli.configs.resources import Resource
from ottla.cli.requests import Cluster

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


def states(bootstrap: str, names: Sequence[str] = ()) -> list[Replicas]:
    """Every partition of some topics, of all if none is named."""
    return [
        Replicas(
            topic.name or "", one.partition_index, one.leader_id if one.leader_id >= 0 else None,
            one.replica_nodes, one.isr_nodes, one.eligible_leader_replicas or [], one.offline_replicas,
        )
        for topic in Cluster(bootstrap).topics(names)
        for one in topic.partitions
    ]  # fmt: skip


def troubled(
    client: "AdminClient", bootstrap: str, trouble: Trouble, names: Sequence[str] = ()
) -> list[Replicas]:
    found, minima = [], dict[str, int]()
    for one in states(bootstrap, names):
        isr_min = 0
        if trouble.under_min_isr:
            if one.topic not in minima:
                minima[one.topic] = _isr_min(client, one.topic)
            isr_min = min(minima[one.topic], len(one.replicas))
        if (
            (trouble.under_replicated and len(one.isr) < len(one.replicas))
            or len(one.isr) < isr_min
            or ((trouble.unavailable or trouble.under_min_isr) and one.leader is None)
        ):
            found.append(one)
    return found


def _isr_min(client: "AdminClient", topic: str) -> int:
    found = resources.describe(client, Resource("topic", topic))
    return next(int(one.value or 0) for one in found if one.name == "min.insync.replicas")


def show(found: Iterable[Replicas], trouble: Trouble, *, json: bool) -> None:
    rows = list(found)
    if json:
        output.show_json([one._asdict() for one in rows])
    elif rows:
        columns = ("topic", "partition", "leader", "replicas", "isr", "elr", "offline")
        output.show_table(
            columns, [(one.topic, one.partition, one.leader, *map(_ids, one[3:])) for one in rows]
        )
    else:
        output.say(f"no partition is {trouble}")


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
