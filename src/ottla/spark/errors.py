"""What a query may fail with, under the names that the official connector uses.

`OptionError` is a mistake in how the source was asked; `SourceError` carries an error class. Both reach the
person through Spark, which puts a Python traceback around them: the message has to say everything by itself.
"""

import functools
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from ottla.client import ClientError, TopicPartition

P = ParamSpec("P")
R = TypeVar("R")

_DATA_LOSS = (
    "Some data may have been lost because they are not available any more; either the data was aged out by "
    "retention, or "
    "the topic was deleted before all of it was read. If your query should go on in such cases, set the "
    "source option "
    "failOnDataLoss to false. Reason: "
)


class OptionError(ValueError):
    """An option is unknown, malformed, missing, or contradicts another."""


class SourceError(Exception):
    """The message begins with the error class in brackets, as Spark's own do."""

    def __init__(self, error_class: str, message: str) -> None:
        super().__init__(error_class, message)
        self.error_class = error_class
        self.message = message

    def __str__(self) -> str:
        return f"[{self.error_class}] {self.message}"


class DataLoss(SourceError):  # noqa: N818  (it is what happened)
    """Offsets that were to be read cannot be read any more."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"KAFKA_DATA_LOSS.{kind}", _DATA_LOSS + reason)
        self.reason = reason

    def __reduce__(self) -> tuple[type["DataLoss"], tuple[str, str]]:
        return type(self), (self.error_class.partition(".")[2], self.reason)


def briefly(method: Callable[P, R]) -> Callable[P, R]:
    """For what Spark calls: an error that says everything by itself leaves without the trace of how we came
    to it, which Spark would print before it."""

    @functools.wraps(method)
    def brief(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except (OptionError, SourceError, ClientError) as error:
            raise error.with_traceback(None) from None

    return brief


def named(topic_partitions: Iterable[TopicPartition]) -> str:
    """Topic-partitions as Kafka writes them, in order."""
    return ", ".join(
        f"{topic_partition.topic}-{topic_partition.partition}" for topic_partition in sorted(topic_partitions)
    )


def partitions_deleted(topic_partitions: Iterable[TopicPartition]) -> DataLoss:
    return DataLoss("PARTITIONS_DELETED", f"Partitions {named(topic_partitions)} have been deleted.")


def initial_offset_not_found(topic_partitions: Iterable[TopicPartition]) -> DataLoss:
    return DataLoss(
        "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
        f"Cannot find initial offsets for partitions {named(topic_partitions)}. They may have been deleted.",
    )


def added_partition(topic_partition: TopicPartition, start: int) -> DataLoss:
    return DataLoss(
        "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
        f"Added partition {named([topic_partition])} starts from {start} instead of 0: offsets [0, {start}) "
        "were removed before they were read.",
    )


def offset_changed(topic_partition: TopicPartition, before: int, now: int) -> DataLoss:
    return DataLoss(
        "PARTITION_OFFSET_CHANGED",
        f"Partition {named([topic_partition])} offset was changed from {before} to {now}. Either the start "
        "offset is set too high and this is the first batch, or the topic was deleted and created again, or "
        "its log was cut back.",
    )


def not_readable(
    topic_partition: TopicPartition, start: int, end: int, why: str, group: str = ""
) -> DataLoss:
    reader = f" with consumer group {group}" if group else ""
    return DataLoss(
        "COULD_NOT_READ_OFFSET_RANGE",
        f"Could not read records in offset [{start}, {end}) for topic partition "
        f"{named([topic_partition])}{reader}: {why}.",
    )


def start_does_not_match(
    specified: Iterable[TopicPartition], assigned: Iterable[TopicPartition]
) -> SourceError:
    return SourceError(
        "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED",
        "Partitions specified for Kafka start offsets don't match what are assigned. Maybe topic partitions "
        "are created "
        "or deleted while the query is running. Use -1 for latest, -2 for earliest. "
        f"Specified: {named(specified)} Assigned: {named(assigned)}",
    )


def timestamp_does_not_match(
    position: str, specified: Iterable[TopicPartition], assigned: Iterable[TopicPartition]
) -> SourceError:
    return SourceError(
        "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED",
        f"Partitions specified for Kafka timestamp based {position} offsets don't match what are assigned. "
        f"Maybe topic "
        "partitions are created or deleted while the query is running, or you didn't specify all the "
        "partitions. "
        f"Specified: {named(specified)} Assigned: {named(assigned)}",
    )


def start_after_end(topic_partition: TopicPartition, start: int, end: int, *, resolved: bool) -> SourceError:
    kind = "RESOLVED" if resolved else "UNRESOLVED"
    word = "resolved" if resolved else "specified"
    return SourceError(
        f"{kind}_START_OFFSET_GREATER_THAN_END_OFFSET",
        f"The {word} start offset {start} is greater than the {word} end offset {end} for topic "
        f"{topic_partition.topic} "
        f"partition {topic_partition.partition}.",
    )


def start_time_after_end_time(topic_partition: TopicPartition, start_ms: int, end_ms: int) -> SourceError:
    return SourceError(
        "UNRESOLVED_START_TIMESTAMP_GREATER_THAN_END_TIMESTAMP",
        f"The specified start timestamp {start_ms} is greater than the end timestamp {end_ms} for topic "
        f"{topic_partition.topic} "
        f"partition {topic_partition.partition}.",
    )


def different_partitions(start: Iterable[TopicPartition], end: Iterable[TopicPartition]) -> SourceError:
    return SourceError(
        "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET",
        "The specified start offset and end offset should have the same topic-partitions. Topic-partitions "
        "for start "
        f"offset: {named(start)}, topic-partitions for end offset: {named(end)}.",
    )


def end_after_log_end(option: str, topic_partition: TopicPartition, asked: int, end: int) -> SourceError:
    return SourceError(
        "KAFKA_END_OFFSET_PAST_END_OF_LOG",
        f"{option} asks for {named([topic_partition])} up to offset {asked}, and its log ends at {end}: give "
        f"{end} or less, or -1 for whatever its end is. With failOnDataLoss=false the read ends there.",
    )


def unreachable(bootstrap: str, reason: str) -> SourceError:
    return SourceError(
        "KAFKA_BROKER_UNREACHABLE",
        f"{reason}: start the broker, or correct kafka.bootstrap.servers, which is {bootstrap}.",
    )


def null_topic() -> SourceError:
    return SourceError(
        "KAFKA_NULL_TOPIC_IN_DATA",
        "The Kafka message data sent to the producer contains a null topic. Use the `topic` option for "
        "setting a default "
        "topic.",
    )


def not_created(topic: str) -> SourceError:
    return SourceError(
        "UNKNOWN_TOPIC_OR_PARTITION",
        f"There is no topic {topic} to write to, and the brokers do not create it (auto.create.topics.enable "
        "is false): create it first.",
    )


def unknown_topics(topics: Iterable[str]) -> SourceError:
    return SourceError(
        "UNKNOWN_TOPIC_OR_PARTITION",
        f"There is no topic {', '.join(sorted(topics))}. A topic is not created by reading it: create it "
        f"first, or use "
        "subscribePattern, which takes topics as they come.",
    )
