"""`ottla cluster rebalance`: spread replicas and leaders evenly over the brokers that are there."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated

import typer

from ottla.cli import cluster, output, settings
from ottla.cli.cluster import DEFAULT_BOOTSTRAP, Bootstrap
from ottla.cli.errors import CommandError
from ottla.cli.raw import Cluster
from ottla.cli.rebalancing import RawMoving, Rebalancing, Targets, plan
from ottla.cli.settings import Resource
from ottla.controller.balance import Move, summary

PAUSE_S = 0.3
ELECTION_ATTEMPTS = 10
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def rebalance(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")] = False,
    throttle: Annotated[
        int | None,
        typer.Option(metavar="BYTES", min=1, help="Copy at most so much a second, from and to each broker."),
    ] = None,
    at_once: Annotated[int, typer.Option(metavar="N", min=1, help="Partitions that move at a time.")] = 50,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Spread replicas and leaders evenly over the brokers that are there, moving as little as possible.

    Clients go on meanwhile. It may be interrupted: what has begun goes on, and the same command
    takes up the rest. Racks are kept: no rack has two replicas of a partition while another has none.

    \b
    Examples:
      ottla cluster rebalance --dry-run
      ottla cluster rebalance --throttle 50000000
    """
    cluster.admin(bootstrap)
    found = Cluster(bootstrap)
    found.refresh()
    moving = RawMoving(found)
    racks = {one.node_id: one.rack for one in found.brokers.values()}
    ongoing, present, moves = plan(moving, racks)
    _show(present, moves, racks)
    if ongoing:
        output.say(f"{output.plural(len(ongoing), 'partition')} already on the move")
    if dry_run or not (moves or ongoing):
        return
    topics = sorted({one.topic for one in moves if one.added} | {topic for topic, _ in ongoing})
    slowly = _throttled(bootstrap, throttle, sorted(racks), topics)
    with slowly, _progress(len(moves) + len(ongoing)) as report:
        work = Rebalancing(moving, at_once, lambda: time.sleep(PAUSE_S), report)
        refused = work.run(moves, ongoing)
    elsewhere = work.prefer(
        [one for one in moves if (one.topic, one.partition) not in refused], ELECTION_ATTEMPTS
    )
    for (topic, partition), reason in sorted(refused.items()):
        output.say(f"{topic}-{partition} was not moved: {reason}")
    if elsewhere:
        output.say(f"{output.plural(len(elsewhere), 'partition')} led by another than the first replica")
    if refused:
        raise CommandError(f"{output.plural(len(refused), 'partition')} not moved")
    output.say(f"moved {output.plural(len(moves) + len(ongoing), 'partition')}")


def _show(present: Targets, moves: list[Move], racks: Mapping[int, str | None]) -> None:
    after = {**present, **{(one.topic, one.partition): one.after for one in moves}}
    before_counts, after_counts = summary(present.values(), racks), summary(after.values(), racks)
    if moves:
        output.show_table(
            ("topic", "partition", "from", "to"),
            [(one.topic, one.partition, _ids(one.before), _ids(one.after)) for one in moves],
        )
    rows = [
        (broker, racks.get(broker), *before_counts.get(broker, (0, 0)), *after_counts.get(broker, (0, 0)))
        for broker in sorted(before_counts.keys() | after_counts.keys())
    ]
    columns = ("broker", "rack", "replicas", "leaders", "replicas after", "leaders after")
    output.show_table(columns, rows)
    copies = sum(len(one.added) for one in moves)
    if moves:
        changes = output.plural(len(moves), "partition")
        output.say(f"{changes} to change, {output.plural(copies, 'replica')} to copy")
    else:
        output.say("replicas and leaders are in balance")


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))


@contextlib.contextmanager
def _throttled(bootstrap: str, rate: int | None, brokers: list[int], topics: list[str]) -> Iterator[None]:
    """Replication of these topics is slowed down meanwhile, and not afterwards."""
    if rate is None:
        yield
        return
    client = cluster.admin(bootstrap)
    try:
        for broker in brokers:
            settings.change(client, Resource("broker", str(broker)), dict.fromkeys(RATES, str(rate)))
        for topic in topics:
            settings.change(client, Resource("topic", topic), dict.fromkeys(THROTTLED, "*"))
        yield
    finally:
        for topic in topics:
            settings.change(client, Resource("topic", topic), {}, THROTTLED)
        for broker in brokers:
            settings.change(client, Resource("broker", str(broker)), {}, RATES)


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, and silence in a pipe."""
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("moving"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("moving", total=total)
        yield lambda done: progress.update(task, completed=done)
