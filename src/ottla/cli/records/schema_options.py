"""What keys and values are: options of `ottla produce` and `ottla consume`, and what follows from them."""

from pathlib import Path
from typing import Annotated

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.client.errors import ClientError
from ottla.client.formats import (
    FORMATS,
    Decoder,
    Decoders,
    Encoder,
    Encoders,
    FormatError,
    Registry,
    SchemaChoice,
)
from ottla.client.properties import ClientProperties
from ottla.client.registry_settings import registry_url

_NAMES = ", ".join(FORMATS[1:])
KeyFormat = Annotated[
    str | None, typer.Option("--key-format", metavar="FORMAT", help=f"Keys are {_NAMES}. (bytes)")
]
ValueFormat = Annotated[
    str | None, typer.Option("--value-format", metavar="FORMAT", help=f"Values are {_NAMES}. (bytes)")
]
RegistryUrl = Annotated[
    str | None,
    typer.Option("--registry", metavar="URL", help="A schema registry, for avro, protobuf and json-schema."),
]


def decoders_of(
    where: ClientProperties, key: str | None, value: str | None, url: str | None
) -> Decoders | None:
    """None if bytes are to be shown as they are."""
    if key is None and value is None and url is None:
        return None
    registry = _registry(where, url)
    try:
        return Decoders(
            Decoder("key", key or FORMATS[0], registry), Decoder("value", value or FORMATS[0], registry)
        )
    except FormatError as error:
        raise CommandError(str(error), USAGE) from None


def encoders_of(
    where: ClientProperties, key: str | None, value: str | None, url: str | None, schema: Path | None
) -> Encoders | None:
    """None if the bytes of a line are sent as they are."""
    if key is None and value is None:
        if url is not None or schema is not None:
            raise CommandError("--registry and --schema are for --value-format or --key-format", USAGE)
        return None
    choice = SchemaChoice(text=None if schema is None else _text(schema))
    registry = _registry(where, url)
    try:
        return Encoders(
            Encoder("key", key or FORMATS[0], registry),
            Encoder("value", value or FORMATS[0], registry, choice),
        )
    except FormatError as error:
        raise CommandError(str(error), USAGE) from None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}", USAGE
        ) from None


def _registry(where: ClientProperties, url: str | None) -> Registry | None:
    if url is None and registry_url(dict(where.given)) is None:
        return None
    try:
        return Registry.of(url, dict(where.given))
    except ClientError as error:
        raise CommandError(str(error), USAGE) from None
