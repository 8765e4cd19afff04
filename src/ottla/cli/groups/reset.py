"""`ottla groups reset`: move what a group has committed. Shows the plan, and does it only when told to.

The rules are those of kafka-consumer-groups: an offset before the start or after the end of a partition
becomes its start or end, with a warning; a time after the last record is the end; a group that nobody knows
may be given offsets before its first member comes; a group with members is left alone.
"""

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.base.times import parse_ms
from ottla.cli import output
from ottla.cli.groups import descriptions
from ottla.cli.groups.descriptions import DEAD, EMPTY, Group
from ottla.cli.options import HERE, Json, WhereOption, connects
from ottla.cli.partitions import Chosen, parse_partitions
from ottla.client.librdkafka import cluster, connections, partition_offsets
from ottla.client.librdkafka.errors import REQUEST_S, errors_explained, explain
from ottla.client.librdkafka.partition_offsets import Partition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


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


@connects()
def reset(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group.", show_default=False)],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", "-t", metavar="TOPIC[:P,P]", help="This topic or these partitions; may be repeated."
        ),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Every partition the group has committed an offset of.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the oldest record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Behind the newest record.")] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", metavar="N", help="To this offset.")] = None,
    to_time: Annotated[
        str | None,
        typer.Option(
            "--to-time",
            metavar="TIME",
            help="To the first record at or after: 10m, 2h, 1d ago, or an ISO time.",
        ),
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="On by N records, or back by -N.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it. Without this, nothing changes.")] = False,
    json: Json = False,
    where: WhereOption = HERE,
) -> None:
    """Move the committed offsets of a group that has no members. Shows the plan only, unless --execute.

    An offset beyond the start or the end of a partition becomes the start or the end.
    A time after the last record is the end.

    \b
    Examples:
      ottla groups reset billing --topic orders --to-earliest
      ottla groups reset billing --topic orders:0,2 --shift-by -100 --execute
      ottla groups reset billing --all-topics --to-time 2030-01-31T12:00Z
    """
    chosen = parse_partitions(topic or [], "--topic")
    if bool(chosen) == all_topics:
        raise CommandError("say what to reset: --topic TOPIC[:P,P] or --all-topics", USAGE)
    goal = _goal(to_earliest, to_latest, to_offset, to_time, shift_by)
    client = connections.admin(where)
    (described_group,) = descriptions.described(client, [group])
    if described_group.members or described_group.state not in (EMPTY, DEAD):
        count = len(described_group.members)
        raise CommandError(
            f"group {group} is {described_group.state} and has {count} member{'' if count == 1 else 's'}; "
            "stop them first, then reset"
        )
    moves = _plan(client, described_group, _targets(client, described_group, chosen), goal)
    if execute:
        _execute(client, group, moves)
    _show(group, moves, json=json)
    partitions = f"{len(moves)} partition{'' if len(moves) == 1 else 's'}"
    done = f"group {group}: reset {partitions}" if execute else "nothing was changed; --execute does it"
    output.say(done)


def _goal(
    to_earliest: bool, to_latest: bool, to_offset: int | None, to_time: str | None, shift_by: int | None
) -> Goal:
    try:
        time_ms = None if to_time is None else parse_ms(to_time, int(time.time() * 1000))
    except ValueError as error:
        raise CommandError(str(error), USAGE) from None
    goal = Goal(to_earliest, to_latest, to_offset, time_ms, shift_by)
    if sum(wish is not None and wish is not False for wish in goal) != 1:
        options = "--to-earliest, --to-latest, --to-offset, --to-time, --shift-by"
        raise CommandError(f"say where to: exactly one of {options}", USAGE)
    return goal


def _targets(client: "AdminClient", group: Group, chosen: Chosen) -> list[Partition]:
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
            output.say(
                f"warning: {position.topic} {position.partition} is not there any more and is left as it is"
            )
    if not topic_partitions:
        raise CommandError(f"group {group.id} has no committed offsets; name topics with --topic")
    return topic_partitions


# -- the plan --------------------


def _plan(client: "AdminClient", group: Group, topic_partitions: list[Partition], goal: Goal) -> list[Move]:
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
        moves.append(Move(*topic_partition, old, _clamped(topic_partition, wanted, start, end), end))
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


def _clamped(topic_partition: Partition, wanted: int, start: int, end: int) -> int:
    new = min(max(wanted, start), end)
    if new != wanted:
        beyond = f"before the start, {start}" if new == start and wanted < start else f"after the end, {end}"
        topic, partition = topic_partition
        output.say(f"warning: {topic} {partition}: offset {wanted} is {beyond}, which is taken instead")
    return new


def _show(group: str, moves: Iterable[Move], *, json: bool) -> None:
    columns = ("topic", "partition", "committed", "new", "end", "lag", "new lag")
    rows = [(move.topic, move.partition, move.committed, move.new, move.end, *move.lags) for move in moves]
    if json:
        names = [name.replace(" ", "_") for name in columns]
        output.show_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        output.show_table(columns, rows, f"group {group}")


# -- the deed --------------------


def _execute(client: "AdminClient", group: str, moves: list[Move]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    wanted = [TopicPartition(move.topic, move.partition, move.new) for move in moves]
    with errors_explained(f"group {group}"):
        asked = client.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=REQUEST_S
        )
        answered = asked[group].result(REQUEST_S).topic_partitions
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
