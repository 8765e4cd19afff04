"""The partitions that a request names: each once, however often it stands there.

A request may name very many (`wire/compile_decode`), so going through them lets others in between.
"""

from collections.abc import Generator, Iterable, Mapping
from typing import TypeVar

from ottla.base.ids import TopicPartition
from ottla.broker.broker import Broker
from ottla.replication.partition import Partition

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
