"""Brokers, topics and partitions at one time."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ottla.base.ids import INTERNAL_TOPICS

NOBODY = -1


class BrokerNode(NamedTuple):
    id: int
    host: str
    port: int

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Partition(NamedTuple):
    number: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def is_offline(self) -> bool:
        return self.leader == NOBODY

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


class Topic(NamedTuple):
    name: str
    partitions: tuple[Partition, ...]

    @property
    def is_internal(self) -> bool:
        return is_internal(self.name)

    @property
    def replication(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)

    @property
    def troubled(self) -> list[Partition]:
        """Partitions that nobody leads, or whose replicas are not all in sync."""
        return [
            partition
            for partition in self.partitions
            if partition.is_offline or partition.is_under_replicated
        ]


@dataclass(frozen=True)
class Snapshot:
    """`controller` is -1 if nobody says who it is."""

    cluster_id: str
    controller: int
    brokers: dict[int, BrokerNode]
    topics: dict[str, Topic]

    @cached_property
    def offline(self) -> list[tuple[str, Partition]]:
        return [(topic.name, partition) for topic, partition in self._all() if partition.is_offline]

    @cached_property
    def under_replicated(self) -> list[tuple[str, Partition]]:
        return [
            (topic.name, partition)
            for topic, partition in self._all()
            if partition.is_under_replicated and not partition.is_offline
        ]

    @cached_property
    def leaders(self) -> Counter[int]:
        """How many partitions each broker leads."""
        return Counter(partition.leader for _, partition in self._all() if not partition.is_offline)

    @cached_property
    def replicas(self) -> Counter[int]:
        """How many partitions each broker holds."""
        return Counter(broker for _, partition in self._all() for broker in partition.replicas)

    @cached_property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())

    @cached_property
    def missing_brokers(self) -> list[int]:
        """Brokers that have replicas and are not there."""
        return sorted(set(self.replicas) - set(self.brokers))

    def _all(self) -> list[tuple[Topic, Partition]]:
        return [(topic, partition) for topic in self.topics.values() for partition in topic.partitions]


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS or name.startswith("__")


def snapshot_of(metadata: Any) -> Snapshot:
    """Out of what confluent-kafka says."""
    return Snapshot(
        metadata.cluster_id or "",
        metadata.controller_id,
        {
            node.id: BrokerNode(node.id, node.host, node.port)
            for node in sorted(metadata.brokers.values(), key=lambda node: node.id)
        },
        {
            name: Topic(
                name,
                tuple(
                    Partition(number, partition.leader, tuple(partition.replicas), tuple(partition.isrs))
                    for number, partition in sorted(topic.partitions.items())
                ),
            )
            for name, topic in sorted(metadata.topics.items())
        },
    )
