"""`ottla acls`: who may do what."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.cli import output
from ottla.cli.acls import selection
from ottla.cli.acls.selection import Selection, title
from ottla.cli.options import HERE, Json, WhereOption, connects
from ottla.client.admin import acls as acl_requests
from ottla.client.admin.requests import Cluster
from ottla.security.acls import AclBinding
from ottla.security.resources import PatternType, Permission

app = typer.Typer(name="acls", help="Who may do what: list, add and remove ACLs.", no_args_is_help=True)

Principals = Annotated[
    list[str] | None,
    typer.Option(
        "--principal", "-p", metavar="USER", help="alice, or User:alice; * is everybody. May be repeated."
    ),
]
Hosts = Annotated[
    list[str] | None, typer.Option("--host", metavar="ADDRESS", help="From this address; may be repeated.")
]
Operations = Annotated[
    list[str] | None,
    typer.Option("--operation", "-o", metavar="NAME", help="Read, Write, Describe, ...; may be repeated."),
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", metavar="NAME", help="A topic; * is all. May be repeated."),
]
Groups = Annotated[
    list[str] | None,
    typer.Option("--group", "-g", metavar="NAME", help="A group; * is all. May be repeated."),
]
TransactionalIds = Annotated[
    list[str] | None,
    typer.Option("--transactional-id", metavar="ID", help="A transactional id; * is all. May be repeated."),
]
OfCluster = Annotated[bool, typer.Option("--cluster", help="The cluster as a whole.")]
Pattern = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="literal: this name. prefixed: all that begin so. To list and remove also any of both, and "
        "match: all that apply to this name.",
    ),
]
Producer = Annotated[bool, typer.Option("--producer", help="All that a producer needs of --topic.")]
Consumer = Annotated[
    bool, typer.Option("--consumer", help="All that a consumer needs of --topic and --group.")
]
Permit = Annotated[bool | None, typer.Option("--allow/--deny", help="Allow it, or deny it, which wins.")]


@app.command("list")
@connects()
def list_(
    principal: Principals = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: OfCluster = False,
    pattern: Pattern = None,
    operation: Operations = None,
    host: Hosts = None,
    allow: Permit = None,
    json: Json = False,
    where: WhereOption = HERE,
) -> None:
    """List ACLs: all, or those that all options select.

    \b
    Examples:
      ottla acls list
      ottla acls list --principal alice
      ottla acls list --topic orders --pattern match --json
    """
    wanted = _selection(
        principal, topic, group, transactional_id, cluster, pattern, operation, host, allow, False, False
    )
    filters = wanted.filters(PatternType.ANY)
    bindings = acl_requests.listed(Cluster.reached(where), filters)
    if not bindings and not json:
        output.say("there are no ACLs" + ("" if wanted.is_everything else " like that"))
    else:
        _show(bindings, json=json)


@app.command()
@connects()
def add(
    principal: Principals = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: OfCluster = False,
    pattern: Pattern = None,
    operation: Operations = None,
    producer: Producer = False,
    consumer: Consumer = False,
    host: Hosts = None,
    allow: Permit = None,
    json: Json = False,
    where: WhereOption = HERE,
) -> None:
    """Add ACLs: every principal may do every operation on every resource from every host.

    Without --operation it is All, without --host every host, and allowed unless --deny says otherwise.

    \b
    Examples:
      ottla acls add --principal alice --producer --topic orders
      ottla acls add --principal bob --consumer --topic orders --group billing
      ottla acls add --principal bob --operation Read --topic team- --pattern prefixed
      ottla acls add --principal eve --deny --operation All --topic '*' --host 10.0.0.7
    """
    wanted = _selection(
        principal,
        topic,
        group,
        transactional_id,
        cluster,
        pattern,
        operation,
        host,
        allow,
        producer,
        consumer,
    )
    bindings = wanted.bindings()
    acl_requests.add(Cluster.reached(where), bindings)
    _show(bindings, json=json)


@app.command()
@connects()
def remove(
    principal: Principals = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: OfCluster = False,
    pattern: Pattern = None,
    operation: Operations = None,
    producer: Producer = False,
    consumer: Consumer = False,
    host: Hosts = None,
    allow: Permit = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
    where: WhereOption = HERE,
) -> None:
    """Remove all ACLs that the options select, and show them. A name is taken literally unless --pattern
    says otherwise.

    \b
    Examples:
      ottla acls remove --principal alice --producer --topic orders
      ottla acls remove --principal bob --yes
    """
    wanted = _selection(
        principal,
        topic,
        group,
        transactional_id,
        cluster,
        pattern,
        operation,
        host,
        allow,
        producer,
        consumer,
    )
    if wanted.is_everything:
        raise CommandError("say which: --principal, --topic, --group or others select the ACLs", USAGE)
    filters = wanted.filters(PatternType.LITERAL)
    connection = Cluster.reached(where)
    bindings = acl_requests.listed(connection, filters)
    if not bindings:
        raise CommandError("there are no ACLs like that")
    if not yes:
        for line in output.plain_lines(COLUMNS, [_row(binding) for binding in bindings]):
            output.say(line)
    output.confirm(f"Remove {output.plural(len(bindings), 'ACL')}?", yes=yes)
    removed = acl_requests.remove(connection, filters)
    if yes or json:
        _show(removed, json=json)
    output.say(f"{output.plural(len(removed), 'ACL')} removed")


COLUMNS = ("principal", "permission", "operation", "host", "resource", "name", "pattern")


def _row(binding: AclBinding) -> tuple[str, ...]:
    pattern, entry = binding
    return (
        entry.principal, title(entry.permission), title(entry.operation), entry.host,
        title(pattern.resource_type), pattern.name, title(pattern.pattern_type),
    )  # fmt: skip


def _show(bindings: list[AclBinding], *, json: bool) -> None:
    rows = [_row(binding) for binding in bindings]
    if json:
        output.show_json([dict(zip(COLUMNS, row, strict=True)) for row in rows])
    else:
        output.show_table(COLUMNS, rows)


def _selection(
    principals: list[str] | None,
    topics: list[str] | None,
    groups: list[str] | None,
    transactional_ids: list[str] | None,
    cluster: bool,
    pattern: str | None,
    operations: list[str] | None,
    hosts: list[str] | None,
    allow: bool | None,
    producer: bool,
    consumer: bool,
) -> Selection:
    permission = None if allow is None else Permission.ALLOW if allow else Permission.DENY
    return Selection(
        selection.resources(topics or (), groups or (), transactional_ids or (), cluster=cluster),
        selection.pattern(pattern),
        _each(selection.principal, principals),
        tuple(hosts or ()),
        _each(selection.operation, operations),
        permission,
        producer,
        consumer,
    )


def _each(parse: Callable[[str], Any], texts: list[str] | None) -> tuple[Any, ...]:
    return tuple(map(parse, texts or ()))
