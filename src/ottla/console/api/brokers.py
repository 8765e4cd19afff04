"""Brokers: who is there."""

from dataclasses import dataclass
from typing import Annotated

from ottla.console.api.endpoints import Asked
from ottla.console.api.shapes import Rule


@dataclass(frozen=True)
class BrokerNode:
    id: int
    host: str
    port: int
    controller: bool
    leads: Annotated[int, Rule("Partitions that it leads.")]
    replicas: Annotated[int, Rule("Partitions that it holds.")]


@dataclass(frozen=True)
class ClusterNodes:
    cluster_id: str
    brokers: list[BrokerNode]
    missing: Annotated[list[int], Rule("Brokers that have replicas and are not there.")]


def list_all(asked: Asked) -> ClusterNodes:
    now = asked.visit.cluster.snapshot()
    return ClusterNodes(
        now.cluster_id,
        [
            BrokerNode(
                node.id,
                node.host,
                node.port,
                node.id == now.controller,
                now.leaders[node.id],
                now.replicas[node.id],
            )
            for node in now.brokers.values()
        ],
        now.missing_brokers,
    )
