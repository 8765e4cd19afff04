"""The first record batches of many ranges at once: one request per leader instead of one per partition.

For reads of many partitions that have little new: 64 requests one after the other take 64 times as long as
one. It is a head start and no more. It tries once and reports no errors: a range that is not in the result,
or not wholly, is to be read with `fetching.Fetch`, which tries again and says what is wrong.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ottla.base.ids import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.errors import Again, ClientError
from ottla.client.exchange import by_topic
from ottla.client.fetching import FIRST_BYTES, SPARE_BYTES, whole_batches
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
    found: dict[TopicPartition, Begun] = {}
    try:
        if any(place not in cluster.leaders for place in starts):
            cluster.refresh({place.topic for place in starts}, deadline)
        by_node: dict[int, list[TopicPartition]] = {}
        for place in starts:
            by_node.setdefault(cluster.leader_of(place).node, []).append(place)
        for node, places in by_node.items():
            request = _request(cluster, places, starts, read_committed, max_bytes // len(by_node))
            with cluster.borrow(cluster.address_of(node), deadline) as connection:
                response = connection.call(request, FetchResponse, deadline)
            found |= dict(_begun(response, starts))
    except (OSError, ProtocolError, ClientError, Again):
        pass  # whoever reads the ranges that are missing will meet it
    return found


def _request(
    cluster: Cluster,
    places: list[TopicPartition],
    starts: Mapping[TopicPartition, int],
    read_committed: bool,
    max_bytes: int,
) -> FetchRequest:
    each = min(FIRST_BYTES, max(max_bytes // len(places), SPARE_BYTES))

    def wanted(place: TopicPartition) -> FetchPartition:
        return FetchPartition(
            partition=place.partition,
            current_leader_epoch=cluster.leader_of(place).epoch,
            fetch_offset=starts[place],
            partition_max_bytes=each,
        )

    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        isolation_level=int(read_committed),
        topics=[
            FetchTopic(topic=topic, partitions=[wanted(TopicPartition(topic, one)) for one in numbers])
            for topic, numbers in by_topic(places).items()
        ],
    )


def _begun(
    response: FetchResponse, starts: Mapping[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, Begun]]:
    for topic in response.responses:
        for one in topic.partitions:
            place = TopicPartition(topic.topic, one.partition_index)
            if one.error_code or not one.records or place not in starts:
                continue
            records = memoryview(one.records)
            size, after = whole_batches(place, records, starts[place])
            if size:
                gone = tuple(
                    Aborted(each.producer_id, each.first_offset) for each in one.aborted_transactions or ()
                )
                yield place, Begun(Fetched(records[:size], gone), after)
