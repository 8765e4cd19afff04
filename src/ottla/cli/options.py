"""Options that many commands have, and what a command needs to connect to a cluster.

A command that connects has a parameter `where` and is marked with `connects`. It gets `--bootstrap`,
`--client-config`, `-X` and `--profile`, and is called with what they say together.
"""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.cli import client_settings
from ottla.cli.client_settings import BOOTSTRAP, CONFIG, PROFILE, Typed
from ottla.client.errors import ClientError
from ottla.client.properties import DEFAULT_BOOTSTRAP, ClientProperties

DIRECTORY = Path("ottla-cluster")
HERE, NOWHERE = ClientProperties(DEFAULT_BOOTSTRAP), ClientProperties("")


def bootstrap_option(help_: str) -> Any:
    return typer.Option(
        "--bootstrap", "-b", metavar="HOST:PORT", envvar=BOOTSTRAP, help=help_, show_default=False
    )


# Where the cluster is, and how to get in. The default, HERE or NOWHERE, is what holds if nothing says it.
WhereOption = Annotated[
    ClientProperties, bootstrap_option(f"A broker, or several with commas. ({DEFAULT_BOOTSTRAP})")
]
WhereOrDirectory = Annotated[
    ClientProperties, bootstrap_option("A broker, or several with commas; overrides --dir.")
]
Directory = Annotated[
    Path, typer.Option("--dir", metavar="DIR", help="The folder of the cluster: data, logs, cluster.json.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

_Config = Annotated[
    str | None,
    typer.Option(
        "--client-config",
        metavar="FILE",
        envvar=CONFIG,
        help="Properties of a Kafka client: security.protocol, ssl.*, sasl.*, bootstrap.servers, ...",
        show_default=False,
    ),
]
_Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        envvar=PROFILE,
        help="A cluster by its name. (the one that `ottla profile use` chose)",
    ),
]
_SETTING = "A property of a Kafka client or of librdkafka; may be repeated."


def connects(*names: str, is_user_open: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options to connect; `names` are those of `-X`, if there are fewer or others. With
    `is_user_open` a user is not needed, as somebody will log in."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        signature = inspect.signature(command)
        bootstrap = get_args(hints["where"])[1]
        default: ClientProperties = signature.parameters["where"].default
        setting = typer.Option(*(names or ("--set", "-X")), metavar="KEY=VALUE", help=_SETTING)
        own = {
            "bootstrap": Annotated[str | None, bootstrap],
            "client_config": _Config,
            "client_setting": Annotated[list[str] | None, setting],
            "profile": _Profile,
            "context": typer.Context,
        }

        @functools.wraps(command)
        def run(**given: Any) -> None:
            asked = {name: given.pop(name) for name in own}
            try:
                where = client_settings.resolve(_typed(asked), default.bootstrap, is_user_open=is_user_open)
            except ClientError as error:
                raise CommandError(str(error), USAGE) from None
            command(**given, where=where)

        kept = [
            parameter.replace(annotation=hints[name])
            for name, parameter in signature.parameters.items()
            if name != "where"
        ]
        keyword = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(
                name, keyword, annotation=hint, **({} if name == "context" else {"default": None})
            )
            for name, hint in own.items()
        ]
        parameters = [parameter.replace(kind=keyword) for parameter in kept] + added
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _typed(asked: dict[str, Any]) -> Typed:
    """Without what comes out of the environment, which is below all that."""
    context: typer.Context = asked["context"]

    def typed(name: str) -> str | None:
        source = context.get_parameter_source(name)
        value: str | None = asked[name]
        return value if source is not None and source.name == "COMMANDLINE" else None

    settings = tuple(asked["client_setting"] or ())
    return Typed(typed("bootstrap"), settings, typed("client_config"), typed("profile"))
