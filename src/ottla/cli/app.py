"""All commands in one place: where each is, and what they share. Nothing here does any work.

A command is loaded when it is asked for, so that `ottla topics list` waits for its own file and no other.
What `ottla --help` says of each is in `summaries`, which `make reference` makes of the commands.
"""

import logging
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import ottla
from ottla.cli.summaries import SUMMARIES

# The module of each, and its name there: a function, or the `app` of a group of commands.
COMMANDS = {
    "start": "ottla.cli.broker.start:start",
    "secure": "ottla.cli.secure:app",
    "cluster": "ottla.cli.cluster.commands:app",
    "topics": "ottla.cli.topics.commands:app",
    "configs": "ottla.cli.configs.commands:app",
    "groups": "ottla.cli.groups.commands:app",
    "transactions": "ottla.cli.transactions.commands:app",
    "users": "ottla.cli.users.commands:app",
    "acls": "ottla.cli.acls.commands:app",
    "quotas": "ottla.cli.quotas.commands:app",
    "features": "ottla.cli.features:app",
    "produce": "ottla.cli.records.produce:produce",
    "consume": "ottla.cli.records.consume:consume",
    "ship": "ottla.cli.ship:ship",
    "metrics": "ottla.cli.metrics:metrics",
    "console": "ottla.cli.console:console",
    "pipeline": "ottla.cli.pipelines.commands:app",
    "top": "ottla.cli.top:top",
    "profile": "ottla.cli.shells.profiles:app",
    "completion": "ottla.cli.shells.completion:completion",
    "shims": "ottla.cli.shells.shims:shims",
    "dump": "ottla.cli.storage.dump:dump",
    "verify": "ottla.cli.storage.verify:verify",
    "skip": "ottla.cli.storage.skip:skip",
    "demo": "ottla.cli.demo:demo",
}
# rich takes longer to load than most commands to run: help is plain text.
STYLE: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}

logging.getLogger("ottla.client").addHandler(logging.NullHandler())  # commands say themselves what is wrong


class LazyCommands(MutableMapping[str, Any]):
    """Commands by their names, each loaded when it is first looked at."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(name, COMMANDS[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands stay")

    def __contains__(self, name: object) -> bool:
        return name in COMMANDS

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class Root(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = LazyCommands()

    def format_commands(self, _context: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))


def _load(name: str, path: str) -> Any:
    module, _, attribute = path.partition(":")
    command = getattr(import_module(module), attribute)
    if not isinstance(command, typer.Typer):
        single = typer.Typer(**STYLE)
        single.command(name)(command)
        return typer.main.get_command(single)
    command.rich_markup_mode = None
    group = typer.main.get_group(command)
    for part in group.commands.values():
        part.short_help = summary(part)  # else it is cut off after a few words
    return group


def summary(command: Any) -> str:
    """The first sentence of its help."""
    first = " ".join((command.help or "").partition("\n\n")[0].split())
    return first.partition(". ")[0].removesuffix(".") + "."


app = typer.Typer(
    name="ottla",
    cls=Root,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    **STYLE,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ottla {ottla.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Ottla, a Kafka-compatible broker, and the tools to use it.

    Start a broker with `ottla start`, see it at work with `ottla demo`.
    The other commands talk to the broker at --bootstrap HOST:PORT,
    or at $OTTLA_BOOTSTRAP, or at 127.0.0.1:9092.
    How to get in, they learn by --client-config FILE, -X KEY=VALUE
    or --profile NAME (docs/secured-clusters.md).

    Exit codes: 0 done, 1 failed, 2 wrong arguments, 130 interrupted by Ctrl-C.
    """
