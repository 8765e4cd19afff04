"""kafka-topics, kafka-consumer-groups and kafka-configs, as scripts call them: Kafka's flags, and its output.

What changes something is done by the command of ours that does it. What lists or describes is printed as
Kafka prints it, since scripts read that. A flag that is not here is refused, never passed over.
"""

import argparse
import contextlib
import io
import json
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ottla.base.command_error import USAGE, CommandError
from ottla.base.ids import INTERNAL_TOPICS
from ottla.base.properties import read_file
from ottla.cli import output
from ottla.client.librdkafka.errors import REQUEST_S, requests_within
from ottla.client.properties import DEFAULT_BOOTSTRAP, ClientProperties, client_properties

EVERYWHERE = ("servers", "config_file", "timeout")


class Parser(argparse.ArgumentParser):
    """Kafka's tools take whole flags only, and end with 1 for wrong ones."""

    def __init__(self, tool: str) -> None:
        super().__init__(tool, allow_abbrev=False, usage=f"{tool} --bootstrap-server HOST:PORT FLAGS...")

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{self.prog}: {message}")

    def need(self, given: argparse.Namespace, *names: str) -> None:
        """Flags that what is asked for cannot do without: no topic is not all topics."""
        for name in names:
            if not getattr(given, name):
                self.error(f"--{name} is missing")

    def flags(self, *names: str) -> None:
        for name in names:
            self.add_argument(name, action="store_true")

    def texts(self, *names: str, many: bool = False, **settings: Any) -> None:
        for name in names:
            self.add_argument(name, action="append" if many else "store", **settings)


def connected(parser: Parser, *files: str) -> None:
    """How Kafka's tools say where the cluster is."""
    parser.texts("--bootstrap-server", "--broker-list", dest="servers")
    parser.texts("--command-config", *files, dest="config_file")


def where(given: argparse.Namespace, properties: Sequence[str] = ()) -> ClientProperties:
    settings = read_file(given.config_file) if given.config_file else {}
    for setting in properties:
        name, _, value = setting.partition("=")
        settings[name] = value
    if given.servers:
        settings["bootstrap.servers"] = given.servers
    return client_properties(settings, DEFAULT_BOOTSTRAP)


def ottla(given: argparse.Namespace, *arguments: str) -> None:
    """A command of ours, at the same cluster. It ends as that does."""
    from ottla.cli.app import app

    there = ["--bootstrap", given.servers or DEFAULT_BOOTSTRAP]
    there += ["--client-config", given.config_file] if given.config_file else []
    app([*arguments, *there, "--profile", ""], prog_name="ottla", standalone_mode=False)


# -- kafka-topics --------------------


def topics(arguments: list[str]) -> None:
    parser = Parser("kafka-topics")
    connected(parser)
    parser.flags("--list", "--create", "--describe", "--alter", "--delete", "--if-exists", "--if-not-exists")
    parser.flags("--exclude-internal", "--under-replicated-partitions", "--under-min-isr-partitions")
    parser.flags("--unavailable-partitions")
    parser.texts("--topic", "--partitions", "--replication-factor")
    parser.texts("--config", many=True, default=[])
    given = parser.parse_args(arguments)
    if given.config and not given.create:
        parser.error("--config goes with --create; kafka-configs changes a topic")
    trouble = ("under_replicated_partitions", "under_min_isr_partitions", "unavailable_partitions")
    _only_one(
        parser,
        given,
        list=("topic", "exclude_internal"),
        create=("topic", "partitions", "replication_factor", "config", "if_not_exists"),
        describe=("topic", "exclude_internal", "if_exists", *trouble),
        alter=("topic", "partitions", "if_exists"),
        delete=("topic", "if_exists"),
    )
    if given.create or given.alter or given.delete:
        parser.need(given, "topic")
    if given.create:
        _create_topic(given)
    elif given.alter:
        parser.need(given, "partitions")
        if given.if_exists and given.topic not in _topic_names(given):
            return
        ottla(given, "topics", "alter", given.topic, "--partitions", given.partitions)
    elif given.delete:
        names = _topics_of(given)
        if not names and not given.if_exists:
            raise CommandError(f"Topic '{given.topic}' does not exist as expected")
        for name in names:
            ottla(given, "topics", "delete", name, "--yes")
    elif given.list:
        print("".join(f"{name}\n" for name in _topics_of(given)), end="")
    else:
        _describe_topics(given)


