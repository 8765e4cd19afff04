"""`ottla consume`: records of a topic to stdout, up to its end or for ever.

Without --group partitions are assigned, not subscribed to: nothing is committed, and no group is needed.
With it, `group_member` does the reading.
"""

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.base.times import parse_ms
from ottla.cli import output
from ottla.cli.options import HERE, WhereOption, connects
from ottla.cli.records.formats import VALUE, formatter, shows_headers
from ottla.cli.records.group_member import PROTOCOLS, Membership
from ottla.cli.records.messages import Write, writer
from ottla.client.librdkafka import cluster, connections, partition_offsets
from ottla.client.librdkafka.errors import REQUEST_S, errors_explained
from ottla.client.librdkafka.messages import SILENCE_S, assigned_messages, is_end

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

ISOLATIONS = ("read_committed", "read_uncommitted")
# librdkafka believes every byte unless told otherwise.
DEFAULTS = {"isolation.level": ISOLATIONS[0], "check.crcs": "true"}


@connects()
def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to read.", show_default=False)],
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="From the oldest record. (the default without --follow)")
    ] = False,
    offset: Annotated[
        str | None,
        typer.Option(
            "--offset",
            "-o",
            metavar="OFFSET",
            help="From there: a number, earliest, latest, -N for the last N.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", "-s", metavar="TIME", help="From there: 10m, 2h, 1d, or an ISO time."),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", metavar="N", help="Only this one; may be repeated."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="ID",
            help="Join this group: begin where it has committed, commit what is printed.",
        ),
    ] = None,
    group_protocol: Annotated[
        str | None,
        typer.Option(
            "--group-protocol", metavar="PROTOCOL", help="With --group: classic (the default) or consumer."
        ),
    ] = None,
    isolation: Annotated[
        str | None,
        typer.Option(
            "--isolation",
            metavar="LEVEL",
            help="read_committed: no aborted records, and none behind an open transaction; or "
            f"read_uncommitted: all records. ({ISOLATIONS[0]})",
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Go on with what comes; starts at the end unless told otherwise."
        ),
    ] = False,
    max_: Annotated[
        int | None, typer.Option("--max", "-n", metavar="N", min=1, help="Stop after N records.")
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format", metavar="FORMAT", help="value, key-value, json, or a template: %t %p %o %T %k %v %h."
        ),
    ] = VALUE,
    separator: Annotated[
        str, typer.Option("--separator", metavar="SEP", help="Between key and value.", show_default="a tab")
    ] = "\t",
    null: Annotated[str, typer.Option("--null", metavar="TEXT", help="Write this for null.")] = "null",
    where: WhereOption = HERE,
) -> None:
    """Print the records of a topic: all there are, or with --follow what comes.

    Records of one partition come in order. Nothing is committed without --group.
    A member of a group begins where the group has committed; where it has not, at the beginning,
    or with --follow at the end. It stops when all partitions assigned to it are at their end.
    With read_committed, the default as in librdkafka, nothing is printed that may be taken back: a
    partition ends where its first open transaction begins.

    \b
    Examples:
      ottla consume orders
      ottla consume orders --follow --format key-value
      ottla consume orders --offset -10 --format json | jq .value
      ottla consume orders --since 15m --partition 0 --format '%T %p/%o %k=%v'
      ottla consume orders --group billing
      ottla consume orders --group billing --group-protocol consumer --follow
      ottla consume orders --isolation read_uncommitted --offset -10
    """
    try:
        write = writer(formatter(form, separator, null), with_headers=shows_headers(form))
        since_ms = None if since is None else parse_ms(since, int(time.time() * 1000))
    except ValueError as error:
        raise CommandError(str(error), USAGE) from None
    start = _start(from_beginning, offset, since, follow)
    own = _membership(group, group_protocol, start, is_placed=bool(offset or since or partition))
    if isolation not in (None, *ISOLATIONS):
        raise CommandError(f"--isolation is {' or '.join(ISOLATIONS)}, not {isolation!r}", USAGE)
    if isolation is not None:
        own |= {"isolation.level": isolation}
    if unused := sorted(where.others.keys() & (connections.ASSIGNED.keys() | own.keys())):
        output.say(f"ottla: the command itself says what {', '.join(unused)} is; without effect here")
    client = connections.consumer(where, DEFAULTS, own)
    try:
        partitions = cluster.partitions(client, topic, partition or [])
        if group is not None:
            Membership(client, topic, follow=follow).read(max_, write)
            return
        with errors_explained(f"topic {topic}"):
            begin, end = _range(client, topic, partitions, start, since_ms)
        _print(client, begin, None if follow else end, max_, write)
    except KeyboardInterrupt:
        output.say("")
        if not follow:  # with it there is no other end
            raise
    finally:
        client.close()


