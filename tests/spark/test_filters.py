"""Which filters become bounds, and which Spark still has to apply."""

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from ottla.spark.filters import Bounds, push
from ottla.spark.plan import Range

EVERYTHING = [Range(topic, number, 0, 100) for topic in ("a", "b") for number in range(3)]
NOON = datetime(2026, 1, 1, 12, 0, 0, 1500, tzinfo=UTC)


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([EqualTo(("topic",), "a")], [Range("a", n, 0, 100) for n in range(3)]),
        ([In(("topic",), ["b", "c"])], [Range("b", n, 0, 100) for n in range(3)]),
        ([In(("topic",), ["a", "b"]), EqualTo(("topic",), "c")], []),
        ([EqualTo(("partition",), 1)], [Range("a", 1, 0, 100), Range("b", 1, 0, 100)]),
        ([In(("partition",), [0, 7])], [Range("a", 0, 0, 100), Range("b", 0, 0, 100)]),
        ([GreaterThan(("partition",), 1)], [Range("a", 2, 0, 100), Range("b", 2, 0, 100)]),
        (
            [EqualTo(("topic",), "a"), EqualTo(("partition",), 0), GreaterThan(("offset",), 10)],
            [Range("a", 0, 11, 100)],
        ),
        (
            [
                EqualTo(("topic",), "a"),
                LessThan(("partition",), 1),
                GreaterThanOrEqual(("offset",), 10),
                LessThanOrEqual(("offset",), 20),
                IsNotNull(("offset",)),
            ],
            [Range("a", 0, 10, 21)],
        ),
        ([LessThan(("offset",), 0)], []),
    ],
)
def test_bounds_on_topic_partition_and_offset_are_exact(filters: list[Filter], left: list[Range]) -> None:
    bounds, others = push(filters)
    assert others == []
    assert bounds.narrow(EVERYTHING) == left


def test_a_lower_bound_on_the_time_is_used_and_filtered_again() -> None:
    after = GreaterThanOrEqual(("timestamp",), NOON)
    bounds, left = push([after])
    assert bounds == Bounds(time_ms_min=1767268800001)
    assert left == [after]


@pytest.mark.parametrize(
    "untouched",
    [
        LessThan(("timestamp",), NOON),
        GreaterThan(("timestamp",), NOON.replace(tzinfo=None)),
        Not(EqualTo(("partition",), 1)),
        StringStartsWith(("topic",), "a"),
        EqualTo(("value",), b"x"),
        IsNotNull(("key",)),
        In(("offset",), [1, 2]),
        GreaterThan(("topic",), "a"),
        EqualTo(("offset",), 1.5),
    ],
)
def test_what_is_not_exact_or_not_understood_is_left_to_spark(untouched: Filter) -> None:
    assert push([untouched]) == (Bounds(), [untouched])