def _create_topic(given: argparse.Namespace) -> None:
    counts = [("--partitions", given.partitions), ("--replication-factor", given.replication_factor)]
    options = [text for name, value in counts if value is not None for text in (name, value)]
    options += [text for setting in given.config for text in ("--config", setting)]
    if given.if_not_exists and given.topic in _topic_names(given):
        return  # in silence, as Kafka does it
    options += ["--if-not-exists"] if given.if_not_exists else []
    ottla(given, "topics", "create", given.topic, *options)
    print(f"Created topic {given.topic}.")


def _topic_names(given: argparse.Namespace) -> list[str]:
    from ottla.client.librdkafka import cluster, connections

    return sorted(cluster.metadata(connections.admin(where(given))).topics)


def _topics_of(given: argparse.Namespace) -> list[str]:
    """Those that --topic, a regular expression, names."""
    import re

    names = _topic_names(given)
    if given.exclude_internal:
        names = [name for name in names if name not in INTERNAL_TOPICS]
    return [name for name in names if given.topic is None or re.fullmatch(given.topic, name)]


def _describe_topics(given: argparse.Namespace) -> None:
    from ottla.cli.topics.replicas import Trouble, states, troubled
    from ottla.client.admin import configs as resources
    from ottla.client.admin.configs import Resource
    from ottla.client.admin.requests import Cluster
    from ottla.client.librdkafka import connections

    there = where(given)
    client, names = connections.admin(there), _topics_of(given)
    trouble = Trouble(
        given.under_replicated_partitions, given.under_min_isr_partitions, given.unavailable_partitions
    )
    if given.topic is not None and not names:
        if given.if_exists:
            return
        raise CommandError(f"Topic '{given.topic}' does not exist as expected")
    if any(trouble):
        for partition in troubled(client, there, trouble, names):
            print(_partition(partition))
        return
    ids = {topic.name: topic.topic_id for topic in Cluster(there).topics(names)} if names else {}
    for name in names:
        partitions = states(there, [name])
        settings = resources.describe(client, Resource("topic", name))  # also what the broker is set to
        changed = [setting for setting in settings if setting.source != resources.DEFAULT]
        configs = ",".join(f"{setting.name}={setting.value}" for setting in changed)
        replicas = max((len(partition.replicas) for partition in partitions), default=0)
        print(
            f"Topic: {name}\tTopicId: {_kafka_id(ids[name])}\tPartitionCount: {len(partitions)}\t"
            f"ReplicationFactor: {replicas}\tConfigs: {configs}"
        )
        for partition in partitions:
            print(_partition(partition))


def _kafka_id(topic_id: bytes) -> str:
    import base64

    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def _partition(state: Any) -> str:
    def ids(brokers: Sequence[int]) -> str:
        return ",".join(map(str, brokers))

    leader = "none" if state.leader is None else state.leader
    return (
        f"\tTopic: {state.topic}\tPartition: {state.partition}\tLeader: {leader}\tReplicas: "
        f"{ids(state.replicas)}\tIsr: {ids(state.isr)}\tElr: {ids(state.elr)}\tLastKnownElr: "
    )


# -- kafka-consumer-groups --------------------


