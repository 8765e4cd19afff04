"""`ottla cluster`: a whole cluster on this machine, and how a cluster is."""

import contextlib
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ottla.base.command_error import FAILED, USAGE, CommandError
from ottla.broker.config import REPLICAS_MAX, cluster_defaults
from ottla.cli import output
from ottla.cli.cluster import elect, rebalance, secure_zookeeper
from ottla.cli.cluster.local_cluster import LocalCluster, Process
from ottla.cli.cluster.zookeeper_servers import class_path, java
from ottla.cli.options import DIRECTORY, NOWHERE, Directory, Json, WhereOrDirectory, connects
from ottla.cli.properties import parse_settings
from ottla.cli.watch import EVERY_S, Every, Watch, watched
from ottla.client.librdkafka import connections
from ottla.client.librdkafka.errors import errors_explained
from ottla.client.properties import ClientProperties, Where

app = typer.Typer(name="cluster", help="Run a cluster on this machine, see how one is.", no_args_is_help=True)

app.command()(rebalance.rebalance)
app.command()(elect.elect)
app.command()(secure_zookeeper.secure_zookeeper)

ZOOKEEPER_PORT_STEP = 100  # from the first broker's port to the first ZooKeeper's
LISTED_MAX = 20
METADATA_S = 3.0


@app.command()
def up(
    brokers: Annotated[int | None, typer.Option(metavar="N", min=1, help="How many brokers. (3)")] = None,
    zookeepers: Annotated[
        int | None, typer.Option(metavar="M", min=1, max=7, help="How many ZooKeeper servers. (1)")
    ] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT[,...][/CHROOT]", help="Use this ensemble, and start none."),
    ] = None,
    directory: Directory = DIRECTORY,
    base_port: Annotated[
        int, typer.Option(metavar="P", min=1, max=65_000, help="The port of the first broker.")
    ] = 9092,
    http: Annotated[
        int | None,
        typer.Option(
            metavar="P",
            min=1,
            max=65_000,
            help="Serve metrics and health of brokers at this port and the next ones. (nowhere)",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A property of all brokers; may be repeated."),
    ] = None,
) -> None:
    """Start a cluster: ZooKeeper and brokers, each a process of its own, in the background.

    Prints what clients take as bootstrap servers. Run again, it starts what does not run any more, and
    with a greater --brokers it adds brokers. A first start that fails stops what it has started.
    A broker that joins gets partitions by `ottla cluster rebalance`. Topics have 3 replicas and need 2 in
    sync, as far as there are brokers.

    \b
    Examples:
      ottla cluster up
      ottla cluster up --brokers 5 --zookeepers 3 --dir /tmp/try --base-port 19092
      ottla cluster up --zookeeper zk1:2181,zk2:2181/ottla
      ottla cluster up --http 9404
    """
    local = LocalCluster.load(directory)
    is_new = local is None
    if local is None:
        local = _planned(directory, brokers or 3, zookeepers or 1, zookeeper, base_port, settings or [])
        _serve_http(local, http)
    else:
        _grow(local, brokers, zookeepers, zookeeper, settings)
        if http is not None:
            raise CommandError(f"the cluster in {directory} was made {_with_http(local)}", USAGE)
        if all(process.is_running for process in local.processes):
            raise CommandError(f"the cluster in {directory} runs already; see `ottla cluster status`")
    if local.zookeepers:
        java()
        class_path()
    local.check_ports()
    with contextlib.ExitStack() as failure:
        if is_new:
            failure.callback(local.forget, local.untouched())
        local.save()
        if local.zookeepers:
            local.start_zookeepers()
        local.start_brokers()
        wanted = {process.number for process in local.brokers}
        local.wait_for_brokers(lambda: _is_complete(local.bootstrap, wanted))
        failure.pop_all()
    output.say(
        f"{output.plural(len(local.brokers), 'broker')} on ZooKeeper at {local.ensemble}, in {directory}"
    )
    if local.http_addresses:
        output.say(f"metrics and health: {', '.join(local.http_addresses)}")
    output.say(f"for other commands: export OTTLA_BOOTSTRAP={local.bootstrap}")
    print(local.bootstrap)


