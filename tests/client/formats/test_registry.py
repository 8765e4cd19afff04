"""Records with a schema: a registry over HTTP on loopback, and confluent-kafka's serializers as writers."""

import io
import json
import socket
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.timestamp_pb2 import Timestamp
from tests.support.certificates import Authority
from tests.support.schema_registry import SchemaRegistry, schema_registry

from ottla.client import ClientError
from ottla.client.formats import (
    Decoder,
    Decoders,
    Encoder,
    Encoders,
    FormatError,
    Message,
    Registry,
    SchemaChoice,
    csv_rows,
    json_lines,
    parquet,
)

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {
                "name": "price",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            },
            {"name": "raw", "type": "bytes"},
            {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        ],
    }
)
POINT = json.dumps(
    {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "title": "Point"}
)
SHAPES = """
syntax = "proto3";
package shapes;
import "google/protobuf/timestamp.proto";
import "colours.proto";
message Line { int32 length = 1; }
message Circle {
  message Centre { int32 x = 1; int32 y = 2; }
  Centre centre = 1;
  double radius = 2;
  colours.Colour colour = 3;
  google.protobuf.Timestamp made = 4;
}
"""
COLOURS = 'syntax = "proto3"; package colours; message Colour { string name = 1; }'
VALUE = SerializationContext("t", MessageField.VALUE)
WRITTEN: dict[str, Any] = {
    "id": 7, "note": "hi", "at": "2026-01-02T03:04:05.678000+00:00", "price": "12.50",
    "raw": {"base64": "/wA="}, "tags": ["a"],
}  # fmt: skip


@pytest.fixture(scope="module")
def remote() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        running.add("t-value", ORDER)
        running.add("points-value", POINT, "JSON")
        running.add("colours.proto", COLOURS, "PROTOBUF")
        reference = {"name": "colours.proto", "subject": "colours.proto", "version": 1}
        running.add("shapes-value", SHAPES, "PROTOBUF", [reference])
        yield running


@pytest.fixture
def registry(remote: SchemaRegistry) -> Registry:
    return Registry.of(remote.url)


def test_avro_that_others_wrote_is_shown_as_json(remote: SchemaRegistry, registry: Registry) -> None:
    writer = AvroSerializer(SchemaRegistryClient({"url": remote.url}), ORDER)
    content = writer({"id": 7, "at": 1_767_323_045_678, "price": Decimal("12.5"), "raw": b"\xff\x00"}, VALUE)
    shown = Decoder("value", "auto", registry)("t", content)
    assert (shown.format, shown.schema, shown.problem) == ("avro", "1", None)
    assert shown.data == WRITTEN | {"note": None, "tags": []}
    assert json.loads(shown.text) == shown.data


def test_what_is_shown_of_avro_can_be_typed_in_again(registry: Registry) -> None:
    encode, decode = Encoder("value", "avro", registry), Decoder("value", "avro", registry)
    content = encode("t", json.dumps(WRITTEN))
    assert decode("t", content).data == WRITTEN
    tagged = encode("t", WRITTEN | {"note": {"string": "hi"}})  # as Avro's own JSON has it
    assert tagged == content


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ("{", "this is not JSON"),
        ({"id": 1}, "the record lacks the field 'at'"),
        (WRITTEN | {"colour": 1}, "the record has no field 'colour'; it has id, note"),
        (WRITTEN | {"note": 5}, ".note is none of null, string: 5"),
        (WRITTEN | {"at": "yesterday"}, ".at is a time in ISO 8601, not 'yesterday'"),
        (WRITTEN | {"price": "much"}, ".price is a decimal, not 'much'"),
        (WRITTEN | {"id": "seven"}, "it does not fit its Avro schema: "),
        (WRITTEN | {"raw": 5}, ".raw is bytes: text or"),
    ],
)
def test_what_does_not_fit_an_avro_schema_is_refused_with_the_field(
    registry: Registry, typed: Any, problem: str
) -> None:
    with pytest.raises(FormatError, match=problem):
        Encoder("value", "avro", registry)("t", typed)


def test_protobuf_is_read_without_generated_classes_nested_messages_too(registry: Registry) -> None:
    made = {
        "centre": {"x": 1, "y": 2},
        "radius": 0.5,
        "colour": {"name": "red"},
        "made": "2026-01-02T03:04:05Z",
    }
    decode = Decoder("value", "auto", registry)
    content = Encoder("value", "protobuf", registry, SchemaChoice(message="Circle"))("shapes", made)
    assert content is not None
    assert content[:7] == b"\x00\x00\x00\x00\x04\x02\x02"  # schema 4, one index, zigzag of 1
    shown = decode("shapes", content)
    assert (shown.format, shown.schema, shown.data) == ("protobuf", "4", made)
    first = Encoder("value", "protobuf", registry)("shapes", {"length": 3})
    assert first is not None
    assert first[5:6] == b"\x00"  # the first message has the short form
    assert decode("shapes", first).data == {"length": 3}
    nested = Encoder("value", "protobuf", registry, SchemaChoice(message="shapes.Circle.Centre"))
    assert decode("shapes", nested("shapes", {"x": 5})).data == {"x": 5}