def groups(arguments: list[str]) -> None:
    parser = Parser("kafka-consumer-groups")
    connected(parser)
    parser.flags("--list", "--describe", "--delete", "--reset-offsets", "--delete-offsets", "--all-groups")
    parser.flags("--offsets", "--members", "--state", "--all-topics", "--dry-run", "--execute")
    parser.flags("--to-earliest", "--to-latest")
    parser.texts("--group", "--topic", many=True, default=[])
    parser.texts("--to-offset", "--shift-by", "--to-datetime", "--by-duration")
    parser.texts("--timeout", type=int)
    given = parser.parse_args(arguments)
    chosen_groups, ways = ("group", "all_groups"), ("to_offset", "shift_by", "to_datetime", "by_duration")
    _only_one(
        parser,
        given,
        list=(),
        describe=(*chosen_groups, "offsets", "members", "state"),
        delete=chosen_groups,
        reset_offsets=(
            *chosen_groups, *ways, "to_earliest", "to_latest", "topic", "all_topics", "dry_run", "execute",
        ),
        delete_offsets=("group", "topic"),
    )  # fmt: skip
    if given.dry_run and given.execute:
        parser.error("--dry-run and --execute exclude each other")
    if given.timeout is not None and given.timeout <= 0:
        parser.error(f"--timeout takes milliseconds, how long a request may take, not {given.timeout}")
    with requests_within(REQUEST_S if given.timeout is None else given.timeout / 1000):
        _groups(parser, given)


def _groups(parser: Parser, given: argparse.Namespace) -> None:
    if given.list:
        print("".join(f"{name}\n" for name in _group_names(given)), end="")
    elif given.describe:
        _describe_groups(given)
    elif given.delete:
        names = _chosen_groups(given)
        ottla(given, "groups", "delete", *names, "--yes")
        print(f"Deletion of requested consumer groups ({_quoted(names)}) was successful.")
    elif given.delete_offsets:
        parser.need(given, "group", "topic")
        chosen = [text for topic in given.topic for text in ("--topic", topic)]
        ottla(given, "groups", "delete", *given.group, *chosen, "--yes")
    else:
        _reset(given)


