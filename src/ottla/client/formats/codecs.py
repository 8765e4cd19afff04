"""One field of a topic's records, key or value, in the format that somebody chose.

`auto` decides for each record: with a registry, what begins like a schema's number is read by that schema;
the rest is JSON, text or hex, whatever it most likely is.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.client.formats.content import (
    AUTO,
    FORMATS,
    JSON,
    SCHEMA_FORMATS,
    SHOWN_NULL,
    TEXT,
    FormatError,
    Shown,
    as_hex,
    binary_of,
    content_of,
    readable,
    show,
    to_bytes,
)
from ottla.client.formats.registry import MAGIC, PREFIX_BYTES, Registry, SchemaChoice

Pair = tuple[str, bytes | None]
LATEST = SchemaChoice()


def _check(name: str, form: str, registry: Registry | None) -> None:
    if name not in ("key", "value"):
        raise ValueError(f"a field is key or value, not {name!r}")
    if form not in FORMATS:
        raise FormatError(f"{form!r} is no format; there are {', '.join(FORMATS)}")
    if form in SCHEMA_FORMATS and registry is None:
        raise FormatError(f"{form} needs a schema registry: name its URL")


@dataclass(frozen=True)
class Decoder:
    """Bytes of `field`, "key" or "value", to what is shown of them."""

    field: str
    form: str = AUTO
    registry: Registry | None = None

    def __post_init__(self) -> None:
        _check(self.field, self.form, self.registry)

    def __call__(self, topic: str, content: bytes | None, headers: Sequence[Pair] = ()) -> Shown:
        if content is None:
            return SHOWN_NULL
        if self.form in SCHEMA_FORMATS:
            assert self.registry is not None, "checked when it was made"
            shown = self.registry.show(topic, self.field, content, headers)
            if shown.problem is None and shown.format != self.form:
                return as_hex(content, f"schema {shown.schema} is {shown.format}, not {self.form}")
            return shown
        if self.form == AUTO and self.registry is not None:
            if self.registry.is_framed(self.field, content, headers):
                return self.registry.show(topic, self.field, content, headers)
            return show(content)
        return show(content, self.form)

    def json(self, topic: str, content: bytes | None, headers: Sequence[Pair] = ()) -> tuple[Any, str | None]:
        """The same for JSON, and what is wrong with it, if something is: text as text, what a schema or JSON
        explains as its value, the rest as {"base64": ...}, which reads back as the same bytes."""
        if self.form in (AUTO, TEXT) and self.registry is None:
            return readable(content), None
        shown = self(topic, content, headers)
        if shown.problem is not None:
            return _binary(content), shown.problem
        if shown.format in SCHEMA_FORMATS or self.form == JSON:
            return shown.data, None
        if self.form in (AUTO, TEXT):
            return readable(content), None
        return shown.text, None


def _binary(content: bytes | None) -> Any:
    return None if content is None else {"base64": base64.b64encode(content).decode()}


@dataclass(frozen=True)
class Decoders:
    key: Decoder = field(default=Decoder("key"))
    value: Decoder = field(default=Decoder("value"))


PLAIN = Decoders()


@dataclass(frozen=True)
class Encoder:
    """What somebody typed, as text or as JSON, to the bytes of `field`. `auto` is text."""

    field: str
    form: str = AUTO
    registry: Registry | None = None
    schema: SchemaChoice = LATEST

    def __post_init__(self) -> None:
        _check(self.field, self.form, self.registry)

    def __call__(self, topic: str, given: Any) -> bytes | None:
        """None is none, or a tombstone, in every format. FormatError: it is not in the format."""
        if given is None:
            return None
        if (binary := binary_of(given)) is not None:
            return binary
        if self.form in SCHEMA_FORMATS:
            assert self.registry is not None, "checked when it was made"
            return self.registry.encode(topic, self.field, given, self.form, self.schema)
        if self.form in (AUTO, TEXT):
            return content_of(given)
        return to_bytes(given, self.form)


@dataclass(frozen=True)
class Encoders:
    key: Encoder = field(default=Encoder("key"))
    value: Encoder = field(default=Encoder("value"))


def looks_framed(content: bytes | None) -> bool:
    """Whether it looks as if a registry could explain it. For a hint where none is named."""
    return content is not None and len(content) > PREFIX_BYTES and content[0] == MAGIC and content[1] == 0
