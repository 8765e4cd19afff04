"""What keys and values are: options of `ottla produce` and `ottla consume`, and what follows from them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.cli import output
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
    Shown,
)
from ottla.client.formats.codecs import Pair
from ottla.client.formats.content import SCHEMA_FORMATS
from ottla.client.formats.registry import UnknownSubjectError
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


@dataclass(frozen=True)
class TellingDecoder(Decoder):
    """One that says, of the first record, why it is not shown in the format that was asked for: hex among
    what is printed looks like data."""

    told: list[str] = field(default_factory=list, compare=False)

    def __call__(self, topic: str, content: bytes | None, headers: Sequence[Pair] = ()) -> Shown:
        shown = super().__call__(topic, content, headers)
        if shown.problem is not None and not self.told:
            self.told.append(shown.problem)
            output.say(
                f"ottla: a {self.field} is not what was asked for, and shown as bytes: {shown.problem}"
            )
        return shown


class HelpfulEncoder(Encoder):
    """One that knows the option for a subject that has no schema yet."""

    def __call__(self, topic: str, given: Any) -> bytes | None:
        try:
            return super().__call__(topic, given)
        except UnknownSubjectError as error:
            raise ClientError(f"{error}; --schema FILE registers one") from None


def decoders_of(
    where: ClientProperties, key: str | None, value: str | None, url: str | None
) -> Decoders | None:
    """None if bytes are to be shown as they are."""
    if key is None and value is None and url is None:
        return None
    registry = _registry(where, url, key, value)
    try:
        return Decoders(
            TellingDecoder("key", key or FORMATS[0], registry),
            TellingDecoder("value", value or FORMATS[0], registry),
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
    registry = _registry(where, url, key, value)
    try:
        return Encoders(
            Encoder("key", key or FORMATS[0], registry),
            HelpfulEncoder("value", value or FORMATS[0], registry, choice),
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


def _registry(where: ClientProperties, url: str | None, *forms: str | None) -> Registry | None:
    if url is None and registry_url(dict(where.given)) is None:
        if needy := [form for form in forms if form in SCHEMA_FORMATS]:
            raise CommandError(f"{needy[0]} needs a schema registry: --registry http://HOST:8081", USAGE)
        return None
    try:
        return Registry.of(url, dict(where.given))
    except ClientError as error:
        raise CommandError(str(error), USAGE) from None
