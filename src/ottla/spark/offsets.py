"""Offsets: how Spark keeps them, and how much of what there is goes into a micro-batch.

Between Spark and us an offset is JSON in the official connector's shape, `{"topic": {"0": 123}}`, the next
offset to read per partition. The end of a query's first batch has one entry more, under a name that no
topic can have: where the batch starts. Spark persists the end of a batch and not its start, and asks for
the start of the first batch again after a restart; see docs/design/005-spark-offsets.md.
"""

import math
from collections.abc import Mapping
from typing import TypeAlias

from ottla.client import TopicPartition

Offsets: TypeAlias = dict[TopicPartition, int]
Json: TypeAlias = dict[str, dict[str, int]]

START = "#start"


def to_json(offsets: Mapping[TopicPartition, int]) -> Json:
    """In order, so that equal offsets are equal text: that is how Spark compares them."""
    tree: Json = {}
    for topic_partition in sorted(offsets):
        tree.setdefault(topic_partition.topic, {})[str(topic_partition.partition)] = offsets[topic_partition]
    return tree


def from_json(tree: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(number)): int(offset)
        for topic, numbers in tree.items()
        if topic != START
        for number, offset in numbers.items()
    }


def first_end(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> dict[str, object]:
    """The end of a query's first batch."""
    return {**to_json(end), START: to_json(start)}


def started_at(start: Mapping[str, object], end: Mapping[str, object]) -> Offsets | None:
    """Where the batch that ends here was first started, if it is a query's first; else None.

    An end that is marked is the start of the second batch: there is nothing to correct in that one.
    """
    marked = end.get(START)
    if marked is None or START in start:
        return None
    assert isinstance(marked, dict)
    return from_json(marked)


def limited(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], rows_max: int
) -> Offsets:
    """Ends that are at most about `rows_max` offsets away, each partition in proportion to what it has.

    No partition that has something gets nothing, as with the official connector: a small one would starve.
    """
    sizes = {
        topic_partition: end - starts[topic_partition]
        for topic_partition, end in ends.items()
        if end > starts[topic_partition]
    }
    total = sum(sizes.values())
    if total <= rows_max:
        return dict(ends)
    limited_to = dict(ends)
    for topic_partition, size in sizes.items():
        share = rows_max * (size / total)
        rows = math.ceil(share) if share < 1 else math.floor(share)
        limited_to[topic_partition] = min(ends[topic_partition], starts[topic_partition] + rows)
    return limited_to
