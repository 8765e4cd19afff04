"""`ottla consume`: records of a topic to stdout, up to its end or for ever.

Partitions are assigned, not subscribed to: nothing is committed, and no group is needed.
"""

import sys
import time
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ottla.cli import cluster, output
from ottla.cli.cluster import DEFAULT_BOOTSTRAP, REQUEST_S, Bootstrap, errors_explained
from ottla.cli.errors import USAGE, CommandError
from ottla.cli.formats import VALUE, Formatter, Message, Pairs, formatter
from ottla.cli.properties import parse_settings
from ottla.cli.times import parse_ms

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka import Consumer, TopicPartition

POLL_S = 0.2
BATCH = 1000
SILENCE_S = 10.0


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
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-X", metavar="KEY=VALUE", help="A property of librdkafka; may be repeated."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Print the records of a topic: all there are, or with --follow what comes.

    Records of one partition come in order. Nothing is committed.

    \b
    Examples:
      ottla consume orders
      ottla consume orders --follow --format key-value
      ottla consume orders --offset -10 --format json | jq .value
      ottla consume orders --since 15m --partition 0 --format '%T %p/%o %k=%v'
    """
    try:
        write = formatter(form, separator, null)
        since_ms = None if since is None else parse_ms(since, int(time.time() * 1000))
    except ValueError as error:
        raise CommandError(str(error), USAGE) from None
    start = _start(from_beginning, offset, since, follow)
    client = cluster.consumer(bootstrap, parse_settings(settings or [], "--set"))
    try:
        partitions = _partitions(client, topic, partition or [])
        with errors_explained(f"topic {topic}"):
            begin, end = _range(client, topic, partitions, start, since_ms)
        _print(client, begin, None if follow else end, max_, write)
    except KeyboardInterrupt:
        output.say("")
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


def _partitions(client: "Consumer", topic: str, wanted: list[int]) -> list[int]:
    there = sorted(cluster.topic(client, topic).partitions)
    missing = sorted(set(wanted) - set(there))
    if missing:
        raise CommandError(f"topic {topic} has no partition {missing[0]}, only {there[0]} to {there[-1]}")
    return sorted(set(wanted)) or there


def _range(
    client: "Consumer", topic: str, partitions: list[int], start: str, since_ms: int | None
) -> "tuple[list[TopicPartition], dict[int, int]]":
    """Where to begin in each partition, and where each ends by now."""
    from confluent_kafka import TopicPartition

    bounds = {
        one: client.get_watermark_offsets(TopicPartition(topic, one), timeout=REQUEST_S) for one in partitions
    }
    begin = {one: _first(start, *bounds[one]) for one in partitions}
    if since_ms is not None:
        asked = [TopicPartition(topic, one, since_ms) for one in partitions]
        for found in client.offsets_for_times(asked, timeout=REQUEST_S):
            begin[found.partition] = found.offset if found.offset >= 0 else bounds[found.partition][1]
    end = {one: bounds[one][1] for one in partitions}
    return [TopicPartition(topic, one, begin[one]) for one in partitions], end


def _first(start: str, low: int, high: int) -> int:
    if start == "earliest":
        return low
    if start == "latest":
        return high
    wanted = int(start)
    if start.startswith("-"):
        return max(low, high + wanted)
    if not low <= wanted <= high:
        raise CommandError(f"offset {wanted} is not there: the partition holds {low} to {high}")
    return wanted


def _print(
    client: "Consumer",
    begin: "list[TopicPartition]",
    end: dict[int, int] | None,
    most: int | None,
    write: Formatter,
) -> None:
    """Write records until every partition reached its end, or for ever if there is no end."""
    open_ones = {one.partition for one in begin if end is None or one.offset < end[one.partition]}
    if not open_ones:
        return
    client.assign([one for one in begin if one.partition in open_ones])
    out, left, heard = sys.stdout.buffer, most, time.monotonic()
    while open_ones and left != 0:
        messages = _next(client, BATCH if left is None else min(left, BATCH))
        for message in messages:
            if _is_end(message):
                open_ones -= {message.partition()} if end is not None else set()
                continue
            where, position = message.partition() or 0, message.offset() or 0
            if end is not None and position >= end[where]:
                open_ones.discard(where)
                continue
            out.write(write(_message(message)) + b"\n")
            left = None if left is None else left - 1
            if end is not None and position == end[where] - 1:
                open_ones.discard(where)
        out.flush()
        heard = time.monotonic() if messages else heard
        if end is not None and time.monotonic() - heard > SILENCE_S:
            raise CommandError(f"no record came for {SILENCE_S:.0f} s, and the end is not reached")


def _next(client: "Consumer", most: int) -> "list[confluent_kafka.Message]":
    """What is there, and at least one if one comes soon."""
    first = client.poll(POLL_S)
    if first is None or most == 1:
        return [] if first is None else [first]
    return [first, *client.consume(most - 1, 0)]


def _is_end(message: "confluent_kafka.Message") -> bool:
    """Whether this is the news that a partition has no more records now. Any other error ends the command."""
    from confluent_kafka import KafkaError

    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    raise CommandError(f"topic {message.topic()}, partition {message.partition()}: {cluster.explain(error)}")


def _message(message: "confluent_kafka.Message") -> Message:
    _, timestamp_ms = message.timestamp()
    return Message(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        timestamp_ms,
        message.key(),
        message.value(),
        cast("Pairs", message.headers() or []),
    )
