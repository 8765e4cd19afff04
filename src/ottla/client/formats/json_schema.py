"""JSON with a schema, by confluent-kafka's JSONSerializer and JSONDeserializer, which check it.

A schema refers to others by the references that the registry keeps. One that refers to an address is refused:
confluent-kafka would ask whatever host somebody has written into a schema.
"""

from typing import TYPE_CHECKING, Any, NoReturn

import attrs
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from referencing.exceptions import NoSuchResource

from ottla.client.formats.content import FormatError
from ottla.client.formats.schemas import no_subject, reason, written_with

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient


def _refuse(address: str) -> NoReturn:
    raise NoSuchResource(address)


def _alone(parsed: tuple[Any, Any]) -> tuple[Any, Any]:
    """A schema, and the schemas that it may refer to."""
    schema, references = parsed
    return schema, None if references is None else attrs.evolve(references, retrieve=_refuse)


class _Deserializer(JSONDeserializer):
    def _get_parsed_schema(self, schema: "Schema") -> tuple[Any, Any]:
        return _alone(super()._get_parsed_schema(schema))


class _Serializer(JSONSerializer):
    def _get_parsed_schema(self, schema: "Schema | None") -> tuple[Any, Any]:
        return _alone(super()._get_parsed_schema(schema))


class JsonSchemaCodec:
    def __init__(self, client: "SchemaRegistryClient") -> None:
        self._client = client
        self._deserializer = _Deserializer(
            None, schema_registry_client=client, conf={"subject.name.strategy": no_subject}
        )
        self._serializers: dict[int, Any] = {}

    def decode(self, content: bytes, _schema: "Schema", context: Any) -> Any:
        try:
            return self._deserializer(content, context)
        except Exception as error:  # noqa: BLE001  (bytes that nobody checked, in other people's libraries)
            raise FormatError(reason(error)) from None

    def encode(
        self, data: Any, schema: "Schema", schema_id: int, context: Any, _message: str | None
    ) -> bytes:
        serializer = self._serializers.get(schema_id)
        try:
            if serializer is None:
                serializer = self._serializers[schema_id] = _Serializer(
                    schema, self._client, conf=written_with("JSON", schema_id)
                )
            return bytes(serializer(data, context))
        except Exception as error:  # noqa: BLE001  (what somebody typed, in other people's libraries)
            raise FormatError(reason(error)) from None
