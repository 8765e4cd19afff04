"""Partitions that move between brokers, and how far each is."""

from typing import NamedTuple

from ottla.client.admin.refusals import check_answer
from ottla.client.admin.requests import Cluster
from ottla.console.cluster.log_dirs import LogDirectory
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


class Reassignment(NamedTuple):
    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def reassignments(cluster: Cluster) -> list[Reassignment]:
    answer = cluster.ask_controller(
        ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse
    )
    check_answer(answer.error_code, "listing reassignments", answer.error_message)
    return [
        Reassignment(
            topic.name,
            partition.partition_index,
            tuple(partition.replicas),
            tuple(partition.adding_replicas),
            tuple(partition.removing_replicas),
        )
        for topic in answer.topics
        for partition in topic.partitions
    ]


def progress(move: Reassignment, directories: list[LogDirectory]) -> float | None:
    """How much of what has to be copied is there, 0 to 1; None if sizes are not known."""
    sizes = {
        directory.broker: directory.sizes[move.topic, move.partition]
        for directory in directories
        if (move.topic, move.partition) in directory.sizes
    }
    whole = max((size for broker, size in sizes.items() if broker not in move.adding), default=0)
    if not whole or not move.adding:
        return None
    copied = sum(min(whole, sizes.get(broker, 0)) for broker in move.adding)
    return copied / (whole * len(move.adding))
