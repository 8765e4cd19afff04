"""What a cluster holds at a moment: brokers, topics, where partitions begin and end, and how large they are.

Two of them, some time apart, say how fast it grows. What somebody may not know, or what has no leader, is
left out and not an error: the rest is still worth seeing.
"""

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.base.addresses import Address
from ottla.base.ids import TopicPartition
from ottla.base.offset_times import EARLIEST, LATEST
from ottla.client.cluster import Cluster
from ottla.client.errors import Again, ClientError
from ottla.client.offsets import list_offsets
from ottla.client.retry import Deadline, until
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.metadata import MetadataResponsePartition
from ottla.wire.primitives import ProtocolError

PARTLY_S = 3.0  # for what can be left out


class Snapshot(NamedTuple):
    taken_s: float  # by a clock that only goes forward
    brokers: Mapping[int, Address]
    controller: int
    topics: Mapping[str, list[MetadataResponsePartition]]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    sizes: Mapping[TopicPartition, int]  # in bytes, of the replica that leads

    def partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, partition.partition_index) for partition in self.topics[topic]]

    def records(self, topic: str) -> int | None:
        """Offsets that are there; None if that is not known of any partition."""
        counts = [
            self.ends[partition] - self.starts[partition]
            for partition in self.partitions(topic)
            if partition in self.ends and partition in self.starts
        ]
        return sum(counts) if counts else None

    def size(self, topic: str) -> int | None:
        sizes = [self.sizes[partition] for partition in self.partitions(topic) if partition in self.sizes]
        return sum(sizes) if sizes else None

    def rate(self, before: "Snapshot | None", partitions: Iterable[TopicPartition]) -> float | None:
        """Records a second that came in since then."""
        if before is None or self.taken_s <= before.taken_s:
            return None
        grown = sum(
            max(0, self.ends[partition] - before.ends[partition])
            for partition in partitions
            if partition in self.ends and partition in before.ends
        )
        return grown / (self.taken_s - before.taken_s)


def snapshot(cluster: Cluster, deadline: Deadline) -> Snapshot:
    response = until(deadline, "asking for the topics", lambda: cluster.refresh(None, deadline))
    topics = {
        topic.name: sorted(topic.partitions, key=lambda partition: partition.partition_index)
        for topic in sorted(response.topics, key=lambda topic: topic.name or "")
        if topic.name is not None and not topic.error_code
    }
    led = [
        TopicPartition(name, partition.partition_index)
        for name, partitions in topics.items()
        for partition in partitions
        if partition.leader_id in cluster.brokers
    ]
    return Snapshot(
        time.monotonic(),
        dict(cluster.brokers),
        cluster.controller,
        topics,
        _offsets(cluster, led, EARLIEST),
        _offsets(cluster, led, LATEST),
        _sizes(cluster),
    )


def _offsets(cluster: Cluster, partitions: list[TopicPartition], which: int) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    times = dict.fromkeys(partitions, which)
    return list_offsets(cluster, times, read_committed=False, deadline=Deadline(PARTLY_S), refusals={})


def _sizes(cluster: Cluster) -> dict[TopicPartition, int]:
    sizes = {}
    deadline = Deadline(PARTLY_S)
    for node, address in cluster.brokers.items():
        try:
            with cluster.borrow(address, deadline) as connection:
                answer = connection.call(
                    DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, deadline
                )
        except (OSError, ProtocolError, ClientError, Again):
            continue
        for folder in answer.results:
            for topic in folder.topics:
                for partition in topic.partitions:
                    topic_partition = TopicPartition(topic.name, partition.partition_index)
                    leader = cluster.leaders.get(topic_partition)
                    if leader is not None and leader.node == node and not partition.is_future_key:
                        sizes[topic_partition] = partition.partition_size
    return sizes


def group_names(cluster: Cluster, deadline: Deadline) -> list[str]:
    """Every broker knows those that it coordinates; what one that is away knows is left out."""
    names: set[str] = set()
    for address in cluster.brokers.values():
        try:
            with cluster.borrow(address, deadline) as connection:
                answer = connection.call(ListGroupsRequest(), ListGroupsResponse, deadline)
        except (OSError, ProtocolError, ClientError, Again):
            continue
        names |= {group.group_id for group in answer.groups}
    return sorted(names)
