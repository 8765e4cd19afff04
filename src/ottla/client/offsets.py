"""ListOffsets: where logs begin and end, and which offset belongs to a time."""

from collections.abc import Iterator, Mapping

from ottla.base.ids import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.exchange import Answer, Exchange, by_topic
from ottla.client.retry import Deadline
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_CONSUMER = -1


def list_offsets(
    cluster: Cluster,
    times: Mapping[TopicPartition, int],
    *,
    read_committed: bool,
    deadline: Deadline,
    refusals: dict[TopicPartition, ClientError] | None = None,
) -> dict[TopicPartition, int]:
    """The first offset at or after a time in ms, LATEST or EARLIEST; -1 where there is none. A partition that
    may not be asked about or does not answer is an error, or with `refusals` goes there."""

    def requests(topic_partitions: list[TopicPartition]) -> Iterator[ListOffsetsRequest]:
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=number,
                        current_leader_epoch=cluster.leader_of(TopicPartition(topic, number)).epoch,
                        timestamp=times[TopicPartition(topic, number)],
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(topic_partitions).items()
        ]
        yield ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=int(read_committed),
            topics=topics,
            timeout_ms=int(deadline.within(10.0) * 1000),
        )

    def answers(response: ListOffsetsResponse) -> Iterator[Answer[int]]:
        for topic in response.topics:
            for partition in topic.partitions:
                yield Answer(
                    TopicPartition(topic.name, partition.partition_index),
                    partition.error_code,
                    partition.offset,
                )

    ask = Exchange("asking for the offsets of", ListOffsetsResponse, requests, answers, refusals=refusals)
    return ask.run(cluster, times.keys(), deadline)
