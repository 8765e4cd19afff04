"""`ottla secure`: what a broker with TLS, SASL and access control needs, made in one go."""

import os
import shlex
from typing import Annotated

import typer

from ottla.base.addresses import Address
from ottla.base.command_error import USAGE, CommandError
from ottla.cli import output
from ottla.cli.options import Json

app = typer.Typer(name="secure", no_args_is_help=True)

DEFAULT_LISTEN = "127.0.0.1:9092"
ANYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to

Target = Annotated[str, typer.Argument(metavar="DIR", help="The folder to make.", show_default=False)]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="HOST",
        help="A name or address of the broker, for its certificate; may be repeated. "
        "Clients are told the first. (this host)",
    ),
]
Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the broker will listen.")]


@app.callback()
def secure() -> None:
    """Set up a broker with TLS, SASL and access control."""


@app.command()
def init(folder: Target, host: Hosts = None, listen: Listen = DEFAULT_LISTEN, json: Json = False) -> None:
    """Make certificates, a first user and the settings of a broker.

    In DIR there will be an authority with its key, a certificate for the
    broker and one for a client, broker.properties, client.properties, and the
    broker's data with the user admin, who may do everything.
    All of it is for you alone to read, and nothing is overwritten.

    \b
    Examples:
      ottla secure init secured
      ottla secure init /etc/ottla --host broker.example.com --listen 0.0.0.0:9093
    """
    hosts = list(host or [])
    advertised = _advertised(listen, hosts)
    _make(folder, hosts, listen, advertised)
    broker, client = (os.path.join(folder, f"{name}.properties") for name in ("broker", "client"))
    start = f"ottla start --config {shlex.quote(broker)}"
    use = f"ottla topics list --client-config {shlex.quote(client)}"
    if json:
        output.show_json({
            "folder": os.path.abspath(folder), "listen": listen, "advertised": advertised, "user": "admin",
            "broker_config": broker, "client_config": client, "start": start, "use": use,
        })  # fmt: skip
        return
    print(f"{folder} has certificates, the user admin, and the settings of a broker at {advertised}.")
    print("Start it, then use it:")
    print(f"  {start}")
    print(f"  {use}")


def _advertised(listen: str, hosts: list[str]) -> str:
    """What clients are told: the first host, else the one listened on."""
    bound, colon, port = listen.rpartition(":")
    if not (colon and port.isdecimal()) or not 0 < int(port) < 1 << 16:
        raise CommandError(f"--listen: {listen!r} is not HOST:PORT, such as {DEFAULT_LISTEN}", USAGE)
    if hosts:
        return str(Address(hosts[0], int(port)))
    if bound.strip("[]") in ANYWHERE:
        raise CommandError(f"--listen {listen} is everywhere: say with --host what clients call it", USAGE)
    return listen


def _make(folder: str, hosts: list[str], listen: str, advertised: str) -> None:
    try:
        from ottla.shell import certificate_authority, secure_folder
    except ImportError:
        raise CommandError("certificates need cryptography: pip install 'ottla[tls]'") from None
    names = [*hosts, advertised.rpartition(":")[0].strip("[]")]
    for name in names:
        if not certificate_authority.is_host(name):
            raise CommandError(f"--host: {name!r} is neither a host's name nor an address", USAGE)
    try:
        secure_folder.create(folder, names, listen, advertised)
    except FileExistsError:
        raise CommandError(
            f"{folder} is there already, and nothing in it is overwritten: remove it or name another"
        ) from None
    except OSError as error:
        raise CommandError(f"cannot make {folder}: {error.strerror or error}") from None