def test_protobuf_that_does_not_fit_is_refused_with_the_reason(registry: Registry) -> None:
    with pytest.raises(FormatError, match='no field named "width"'):
        Encoder("value", "protobuf", registry)("shapes", {"width": 3})
    with pytest.raises(FormatError, match="no message 'Cube'; it has Line, Circle"):
        Encoder("value", "protobuf", registry, SchemaChoice(message="Cube"))("shapes", {})


def test_protobuf_of_a_generated_class_is_read_through_confluents_own_registry_in_memory() -> None:
    settings = {"url": "mock://protobuf"}
    client = SchemaRegistryClient.new_client(settings)
    writer = ProtobufSerializer(Timestamp, client, {"use.deprecated.format": False})
    content = writer(Timestamp(seconds=0), VALUE)
    registry = Registry(settings)
    registry._client = client  # one store for both
    assert Decoder("value", "auto", registry)("t", content).data == "1970-01-01T00:00:00Z"


def test_json_schema_is_checked_both_ways(remote: SchemaRegistry, registry: Registry) -> None:
    writer = JSONSerializer(POINT, SchemaRegistryClient({"url": remote.url}))
    content = writer({"x": 3}, SerializationContext("points", MessageField.VALUE))
    shown = Decoder("value", "auto", registry)("points", content)
    assert (shown.format, shown.data) == ("json-schema", {"x": 3})
    assert Encoder("value", "json-schema", registry)("points", '{"x": 3}') == content
    with pytest.raises(FormatError, match="'x' is a required property"):
        Encoder("value", "json-schema", registry)("points", "{}")
    wrong = Decoder("value", "auto", registry)("points", content[:5] + b"{}")
    assert wrong.format == "hex"
    assert wrong.problem is not None
    assert "'x' is a required property" in wrong.problem


