"""`ottla console`: a page in the browser for a cluster. `ottla.console` does the work."""

import os
import secrets
import sys
from typing import Annotated

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.cli.options import HERE, WhereOption, connects
from ottla.client.properties import ClientProperties

TOKEN = "OTTLA_CONSOLE_TOKEN"  # noqa: S105  # the name of a variable
TOKEN_BYTES_MIN = 16


@connects("-X")
def console(
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="Serve here.")] = 8080,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Listen at this address; 0.0.0.0 is every one.")
    ] = "127.0.0.1",
    read_only: Annotated[bool, typer.Option("--read-only", help="Nobody changes anything here.")] = False,
    token_file: Annotated[
        str | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help=f"The token to log in with is its first line. (${TOKEN}, or a new one)",
        ),
    ] = None,
    origin: Annotated[
        str,
        typer.Option(metavar="URL", help="What people type, if a proxy stands before it: https://..."),
    ] = "",
    registry: Annotated[str, typer.Option(metavar="URL", help="A schema registry.")] = "",
    where: WhereOption = HERE,
) -> None:
    """Serve a console for the cluster in the browser, until Ctrl-C.

    Where the cluster asks for SASL, people log in as its users, and may do what these may do. Elsewhere they
    need a token, which is printed at the start.

    \b
    Examples:
      ottla console
      ottla console --bootstrap broker:9092 --port 9000 --read-only
      ottla console --client-config client.properties --host 0.0.0.0 --origin https://console.example.com
    """
    if origin and not origin.startswith(("http://", "https://")):
        raise CommandError(
            f"--origin takes a URL, such as https://console.example.com, not {origin!r}", USAGE
        )
    serve(where, host, port, read_only=read_only, token_file=token_file, origin=origin, registry=registry)


def serve(
    where: ClientProperties,
    host: str,
    port: int,
    *,
    read_only: bool,
    token_file: str | None = None,
    origin: str = "",
    registry: str = "",
) -> None:
    try:
        from ottla.console.server import ConsoleServer
    except ImportError as error:
        raise CommandError(f"the console needs {error.name}: pip install 'ottla[console]'") from None
    import logging

    from ottla.console.settings import ConsoleSettings
    from ottla.shell.log_lines import set_up

    set_up("info", "text", sys.stderr)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    token = "" if where.security.sasl is not None else _token(token_file)
    server = ConsoleServer(
        ConsoleSettings(where, host, port, read_only, token, origin.rstrip("/"), registry.rstrip("/"))
    )

    def say_ready() -> None:
        print(f"Ottla's console is at {server.login_url}", flush=True)

    server.serve(say_ready)


def _token(path: str | None) -> str:
    if path is not None:
        try:
            with open(path, encoding="utf-8") as file:
                token = file.readline().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
        source = path
    elif TOKEN in os.environ:
        token, source = os.environ[TOKEN].strip(), f"${TOKEN}"
    else:
        return secrets.token_urlsafe(24)
    if len(token) < TOKEN_BYTES_MIN:
        raise CommandError(f"the token in {source} is shorter than {TOKEN_BYTES_MIN} characters", USAGE)
    return token
