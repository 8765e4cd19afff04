"""Avro, by confluent-kafka's AvroSerializer and AvroDeserializer, and Avro's values as JSON.

People write plain JSON, so a value is fitted to its schema: of a union the first branch that takes it, dates
and times as ISO 8601 or as the number Avro stores, decimals as text, bytes as text or {"base64": ...}. What
Avro's own JSON has, {"string": "x"} for a branch of a union, is taken as well.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from json import loads
from math import isfinite
from typing import TYPE_CHECKING, Any
from uuid import UUID

import fastavro
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

from ottla.client.formats.content import FormatError, binary_of, readable
from ottla.client.formats.schemas import no_subject, reason, references, written_with

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient


class AvroCodec:
    def __init__(self, client: "SchemaRegistryClient") -> None:
        self._client = client
        self._deserializer = AvroDeserializer(client, conf={"subject.name.strategy": no_subject})
        self._serializers: dict[int, tuple[Any, Any]] = {}

    def decode(self, content: bytes, _schema: "Schema", context: Any) -> Any:
        try:
            return to_json(self._deserializer(content, context))
        except Exception as error:  # noqa: BLE001  (bytes that nobody checked, in other people's libraries)
            raise FormatError(f"it is not what its Avro schema says: {reason(error)}") from None

    def encode(
        self, data: Any, schema: "Schema", schema_id: int, context: Any, _message: str | None
    ) -> bytes:
        try:
            if schema_id not in self._serializers:
                self._serializers[schema_id] = (
                    Fit(schema, self._client),
                    AvroSerializer(self._client, schema, conf=written_with("AVRO", schema_id)),
                )
            fit, serializer = self._serializers[schema_id]
            return bytes(serializer(fit(data), context))
        except FormatError:
            raise
        except Exception as error:  # noqa: BLE001  (what somebody typed, in other people's libraries)
            raise FormatError(f"it does not fit its Avro schema: {reason(error)}") from None


def to_json(value: Any) -> Any:
    """A value as fastavro reads it, in JSON's types."""
    if isinstance(value, dict):
        return {str(name): to_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, bytes):
        return readable(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value


class Fit:
    """JSON to the values that fastavro takes, by one schema."""

    def __init__(self, schema: "Schema", client: "SchemaRegistryClient") -> None:
        self._names: dict[str, Any] = {}
        for _, referred in references(schema, client):
            fastavro.parse_schema(loads(referred.schema_str or ""), self._names)
        self._schema = fastavro.parse_schema(loads(schema.schema_str or ""), self._names)

    def __call__(self, given: Any) -> Any:
        return self._fit(given, self._schema, "")

    def _fit(self, given: Any, schema: Any, path: str) -> Any:
        if isinstance(schema, list):
            return self._branch(given, schema, path)
        if isinstance(schema, str) and schema in self._names:
            return self._fit(given, self._names[schema], path)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, dict | list):
            return self._fit(given, kind, path)
        logical = schema.get("logicalType") if isinstance(schema, dict) else None
        if logical in _LOGICAL and isinstance(given, str | int | float):
            return _LOGICAL[logical](given, path)
        if kind in ("bytes", "fixed"):
            return _binary(given, path)
        if kind in ("record", "error") and isinstance(given, dict):
            return self._record(given, schema, path)
        if kind == "array" and isinstance(given, list):
            return [self._fit(item, schema["items"], f"{path}[{at}]") for at, item in enumerate(given)]
        if kind == "map" and isinstance(given, dict):
            return {name: self._fit(item, schema["values"], f"{path}.{name}") for name, item in given.items()}
        if kind in ("float", "double") and given in ("nan", "inf", "-inf"):
            return float(given)
        return given

    def _record(self, given: dict[str, Any], schema: dict[str, Any], path: str) -> dict[str, Any]:
        fields = {field["name"]: field for field in schema["fields"]}
        where = path or "the record"
        if unknown := [name for name in given if name not in fields]:
            raise FormatError(f"{where} has no field {unknown[0]!r}; it has {', '.join(fields)}")
        for name, field in fields.items():
            if name not in given and "default" not in field:
                raise FormatError(f"{where} lacks the field {name!r}")
        return {name: self._fit(item, fields[name]["type"], f"{path}.{name}") for name, item in given.items()}

    def _branch(self, given: Any, branches: list[Any], path: str) -> Any:
        """The first that takes it, as it is; else the one that Avro's JSON names."""
        problems = []
        for branch in branches:
            try:
                value = self._fit(given, branch, path)
            except FormatError as error:
                problems.append(str(error))
                continue
            if fastavro.validate(value, self._expanded(branch), raise_errors=False):
                return value
        if isinstance(given, dict) and len(given) == 1:
            ((name, item),) = given.items()
            for branch in branches:
                if _name_of(branch) == name or _name_of(branch).rpartition(".")[2] == name:
                    return self._fit(item, branch, path)
        problem = f" ({problems[-1]})" if problems else ""
        names = ", ".join(map(_name_of, branches))
        raise FormatError(f"{path or 'the value'} is none of {names}: {given!r:.60}{problem}")

    def _expanded(self, schema: Any) -> Any:
        return self._names[schema] if isinstance(schema, str) and schema in self._names else schema


def _name_of(schema: Any) -> str:
    if isinstance(schema, dict):
        return str(schema.get("name") or schema["type"])
    return str(schema)


def _binary(given: Any, path: str) -> bytes:
    if isinstance(given, str):
        return given.encode("utf-8", "surrogateescape")
    binary = binary_of(given)
    if binary is None:
        raise FormatError(f'{path or "the value"} is bytes: text or {{"base64": ...}}, not {given!r:.60}')
    return binary


def _time(parse: Callable[[str], Any]) -> Callable[[Any, str], Any]:
    def fit(given: Any, path: str) -> Any:
        if not isinstance(given, str):
            return given
        try:
            return parse(given)
        except ValueError:
            raise FormatError(f"{path or 'the value'} is a time in ISO 8601, not {given!r:.60}") from None

    return fit


def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _decimal(given: Any, path: str) -> Decimal:
    try:
        return Decimal(str(given))
    except InvalidOperation:
        raise FormatError(f"{path or 'the value'} is a decimal, not {given!r:.60}") from None


_LOGICAL: dict[str, Callable[[Any, str], Any]] = {
    "timestamp-millis": _time(_instant),
    "timestamp-micros": _time(_instant),
    "local-timestamp-millis": _time(datetime.fromisoformat),
    "local-timestamp-micros": _time(datetime.fromisoformat),
    "date": _time(date.fromisoformat),
    "time-millis": _time(time.fromisoformat),
    "time-micros": _time(time.fromisoformat),
    "decimal": _decimal,
}
