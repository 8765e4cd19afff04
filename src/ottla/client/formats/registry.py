"""A schema registry, and what its schemas make of bytes: Confluent's wire format, by confluent-kafka.

A record that was written with a schema begins with a byte 0 and the schema's number, or has a header with
its GUID. The schema says whether what follows is Avro, Protobuf or JSON, so nobody has to. What is shown is
what the writer wrote: neither a newer schema nor a rule of the registry is applied to it.

Rules: needs the extra `registry`, and loads it when the first record asks for it. A schema never changes, so
it is asked for once. An error of the registry is remembered for a while, so that a page of records from a
registry that is down is shown at once, as hex. May be used by several threads: confluent-kafka's own caches
have locks, and ours are only ever added to.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ottla.client.errors import ClientError
from ottla.client.formats.content import (
    AVRO,
    JSON_SCHEMA,
    PROTOBUF,
    FormatError,
    Shown,
    as_hex,
    compact_json,
    escaped,
    parse_json,
)
from ottla.client.registry_settings import registry_settings

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

PREFIX_BYTES = 5
MAGIC = 0
AGAIN_AFTER_S = 10.0
_REMEMBERED_MAX = 10_000
_NO_SUBJECT = 40401  # an error code of Confluent's registry
_HEADERS = {"key": "__key_schema_id", "value": "__value_schema_id"}
_FORMATS = {"AVRO": AVRO, "PROTOBUF": PROTOBUF, "JSON": JSON_SCHEMA}


@dataclass(frozen=True)
class SchemaChoice:
    """Which schema a record is to be written with: this number, this text (which is registered if it is new),
    or, with neither, the latest of the subject. A subject is TOPIC-value or TOPIC-key unless it is named.
    `message` is for Protobuf: the name of the message, if it is not the first of the file."""

    schema_id: int | None = None
    text: str | None = None
    subject: str | None = None
    message: str | None = None


class UnknownSubjectError(ClientError):
    """No schema was registered under this name yet."""


class Codec(Protocol):
    """One kind of schema. Bytes are with their prefix, data in JSON's types."""

    def decode(self, content: bytes, schema: "Schema", context: Any) -> Any: ...

    def encode(
        self, data: Any, schema: "Schema", schema_id: int, context: Any, message: str | None
    ) -> bytes: ...


