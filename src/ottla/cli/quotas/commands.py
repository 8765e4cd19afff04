"""`ottla quotas`: how much users, clients and addresses may ask of brokers."""

import math
from typing import Annotated

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.cli import output
from ottla.cli.options import HERE, Json, WhereOption, connects
from ottla.cli.properties import parse_settings
from ottla.client.admin import quotas as quota_requests
from ottla.client.admin.quotas import Entity, title
from ottla.client.admin.requests import Cluster

app = typer.Typer(
    name="quotas",
    help="How much users, clients and addresses may ask of brokers: list, add, remove.",
    no_args_is_help=True,
)

KEYS = (
    "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate",
    "connection_creation_rate",
)  # fmt: skip

User = Annotated[str | None, typer.Option("--user", "-u", metavar="NAME", help="This user.")]
ClientId = Annotated[str | None, typer.Option("--client-id", "-c", metavar="ID", help="This client id.")]
Ip = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="This address.")]
DefaultUser = Annotated[bool, typer.Option("--default-user", help="All users without a quota of their own.")]
DefaultClientId = Annotated[
    bool, typer.Option("--default-client-id", help="All client ids without a quota of their own.")
]
DefaultIp = Annotated[bool, typer.Option("--default-ip", help="All addresses without a quota of their own.")]


@app.command("list")
@connects()
def list_(
    user: User = None,
    default_user: DefaultUser = False,
    client_id: ClientId = None,
    default_client_id: DefaultClientId = False,
    ip: Ip = None,
    default_ip: DefaultIp = False,
    json: Json = False,
    where: WhereOption = HERE,
) -> None:
    """List quotas: all, or those that are about a user, a client id or an address.

    \b
    Examples:
      ottla quotas list
      ottla quotas list --user alice
      ottla quotas list --json | jq '.[] | select(.quotas.producer_byte_rate < 1e6)'
    """
    entity = _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    quotas = quota_requests.listed(Cluster.reached(where), entity)
    if json:
        output.show_json([{"entity": dict(quota.entity), "quotas": quota.values} for quota in quotas])
    elif quotas:
        rows = [
            (title(quota.entity), key, _text(value))
            for quota in quotas
            for key, value in quota.values.items()
        ]
        output.show_table(("for", "quota", "value"), rows)
    else:
        output.say("there are no quotas" + (" like that" if entity else ""))


@app.command()
@connects()
def add(
    pairs: Annotated[
        list[str],
        typer.Argument(metavar="QUOTA=NUMBER...", help=f"Of {', '.join(KEYS)}.", show_default=False),
    ],
    user: User = None,
    default_user: DefaultUser = False,
    client_id: ClientId = None,
    default_client_id: DefaultClientId = False,
    ip: Ip = None,
    default_ip: DefaultIp = False,
    where: WhereOption = HERE,
) -> None:
    """Set quotas of a user, a client id, a user's client id or an address; others stay as they are.

    Bytes are per second and broker, percentages of one thread, mutations (partitions created or deleted)
    and connections per second.

    \b
    Examples:
      ottla quotas add --user alice producer_byte_rate=1048576 consumer_byte_rate=2097152
      ottla quotas add --default-user --client-id batch request_percentage=50
      ottla quotas add --ip 10.0.0.7 connection_creation_rate=5
    """
    values = {key: _number(key, value) for key, value in parse_settings(pairs, "quotas add").items()}
    entity = _named(_entity(user, default_user, client_id, default_client_id, ip, default_ip))
    quota_requests.change(Cluster.reached(where), entity, values)
    output.say(f"{title(entity)}: {', '.join(f'{key} {_text(value)}' for key, value in values.items())}")


@app.command()
@connects()
def remove(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="QUOTA...", help="Which; all if none is named.")
    ] = None,
    user: User = None,
    default_user: DefaultUser = False,
    client_id: ClientId = None,
    default_client_id: DefaultClientId = False,
    ip: Ip = None,
    default_ip: DefaultIp = False,
    where: WhereOption = HERE,
) -> None:
    """Remove quotas of a user, a client id, a user's client id or an address.

    \b
    Examples:
      ottla quotas remove --user alice
      ottla quotas remove --user alice consumer_byte_rate
    """
    entity = _named(_entity(user, default_user, client_id, default_client_id, ip, default_ip))
    cluster = Cluster.reached(where)
    present = [
        key
        for quota in quota_requests.listed(cluster, entity, exactly=True)
        if set(quota.entity) == set(entity)
        for key in quota.values
    ]
    missing = [key for key in keys or () if key not in present]
    if missing or not present:
        has = f"has only {', '.join(present)}" if present else "has no quotas"
        raise CommandError(f"{title(entity)} {has}")
    quota_requests.change(cluster, entity, dict.fromkeys(keys or present))
    output.say(f"{title(entity)}: removed {', '.join(keys or present)}")


def _entity(
    user: str | None,
    default_user: bool,
    client_id: str | None,
    default_client_id: bool,
    ip: str | None,
    default_ip: bool,
) -> Entity:
    parts: list[tuple[str, str | None]] = []
    for kind, name, is_default in (
        ("user", user, default_user),
        ("client-id", client_id, default_client_id),
        ("ip", ip, default_ip),
    ):
        if name is not None and is_default:
            raise CommandError(f"--{kind} names one, --default-{kind} all others; use one of them", USAGE)
        if name == "":
            raise CommandError(f"--{kind} is empty; --default-{kind} is for all without their own", USAGE)
        if name is not None or is_default:
            parts.append((kind, name))
    if len(parts) > 1 and parts[-1][0] == "ip":
        raise CommandError("--ip goes with neither --user nor --client-id", USAGE)
    return tuple(parts)


def _named(entity: Entity) -> Entity:
    if not entity:
        raise CommandError(
            "say whose: --user, --client-id or both, or --ip; --default-user and its like are for all others",
            USAGE,
        )
    return entity


def _number(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise CommandError(f"{key}: {text!r} is not a number from 0", USAGE)
    return value


def _text(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value}"
