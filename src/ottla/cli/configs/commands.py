"""`ottla configs`: what topics and brokers are set to."""

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.cli import output
from ottla.cli.options import HERE, Json, WhereOption, connects
from ottla.cli.properties import parse_configs, without_effect
from ottla.client.admin import configs as resources
from ottla.client.admin.configs import Resource
from ottla.client.librdkafka import cluster, connections
from ottla.client.properties import Where

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

app = typer.Typer(
    name="configs", help="Show and change the configs of topics and brokers.", no_args_is_help=True
)

Topic = Annotated[
    str | None, typer.Option("--topic", "-t", metavar="NAME", help="The configs of this topic.")
]
Node = Annotated[int | None, typer.Option("--broker", "-n", metavar="ID", help="The configs of this broker.")]


@app.command()
@connects()
def describe(
    topic: Topic = None,
    broker: Node = None,
    all_: Annotated[bool, typer.Option("--all", "-a", help="Show keys at their default as well.")] = False,
    json: Json = False,
    where: WhereOption = HERE,
) -> None:
    """Show configs: what was set, or with --all every key and where its value comes from.

    \b
    Examples:
      ottla configs describe --topic orders
      ottla configs describe --broker 1 --all
      ottla configs describe --topic orders --all --json | jq '.[] | select(.name == "retention.ms")'
    """
    client = _client(topic, broker, where)
    resource = _resource(client, topic, broker)
    settings = resources.describe(client, resource, defaults=all_)
    if json:
        output.show_json([setting._asdict() for setting in settings])
    elif settings:
        rows = [(setting.name, setting.value, setting.source, setting.is_read_only) for setting in settings]
        output.show_table(("key", "value", "from", "read only"), rows, str(resource))
    else:
        output.say(f"{resource}: everything is at its default (--all shows it)")


@app.command("set")
@connects()
def set_(
    pairs: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE...", help="What to set.", show_default=False)
    ],
    topic: Topic = None,
    broker: Node = None,
    where: WhereOption = HERE,
) -> None:
    """Set configs; others stay as they are.

    \b
    Examples:
      ottla configs set --topic orders retention.ms=86400000 cleanup.policy=compact
      ottla configs set --broker 1 log.retention.ms=3600000
    """
    new = parse_configs(pairs, "configs set")
    client = _client(topic, broker, where)
    for sentence in without_effect(new) if broker is not None else ():
        output.say(sentence)  # the broker keeps it all the same, as Kafka does
    resource = _resource(client, topic, broker)
    resources.change(client, resource, new)
    output.say(f"{resource}: set {', '.join(new)}")


@app.command()
@connects()
def delete(
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="What to unset.", show_default=False)],
    topic: Topic = None,
    broker: Node = None,
    where: WhereOption = HERE,
) -> None:
    """Give configs back their default.

    \b
    Example:
      ottla configs delete --topic orders retention.ms
    """
    client = _client(topic, broker, where)
    resource = _resource(client, topic, broker)
    resources.change(client, resource, {}, keys)
    output.say(f"{resource}: back to the default: {', '.join(keys)}")


def _client(topic: str | None, broker: int | None, where: Where) -> "AdminClient":
    if (topic is None) == (broker is None):
        raise CommandError("say whose configs: --topic NAME or --broker ID", USAGE)
    return connections.admin(where)


def _resource(client: "AdminClient", topic: str | None, broker: int | None) -> Resource:
    if topic is not None:
        return Resource("topic", topic)
    brokers = sorted(cluster.metadata(client).brokers)
    if broker not in brokers:
        # Asked all the same, librdkafka would wait for that broker to appear.
        raise CommandError(f"there is no broker {broker}, only {', '.join(map(str, brokers))}")
    return Resource("broker", str(broker))