def _planned(
    directory: Path,
    brokers: int,
    zookeepers: int,
    zookeeper: str | None,
    base_port: int,
    settings: list[str],
) -> LocalCluster:
    given = parse_settings(settings, "--set")
    defaults = {
        **cluster_defaults(brokers),
        "min.insync.replicas": "2" if brokers >= REPLICAS_MAX else "1",
    }
    made = LocalCluster(
        directory.resolve(),
        zookeeper or "",
        settings=[f"{name}={value}" for name, value in (defaults | given).items()],
    )
    if zookeeper is None:
        first = base_port + ZOOKEEPER_PORT_STEP
        made.zookeepers = [Process(f"zookeeper-{n + 1}", n + 1, first + n) for n in range(zookeepers)]
    made.brokers = [Process(f"broker-{n + 1}", n + 1, base_port + n) for n in range(brokers)]
    return made


def _grow(
    local: LocalCluster,
    brokers: int | None,
    zookeepers: int | None,
    zookeeper: str | None,
    settings: list[str] | None,
) -> None:
    """Only brokers can be added to a cluster that is there."""
    if zookeepers not in {None, len(local.zookeepers)} or zookeeper not in {None, local.zookeeper}:
        raise CommandError(f"the cluster in {local.folder} has its ZooKeeper already", USAGE)
    if settings:
        raise CommandError(f"the cluster in {local.folder} has its --set already", USAGE)
    if brokers is not None and brokers < len(local.brokers):
        raise CommandError(
            f"the cluster in {local.folder} has {len(local.brokers)} brokers, and none is taken away",
            USAGE,
        )
    while brokers is not None and len(local.brokers) < brokers:
        last = local.brokers[-1]
        http_port = last.http_port + 1 if last.http_port else 0
        number = last.number + 1
        local.brokers.append(Process(f"broker-{number}", number, last.port + 1, http_port=http_port))


def _serve_http(local: LocalCluster, first_port: int | None) -> None:
    for number, broker in enumerate(local.brokers):
        broker.http_port = first_port + number if first_port is not None else 0


def _with_http(local: LocalCluster) -> str:
    return f"with --http {local.brokers[0].http_port}" if local.http_addresses else "without --http"


@app.command()
@connects()
def status(
    directory: Directory = DIRECTORY,
    watch: Watch = False,
    every: Every = EVERY_S,
    json: Json = False,
    where: WhereOrDirectory = NOWHERE,
) -> None:
    """Show brokers, controller, ZooKeeper, and partitions that lack replicas or a leader.

    Exits with 0 if all is well, with 1 if something is missing.

    \b
    Examples:
      ottla cluster status
      ottla cluster status --watch
      ottla cluster status --bootstrap broker.example.com:9092 --json
    """
    local = LocalCluster.load(directory) if not where.bootstrap else None
    if not where.bootstrap and local is None:
        raise CommandError(f"there is no cluster in {directory}; name it with --dir, or use --bootstrap")

    def show() -> bool:
        state = _look(local, where)
        if json:
            print(output.json_text(state, indent=None if watch else 2))
        else:
            _show(state)
        return bool(state["is_well"])

    if watch:
        watched(show, every)
    elif not show():
        raise typer.Exit(FAILED)


def _look(local: LocalCluster | None, where: ClientProperties) -> dict[str, Any]:
    if local is not None:
        return _state(local, _metadata(replace(where, bootstrap=local.bootstrap)))
    with errors_explained(where.bootstrap):
        return _state(None, connections.admin(where).list_topics(timeout=METADATA_S))


@app.command()
def down(
    directory: Directory = DIRECTORY,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the folder with all data, too.")] = False,
) -> None:
    """Stop a cluster: its brokers cleanly, then its ZooKeeper. What does not stop in time is killed."""
    local = LocalCluster.load(directory)
    if local is None:
        raise CommandError(f"there is no cluster in {directory}")
    running = [process.name for process in local.processes if process.is_running]
    killed = local.stop()
    output.say(f"{', '.join(running)} stopped" if running else f"nothing of {directory} was running")
    if delete:
        shutil.rmtree(local.folder, ignore_errors=True)
        is_left = local.folder.exists()
        output.say(f"{directory} could not be deleted entirely" if is_left else f"{directory} deleted")
    if killed:
        raise CommandError(f"{', '.join(killed)} did not stop in time and had to be killed")


