"""Where all partitions begin and end: one question to each leader, whom the snapshot knows.

confluent-kafka answers each partition with an object of its own and asks for all metadata first, which is
most of what a measurement of a thousand topics would cost.
"""

from collections.abc import Iterable

from ottla.base.command_error import CommandError
from ottla.client.admin.requests import Cluster
from ottla.console.cluster.snapshot import Topic
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

Offsets = dict[tuple[str, int], int]
LATEST, EARLIEST = -1, -2
_CONSUMER = -1


def starts_and_ends(cluster: Cluster, topics: Iterable[Topic]) -> tuple[Offsets, Offsets, dict[int, str]]:
    """Of partitions that have a leader who answers; and why others do not."""
    starts: Offsets = {}
    ends: Offsets = {}
    silent: dict[int, str] = {}
    for leader, led in _by_leader(topics).items():
        try:
            for offsets, time_ms in ((starts, EARLIEST), (ends, LATEST)):
                offsets |= _asked(cluster, leader, led, time_ms)
        except CommandError as error:
            silent[leader] = str(error)
    return starts, ends, silent


def _by_leader(topics: Iterable[Topic]) -> dict[int, dict[str, list[int]]]:
    """The partitions of each leader, by topic."""
    led: dict[int, dict[str, list[int]]] = {}
    for topic in topics:
        for partition in topic.partitions:
            if not partition.is_offline:
                led.setdefault(partition.leader, {}).setdefault(topic.name, []).append(partition.number)
    return led


def _asked(cluster: Cluster, leader: int, topics: dict[str, list[int]], time_ms: int) -> Offsets:
    request = ListOffsetsRequest(
        replica_id=_CONSUMER,
        topics=[
            ListOffsetsTopic(name=name, partitions=_partitions(numbers, time_ms))
            for name, numbers in topics.items()
        ],
    )
    answer = cluster.ask_broker(leader, request, ListOffsetsResponse)
    return {
        (topic.name, partition.partition_index): partition.offset
        for topic in answer.topics
        for partition in topic.partitions
        if not partition.error_code and partition.offset >= 0
    }


def _partitions(numbers: Iterable[int], time_ms: int) -> list[ListOffsetsPartition]:
    return [ListOffsetsPartition(partition_index=number, timestamp=time_ms) for number in numbers]
