"""`ottla groups`: list, describe and delete groups, and with `reset` move what they have committed."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.cli import output
from ottla.cli.groups import reset
from ottla.cli.groups.offset_deletion import Refusal, delete_offsets
from ottla.cli.groups.trends import Trends
from ottla.cli.options import HERE, Json, WhereOption, connects
from ottla.cli.output import Cell
from ottla.cli.partitions import Chosen, is_chosen, parse_partitions, show_partitions
from ottla.cli.watch import EVERY_S, Every, Watch, watched
from ottla.client.admin import groups as descriptions
from ottla.client.admin.groups import REBALANCING, STATES, TYPES, Group, Member
from ottla.client.librdkafka import connections
from ottla.client.librdkafka.errors import errors_explained, explain, request_s
from ottla.client.librdkafka.partition_offsets import Partition
from ottla.client.properties import ClientProperties

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

app = typer.Typer(
    name="groups",
    help="List, describe, reset and delete consumer groups, of both protocols.",
    no_args_is_help=True,
)

Names = Annotated[list[str], typer.Argument(metavar="GROUP...", help="The groups.", show_default=False)]


@app.command("list")
@connects()
def list_(
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help="Only groups that are Stable, Empty, Rebalancing (of any kind), "
            "PreparingRebalance or CompletingRebalance; may be repeated.",
        ),
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="TYPE", help="Only groups that are classic or consumer; may be repeated."
        ),
    ] = None,
    json: Json = False,
    where: WhereOption = HERE,
) -> None:
    """List the groups with their members and how many records they are behind.

    \b
    Examples:
      ottla groups list
      ottla groups list --state empty
      ottla groups list --type consumer --json | jq -r '.[] | select(.lag > 0) | .group'
    """
    states = _states(state or [])
    types = _choices(type_ or [], TYPES, "--type")
    client = connections.admin(where)
    names = [
        group.id
        for group in descriptions.listed(client, output.say)
        if group.state in states and group.type in types
    ]
    rows: list[list[Cell]] = [
        [group.id, group.state, group.type, group.assignor, len(group.members), group.lag]
        for group in descriptions.described(client, names)
    ]
    columns = ("group", "state", "type", "assignor", "members", "lag")
    if json:
        output.show_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif rows:
        output.show_table(columns, rows)
    else:
        output.say("there are no groups" + (" like that" if state or type_ else ""))


@app.command()
@connects()
def describe(
    names: Names,
    members: Annotated[
        bool, typer.Option("--members", "-m", help="Show the members and what is assigned to them.")
    ] = False,
    watch: Watch = False,
    every: Every = EVERY_S,
    json: Json = False,
    where: WhereOption = HERE,
) -> None:
    """Show how far groups have read each partition, and who reads it; or with --members the members.

    With --watch there is also the trend: by how many records a second the lag grows, or shrinks if negative.
    A dash stands for what is not known: no committed offset, or the end of a topic that was deleted.
    JSON has both the partitions and the members.

    \b
    Examples:
      ottla groups describe billing
      ottla groups describe billing --members
      ottla groups describe billing --watch
      ottla groups describe billing --json | jq '.[0].partitions[] | select(.lag > 100)'
    """
    client, trends = connections.admin(where), Trends()

    def show() -> None:
        groups = descriptions.existing(client, names, output.say)
        trends.look(groups, time.monotonic())
        if json and watch:
            print(output.json_text([_as_json(group) | trends.json_of(group) for group in groups]))
            return
        if json:
            output.show_json([_as_json(group) for group in groups])
            return
        for group in groups:
            if members:
                _show_members(group)
            else:
                _show_positions(group, trends if watch else None)

    if watch:
        watched(show, every)
    else:
        show()


app.command("reset")(reset.reset)


@app.command()
@connects()
def delete(
    names: Names,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:P,P]",
            help="Delete only the committed offsets of this topic or these partitions; may be repeated.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="A group that is not there is no error.")
    ] = False,
    where: WhereOption = HERE,
) -> None:
    """Delete groups with all they have committed, or with --topic only some offsets. Asks first on a
    terminal, and takes --yes without one.

    A group with members is not deleted. Offsets are not deleted while a member subscribes to the topic.

    \b
    Examples:
      ottla groups delete billing
      ottla groups delete --yes --if-exists old-billing older-billing
      ottla groups delete billing --topic orders:0,2
    """
    chosen = parse_partitions(topic or [], "--topic")
    whole = f"group {', '.join(names)}"
    what = f"what {whole} committed of {', '.join(topic)}" if topic else f"{whole} with all it committed"
    output.confirm(f"Delete {what}?", yes=yes)
    names = list(dict.fromkeys(names))
    if chosen:
        problems = _delete_offsets(where, names, chosen, if_exists=if_exists)
    else:
        problems = _delete_groups(connections.admin(where), names, if_exists=if_exists)
    if problems:
        raise CommandError("; ".join(problems))


# -- what to list --------------------


def _states(given: list[str]) -> set[str]:
    """The states meant. Rebalancing stands for every state on the way to Stable."""
    wanted = _choices(given, tuple(STATES.values()), "--state")
    if REBALANCING in wanted:
        wanted |= {state for state in STATES.values() if "Rebalanc" in state}
    return wanted


def _choices(given: list[str], names: tuple[str, ...], option: str) -> set[str]:
    """Case, dashes and underscores do not matter. Nothing given is everything."""
    by_plain = {name.lower(): name for name in names}
    chosen = {by_plain.get(text.lower().replace("-", "").replace("_", "")) for text in given}
    if None in chosen:
        raise CommandError(f"{option} is one of {', '.join(names)}, not {', '.join(given)}", USAGE)
    return {name for name in chosen if name is not None} or set(names)


# -- how to show it --------------------


def _show_positions(group: Group, trends: Trends | None) -> None:
    columns = ["topic", "partition", "committed", "end", "lag", "member", "client", "host"]
    rows: list[list[Cell]] = [
        [
            position.topic,
            position.partition,
            position.committed,
            position.end,
            position.lag,
            *_owner(position.member),
        ]
        for position in group.positions
    ]
    if any(position.metadata for position in group.positions):
        columns.append("metadata")
        for row, position in zip(rows, group.positions, strict=True):
            row.append(position.metadata or None)
    if trends is not None:
        columns.insert(5, "lag/s")
        for row, position in zip(rows, group.positions, strict=True):
            row.insert(5, trends.of(group, position))
    output.show_table(columns, rows, _title(group))


def _owner(member: Member | None) -> tuple[Cell, Cell, Cell]:
    return (None, None, None) if member is None else (member.id, member.client_id, member.host)


def _show_members(group: Group) -> None:
    columns = ["member", "instance", "client", "host", "partitions", "assignment"]
    rows: list[list[Cell]] = [
        [member.id, member.instance_id, member.client_id, member.host, len(member.assignment),
         show_partitions(member.assignment) or None]
        for member in group.members
    ]  # fmt: skip
    if any(member.target is not None and member.target != member.assignment for member in group.members):
        columns.append("target")
        for row, member in zip(rows, group.members, strict=True):
            row.append(show_partitions(member.target or []) or None)
    output.show_table(columns, rows, _title(group))


def _title(group: Group) -> str:
    count = len(group.members)
    parts = [
        f"group {group.id}",
        group.state,
        group.type,
        *([group.assignor] if group.assignor else []),
        f"{count} member{'' if count == 1 else 's'}",
        *([f"lag {group.lag}"] if group.lag is not None else []),
        f"coordinator {group.coordinator[0]}",
    ]
    return " · ".join(parts)


def _as_json(group: Group) -> dict[str, Any]:
    node, host, port = group.coordinator
    return {
        "group": group.id,
        "state": group.state,
        "type": group.type,
        "simple": group.is_simple,
        "assignor": group.assignor,
        "coordinator": {"id": node, "host": host, "port": port},
        "lag": group.lag,
        "partitions": [
            {
                "topic": position.topic,
                "partition": position.partition,
                "committed": position.committed,
                "end": position.end,
                "lag": position.lag,
                "metadata": position.metadata,
                **dict(zip(("member", "client", "host"), _owner(position.member), strict=True)),
            }
            for position in group.positions
        ],
        "members": [
            {
                "member": member.id,
                "instance": member.instance_id,
                "client": member.client_id,
                "host": member.host,
                "assignment": _partitions(member.assignment),
                "target": None if member.target is None else _partitions(member.target),
            }
            for member in group.members
        ],
    }


def _partitions(assignment: Iterable[Partition]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": number} for topic, number in assignment]


# -- deletion --------------------


def _delete_groups(client: "AdminClient", names: list[str], *, if_exists: bool) -> list[str]:
    from confluent_kafka import KafkaError, KafkaException

    problems = []
    with errors_explained():
        asked = client.delete_consumer_groups(names, request_timeout=request_s())
        for name, future in asked.items():
            try:
                future.result(request_s())
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.GROUP_ID_NOT_FOUND and if_exists:
                    output.say(f"there is no group {name!r}")
                else:
                    problems.append(_why(name, code, explain(error)))
            else:
                output.say(f"deleted group {name}")
    return problems


def _delete_offsets(
    where: ClientProperties, names: list[str], chosen: Chosen, *, if_exists: bool
) -> list[str]:
    from confluent_kafka import KafkaError

    problems = []
    for group in descriptions.described(connections.admin(where), names):
        topic_partitions = [
            (position.topic, position.partition)
            for position in group.positions
            if position.committed is not None and is_chosen(chosen, position.topic, position.partition)
        ]
        if not group.is_there and not if_exists:
            problems.append(_why(group.id, KafkaError.GROUP_ID_NOT_FOUND, ""))
        elif not topic_partitions:
            output.say(f"group {group.id}: no such offset is committed")
        else:
            _, host, port = group.coordinator
            refused = delete_offsets(where, host, port, group.id, topic_partitions)
            problems += [_why_offset(group.id, refusal) for refusal in refused]
            count = (
                0
                if any(refusal.topic is None for refusal in refused)
                else len(topic_partitions) - len(refused)
            )
            if count:
                output.say(f"group {group.id}: deleted {count} committed offset{'' if count == 1 else 's'}")
    return problems


def _why(name: str, code: int, said: str) -> str:
    from confluent_kafka import KafkaError

    if code == KafkaError.NON_EMPTY_GROUP:
        return f"group {name} has members; stop them first (`ottla groups describe {name} --members`)"
    if code == KafkaError.GROUP_ID_NOT_FOUND:
        return f"there is no group {name!r}"
    return f"group {name}: {said}"


def _why_offset(name: str, refused: Refusal) -> str:
    from confluent_kafka import KafkaError

    if refused.code == KafkaError.GROUP_SUBSCRIBED_TO_TOPIC:
        return f"group {name}, {refused.topic} {refused.partition}: a member subscribes to the topic"
    said = explain(KafkaError(refused.code))
    if refused.topic is None:
        return _why(name, refused.code, said)
    return f"group {name}, {refused.topic} {refused.partition}: {said}"