def test_a_json_schema_that_refers_to_an_address_asks_nobody_there(
    remote: SchemaRegistry, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes a schema must not choose where a console connects to."""
    asked: list[object] = []
    resolve = socket.getaddrinfo

    def noted(host: Any, *rest: Any, **more: Any) -> Any:
        asked.append(host)
        return resolve(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", noted)
    text = json.dumps({"type": "object", "properties": {"x": {"$ref": "http://schemas.invalid/x.json"}}})
    number = remote.add("far-value", text, "JSON")
    shown = Decoder("value", "auto", registry)("far", b"\0" + number.to_bytes(4, "big") + b'{"x": 1}')
    assert shown.problem == "Unresolvable: http://schemas.invalid/x.json"
    with pytest.raises(FormatError, match="Unresolvable"):
        Encoder("value", "json-schema", registry)("far", '{"x": 1}')
    assert "schemas.invalid" not in asked


def test_a_schema_that_a_header_names_is_found() -> None:
    settings = {"url": "mock://headers"}
    client = SchemaRegistryClient.new_client(settings)
    context = SerializationContext("t", MessageField.VALUE, headers=[])
    writer = AvroSerializer(client, '"string"', conf={"schema.id.serializer": header_schema_id_serializer})
    content = writer("hello", context)
    registry = Registry(settings)
    registry._client = client
    headers = [(name, value) for name, value in context.headers or []]
    shown = Decoder("value", "auto", registry)("t", content, headers)
    assert (shown.format, shown.data) == ("avro", "hello")


def test_a_new_schema_is_registered_when_its_text_is_given(
    remote: SchemaRegistry, registry: Registry
) -> None:
    choice = SchemaChoice(text='{"type": "record", "name": "New", "fields": [{"name": "a", "type": "int"}]}')
    content = Encoder("key", "avro", registry, choice)("new", '{"a": 1}')
    assert remote.versions["new-key"] == [len(remote.schemas)]
    assert Decoder("key", "auto", registry)("new", content).data == {"a": 1}
    again = Encoder("key", "avro", registry, SchemaChoice(schema_id=len(remote.schemas)))
    assert again("elsewhere", {"a": 1}) == content


def test_records_without_a_schema_are_shown_as_ever_beside_those_with_one(registry: Registry) -> None:
    decode = Decoder("value", "auto", registry)
    assert decode("t", b'{"a": 1}').format == "json"
    assert decode("t", b"text").format == "text"
    assert decode("t", b"\x00\x01").format == "hex"
    assert decode("t", None).is_null


def test_what_cannot_be_read_is_hex_with_the_reason_and_nothing_is_lost(registry: Registry) -> None:
    decode = Decoder("value", "auto", registry)
    unknown = decode("t", b"\x00\x00\x00\x27\x0fabc")
    assert unknown.text == "000000270f616263"
    assert unknown.problem == f"schema 9999: the registry at {registry.url} says Schema not found"
    cut = decode("t", b"\x00\x00\x00\x00\x01\x0e")
    assert cut.format == "hex"
    assert cut.problem is not None
    assert cut.problem.startswith("it is not what its Avro schema says: ")
    other = Decoder("value", "protobuf", registry)("t", Encoder("value", "avro", registry)("t", WRITTEN))
    assert other.problem == "schema 1 is avro, not protobuf"
    plain = Decoder("value", "avro", registry)("t", b"plain text")
    assert (plain.format, plain.text) == ("hex", b"plain text".hex())


def test_a_schema_is_asked_for_once_and_one_that_is_missing_not_again_at_once(
    remote: SchemaRegistry, registry: Registry
) -> None:
    decode = Decoder("value", "auto", registry)
    content = Encoder("value", "avro", registry)("t", WRITTEN)
    decode("t", content)
    asked = len(remote.requests)
    for _ in range(5):
        assert decode("t", content).problem is None
        decode("t", b"\x00\x00\x00\x27\x0fabc")
    assert remote.requests[asked:] == ["GET /schemas/ids/9999"]


def test_a_registry_that_is_down_delays_one_record_and_not_each() -> None:
    with schema_registry() as gone:
        url = gone.url
    registry = Registry.of(url, {"schema.registry.retries.wait.ms": "1"})
    shown = [Decoder("value", "auto", registry)("t", b"\x00\x00\x00\x00\x01abc") for _ in range(3)]
    assert all(s.format == "hex" and s.problem and "does not answer" in s.problem for s in shown)
    with pytest.raises(ClientError, match="does not answer"):
        Encoder("value", "avro", registry)("t", {})


def test_a_password_and_tls_come_from_the_clients_properties(tmp_path: Path) -> None:
    authority = Authority()
    identity = authority.issue("registry")
    (tmp_path / "ca.pem").write_text(authority.pem)
    (tmp_path / "registry.pem").write_text(identity.chain_pem)
    (tmp_path / "registry.key").write_text(identity.key_pem())
    files = str(tmp_path / "registry.pem"), str(tmp_path / "registry.key")
    content = b"\x00\x00\x00\x00\x01\x02a"
    with schema_registry(user="ann:secret", tls=files) as remote:
        remote.add("t-value", '"string"')
        login = {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "ann:secret"}
        trust = {"schema.registry.ssl.ca.location": str(tmp_path / "ca.pem")}
        shown = Registry.of(remote.url, login | trust).show("t", "value", content)
        assert (shown.format, shown.data) == ("avro", "a")
        stranger = Registry.of(remote.url, trust).show("t", "value", content)
        assert stranger.problem == f"schema 1: the registry at {remote.url} says Unauthorized"
        wary = Registry.of(remote.url, login).show("t", "value", content)
        assert wary.problem is not None
        assert "certificate" in wary.problem.lower()


@pytest.mark.parametrize(
    ("url", "properties", "problem"),
    [
        (None, {}, "no schema registry is named: give its URL, or set schema.registry.url"),
        ("localhost:8081", {}, "a schema registry has a URL such as http://localhost:8081"),
        ("http://x", {"schema.registry.colour": "red"}, "schema.registry.colour is not known"),
        ("http://x", {"schema.registry.timeout": "long"}, "schema.registry.timeout is a number"),
        ("http://x", {"schema.registry.ssl.truststore.location": "a.jks"}, "are read from PEM files"),
    ],
)
def test_settings_that_are_wrong_are_refused(
    url: str | None, properties: dict[str, str], problem: str
) -> None:
    with pytest.raises(ClientError, match=problem):
        Registry.of(url, properties)


def test_files_have_what_the_schema_says_and_go_in_again(registry: Registry) -> None:
    value = Encoder("value", "avro", registry)("t", WRITTEN)
    message = Message("t", 0, 1, 2, b"k", value, [])
    broken = message._replace(value=b"\x00\x00\x00\x27\x0fabc")
    decoders = Decoders(Decoder("key"), Decoder("value", "auto", registry))
    encoders = Encoders(Encoder("key"), Encoder("value", "avro", registry))
    good, bad = b"".join(json_lines.lines([message, broken], decoders)).splitlines()
    assert json.loads(good)["value"] == WRITTEN
    assert json_lines.outgoing(good, "t", encoders).value == value
    assert json.loads(bad)["errors"] == {
        "value": f"schema 9999: the registry at {registry.url} says Schema not found"
    }
    assert json_lines.outgoing(bad, "t", encoders).value == broken.value
    rows = b"".join(csv_rows.lines([message, broken], decoders)).decode().splitlines(keepends=True)
    assert [record.value for _, record in csv_rows.outgoing(rows, "t", encoders)] == [value, broken.value]
    table = pq.read_table(io.BytesIO(b"".join(parquet.pieces([message, broken], decoders)))).to_pylist()
    assert json.loads(table[0]["value"]) == WRITTEN
    assert (table[1]["value"], table[1]["value_binary"]) == (None, broken.value)
    assert table[1]["problem"].startswith("value: schema 9999")
