"""`ottla cluster rebalance`: spread replicas and leaders evenly over the brokers that are there."""

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.base.command_error import CommandError
from ottla.cli import output
from ottla.cli.cluster.local_cluster import in_directory
from ottla.cli.cluster.moves import ClusterMoving, Rebalancing, Targets, led_by_others, plan
from ottla.cli.options import DIRECTORY, NOWHERE, Directory, WhereOrDirectory, connects
from ottla.client.admin import configs as resources
from ottla.client.admin.configs import Resource
from ottla.client.admin.requests import Cluster
from ottla.client.librdkafka import connections
from ottla.client.properties import Where
from ottla.controller.balance import Move, summary
from ottla.controller.leader_balance import Partition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

PAUSE_S = 0.3
ELECTION_ATTEMPTS = 30
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
OWN = {"topic", "broker, dynamic"}  # where a value comes from that was set for this topic or broker alone


@connects()
def rebalance(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")] = False,
    throttle: Annotated[
        int | None,
        typer.Option(metavar="BYTES", min=1, help="Copy at most so much a second, from and to each broker."),
    ] = None,
    at_once: Annotated[int, typer.Option(metavar="N", min=1, help="Partitions that move at a time.")] = 50,
    directory: Directory = DIRECTORY,
    where: WhereOrDirectory = NOWHERE,
) -> None:
    """Spread replicas and leaders evenly over the brokers that are there, moving as little as possible.

    Every topic is spread, and so is the sum of them. Racks are kept: no rack has two replicas of a
    partition while another has none. Where another than the first replica leads, the first one is elected.
    Clients go on meanwhile. It may be interrupted: what has begun goes on, and the same command takes up
    the rest.

    \b
    Examples:
      ottla cluster rebalance --dry-run
      ottla cluster rebalance --throttle 50000000
      ottla cluster rebalance --bootstrap broker.example.com:9092
    """
    where = in_directory(where, directory)
    connections.admin(where)
    cluster_requests = Cluster(where)
    moving, racks = ClusterMoving(cluster_requests), cluster_requests.racks()
    ongoing, present, moves = plan(moving, racks)
    leaders = moving.leaders()
    settled = {partition: replicas for partition, replicas in present.items() if partition not in ongoing}
    astray = led_by_others(leaders, settled, racks)
    away = sorted({broker for replicas in present.values() for broker in replicas} - racks.keys())
    _show(present, leaders, moves, racks, astray, away)
    if ongoing:
        output.say(f"{output.plural(len(ongoing), 'partition')} already on the move")
    if dry_run or not (moves or ongoing or astray):
        return
    topics = sorted({move.topic for move in moves if move.added} | {topic for topic, _ in ongoing})
    slowly = _throttled(where, throttle, sorted(racks), topics)
    with slowly, _progress(len(moves) + len(ongoing)) as report:
        work = Rebalancing(moving, at_once, lambda: time.sleep(PAUSE_S), report)
        refused = work.run(moves, ongoing)
    moved = {(move.topic, move.partition) for move in moves} | ongoing.keys()
    if moved:
        astray = led_by_others(moving.leaders(), moving.assignment(), racks)
    elsewhere = work.prefer(sorted((moved - refused.keys()).union(astray)), ELECTION_ATTEMPTS)
    for (topic, partition), reason in sorted(refused.items()):
        output.say(f"{topic}-{partition} was not moved: {reason}")
    if elsewhere:
        output.say(f"{output.plural(len(elsewhere), 'partition')} led by another than the first replica")
    if refused:
        raise CommandError(f"{output.plural(len(refused), 'partition')} not moved")
    if moved:
        output.say(f"moved {output.plural(len(moves) + len(ongoing), 'partition')}")
    else:
        output.say(f"elected the first replica of {output.plural(len(astray) - len(elsewhere), 'partition')}")


def _show(
    present: Targets,
    leaders: Mapping[Partition, int],
    moves: list[Move],
    racks: Mapping[int, str | None],
    astray: list[Partition],
    away: list[int],
) -> None:
    after = {**present, **{(move.topic, move.partition): move.after for move in moves}}
    before_counts, after_counts = summary(present.values(), racks), summary(after.values(), racks)
    if moves:
        output.show_table(
            ("topic", "partition", "from", "to"),
            [(move.topic, move.partition, _ids(move.before), _ids(move.after)) for move in moves],
        )
    leads = Counter(leaders.values())
    rows = [
        (
            broker, racks.get(broker), before_counts.get(broker, (0, 0))[0], leads[broker],
            *after_counts.get(broker, (0, 0)),
        )
        for broker in sorted(before_counts.keys() | after_counts.keys())
    ]  # fmt: skip
    columns = ("broker", "rack", "replicas", "leaders", "replicas after", "leaders after")
    output.show_table(columns, rows)
    copies = sum(len(move.added) for move in moves)
    if moves:
        changes = output.plural(len(moves), "partition")
        output.say(f"{changes} to change, {output.plural(copies, 'replica')} to copy")
    elif astray:
        others = output.plural(len(astray), "partition")
        output.say(f"replicas are in balance, {others} led by another than the first replica")
    elif not away:
        output.say("replicas and leaders are in balance")
    for broker in away:
        output.say(f"broker {broker} is not there")


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))


@contextlib.contextmanager
def _throttled(where: Where, rate: int | None, brokers: list[int], topics: list[str]) -> Iterator[None]:
    """Replication of these topics is slowed down meanwhile, and afterwards only as it was before."""
    if rate is None:
        yield
        return
    client = connections.admin(where)
    wanted = {
        **{Resource("broker", str(broker)): dict.fromkeys(RATES, str(rate)) for broker in brokers},
        **{Resource("topic", topic): dict.fromkeys(THROTTLED, "*") for topic in topics},
    }
    earlier = {resource: _own(client, resource, new) for resource, new in wanted.items()}
    try:
        for resource, new in wanted.items():
            resources.change(client, resource, new)
        yield
    finally:
        for resource, new in reversed(wanted.items()):
            resources.change(client, resource, earlier[resource], new.keys() - earlier[resource].keys())


def _own(client: "AdminClient", resource: Resource, names: Mapping[str, str]) -> dict[str, str]:
    """What somebody has set there."""
    return {
        setting.name: setting.value
        for setting in resources.describe(client, resource, defaults=False)
        if setting.name in names and setting.source in OWN and setting.value
    }


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
