"""`ottla users`: who may log in with SCRAM."""

from typing import Annotated, Protocol

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.cli import output
from ottla.cli.keeper_options import Config, Data, ZooKeeper, keeper_properties
from ottla.cli.options import HERE, Json, WhereOption, connects
from ottla.cli.users import passwords
from ottla.cli.users.keepers import KeeperUsers
from ottla.client.admin.requests import Cluster
from ottla.client.admin.users import BrokerUsers, Users
from ottla.client.librdkafka.errors import meant
from ottla.client.properties import Where
from ottla.security.credentials import (
    ITERATIONS,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISMS,
    ScramMechanism,
)

app = typer.Typer(
    name="users",
    help="Users and their passwords, for SASL with SCRAM: list, add, remove.",
    no_args_is_help=True,
)

Mechanisms = Annotated[
    list[str] | None,
    typer.Option("--mechanism", metavar="NAME", help=f"{' or '.join(MECHANISMS)}; may be repeated. (both)"),
]
User = Annotated[str, typer.Argument(metavar="USER", help="The name of the user.", show_default=False)]


class UserStore(Protocol):
    def users(self, names: tuple[str, ...] = ()) -> Users: ...
    def add(self, user: str, password: str, iterations: dict[ScramMechanism, int]) -> None: ...
    def remove(self, user: str, mechanisms: list[ScramMechanism]) -> None: ...


@app.command("list")
@connects()
def list_(
    json: Json = False,
    zookeeper: ZooKeeper = None,
    data: Data = None,
    config: Config = None,
    where: WhereOption = HERE,
) -> None:
    """List the users with SCRAM credentials. Passwords are not stored, and cannot be shown.

    \b
    Examples:
      ottla users list
      ottla users list --json | jq -r '.[].user'
    """
    users = _store(zookeeper, data, config, where).users()
    if json:
        output.show_json([
            {
                "user": user,
                "credentials": [
                    {"mechanism": mechanism.title, "iterations": count}
                    for mechanism, count in iterations.items()
                ],
            }
            for user, iterations in sorted(users.items())
        ])  # fmt: skip
    elif users:
        rows = [
            (user, mechanism.title, count)
            for user, iterations in sorted(users.items())
            for mechanism, count in iterations.items()
        ]
        output.show_table(("user", "mechanism", "iterations"), rows)
    else:
        output.say("there are no users; add one with `ottla users add NAME`")


@app.command()
@connects()
def add(
    user: User,
    mechanism: Mechanisms = None,
    iterations: Annotated[
        int,
        typer.Option(
            metavar="N", min=ITERATIONS_MIN, max=ITERATIONS_MAX, help="How often a password is hashed."
        ),
    ] = ITERATIONS,
    password_file: Annotated[
        str | None,
        typer.Option("--password-file", metavar="FILE", help="The password is its first line; - is stdin."),
    ] = None,
    generate: Annotated[
        bool, typer.Option("--generate", help="Make up a password, and print it; it is not shown again.")
    ] = False,
    json: Json = False,
    zookeeper: ZooKeeper = None,
    data: Data = None,
    config: Config = None,
    where: WhereOption = HERE,
) -> None:
    """Add a user, or give one another password, which is asked for unless an option says otherwise.

    Brokers that log in to each other need their users before they start: --zookeeper, --data or --config
    write past the brokers, straight to where they will look.

    \b
    Examples:
      ottla users add alice
      ottla users add alice --generate --mechanism SCRAM-SHA-512
      ottla users add admin --password-file secret.txt --config /etc/ottla/server.properties
      ottla users add admin --generate --zookeeper zk1:2181,zk2:2181/ottla
    """
    if not user:
        raise CommandError("a user has a name", USAGE)
    if generate and password_file is not None:
        raise CommandError("--generate makes up a password, --password-file has one; use one of them", USAGE)
    mechanisms = _mechanisms(mechanism)
    store = _store(zookeeper, data, config, where)
    if generate:
        password = passwords.generated()
    else:
        password = passwords.read(password_file) if password_file is not None else passwords.asked(user)
    store.add(user, password, dict.fromkeys(mechanisms, iterations))
    titles = [mechanism.title for mechanism in mechanisms]
    if json:
        shown = {"password": password} if generate else {}
        output.show_json({"user": user, "mechanisms": titles, "iterations": iterations, **shown})
    elif generate:
        print(password)
    output.say(f"{user} may log in with {' and '.join(titles)}")


@app.command()
@connects()
def remove(
    user: User,
    mechanism: Mechanisms = None,
    zookeeper: ZooKeeper = None,
    data: Data = None,
    config: Config = None,
    where: WhereOption = HERE,
) -> None:
    """Remove a user's credentials. What ACLs and quotas say of the user stays.

    \b
    Examples:
      ottla users remove alice
      ottla users remove alice --mechanism SCRAM-SHA-256
    """
    named = _mechanisms(mechanism) if mechanism else None
    store = _store(zookeeper, data, config, where)
    users = store.users((user,))
    if user not in users:
        raise CommandError(f"there is no user {user!r}{meant(user, store.users())}")
    mechanisms = named or list(users[user])
    missing = [mechanism.title for mechanism in mechanisms if mechanism not in users[user]]
    if missing:
        raise CommandError(f"{user} has no credential for {' and '.join(missing)}")
    store.remove(user, mechanisms)
    output.say(f"{user}: removed {' and '.join(mechanism.title for mechanism in mechanisms)}")


def _mechanisms(names: list[str] | None) -> list[ScramMechanism]:
    chosen = list(dict.fromkeys(name.upper() for name in names or MECHANISMS))
    for name in chosen:
        if name not in MECHANISMS:
            raise CommandError(f"--mechanism is {' or '.join(MECHANISMS)}, not {name!r}", USAGE)
    return [MECHANISMS[name] for name in chosen]


def _store(zookeeper: str | None, data: str | None, config: str | None, where: Where) -> UserStore:
    properties = keeper_properties(zookeeper, data, config)
    if properties is not None:
        return KeeperUsers(properties)
    return BrokerUsers(Cluster.reached(where))
