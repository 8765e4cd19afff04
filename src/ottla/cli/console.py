"""`ottla console`: a page in the browser for a cluster. `ottla.console` does the work."""

import contextlib
import logging
import os
import secrets
import sys
import threading
from collections.abc import Callable
from typing import Annotated

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.cli.options import HERE, WhereOption, connects
from ottla.shell.log_lines import FORMATS, set_up

TOKEN = "OTTLA_CONSOLE_TOKEN"  # noqa: S105  # the name of a variable
TOKEN_BYTES_MIN = 16


@connects("-X", is_user_open=True)
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
    pipelines: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR",
            help="Show the pipeline in this folder, or those in the folders below.",
        ),
    ] = None,
    log_format: Annotated[
        str, typer.Option(metavar="FORMAT", help=f"How to log, one line an event: {' or '.join(FORMATS)}.")
    ] = FORMATS[0],
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
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
    if log_format not in FORMATS:
        raise CommandError(f"--log-format is one of {', '.join(FORMATS)}, not {log_format!r}", USAGE)
    try:
        from ottla.cli.pipelines.console_pipelines import pipelines_in
        from ottla.console.server import ConsoleServer
        from ottla.console.settings import ConsoleSettings
    except ImportError as error:
        raise CommandError(f"the console needs {error.name}: pip install 'ottla[console]'") from None
    set_up("info", log_format, sys.stderr)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    token = "" if where.security.sasl is not None else _token(token_file)
    settings = ConsoleSettings(
        where,
        host,
        port,
        is_read_only=read_only,
        token=token,
        origin=origin.rstrip("/"),
        registry=registry.rstrip("/"),
        pipelines=pipelines_in(pipelines or []),
    )
    server = ConsoleServer(settings)
    if with_parent:
        threading.Thread(target=_end_with_stdin, args=(server.stop,), daemon=True).start()
    server.serve(lambda: print(f"Ottla's console is at {server.login_url}", flush=True))


def _end_with_stdin(stop: Callable[[], None]) -> None:
    """Whoever started us has the other end, and writes nothing."""
    with contextlib.suppress(OSError):
        while os.read(0, 1):
            pass
    stop()


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
