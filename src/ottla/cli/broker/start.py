"""`ottla start`, as typer sees it. `process` does the work, and most often is called without this file."""

from typing import Annotated

import typer

from ottla.cli.broker.process import DEFAULT_FORMAT, DEFAULT_LEVEL, LEVELS, StartOptions, serve
from ottla.shell.log_lines import FORMATS

Listen = Annotated[
    str | None,
    typer.Option(metavar="[HOST:]PORT", help="Listen here; port 0 is any that is free. (127.0.0.1:9092)"),
]
Advertise = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Tell clients this address. (the one listened on)"),
]
Directory = Annotated[str | None, typer.Option(metavar="DIR", help="Keep the data in this folder. (./data)")]
NodeId = Annotated[
    str | None, typer.Option("--id", "--node-id", metavar="N", help="The id of this broker. (1)")
]
ZooKeeper = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        metavar="HOST:PORT[,...][/CHROOT]",
        help="Join the cluster that is kept there. (a broker of its own)",
    ),
]
Rack = Annotated[
    str | None, typer.Option(metavar="RACK", help="Where this broker stands; replicas are spread over racks.")
]
Http = Annotated[
    str | None,
    typer.Option(
        metavar="[HOST:]PORT",
        help="Serve /metrics, /health/live, /health/ready and /version here, without login. (nowhere)",
    ),
]
Console = Annotated[
    str | None,
    typer.Option(
        metavar="[PORT]",
        help="Serve a console for the browser here, in a process of its own; alone it is 8080. (nowhere)",
    ),
]
ConfigFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Read broker properties from a file, as Kafka's server.properties."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set one broker property; may be repeated."),
]
Level = Annotated[str, typer.Option(metavar="LEVEL", help=f"What to log to stderr: {', '.join(LEVELS)}.")]
Format = Annotated[
    str, typer.Option(metavar="FORMAT", help=f"How to log, one line an event: {' or '.join(FORMATS)}.")
]


def start(
    listen: Listen = None,
    advertise: Advertise = None,
    data: Directory = None,
    node_id: NodeId = None,
    zookeeper: ZooKeeper = None,
    rack: Rack = None,
    http: Http = None,
    console: Console = None,
    config: ConfigFile = None,
    settings: Settings = None,
    log_level: Level = DEFAULT_LEVEL,
    log_format: Format = DEFAULT_FORMAT,
) -> None:
    """Run a broker in the foreground.

    One line on stdout says that it is ready. SIGTERM or Ctrl-C stops it cleanly, once others have
    taken over what it leads; a second one stops it at once.
    An option overrides --set, --set the file, the file the defaults.

    \b
    Examples:
      ottla start
      ottla start --listen 0.0.0.0:9092 --advertise broker.example.com:9092
      ottla start --data /var/lib/ottla --node-id 7 --log-format json
      ottla start --zookeeper zk1:2181,zk2:2181,zk3:2181/ottla --id 2 --rack a
      ottla start --http 9404
      ottla start --console
      ottla start --config server.properties --set log.retention.hours=24
    """
    serve(
        StartOptions(
            listen,
            advertise,
            data,
            node_id,
            zookeeper,
            rack,
            http,
            console,
            config,
            settings or [],
            log_level,
            log_format,
        )
    )
