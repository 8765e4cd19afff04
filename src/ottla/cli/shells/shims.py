"""`ottla shims`: commands with the names and flags of Kafka's scripts, for scripts that people have."""

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.cli import output

SHIM = "__kafka"  # the word by which the scripts call; see `run`
TOOLS = (
    "kafka-topics",
    "kafka-consumer-groups",
    "kafka-configs",
    "kafka-console-producer",
    "kafka-console-consumer",
)
SCRIPT = """#!/bin/sh
exec {ottla} {shim} {tool} "$@"
"""


def shims(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Write over what is there.")] = False,
) -> None:
    """Write commands named as Kafka's scripts, with their flags, into a folder.

    These are kafka-topics, kafka-consumer-groups, kafka-configs, kafka-console-producer and -consumer.
    They take Kafka's flags, with and without .sh at the end of their names, and print what Kafka's print.

    \b
    Example:
      ottla shims ~/kafka-bin && PATH=~/kafka-bin:$PATH ./nightly.sh
    """
    names = [f"{tool}{ending}" for tool in TOOLS for ending in ("", ".sh")]
    taken = [name for name in names if (directory / name).exists()]
    if taken and not force:
        raise CommandError(f"{directory / taken[0]} is there already; --force writes over it", USAGE)
    beside = os.path.join(os.path.dirname(sys.executable), "ottla")
    own = beside if os.path.exists(beside) else shutil.which("ottla") or beside
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in names:
            path = directory / name
            tool = name.removesuffix(".sh")
            path.write_text(SCRIPT.format(ottla=f"'{own}'", shim=SHIM, tool=tool))
            path.chmod(0o755)
    except OSError as error:
        raise CommandError(f"cannot write {error.filename}: {error.strerror}") from None
    output.say(f"{len(names)} commands in {directory}; put it before others in PATH to use them")


def run(arguments: list[str]) -> None:
    """A tool of Kafka's, by its name, with its arguments."""
    tool, *given = arguments or [""]
    if tool in ("kafka-console-producer", "kafka-console-consumer"):
        from ottla.cli.shells import console_flags

        (console_flags.producer if tool.endswith("producer") else console_flags.consumer)(given)
        return
    from ottla.cli.shells import kafka_flags

    tools = {
        "kafka-topics": kafka_flags.topics,
        "kafka-consumer-groups": kafka_flags.groups,
        "kafka-configs": kafka_flags.configs,
    }
    if tool not in tools:
        raise CommandError(f"there is no {tool!r}; there are {', '.join(TOOLS)}", USAGE)
    tools[tool](given)
