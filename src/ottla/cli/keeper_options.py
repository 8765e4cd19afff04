"""Options of commands that go to a keeper, past the brokers: to ZooKeeper, or to the folder of a broker."""

import contextlib
from collections.abc import Iterator
from typing import Annotated

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.base.config import ConfigError
from ottla.cli.broker.process import StartOptions, properties_of

ZooKeeper = Annotated[
    str | None,
    typer.Option(
        "--zookeeper", metavar="HOST:PORT[,...][/CHROOT]", help="Write to ZooKeeper; brokers need not run."
    ),
]
Data = Annotated[
    str | None,
    typer.Option("--data", metavar="DIR", help="Write to the data folder of a broker that does not run."),
]
Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The broker's own properties: where its ZooKeeper or its data is, and how it gets there.",
    ),
]


def keeper_properties(zookeeper: str | None, data: str | None, config: str | None) -> dict[str, str] | None:
    """A broker's properties; None if no keeper is named."""
    if zookeeper is None and data is None and config is None:
        return None
    if zookeeper is not None and data is not None:
        raise CommandError("--zookeeper and --data name two keepers; use one of them", USAGE)
    properties = properties_of(StartOptions(zookeeper=zookeeper, data=data, config=config))
    if data is not None:
        properties.pop("zookeeper.connect", None)
    return properties


@contextlib.contextmanager
def start_errors_explained() -> Iterator[None]:
    from ottla.shell.lock import StartError

    try:
        yield
    except StartError as error:
        raise CommandError(str(error)) from None
    except ConfigError as error:
        raise CommandError(str(error), USAGE) from None
