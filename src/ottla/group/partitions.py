"""Partitions by topic, as groups hold them, and the lists of them that messages and records have."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol, TypeAlias, TypeVar

Partitions: TypeAlias = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; a topic without partitions is not in it."""

NOWHERE: Final[Partitions] = {}

T = TypeVar("T", str, bytes)


class TopicPartitions(Protocol):
    """As the messages and the records have it."""

    topic_id: bytes
    partitions: list[int]


def to_partitions(listed: Iterable[TopicPartitions]) -> dict[bytes, frozenset[int]]:
    """A topic that is listed twice is merged."""
    merged: dict[bytes, frozenset[int]] = {}
    for topic in listed:
        if topic.partitions:
            merged[topic.topic_id] = merged.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return merged


def in_order(partitions: Mapping[T, Collection[int]]) -> list[tuple[T, list[int]]]:
    """To be listed: by topic id or name; topics without any are left out."""
    return [(topic, sorted(numbers)) for topic, numbers in sorted(partitions.items()) if numbers]


def is_subset(owned: Partitions | None, of: Partitions) -> bool:
    """Whether a member owns nothing but this. What we are not told is not known to be a subset."""
    return owned is not None and all(owned[topic] <= of.get(topic, frozenset()) for topic in owned)