def _start(from_beginning: bool, offset: str | None, since: str | None, follow: bool) -> str:
    """Where to begin, as `--offset` would say it."""
    if from_beginning + (offset is not None) + (since is not None) > 1:
        raise CommandError("--from-beginning, --offset and --since exclude each other", USAGE)
    if offset is None:
        return "latest" if follow and not from_beginning else "earliest"
    if offset not in ("earliest", "latest") and not offset.removeprefix("-").isdigit():
        raise CommandError(f"--offset is a number, earliest, latest or -N, not {offset!r}", USAGE)
    return offset


def _membership(group: str | None, protocol: str | None, start: str, *, is_placed: bool) -> dict[str, str]:
    """What librdkafka must know of the group, if there is one."""
    if group is None:
        if protocol is not None:
            raise CommandError("--group-protocol needs --group", USAGE)
        return {}
    if not group:
        raise CommandError("--group takes the name of a group", USAGE)
    if protocol not in (None, *PROTOCOLS):
        raise CommandError(f"--group-protocol is {' or '.join(PROTOCOLS)}, not {protocol!r}", USAGE)
    if is_placed:
        raise CommandError(
            "with --group the committed offsets say where to begin, so --offset, --since and --partition are "
            f"not for it; `ottla groups reset {group}` moves them",
            USAGE,
        )
    return {"group.id": group, "group.protocol": protocol or PROTOCOLS[0], "auto.offset.reset": start}


def _range(
    client: "Consumer", topic: str, partitions: list[int], start: str, since_ms: int | None
) -> "tuple[list[TopicPartition], dict[int, int]]":
    """Where to begin in each partition, and where each ends by now."""
    from confluent_kafka import TopicPartition

    bounds = {number: partition_offsets.watermarks(client, topic, number) for number in partitions}
    begin = {number: _first(start, number, *bounds[number]) for number in partitions}
    if since_ms is not None:
        asked = [TopicPartition(topic, number, since_ms) for number in partitions]
        for at_time in partition_offsets.patiently(lambda: _at_times(client, asked)):
            begin[at_time.partition] = at_time.offset if at_time.offset >= 0 else bounds[at_time.partition][1]
    end = {number: bounds[number][1] for number in partitions}
    return [TopicPartition(topic, number, begin[number]) for number in partitions], end


def _at_times(client: "Consumer", asked: "list[TopicPartition]") -> "list[TopicPartition]":
    from confluent_kafka import KafkaException

    answers = client.offsets_for_times(asked, timeout=REQUEST_S)
    for answer in answers:
        if answer.error is not None:
            raise KafkaException(answer.error)
    return answers


def _first(start: str, partition: int, low: int, high: int) -> int:
    if start == "earliest":
        return low
    if start == "latest":
        return high
    wanted = int(start)
    if start.startswith("-"):
        return max(low, high + wanted)
    if not low <= wanted <= high:
        there = f"begins at {low} and ends before {high}" if low < high else "is empty"
        raise CommandError(f"offset {wanted} is not there: partition {partition} {there}; see --partition")
    return wanted


def _print(
    client: "Consumer",
    begin: "list[TopicPartition]",
    end: dict[int, int] | None,
    most: int | None,
    write: Write,
) -> None:
    """Write records until every partition reached its end, or for ever if there is no end."""
    unfinished = {start.partition for start in begin if end is None or start.offset < end[start.partition]}
    if not unfinished:
        return
    client.assign([start for start in begin if start.partition in unfinished])
    out, left, heard = sys.stdout.buffer, most, time.monotonic()
    while unfinished and left != 0:
        messages = assigned_messages(client, left)
        for message in messages:
            if is_end(message):
                unfinished -= {message.partition()} if end is not None else set()
                continue
            partition, position = message.partition() or 0, message.offset() or 0
            if end is not None and position >= end[partition]:
                unfinished.discard(partition)
                continue
            out.write(write(message) + b"\n")
            left = None if left is None else left - 1
            if end is not None and position == end[partition] - 1:
                unfinished.discard(partition)
        out.flush()
        heard = time.monotonic() if messages else heard
        if end is not None and time.monotonic() - heard > SILENCE_S:
            raise CommandError(f"no record came for {SILENCE_S:.0f} s, and the end is not reached")
