"""The first record batches of many ranges at once: one request per leader instead of one per partition.

For reads of many partitions that have little new: 64 requests one after the other take 64 times as long as
one. It is a head start and no more. It tries once and reports no errors: a range that is not in the result,
or not wholly, is to be read with `fetch.Fetch`, which tries again and says what is wrong.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ottla.base.ids import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.errors import Again, ClientError
from ottla.client.exchange import by_topic
from ottla.client.fetch import FIRST_BYTES, SPARE_BYTES, whole_batches
from ottla.client.retry import Deadline
from ottla.records.fetched import Aborted, Fetched
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.primitives import ProtocolError


class Begun(NamedTuple):
    """What a range begins with, and the offset to go on at."""

    fetched: Fetched
    after: int


def fetch_together(
    cluster: Cluster,
    starts: Mapping[TopicPartition, int],
    *,
    read_committed: bool,
    max_bytes: int,
    deadline: Deadline,
) -> dict[TopicPartition, Begun]:
    """What could be had of every partition from its start on; `max_bytes` bounds all of it."""
    begun: dict[TopicPartition, Begun] = {}
    try:
        if any(topic_partition not in cluster.leaders for topic_partition in starts):
            cluster.refresh({topic_partition.topic for topic_partition in starts}, deadline)
        by_node: dict[int, list[TopicPartition]] = {}
        for topic_partition in starts:
            by_node.setdefault(cluster.leader_of(topic_partition).node, []).append(topic_partition)
        for node, topic_partitions in by_node.items():
            request = _request(cluster, topic_partitions, starts, read_committed, max_bytes // len(by_node))
            with cluster.borrow(cluster.address_of(node), deadline) as connection:
                response = connection.call(request, FetchResponse, deadline)
            begun |= dict(_begun(response, starts))
    except (OSError, ProtocolError, ClientError, Again):
        pass  # whoever reads the ranges that are missing will meet it
    return begun


def _request(
    cluster: Cluster,
    topic_partitions: list[TopicPartition],
    starts: Mapping[TopicPartition, int],
    read_committed: bool,
    max_bytes: int,
) -> FetchRequest:
    bytes_each = min(FIRST_BYTES, max(max_bytes // len(topic_partitions), SPARE_BYTES))

    def wanted(topic_partition: TopicPartition) -> FetchPartition:
        return FetchPartition(
            partition=topic_partition.partition,
            current_leader_epoch=cluster.leader_of(topic_partition).epoch,
            fetch_offset=starts[topic_partition],
            partition_max_bytes=bytes_each,
        )

    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        isolation_level=int(read_committed),
        topics=[
            FetchTopic(topic=topic, partitions=[wanted(TopicPartition(topic, number)) for number in numbers])
            for topic, numbers in by_topic(topic_partitions).items()
        ],
    )


def _begun(
    response: FetchResponse, starts: Mapping[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, Begun]]:
    for topic in response.responses:
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.topic, partition.partition_index)
            if partition.error_code or not partition.records or topic_partition not in starts:
                continue
            records = memoryview(partition.records)
            size, after = whole_batches(topic_partition, records, starts[topic_partition])
            if size:
                aborted = tuple(
                    Aborted(transaction.producer_id, transaction.first_offset)
                    for transaction in partition.aborted_transactions or ()
                )
                yield topic_partition, Begun(Fetched(records[:size], aborted), after)
