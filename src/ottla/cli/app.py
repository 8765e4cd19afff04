"""All commands in one place. Each file adds its own; nothing here does any work."""

import logging
from typing import Annotated

import typer

import ottla
from ottla.cli import console, demo, metrics, pipeline, secure, ship
from ottla.cli.acls import commands as acls
from ottla.cli.broker import start
from ottla.cli.cluster import commands as cluster
from ottla.cli.configs import commands as configs
from ottla.cli.groups import commands as groups
from ottla.cli.quotas import commands as quotas
from ottla.cli.records import consume, produce
from ottla.cli.storage import dump, skip, verify
from ottla.cli.topics import commands as topics
from ottla.cli.transactions import commands as transactions
from ottla.cli.users import commands as users

logging.getLogger("ottla.client").addHandler(logging.NullHandler())  # commands say themselves what is wrong

app = typer.Typer(
    name="ottla",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(start.start)
app.add_typer(secure.app)
app.add_typer(cluster.app)
app.add_typer(topics.app)
app.add_typer(configs.app)
app.add_typer(groups.app)
app.add_typer(transactions.app)
app.add_typer(users.app)
app.add_typer(acls.app)
app.add_typer(quotas.app)
app.command()(produce.produce)
app.command()(consume.consume)
app.command()(ship.ship)
app.command()(metrics.metrics)
app.command()(console.console)
app.add_typer(pipeline.app)
app.command()(dump.dump)
app.command()(verify.verify)
app.command()(skip.skip)
app.command()(demo.demo)


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