class Registry:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`settings` are confluent-kafka's; `of` makes them of a URL and a client's properties."""
        self._settings = dict(settings)
        self._client: SchemaRegistryClient | None = None
        self._codecs: dict[str, Codec] = {}
        self._schemas: dict[int | str, Schema] = {}
        self._failures: dict[int | str, tuple[float, str]] = {}

    @classmethod
    def of(cls, url: str | None, properties: Mapping[str, str] | None = None) -> "Registry":
        """Out of a URL and a client's properties (schema.registry.*, and what Java's tools call them).
        ClientError: a property is wrong, or there is no URL."""
        return cls(registry_settings(url, properties or {}))

    @property
    def url(self) -> str:
        return str(self._settings["url"])

    # -- bytes to what people read ---------------------------------------------------------------------------

    def is_framed(self, field: str, content: bytes, headers: Sequence[tuple[str, bytes | None]] = ()) -> bool:
        """Whether it looks as if it was written with a schema."""
        if len(content) > PREFIX_BYTES and content[0] == MAGIC:
            return True
        return bool(headers) and any(name == _HEADERS[field] for name, _ in headers)

    def show(
        self, topic: str, field: str, content: bytes, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> Shown:
        """`field` is key or value. Never fails: what a schema does not explain is hex, with the reason."""
        try:
            context = self._context(topic, field, headers)
            reference = self._reference(content, context)
            schema = self._schema(reference)
            form = _format_of(schema)
            data = self._codec(form).decode(content, schema, context)
            text = escaped(compact_json(data))
        except (FormatError, ClientError) as error:
            return as_hex(content, str(error))
        return Shown(form, text, data, str(reference))

    def _reference(self, content: bytes, context: Any) -> int | str:
        from confluent_kafka.schema_registry import dual_schema_id_deserializer
        from confluent_kafka.schema_registry.serde import SchemaId

        written = SchemaId("")
        try:
            dual_schema_id_deserializer(content, context, written)
        except Exception as error:  # noqa: BLE001  (bytes that nobody checked)
            raise FormatError(f"it does not begin with a schema's number: {error}") from None
        return int(written.id) if written.id is not None else str(written.guid)

    def _schema(self, reference: int | str) -> "Schema":
        if (schema := self._schemas.get(reference)) is not None:
            return schema
        client = self._connected()

        def ask() -> "Schema":
            if isinstance(reference, int):
                return client.get_schema(reference)
            return client.get_schema_by_guid(reference)

        asked: Schema = self._asked(reference, f"schema {reference}", ask)
        self._schemas[reference] = asked
        return asked

    # -- what people type to bytes ---------------------------------------------------------------------------

    def encode(self, topic: str, field: str, given: Any, form: str, choice: SchemaChoice) -> bytes:
        """`given` is JSON, as text or as data. FormatError: it does not fit its schema, or there is none."""
        data = parse_json(given) if isinstance(given, str) else given
        subject = choice.subject or f"{topic}-{field}"
        context = self._context(topic, field, ())
        schema, schema_id = self._chosen(subject, form, choice)
        if _format_of(schema) != form:
            raise FormatError(f"schema {schema_id} is {_format_of(schema)}, not {form}")
        if schema.rule_set is not None:
            raise FormatError(f"schema {schema_id} has rules (for encryption?), which are not applied here")
        return self._codec(form).encode(data, schema, schema_id, context, choice.message)

    def _chosen(self, subject: str, form: str, choice: SchemaChoice) -> "tuple[Schema, int]":
        from confluent_kafka.schema_registry import Schema

        client = self._connected()
        if choice.schema_id is not None:
            return self._schema(choice.schema_id), choice.schema_id
        if choice.text is not None:
            kind = next(kind for kind, name in _FORMATS.items() if name == form)
            schema = Schema(choice.text, kind)
            what = f"registering a schema for {subject}"
            schema_id = self._asked(
                f"{subject}\n{choice.text}", what, lambda: client.register_schema(subject, schema)
            )
            return schema, schema_id
        latest = self._asked(
            subject, f"the latest schema of {subject}", lambda: client.get_latest_version(subject)
        )
        return latest.schema, int(latest.schema_id)

    # -- the registry itself ---------------------------------------------------------------------------------

    def _connected(self) -> "SchemaRegistryClient":
        if self._client is None:
            try:
                from confluent_kafka.schema_registry import SchemaRegistryClient
            except ImportError as error:
                raise ClientError(_needs_extra(error)) from None
            try:
                self._client = SchemaRegistryClient.new_client(self._settings)
            except (OSError, TypeError, ValueError) as error:
                raise ClientError(f"schema registry {self.url}: {error}") from None
        return self._client

    def _codec(self, form: str) -> Codec:
        if (codec := self._codecs.get(form)) is None:
            try:
                codec = self._codecs[form] = _load(form, self._connected())
            except ImportError as error:
                raise ClientError(_needs_extra(error)) from None
        return codec

    def _context(self, topic: str, field: str, headers: Sequence[tuple[str, bytes | None]]) -> Any:
        try:
            from confluent_kafka.serialization import MessageField, SerializationContext
        except ImportError as error:
            raise ClientError(_needs_extra(error)) from None
        part = MessageField.KEY if field == "key" else MessageField.VALUE
        return SerializationContext(topic, part, headers=list(headers))

    def _asked(self, key: int | str, what: str, ask: Any) -> Any:
        """What the registry answers, or the same error for a while."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        until, problem = max(self._failures.get(key, (0.0, "")), self._failures.get("", (0.0, "")))
        if time.monotonic() < until:
            raise ClientError(problem)
        try:
            return ask()
        except SchemaRegistryError as error:
            problem, kept = f"{what}: the registry at {self.url} says {error.error_message}", key
            if error.error_code == _NO_SUBJECT:
                raise UnknownSubjectError(problem.removesuffix(".")) from None
        except Exception as error:  # noqa: BLE001  (its HTTP library is its own affair)
            problem, kept = f"{what}: the registry at {self.url} does not answer: {_reason(error)}", ""
        if len(self._failures) > _REMEMBERED_MAX:
            self._failures.clear()
        self._failures[kept] = time.monotonic() + AGAIN_AFTER_S, problem
        raise ClientError(problem)


def _load(form: str, client: "SchemaRegistryClient") -> Codec:
    if form == AVRO:
        from ottla.client.formats.avro import AvroCodec

        return AvroCodec(client)
    if form == PROTOBUF:
        from ottla.client.formats.protobuf import ProtobufCodec

        return ProtobufCodec(client)
    from ottla.client.formats.json_schema import JsonSchemaCodec

    return JsonSchemaCodec(client)


def _format_of(schema: "Schema") -> str:
    kind = schema.schema_type or "AVRO"
    if kind not in _FORMATS:
        raise FormatError(f"a schema of the kind {kind}, which is none of {', '.join(_FORMATS)}")
    return _FORMATS[kind]


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _needs_extra(error: ImportError) -> str:
    return f"a schema registry needs more packages: pip install 'ottla[registry]' ({error})"
