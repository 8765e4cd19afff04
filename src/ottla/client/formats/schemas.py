"""What the three kinds of schema have in common with confluent-kafka's serializers and deserializers."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka.schema_registry import prefix_schema_id_serializer
from confluent_kafka.schema_registry.serde import SchemaId

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient


def no_subject(_context: Any, _name: str | None) -> None:
    """What a registry has beyond the schema that a record names, newer versions and rules, it has for a
    subject. Without one, what was written is shown as it was written, and nothing is looked up twice."""


def written_with(kind: str, schema_id: int, indexes: Sequence[int] | None = None) -> dict[str, Any]:
    """A serializer's settings that write with this schema, and register and look up nothing."""
    written = SchemaId(kind, schema_id, None, list(indexes) if indexes is not None else None)

    def prefixed(payload: bytes, context: Any, _looked_up: Any) -> bytes:
        return bytes(prefix_schema_id_serializer(payload, context, written))

    return {
        "auto.register.schemas": False,
        "subject.name.strategy": no_subject,
        "schema.id.serializer": prefixed,
    }


def references(schema: "Schema", client: "SchemaRegistryClient") -> "Iterator[tuple[str, Schema]]":
    """The schemas that this one refers to, by the names it has for them, each after those that it needs."""
    for reference in schema.references or ():
        if reference.subject is None or reference.version is None:
            continue
        referred = client.get_version(reference.subject, reference.version).schema
        yield from references(referred, client)
        yield reference.name or "", referred


def reason(error: BaseException) -> str:
    """What went wrong, in one line."""
    return " ".join((str(error) or type(error).__name__).split())[:500]
