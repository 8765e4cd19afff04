"""Moving what a group has committed: a plan first, then the deed.

The rules are those of kafka-consumer-groups: an offset before the start or after the end of a partition
becomes its start or end, with a warning; a time after the last record is the end; a group that nobody knows
may be given offsets before its first member comes; a group with members is left alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.command_error import CommandError
from ottla.base.errors import ErrorCode
from ottla.client.admin.groups import DEAD, EMPTY, Group
from ottla.client.librdkafka import cluster, partition_offsets
from ottla.client.librdkafka.errors import errors_explained, explain, request_s
from ottla.client.librdkafka.partition_offsets import Partition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

Say = Callable[[str], None]


class Goal(NamedTuple):
    """Where to go; exactly one is set."""

    to_earliest: bool
    to_latest: bool
    to_offset: int | None
    to_time_ms: int | None
    shift_by: int | None


class Move(NamedTuple):
    topic: str
    partition: int
    committed: int | None
    new: int
    end: int

    @property
    def lags(self) -> tuple[int | None, int | None]:
        return partition_offsets.lag(self.committed, self.end), partition_offsets.lag(self.new, self.end)


def check_idle(group: Group) -> None:
    """Members would go on where they are, and commit over what was reset."""
    if group.members or group.state not in (EMPTY, DEAD):
        count = len(group.members)
        raise CommandError(
            f"group {group.id} is {group.state} and has {count} member{'' if count == 1 else 's'}; "
            "stop them first, then reset",
            kafka_error=ErrorCode.NON_EMPTY_GROUP.name,
        )


def targets(
    client: "AdminClient", group: Group, chosen: Mapping[str, set[int] | None], say: Say
) -> list[Partition]:
    """The partitions to reset: those asked for, or all that are committed and whose topic is still there."""
    if chosen:
        return sorted(
            (topic, number)
            for topic, numbers in chosen.items()
            for number in cluster.partitions(client, topic, numbers or ())
        )
    topics = cluster.metadata(client).topics
    topic_partitions = []
    for position in group.positions:
        if position.topic in topics and position.partition in topics[position.topic].partitions:
            topic_partitions.append((position.topic, position.partition))
        else:
            say(f"warning: {position.topic} {position.partition} is not there any more and is left as it is")
    if not topic_partitions:
        raise CommandError(f"group {group.id} has no committed offsets; name topics with --topic")
    return topic_partitions


# -- the plan --------------------


def plan(
    client: "AdminClient", group: Group, topic_partitions: list[Partition], goal: Goal, say: Say
) -> list[Move]:
    starts = partition_offsets.starts(client, topic_partitions)
    ends = partition_offsets.ends(client, topic_partitions)
    lost = [
        topic_partition
        for topic_partition in topic_partitions
        if topic_partition not in starts or topic_partition not in ends
    ]
    if lost:
        raise CommandError(f"{lost[0][0]} {lost[0][1]} has no leader now; nothing was changed")
    committed = {(position.topic, position.partition): position.committed for position in group.positions}
    times = (
        {}
        if goal.to_time_ms is None
        else partition_offsets.at_time(client, topic_partitions, goal.to_time_ms)
    )
    moves = []
    for topic_partition in topic_partitions:
        start, end, old = starts[topic_partition], ends[topic_partition], committed.get(topic_partition)
        wanted = _wanted(goal, topic_partition, old, start, end, times.get(topic_partition, end))
        moves.append(Move(*topic_partition, old, _clamped(topic_partition, wanted, start, end, say), end))
    return moves


def _wanted(
    goal: Goal, topic_partition: Partition, old: int | None, start: int, end: int, at_time: int
) -> int:
    if goal.to_earliest:
        return start
    if goal.to_latest:
        return end
    if goal.to_offset is not None:
        return goal.to_offset
    if goal.to_time_ms is not None:
        return at_time
    assert goal.shift_by is not None, "a goal has exactly one way"
    if old is None:
        raise CommandError(
            f"{topic_partition[0]} {topic_partition[1]} has no committed offset to shift; nothing was changed"
        )
    return old + goal.shift_by


def _clamped(topic_partition: Partition, wanted: int, start: int, end: int, say: Say) -> int:
    new = min(max(wanted, start), end)
    if new != wanted:
        beyond = f"before the start, {start}" if new == start and wanted < start else f"after the end, {end}"
        topic, partition = topic_partition
        say(f"warning: {topic} {partition}: offset {wanted} is {beyond}, which is taken instead")
    return new


# -- the deed --------------------


def execute(client: "AdminClient", group: str, moves: list[Move]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    wanted = [TopicPartition(move.topic, move.partition, move.new) for move in moves]
    with errors_explained(f"group {group}"):
        asked = client.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=request_s()
        )
        answered = asked[group].result(request_s()).topic_partitions
    problems = list(_problems(answered))
    if problems:
        raise CommandError(f"group {group}: {'; '.join(problems)}")


def _problems(answered: "Iterable[object]") -> Iterator[str]:
    from confluent_kafka import KafkaError

    for answer in answered:
        error = getattr(answer, "error", None)
        if error is None:
            continue
        if error.code() == KafkaError.UNKNOWN_MEMBER_ID:
            yield "a member joined meanwhile; stop it first, then reset"
            return
        yield f"{getattr(answer, 'topic', '')} {getattr(answer, 'partition', '')}: {explain(error)}"
