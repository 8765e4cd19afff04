"""`ottla profile`: clusters by name, so that a command needs no address, no file and no password.

A profile is a table of client properties in config.toml of the user's configuration folder, which only the
user can read.
"""

from typing import Annotated

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.base.properties import read_file
from ottla.cli import client_settings, output
from ottla.cli.options import Json
from ottla.cli.properties import parse_settings
from ottla.cli.shells import profiles_file
from ottla.client.errors import ClientError
from ottla.client.properties import SERVERS, client_properties
from ottla.client.security.names import PROTOCOL

app = typer.Typer(name="profile", help="Name clusters, and choose the one to talk to.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The profile.", show_default=False)]


@app.command()
def add(
    name: Name,
    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", "-b", metavar="HOST:PORT", help="A broker, or several with commas."),
    ] = None,
    client_config: Annotated[
        str | None, typer.Option("--client-config", metavar="FILE", help="Take over its properties.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", "-X", metavar="KEY=VALUE", help="A client property; may be repeated."),
    ] = None,
    use: Annotated[bool, typer.Option("--use", help="Use it from now on.")] = False,
) -> None:
    """Add a profile, or write it anew. The first one is used from then on.

    \b
    Examples:
      ottla profile add here --bootstrap 127.0.0.1:9092
      ottla profile add production --client-config client.properties --use
      ottla profile add shop -b shop:9093 -X security.protocol=SSL -X ssl.ca.location=/etc/shop/ca.pem
    """
    if not name or name == client_settings.CHOSEN:
        raise CommandError(f"a profile cannot be called {name!r}", USAGE)
    properties = read_file(client_config) if client_config is not None else {}
    properties |= parse_settings(setting or [], "--set")
    properties |= {SERVERS: bootstrap} if bootstrap is not None else {}
    if not properties:
        raise CommandError("a profile has at least an address: --bootstrap HOST:PORT", USAGE)
    try:
        client_properties(properties)
    except ClientError as error:
        raise CommandError(str(error), USAGE) from None
    profiles = client_settings.profiles()
    is_first = not profiles
    profiles_file.write({**profiles, name: properties}, name if use or is_first else client_settings.chosen())
    output.say(f"saved profile {name}")
    _show_use()
    if client_settings.chosen() != name:
        output.say(f"`ottla profile use {name}`, or --profile {name} with a command, uses this one")


@app.command()
def use(name: Name) -> None:
    """Use a profile from now on, unless a command says --profile, or the environment $OTTLA_PROFILE.

    \b
    Example:
      ottla profile use production
    """
    profiles = client_settings.profiles()
    client_settings.check_profile(name, profiles)
    profiles_file.write(profiles, name)
    _show_use()


@app.command("list")
def list_(json: Json = False) -> None:
    """List the profiles, and which of them is used. Passwords are not shown.

    \b
    Example:
      ottla profile list --json
    """
    chosen = client_settings.chosen()
    rows = [
        {
            "name": name,
            "is_used": name == chosen,
            "bootstrap": properties.get(SERVERS),
            "protocol": properties.get(PROTOCOL, "PLAINTEXT"),
        }
        for name, properties in sorted(client_settings.profiles().items())
    ]
    if json:
        output.show_json(rows)
    elif rows:
        columns = ("profile", "used", "bootstrap", "protocol")
        output.show_table(columns, [tuple(row.values()) for row in rows])
    else:
        output.say("there are no profiles; add one with `ottla profile add NAME --bootstrap HOST:PORT`")


@app.command()
def remove(name: Name) -> None:
    """Remove a profile.

    \b
    Example:
      ottla profile remove production
    """
    profiles = client_settings.profiles()
    client_settings.check_profile(name, profiles)
    chosen = client_settings.chosen()
    del profiles[name]
    profiles_file.write(profiles, None if chosen == name else chosen)
    _show_use()


def _show_use() -> None:
    chosen = client_settings.chosen()
    output.say(f"profile {chosen} is used" if chosen else "no profile is used")
