"""Options that many commands have."""

from pathlib import Path
from typing import Annotated

import typer

DIRECTORY = Path("ottla-cluster")

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        envvar="OTTLA_BOOTSTRAP",
        help="A broker, or several with commas.",
    ),
]
Directory = Annotated[
    Path, typer.Option("--dir", metavar="DIR", help="The folder of the cluster: data, logs, cluster.json.")
]
MaybeBootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap", "-b", metavar="HOST:PORT", envvar="OTTLA_BOOTSTRAP",
        help="A broker, or several with commas; overrides --dir.", show_default=False,
    ),
]  # fmt: skip
ClientSettings = Annotated[
    list[str] | None,
    typer.Option("--set", "-X", metavar="KEY=VALUE", help="A property of librdkafka; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
