"""Where a read starts and ends: as it was asked for, and as offsets.

Precedence, with either end: a timestamp for all, timestamps per partition, `earliest` / `latest` / offsets
per partition.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ottla.base.offset_times import EARLIEST, LATEST
from ottla.client import TopicPartition
from ottla.spark import errors
from ottla.spark.errors import OptionError
from ottla.spark.offsets import Offsets


@dataclass(frozen=True)
class Everywhere:
    """`earliest` or `latest`."""

    offset: int


@dataclass(frozen=True)
class ByOffset:
    """An offset for every partition; -1 and -2 stand for latest and earliest."""

    offsets: tuple[tuple[TopicPartition, int], ...]


@dataclass(frozen=True)
class ByTime:
    """Milliseconds for every partition, or, without any, `everywhere_ms` for all of them."""

    times: tuple[tuple[TopicPartition, int], ...]
    everywhere_ms: int | None = None
    or_latest: bool = True  # for a time after the last record; otherwise that is an error


Position: TypeAlias = Everywhere | ByOffset | ByTime


class Log(Protocol):
    """What is asked of a cluster here; `ottla.client.Client` has it."""

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...

    def ends(
        self, partitions: Iterable[TopicPartition], *, read_committed: bool = False
    ) -> dict[TopicPartition, int]: ...

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]: ...


def parse_offsets(option: str, text: str) -> Everywhere | ByOffset:
    """`earliest`, `latest`, or JSON."""
    word = text.strip().lower()
    if word in {"earliest", "latest"}:
        return Everywhere(EARLIEST if word == "earliest" else LATEST)
    offsets = per_partition(option, text, '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}')
    for topic_partition, offset in offsets.items():
        if offset < EARLIEST:
            raise OptionError(
                f"option {option}: {topic_partition} has offset {offset}; it takes 0 or more, -1 for latest, "
                "-2 for earliest"
            )
    return ByOffset(tuple(offsets.items()))


def per_partition(option: str, text: str, example: str) -> Offsets:
    wrong = OptionError(f"option {option}: expected e.g. {example}, got {text}")
    try:
        tree = json.loads(text)
    except json.JSONDecodeError:
        raise wrong from None
    if not isinstance(tree, dict) or not all(isinstance(numbers, dict) for numbers in tree.values()):
        raise wrong
    offsets: Offsets = {}
    for topic, numbers in tree.items():
        for number, value in numbers.items():
            if not number.isdecimal() or not isinstance(value, int) or isinstance(value, bool):
                raise wrong
            offsets[TopicPartition(topic, int(number))] = value
    return offsets


def check_order(start: Position, end: Position) -> None:
    """What can be said of two ends before anybody is asked."""
    if isinstance(start, ByOffset) and isinstance(end, ByOffset):
        _check_pairs(dict(start.offsets), dict(end.offsets), is_time=False)
    elif isinstance(start, ByTime) and isinstance(end, ByTime):
        if start.everywhere_ms is None and end.everywhere_ms is None:
            _check_pairs(dict(start.times), dict(end.times), is_time=True)
        elif (start.everywhere_ms or 0) > (end.everywhere_ms or start.everywhere_ms or 0):
            raise OptionError(
                f"option startingTimestamp is {start.everywhere_ms}, after endingTimestamp, "
                f"{end.everywhere_ms}"
            )


def _check_pairs(start: Offsets, end: Offsets, *, is_time: bool) -> None:
    if start.keys() != end.keys():
        raise errors.different_partitions(start, end)
    for topic_partition, value in start.items():
        if value > end[topic_partition] >= 0 <= value:
            if is_time:
                raise errors.start_time_after_end_time(topic_partition, value, end[topic_partition])
            raise errors.start_after_end(topic_partition, value, end[topic_partition], resolved=False)


def resolve(
    log: Log,
    position: Position,
    topic_partitions: list[TopicPartition],
    *,
    is_start: bool,
    read_committed: bool,
) -> Offsets:
    """The offset of every partition. Asks the brokers, also about those that need no asking: it is one
    request."""
    match position:
        case Everywhere(offset):
            wanted = dict.fromkeys(topic_partitions, offset)
        case ByOffset(offsets):
            wanted = dict(offsets)
            if wanted.keys() != set(topic_partitions):
                raise errors.start_does_not_match(wanted, topic_partitions)
        case ByTime():
            wanted = _at_times(log, position, topic_partitions, is_start=is_start)
    for mark, ask in (
        (EARLIEST, log.starts),
        (LATEST, lambda these: log.ends(these, read_committed=read_committed)),
    ):
        marked = [topic_partition for topic_partition, offset in wanted.items() if offset == mark]
        if marked:
            wanted |= ask(marked)
    return wanted


def _at_times(
    log: Log, position: ByTime, topic_partitions: list[TopicPartition], *, is_start: bool
) -> Offsets:
    if position.everywhere_ms is not None:
        times = dict.fromkeys(topic_partitions, position.everywhere_ms)
    else:
        times = dict(position.times)
        if times.keys() != set(topic_partitions):
            raise errors.timestamp_does_not_match(
                "starting" if is_start else "ending", times, topic_partitions
            )
    offsets = log.offsets_at(times)
    for topic_partition in sorted(times):
        if offsets[topic_partition] is None and not position.or_latest:
            raise OptionError(
                f"no offset matched from request of topic-partition {topic_partition} and timestamp "
                f"{times[topic_partition]}; set startingOffsetsByTimestampStrategy to latest to start at the "
                "end of such a partition"
            )
    return {
        topic_partition: LATEST if offset is None else offset for topic_partition, offset in offsets.items()
    }
