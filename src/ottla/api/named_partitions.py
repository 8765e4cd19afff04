"""The partitions that a request names: each once, however often it stands there.

A request may name very many (`wire/decoders`), so going through them lets others in between.
"""

from collections.abc import Generator, Iterable, Mapping
from typing import TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.broker import Broker
from ottla.controller.image import Topic
from ottla.replication.partition import Partition
from ottla.wire.messages.produce import PartitionProduceData, PartitionProduceResponse, TopicProduceResponse

A = TypeVar("A")


def by_topic(named: Iterable[tuple[str, int, A]]) -> Generator[None, None, dict[str, dict[int, A]]]:
    """What is asked of each partition, by topic and index; asked twice, the last one counts."""
    topics: dict[str, dict[int, A]] = {}
    for topic, index, asked in named:
        topics.setdefault(topic, {})[index] = asked
        yield
    return topics


def held_partitions(broker: Broker, topics: Mapping[str, Mapping[int, A]]) -> list[Partition]:
    """Those of them that this broker has."""
    held = (
        broker.partitions.get(TopicPartition(topic, index))
        for topic, indexes in topics.items()
        if topic in broker.image.topics
        for index in indexes
    )
    return [partition for partition in held if partition is not None]


def named_once(
    batches: list[tuple[TopicProduceResponse, PartitionProduceData]],
) -> list[tuple[TopicProduceResponse, PartitionProduceData]]:
    """The batches of partitions that a Produce names once. One that it names again is answered once, with
    INVALID_REQUEST, and nothing is written there."""
    named = dict[tuple[str, bytes, int], tuple[TopicProduceResponse, PartitionProduceData] | None]()
    for batch in batches:
        topic, asked = batch
        key = topic.name, topic.topic_id, asked.index
        if key not in named:
            named[key] = batch
        elif named[key] is not None:
            named[key] = None
            topic.partition_responses.append(
                PartitionProduceResponse(
                    index=asked.index,
                    error_code=ErrorCode.INVALID_REQUEST,
                    error_message="The request names this partition more than once.",
                    base_offset=-1,
                )
            )
    return [batch for batch in named.values() if batch is not None]


def unknown_partition(topic: Topic | None, name: str, partition: int) -> ApiError:
    """The error for what is not there."""
    missing = f"topic '{name}'" if topic is None else f"partition {name}-{partition}"
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no {missing}.")
