"""`ottla topics`: create, list, describe, alter and delete them."""

from collections.abc import Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.base.ids import INTERNAL_TOPICS
from ottla.cli import output
from ottla.cli.options import HERE, Json, WhereOption, connects
from ottla.cli.properties import parse_configs
from ottla.cli.topics import replicas, topic_rows
from ottla.cli.topics.replicas import Trouble
from ottla.cli.watch import EVERY_S, Every, Watch, watched
from ottla.client.admin import configs as resources
from ottla.client.admin.configs import Resource
from ottla.client.admin.requests import connected
from ottla.client.librdkafka import cluster, connections, partition_offsets
from ottla.client.librdkafka.errors import REQUEST_S, errors_explained, explain
from ottla.client.retry import Deadline
from ottla.client.snapshots import Snapshot, snapshot

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

app = typer.Typer(
    name="topics", help="Create, list, describe, alter and delete topics.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The topic.", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="The topics.", show_default=False)]
SomeNames = Annotated[
    list[str] | None, typer.Argument(metavar="NAME...", help="The topics.", show_default=False)
]
UnderReplicated = Annotated[
    bool,
    typer.Option(
        "--under-replicated", "--under-replicated-partitions", help="Where not all replicas are in sync."
    ),
]
UnderMinIsr = Annotated[
    bool,
    typer.Option(
        "--under-min-isr", "--under-min-isr-partitions", help="Where fewer than min.insync.replicas are."
    ),
]
Unavailable = Annotated[
    bool, typer.Option("--unavailable", "--unavailable-partitions", help="Where nobody leads.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="KEY=VALUE", help="A config of the topic; may be repeated."),
]


@app.command()
@connects()
def create(
    names: Names,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", metavar="N", min=1, help="(the broker's default)")
    ] = None,
    replication: Annotated[
        int | None,
        typer.Option(
            "--replication", "--replication-factor", "-r", metavar="N", min=1, help="(the broker's default)"
        ),
    ] = None,
    config: Settings = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="A topic that is there already is no error.")
    ] = False,
    where: WhereOption = HERE,
) -> None:
    """Create topics.

    \b
    Examples:
      ottla topics create orders --partitions 6
      ottla topics create users -c cleanup.policy=compact -c segment.ms=3600000
    """
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    own = parse_configs(config or [], "--config")
    client = connections.admin(where)
    wanted = [
        NewTopic(name, num_partitions=partitions or -1, replication_factor=replication or -1, config=own)
        for name in names
    ]
    with errors_explained():
        asked = client.create_topics(wanted, operation_timeout=REQUEST_S, request_timeout=REQUEST_S)
    _settle(asked, "created", KafkaError.TOPIC_ALREADY_EXISTS if if_not_exists else None)


@app.command("list")
@connects()
def list_(
    under_replicated: UnderReplicated = False,
    under_min_isr: UnderMinIsr = False,
    unavailable: Unavailable = False,
    watch: Watch = False,
    every: Every = EVERY_S,
    json: Json = False,
    where: WhereOption = HERE,
) -> None:
    """List the topics, all or those with partitions in trouble; with --watch also how fast they grow.

    RECORDS are offsets from the start to the end, SIZE is that of one replica.

    \b
    Examples:
      ottla topics list
      ottla topics list --watch
      ottla topics list --under-replicated
      ottla topics list --json | jq -r '.[].name'
    """
    trouble = Trouble(under_replicated, under_min_isr, unavailable)
    with connected(where) as brokers:
        before: Snapshot | None = None

        def show() -> None:
            nonlocal before
            now = snapshot(brokers, Deadline(REQUEST_S))
            names: Iterable[str] = now.topics
            if any(trouble):
                names = {
                    partition.topic
                    for partition in replicas.troubled(connections.admin(where), where, trouble)
                }
            topic_rows.show(now, before, sorted(names), trouble, json=json, is_watched=watch)
            before = now

        if watch:
            watched(show, every)
        else:
            show()


@app.command()
@connects()
def describe(
    names: SomeNames = None,
    under_replicated: UnderReplicated = False,
    under_min_isr: UnderMinIsr = False,
    unavailable: Unavailable = False,
    json: Json = False,
    where: WhereOption = HERE,
) -> None:
    """Show the partitions, offsets and own configs of topics.

    ISR are the replicas in sync, ELR those that may lead though they are not (they left an ISR that
    was too small without them). With --under-replicated, --under-min-isr or --unavailable only the
    partitions in such trouble are shown, of all topics if none is named. RECORDS are offsets from
    START to END: aborted records and the markers that end transactions are among them.

    \b
    Examples:
      ottla topics describe orders
      ottla topics describe --under-min-isr
      ottla topics describe orders --json | jq '.[0].partitions[] | .end - .start'
    """
    trouble = Trouble(under_replicated, under_min_isr, unavailable)
    client = connections.admin(where)
    if any(trouble):
        for name in names or []:
            cluster.topic(client, name)
        replicas.show(replicas.troubled(client, where, trouble, names or []), trouble, json=json)
        return
    if not names:
        raise CommandError("name a topic, or what to look for: --under-replicated, ...", USAGE)
    descriptions = []
    for name in names:
        cluster.topic(client, name)
        descriptions.append(_description(client, name, replicas.states(where, [name])))
    if json:
        output.show_json(descriptions)
        return
    for topic in descriptions:
        columns = (
            "partition", "leader", "replicas", "isr", "elr", "offline", "start", "end", "records",
        )  # fmt: skip
        rows = [
            (
                state["partition"], state["leader"],
                *(_ids(state[name]) for name in ("replicas", "isr", "elr", "offline")),
                state["start"], state["end"], _difference(state["end"], state["start"]),
            )
            for state in topic["partitions"]
        ]  # fmt: skip
        output.show_table(columns, rows, f"topic {topic['name']} · id {topic['id']}")
        if topic["configs"]:
            output.show_table(("key", "value"), list(topic["configs"].items()))


