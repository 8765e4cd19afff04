"""`ottla groups reset`: move what a group has committed. Shows the plan, and does it only when told to.

`ottla.client.admin.group_reset` does the work, and has the rules.
"""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.base.times import parse_ms
from ottla.cli import output
from ottla.cli.options import HERE, Json, WhereOption, connects
from ottla.cli.partitions import parse_partitions
from ottla.client.admin import group_reset
from ottla.client.admin import groups as descriptions
from ottla.client.admin.group_reset import Goal, Move, check_idle, plan, targets
from ottla.client.librdkafka import connections

if TYPE_CHECKING:
    pass


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
            help="To the first record at or after: 10m, 2h, 1d ago, or an ISO time (local without a zone).",
        ),
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="On by N records, or back by -N.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it. Without this, nothing changes.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan only, the default.")] = False,
    json: Json = False,
    where: WhereOption = HERE,
) -> None:
    """Move the committed offsets of a group that has no members. Shows the plan only, unless --execute.

    An offset beyond the start or the end of a partition becomes the start or the end.
    A time after the last record is the end.

    \b
    Examples:
      ottla groups reset billing --topic orders --to-earliest
      ottla groups reset billing --topic orders --to-time 1h --execute
      ottla groups reset billing --topic orders:0,2 --shift-by -100 --execute
      ottla groups reset billing --all-topics --to-time 2030-01-31T12:00Z
    """
    chosen = parse_partitions(topic or [], "--topic")
    if bool(chosen) == all_topics:
        raise CommandError("say what to reset: --topic TOPIC[:P,P] or --all-topics", USAGE)
    if dry_run and execute:
        raise CommandError("--dry-run shows the plan, and --execute does it; use one of them", USAGE)
    goal = _goal(to_earliest, to_latest, to_offset, to_time, shift_by)
    client = connections.admin(where)
    (described_group,) = descriptions.described(client, [group])
    check_idle(described_group)
    wanted = targets(client, described_group, chosen, output.say)
    moves = plan(client, described_group, wanted, goal, output.say)
    if execute:
        group_reset.execute(client, group, moves)
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


def _show(group: str, moves: Iterable[Move], *, json: bool) -> None:
    columns = ("topic", "partition", "committed", "new", "end", "lag", "new lag")
    rows = [(move.topic, move.partition, move.committed, move.new, move.end, *move.lags) for move in moves]
    if json:
        names = [name.replace(" ", "_") for name in columns]
        output.show_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        output.show_table(columns, rows, f"group {group}")