# -- how it is -------------------------------------------------------------------------------------


def _metadata(where: Where) -> Any:
    """None if nobody answers."""
    from confluent_kafka import KafkaException

    try:
        return connections.admin(where).list_topics(timeout=METADATA_S)
    except (CommandError, KafkaException):
        return None


def _is_complete(bootstrap: str, wanted: set[int]) -> bool:
    said = _metadata(bootstrap)
    if said is None or not wanted <= set(said.brokers) or said.controller_id not in said.brokers:
        return False
    return all(_answers(broker.host, broker.port) for broker in said.brokers.values() if broker.id in wanted)


def _answers(host: str, port: int) -> bool:
    """A broker that was killed stays registered for a while, and one that starts is not there yet."""
    try:
        socket.create_connection((host, port), METADATA_S).close()
    except OSError:
        return False
    return True


def _state(local: LocalCluster | None, said: Any) -> dict[str, Any]:
    there = said.brokers if said is not None else {}
    partitions = [
        (f"{name}-{number}", partition)
        for name, topic in sorted((said.topics if said is not None else {}).items())
        for number, partition in sorted(topic.partitions.items())
    ]
    brokers = {
        broker_id: {
            "id": broker_id, "address": f"{broker.host}:{broker.port}", "pid": None,
            "is_there": _answers(broker.host, broker.port),
            "leads": sum(partition.leader == broker_id for _name, partition in partitions),
            "replicas": sum(broker_id in partition.replicas for _name, partition in partitions),
        }
        for broker_id, broker in there.items()
    }  # fmt: skip
    for process in local.brokers if local is not None else ():
        broker = brokers.setdefault(
            process.number,
            {"id": process.number, "address": f"127.0.0.1:{process.port}", "is_there": False, "leads": 0,
             "replicas": sum(process.number in partition.replicas for _name, partition in partitions)},
        )  # fmt: skip
        broker["pid"] = process.pid if process.is_running else None
    servers = local.zookeeper_servers() if local is not None else []
    zookeepers = [{"address": server.address, "mode": server.mode()} for server in servers]
    under = [name for name, partition in partitions if len(partition.isrs) < len(partition.replicas)]
    offline = [name for name, partition in partitions if partition.leader < 0]
    has_controller = said is not None and said.controller_id in there
    return {
        "cluster_id": said.cluster_id if said is not None else None,
        "controller": said.controller_id if has_controller else None,
        "zookeepers": zookeepers,
        "brokers": [brokers[broker_id] for broker_id in sorted(brokers)],
        "partitions": len(partitions),
        "under_replicated": under,
        "offline": offline,
        "is_well": has_controller
        and not under
        and not offline
        and all(broker["is_there"] for broker in brokers.values())
        and all(server["mode"] for server in zookeepers),
    }


def _show(state: dict[str, Any]) -> None:
    rows = [
        (
            broker["id"], broker["address"], broker["pid"], "up" if broker["is_there"] else "down",
            "controller" if broker["id"] == state["controller"] else "", broker["leads"], broker["replicas"],
        )
        for broker in state["brokers"]
    ]  # fmt: skip
    output.show_table(["broker", "address", "pid", "state", "role", "leads", "replicas"], rows)
    if state["zookeepers"]:
        output.show_table(
            ["zookeeper", "mode"],
            [(server["address"], server["mode"] or "down") for server in state["zookeepers"]],
        )
    if state["controller"] is None:
        print("there is no controller")
    for title, names in (("under-replicated", state["under_replicated"]), ("offline", state["offline"])):
        listed = ", ".join(names[:LISTED_MAX]) + (", ..." if len(names) > LISTED_MAX else "")
        print(f"{title} partitions: {len(names)} of {state['partitions']}{': ' * bool(names)}{listed}")