@app.command()
@connects()
def alter(
    name: Name,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", metavar="N", min=1, help="Grow to this many partitions."),
    ] = None,
    config: Settings = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="KEY", help="Back to the default; may be repeated."),
    ] = None,
    where: WhereOption = HERE,
) -> None:
    """Add partitions to a topic or change its configs.

    Partitions can only grow. Keys then go to other partitions than before.

    \b
    Examples:
      ottla topics alter orders --partitions 12
      ottla topics alter orders -c retention.ms=86400000 --delete-config cleanup.policy
    """
    from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

    new, dropped = parse_configs(config or [], "--config"), delete_config or []
    if partitions is None and not new and not dropped:
        raise CommandError("say what to alter: --partitions, --config or --delete-config", USAGE)
    client = connections.admin(where)
    cluster.topic(client, name)
    if new or dropped:
        resources.change(client, Resource("topic", name), new, dropped)
    if partitions is not None:
        with errors_explained(f"topic {name}"):
            asked = client.create_partitions([NewPartitions(name, partitions)], operation_timeout=REQUEST_S)
            asked[name].result(REQUEST_S)
    output.say(f"altered topic {name}")


@app.command()
@connects()
def delete(
    names: Names,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="A topic that is not there is no error.")
    ] = False,
    where: WhereOption = HERE,
) -> None:
    """Delete topics with all their records. Asks first on a terminal, and takes --yes without one.

    \b
    Examples:
      ottla topics delete orders
      ottla topics delete --yes --if-exists old-orders older-orders
    """
    from confluent_kafka import KafkaError

    own = sorted(INTERNAL_TOPICS.intersection(names))
    if own:
        raise CommandError(f"{own[0]} is the broker's own and is not deleted; nothing was deleted")
    output.confirm(f"Delete {', '.join(names)} with all records?", yes=yes)
    client = connections.admin(where)
    with errors_explained():
        asked = client.delete_topics(names, operation_timeout=REQUEST_S, request_timeout=REQUEST_S)
    _settle(asked, "deleted", KafkaError.UNKNOWN_TOPIC_OR_PART if if_exists else None)


def _settle(asked: "dict[str, Future[Any]]", done: str, tolerated: int | None) -> None:
    """Wait for every topic's answer, and fail at the end if one of them was an error."""
    from confluent_kafka import KafkaException

    problems = []
    for name, future in asked.items():
        try:
            future.result(REQUEST_S)
        except KafkaException as error:
            code = error.args[0].code()
            why = _why(name, code, explain(error))
            if code == tolerated:
                output.say(why)
            else:
                problems.append(why)
        else:
            output.say(f"{done} topic {name}")
    if problems:
        raise CommandError("; ".join(problems))


def _why(name: str, code: int, said: str) -> str:
    from confluent_kafka import KafkaError

    if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return f"there is no topic {name!r}"
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return f"topic {name!r} already exists"
    return f"topic {name}: {said}"


def _description(client: "AdminClient", name: str, states: list[replicas.Replicas]) -> dict[str, Any]:
    from confluent_kafka import TopicCollection

    with errors_explained(f"topic {name}"):
        asked = client.describe_topics(TopicCollection([name]), request_timeout=REQUEST_S)
        topic = asked[name].result(REQUEST_S)
        ids = [partition.partition for partition in states if partition.leader is not None]
        starts, ends = _offsets(client, name, ids, earliest=True), _offsets(client, name, ids, earliest=False)
    own = resources.describe(client, Resource("topic", name), defaults=False)
    return {
        "name": name,
        "id": str(topic.topic_id).replace("+", "-").replace("/", "_"),  # as Kafka writes it
        "partitions": [
            {
                "partition": partition.partition,
                "leader": partition.leader,
                "replicas": partition.replicas,
                "isr": partition.isr,
                "elr": partition.elr,
                "offline": partition.offline,
                "start": starts.get(partition.partition),
                "end": ends.get(partition.partition),
            }
            for partition in states
        ],
        "configs": {setting.name: setting.value for setting in own},
    }


def _offsets(client: "AdminClient", name: str, partitions: list[int], *, earliest: bool) -> dict[int, int]:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

    if not partitions:
        return {}
    spec = OffsetSpec.earliest() if earliest else OffsetSpec.latest()  # type: ignore[no-untyped-call]
    topic_partitions = {TopicPartition(name, number): spec for number in partitions}

    def ask() -> dict[int, int]:
        asked = client.list_offsets(topic_partitions, request_timeout=REQUEST_S)
        return {
            topic_partition.partition: future.result(REQUEST_S).offset
            for topic_partition, future in asked.items()
        }

    return partition_offsets.patiently(ask)


def _ids(nodes: list[int]) -> str:
    return ",".join(map(str, nodes))


def _difference(end: int | None, start: int | None) -> int | None:
    return None if end is None or start is None else end - start
