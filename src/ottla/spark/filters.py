"""Filters that Spark hands down, as bounds on what is read.

Bounds on topic, partition and offset are exact, and Spark is told so. A lower bound on the timestamp
becomes an offset by way of the log's time index, and Spark filters once more. An upper bound on it is not
used: records may be out of order, and one behind the first that is too late may still be wanted.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from ottla.spark.plan import Range

_NEVER_NULL = {"topic", "partition", "offset", "timestamp", "timestampType"}


@dataclass(frozen=True)
class Bounds:
    """What all pushed filters together leave; None is no bound."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    partition_min: int | None = None
    partition_end: int | None = None
    offset_min: int | None = None
    offset_end: int | None = None
    time_ms_min: int | None = None

    def narrow(self, ranges: Iterable[Range]) -> list[Range]:
        """Without the timestamp, for which a log has to be asked."""
        kept = []
        for range_ in ranges:
            start = range_.start if self.offset_min is None else max(range_.start, self.offset_min)
            end = range_.end if self.offset_end is None else min(range_.end, self.offset_end)
            if start < end and self._has(range_):
                kept.append(replace(range_, start=start, end=end))
        return kept

    def _has(self, range_: Range) -> bool:
        return (
            (self.topics is None or range_.topic in self.topics)
            and (self.partitions is None or range_.partition in self.partitions)
            and (self.partition_min is None or range_.partition >= self.partition_min)
            and (self.partition_end is None or range_.partition < self.partition_end)
        )


def push(filters: Iterable[Filter]) -> tuple[Bounds, list[Filter]]:
    """The bounds, and the filters that Spark still has to apply."""
    bounds = Bounds()
    left = []
    for filter_ in filters:
        narrower, is_exact = _push(bounds, filter_)
        bounds = narrower
        if not is_exact:
            left.append(filter_)
    return bounds, left


def _push(bounds: Bounds, filter_: Filter) -> tuple[Bounds, bool]:
    path: tuple[str, ...] = getattr(filter_, "attribute", ())
    column = path[0] if len(path) == 1 else None
    if isinstance(filter_, IsNotNull):
        return bounds, column in _NEVER_NULL
    value = getattr(filter_, "value", None)
    match column:
        case "topic":
            return _topic(bounds, filter_, value)
        case "partition" | "offset":
            return _number(bounds, filter_, column, value)
        case "timestamp":
            return _timestamp(bounds, filter_, value), False
    return bounds, False


def _topic(bounds: Bounds, filter_: Filter, value: Any) -> tuple[Bounds, bool]:
    if isinstance(filter_, In) and all(isinstance(name, str) for name in value):
        wanted = frozenset(value)
    elif isinstance(filter_, EqualTo | EqualNullSafe) and isinstance(value, str):
        wanted = frozenset({value})
    else:
        return bounds, False
    return replace(bounds, topics=wanted if bounds.topics is None else bounds.topics & wanted), True


def _number(bounds: Bounds, filter_: Filter, column: str, value: Any) -> tuple[Bounds, bool]:
    if isinstance(filter_, In):
        if column != "partition" or not all(type(number) is int for number in value):
            return bounds, False
        wanted = frozenset(value)
        both = wanted if bounds.partitions is None else bounds.partitions & wanted
        return replace(bounds, partitions=both), True
    if type(value) is not int:
        return bounds, False
    least: int | None = None
    end: int | None = None
    match filter_:
        case EqualTo() | EqualNullSafe():
            least, end = value, value + 1
        case GreaterThan():
            least = value + 1
        case GreaterThanOrEqual():
            least = value
        case LessThan():
            end = value
        case LessThanOrEqual():
            end = value + 1
        case _:
            return bounds, False
    if column == "offset":
        low, high = _both(max, bounds.offset_min, least), _both(min, bounds.offset_end, end)
        return replace(bounds, offset_min=low, offset_end=high), True
    low, high = _both(max, bounds.partition_min, least), _both(min, bounds.partition_end, end)
    return replace(bounds, partition_min=low, partition_end=high), True


def _both(choose: Callable[[int, int], int], first: int | None, second: int | None) -> int | None:
    if first is None or second is None:
        return first if second is None else second
    return choose(first, second)


def _timestamp(bounds: Bounds, filter_: Filter, value: Any) -> Bounds:
    """A time without a zone is a timestamp_ntz, which says nothing without Spark's session time zone."""
    is_lower = isinstance(filter_, EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual)
    if not is_lower or not isinstance(value, datetime) or value.tzinfo is None:
        return bounds
    since = value - datetime(1970, 1, 1, tzinfo=UTC)
    time_ms = (since.days * 86_400_000) + since.seconds * 1000 + since.microseconds // 1000
    return replace(bounds, time_ms_min=max(time_ms, bounds.time_ms_min or 0))
