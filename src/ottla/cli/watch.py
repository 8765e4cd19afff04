"""`--watch`: what a command shows, again and again until Ctrl-C; on a terminal, on a screen of its own."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from ottla.base.command_error import CommandError
from ottla.cli import output
from ottla.cli.interrupts import stopping
from ottla.client.errors import ClientError

Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again, until Ctrl-C.")]
Every = Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.1, help="How often, with --watch.")]
EVERY_S = 2.0

_SCREEN, _BACK = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_CLEAR = "\x1b[H\x1b[2J"


def watched(show: Callable[[], object], every_s: float) -> None:
    """A cluster that does not answer at first ends the command; later that is told, and it goes on."""
    is_terminal = sys.stdout.isatty()
    is_first = True
    with stopping() as stopped:
        try:
            while True:
                if is_terminal:
                    sys.stdout.write((_SCREEN if is_first else "") + _CLEAR)
                try:
                    show()
                except (CommandError, ClientError) as error:
                    if is_first:
                        raise
                    output.say(f"ottla: {error}")
                is_first = False
                sys.stdout.flush()
                if stopped.wait(every_s):
                    return
        finally:
            if is_terminal:
                sys.stdout.write(_BACK)
                sys.stdout.flush()
