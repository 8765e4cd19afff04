"""Where partitions begin and end, and which record is the first since a time."""

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.librdkafka import cluster
from ottla.client.librdkafka.errors import errors_explained, request_s

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")
Partition = tuple[str, int]

AGAIN_S = 0.1


def lag(committed: int | None, end: int | None) -> int | None:
    return None if committed is None or end is None else max(0, end - committed)


def watermarks(client: Any, topic: str, partition: int) -> tuple[int, int]:
    """The first offset of a partition, and the one behind its last record."""
    from confluent_kafka import TopicPartition

    topic_partition = TopicPartition(topic, partition)
    offsets: tuple[int, int] = patiently(
        lambda: client.get_watermark_offsets(topic_partition, timeout=request_s())
    )
    return offsets


def patiently(ask: Callable[[], T]) -> T:
    """Ask again while a leader moves: librdkafka does that for produce and fetch, not for offsets."""
    from confluent_kafka import KafkaError, KafkaException

    moving = {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError._TRANSPORT,
    }
    deadline = time.monotonic() + request_s()
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in moving or time.monotonic() > deadline:
                raise
        time.sleep(AGAIN_S)


def starts(client: "AdminClient", partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Where partitions begin, of those that are there and have a leader."""
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

    return _bounds(client, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def ends(client: "AdminClient", partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Where partitions end, of those that are there and have a leader."""
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

    return _bounds(client, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]


def _bounds(client: "AdminClient", partitions: Iterable[Partition], spec: Any) -> dict[Partition, int]:
    topics = cluster.metadata(client).topics
    there = [
        (topic, number)
        for topic, number in partitions
        if topic in topics and number in topics[topic].partitions
    ]
    return _offsets(client, there, spec)


def at_time(
    client: "AdminClient", partitions: Iterable[Partition], timestamp_ms: int
) -> dict[Partition, int]:
    """The first offset at or after a time, of partitions that have one."""
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

    # Negative times have a meaning of their own in ListOffsets; nothing is older than 1970.
    spec = OffsetSpec.for_timestamp(max(0, timestamp_ms))
    return _offsets(client, partitions, spec)


def _offsets(client: "AdminClient", partitions: Iterable[Partition], spec: Any) -> dict[Partition, int]:
    from confluent_kafka import KafkaException, TopicPartition

    asked: dict[Any, Any] = {TopicPartition(*partition): spec for partition in partitions}
    if not asked:
        return {}
    offsets: dict[Partition, int] = dict.fromkeys(
        ((topic_partition.topic, topic_partition.partition) for topic_partition in asked), -1
    )
    with errors_explained("the offsets of the partitions are not known"):
        answers = client.list_offsets(asked, request_timeout=request_s())
        for topic_partition, future in answers.items():
            with contextlib.suppress(KafkaException):  # one partition's error is that partition's
                offsets[topic_partition.topic, topic_partition.partition] = future.result(request_s()).offset
    return {topic_partition: offset for topic_partition, offset in offsets.items() if offset >= 0}
