"""`ottla ship`: lines of log files become records, each of them once. `ottla.ship` does the work."""

from typing import Annotated

import typer

from ottla.cli import output
from ottla.cli.interrupts import INTERRUPTED, stopping
from ottla.cli.options import HERE, WhereOption, connects
from ottla.ship.shipper import Shipper
from ottla.ship.state import default_path, locked


@connects()
def ship(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Files, or patterns in quotes: 'logs/**/*.log'.", show_default=False
        ),
    ],
    topic: Annotated[
        str, typer.Option("--topic", "-t", metavar="TOPIC", help="Where to.", show_default=False)
    ],
    once: Annotated[bool, typer.Option("--once", help="Send what is there, and exit.")] = False,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Send also a last line that has no newline yet.")
    ] = False,
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="PATH", help="Where to remember how far files have gone. (by topic)"),
    ] = None,
    where: WhereOption = HERE,
) -> None:
    """Follow log files and send every line to a topic, once.

    Files may be rotated, by renaming or by copying and cutting, may appear later, and the command may be
    stopped or killed at any time: it goes on where it was. The key is HOST:PATH, so the lines of a
    file stay in order; headers tell host, path and offset. The topic is created if it is not there.

    \b
    Examples:
      ottla ship /var/log/nginx/access.log --topic logs
      ottla ship '/var/log/app/*.log' /var/log/syslog --topic logs --state /var/lib/ottla/ship.json
      ottla ship app.log --topic logs --once
    """
    path = state or default_path(topic)
    with locked(path), stopping() as stopped:
        shipper = Shipper(where, topic, path, files, output.say)
        try:
            shipper.run(stopped, once=once, unfinished=unfinished)
        finally:
            shipper.watch.close()
        output.say(_summary(shipper))
        if stopped.is_set() and once:
            raise typer.Exit(INTERRUPTED)


def _summary(shipper: Shipper) -> str:
    waiting = shipper.unfinished_lines()
    rest = f"; {output.plural(waiting, 'unfinished line')} left for the next time" if waiting else ""
    return (
        f"{output.plural(shipper.sent_count, 'line')}, {output.plural(shipper.sent_bytes, 'byte')} "
        f"to {shipper.state.topic}{rest}"
    )