def _quoted(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _group_names(given: argparse.Namespace) -> list[str]:
    from ottla.client.admin import groups as descriptions
    from ottla.client.librdkafka import connections

    return [group.id for group in descriptions.listed(connections.admin(where(given)), output.say)]


def _chosen_groups(given: argparse.Namespace) -> list[str]:
    if given.all_groups:
        return _group_names(given)
    if not given.group:
        raise CommandError("kafka-consumer-groups: --group or --all-groups is missing")
    return list(given.group)


def _reset(given: argparse.Namespace) -> None:
    ways = [
        ("--to-offset", given.to_offset),
        ("--shift-by", given.shift_by),
        ("--to-time", given.to_datetime),
    ]
    options = [text for name, value in ways if value is not None for text in (name, value)]
    options += [
        f"--{name}" for name in ("to-earliest", "to-latest") if getattr(given, name.replace("-", "_"))
    ]
    if given.by_duration is not None:
        options += ["--to-time", _duration(given.by_duration)]
    options += ["--all-topics"] if given.all_topics else []
    options += [text for topic in given.topic for text in ("--topic", topic)]
    options += ["--execute"] if given.execute else []
    rows: list[tuple[str, ...]] = []
    for group in _chosen_groups(given):
        with contextlib.redirect_stdout(io.StringIO()) as moves:
            ottla(given, "groups", "reset", group, *options, "--json")
        rows += [
            (group, *(str(move[column]) for column in ("topic", "partition", "new")))
            for move in json.loads(moves.getvalue())
        ]
    _table(("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), rows)


def _duration(text: str) -> str:
    """ISO 8601, of which our times have the last letter: PT1H30M is refused, PT90M is 90m."""
    import re

    match = re.fullmatch(r"P(?:(\d+)D|T(\d+)([HMS]))", text)
    if match is None:
        raise CommandError(f"--by-duration takes one unit, such as PT30M, PT2H or P1D, not {text!r}", USAGE)
    return f"{match[1]}d" if match[1] else f"{match[2]}{match[3].lower()}"


def _describe_groups(given: argparse.Namespace) -> None:
    from ottla.client.admin import groups as descriptions
    from ottla.client.librdkafka import connections

    described = descriptions.existing(connections.admin(where(given)), _chosen_groups(given), output.say)
    for group in described:
        if not group.members:
            print(f"\nConsumer group '{group.id}' has no active members.", file=sys.stderr)
        if given.state:
            _, host, port = group.coordinator
            coordinator = f"{host}:{port} ({group.coordinator[0]})"
            columns: tuple[str, ...] = (
                "GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS",
            )  # fmt: skip
            count = str(len(group.members))
            rows: list[tuple[str, ...]] = [(group.id, coordinator, group.assignor or "", group.state, count)]
        elif given.members:
            columns = ("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
            rows = [
                (group.id, member.id, member.host, member.client_id, str(len(member.assignment)))
                for member in group.members
            ]
        else:
            columns = (
                "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID",
                "HOST", "CLIENT-ID",
            )  # fmt: skip
            rows = [_position(group.id, position) for position in group.positions]
        _table(columns, rows)


def _position(group: str, position: Any) -> tuple[str, ...]:
    member = position.member
    numbers = (position.committed, position.end, position.lag)
    reader = (member.id, member.host, member.client_id) if member is not None else ("-", "-", "-")
    shown = ("-" if number is None else str(number) for number in numbers)
    return (group, position.topic, str(position.partition), *shown, *reader)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    print()
    for row in (columns, *rows):
        print(" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


# -- kafka-configs --------------------


def configs(arguments: list[str]) -> None:
    parser = Parser("kafka-configs")
    connected(parser)
    parser.flags("--describe", "--alter", "--all")
    parser.texts("--entity-type", "--entity-name", "--topic", "--broker", "--add-config", "--delete-config")
    given = parser.parse_args(arguments)
    entity = ("entity_type", "entity_name", "topic", "broker")
    _only_one(parser, given, describe=(*entity, "all"), alter=(*entity, "add_config", "delete_config"))
    kinds = {"topics": "topic", "brokers": "broker"}
    kind, name = kinds.get(given.entity_type or ""), given.entity_name
    if given.topic or given.broker:
        kind, name = ("topic", given.topic) if given.topic else ("broker", given.broker)
    if kind is None or name is None:
        raise CommandError(
            "kafka-configs: --entity-type topics or brokers, with --entity-name, is what is done"
        )
    if given.describe:
        _describe_configs(given, kind, name)
        return
    if not given.add_config and not given.delete_config:
        parser.error("--alter needs --add-config or --delete-config")
    if given.add_config:
        ottla(given, "configs", "set", f"--{kind}", name, *_pairs(given.add_config))
    if given.delete_config:
        ottla(given, "configs", "delete", f"--{kind}", name, *given.delete_config.split(","))
    print(f"Completed updating config for {kind} {name}.")


def _pairs(text: str) -> list[str]:
    """a=b,c=[d,e]"""
    import re

    return [
        pair.replace("=[", "=").removesuffix("]") for pair in re.findall(r"[^,=]+=(?:\[[^]]*\]|[^,]*)", text)
    ]


def _describe_configs(given: argparse.Namespace, kind: str, name: str) -> None:
    from ottla.client.admin import configs as resources
    from ottla.client.admin.configs import Resource
    from ottla.client.librdkafka import connections

    settings = resources.describe(connections.admin(where(given)), Resource(kind, name), defaults=given.all)
    print(f"{'All' if given.all else 'Dynamic'} configs for {kind} {name} are:")
    for setting in settings:
        print(f"  {setting.name}={setting.value}")


def _only_one(parser: Parser, given: argparse.Namespace, **actions: tuple[str, ...]) -> None:
    """One of these, and no flag that it would pass over: each has those that go with it."""
    chosen = [name for name in actions if getattr(given, name)]
    if len(chosen) != 1:
        parser.error(f"exactly one of {', '.join(map(_flag, actions))} is needed")
    (action,) = chosen
    for name, value in vars(given).items():
        if value and name not in (action, *actions[action], *EVERYWHERE):
            parser.error(f"{_flag(name)} has no effect with {_flag(action)}: leave it out")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
