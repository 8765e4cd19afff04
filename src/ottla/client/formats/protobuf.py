"""Protobuf, by confluent-kafka's ProtobufSerializer and ProtobufDeserializer, without generated classes.

A registry hands a schema out as a serialized FileDescriptorProto, or, if it does not know how to, as the text
of a .proto file; that is compiled by protoc, which comes with the extra `registry`. Out of it come the
classes that confluent-kafka wants, one for each message that was met.
"""

import base64
import binascii
import contextlib
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.serde import SchemaId
from google.protobuf import descriptor_pb2, json_format, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from ottla.client.formats.content import FormatError
from ottla.client.formats.schemas import reason, references, written_with

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

FILE_NAME = "schema.proto"
PROTOC_S_MAX = 30.0


class ProtobufCodec:
    def __init__(self, client: "SchemaRegistryClient") -> None:
        self._client = client
        self._files: dict[Schema, Any] = {}
        self._deserializers: dict[tuple[Schema, tuple[int, ...]], Any] = {}
        self._serializers: dict[tuple[int, str], tuple[Any, Any]] = {}

    def decode(self, content: bytes, schema: "Schema", context: Any) -> Any:
        try:
            indexes = _indexes(content, context)
            key = (schema, indexes)
            if key not in self._deserializers:
                message = message_factory.GetMessageClass(_nth(self._file(schema), indexes))
                self._deserializers[key] = ProtobufDeserializer(message, {"use.deprecated.format": False})
            decoded = self._deserializers[key](content, context)
            return json_format.MessageToDict(decoded, preserving_proto_field_name=True)
        except FormatError:
            raise
        except Exception as error:  # noqa: BLE001  (bytes that nobody checked, in other people's libraries)
            raise FormatError(f"it is not what its Protobuf schema says: {reason(error)}") from None

    def encode(self, data: Any, schema: "Schema", schema_id: int, context: Any, message: str | None) -> bytes:
        try:
            key = (schema_id, message or "")
            if key not in self._serializers:
                indexes = _named(self._file(schema), message)
                made = message_factory.GetMessageClass(_nth(self._file(schema), indexes))
                settings = written_with("PROTOBUF", schema_id, indexes) | {"use.deprecated.format": False}
                self._serializers[key] = made, ProtobufSerializer(made, self._client, settings)
            made, serializer = self._serializers[key]
            return bytes(serializer(json_format.ParseDict(data, made()), context))
        except FormatError:
            raise
        except json_format.ParseError as error:
            raise FormatError(f"it does not fit its Protobuf schema: {reason(error)}") from None
        except Exception as error:  # noqa: BLE001  (what somebody typed, in other people's libraries)
            raise FormatError(f"it cannot be written in Protobuf: {reason(error)}") from None

    def _file(self, schema: "Schema") -> Any:
        """The descriptor of a schema's file, in a pool of its own with all that it imports."""
        if schema not in self._files:
            sources = {name: referred.schema_str or "" for name, referred in references(schema, self._client)}
            files = _compiled(sources | {FILE_NAME: schema.schema_str or ""})
            pool = DescriptorPool()
            for file in files:
                pool.Add(file)
            self._files[schema] = pool.FindFileByName(files[-1].name)
        return self._files[schema]


def _indexes(content: bytes, context: Any) -> tuple[int, ...]:
    from confluent_kafka.schema_registry import dual_schema_id_deserializer

    written = SchemaId("PROTOBUF")
    dual_schema_id_deserializer(content, context, written)
    return tuple(written.message_indexes or (0,))


def _nth(file: Any, indexes: tuple[int, ...]) -> Any:
    """The message that these indexes lead to, through the messages that it is nested in."""
    messages, descriptor = list(file.message_types_by_name.values()), None
    for index in indexes:
        if not 0 <= index < len(messages):
            raise FormatError(f"its schema has no message with the indexes {list(indexes)}")
        descriptor = messages[index]
        messages = list(descriptor.nested_types)
    return descriptor


def _named(file: Any, name: str | None) -> tuple[int, ...]:
    """The indexes of the message of this name, with or without its package; without a name the first."""
    top = list(file.message_types_by_name.values())
    waiting: list[tuple[tuple[int, ...], Any]] = [
        ((index,), descriptor) for index, descriptor in enumerate(top)
    ]
    while waiting:
        indexes, descriptor = waiting.pop(0)
        if name in (None, descriptor.name, descriptor.full_name):
            return indexes
        waiting += [((*indexes, index), nested) for index, nested in enumerate(descriptor.nested_types)]
    names = ", ".join(descriptor.name for descriptor in top) or "none"
    raise FormatError(f"its Protobuf schema has no message {name!r}; it has {names}")


def _compiled(sources: dict[str, str]) -> list[descriptor_pb2.FileDescriptorProto]:
    """Every file with what it imports before it; the one that is asked for is the last."""
    wanted = next(reversed(sources))
    serialized = {name: _serialized(name, text) for name, text in sources.items()}
    if not all(serialized.values()):
        return _by_protoc(sources, wanted)
    files: dict[str, descriptor_pb2.FileDescriptorProto] = {}

    def add(file: descriptor_pb2.FileDescriptorProto) -> None:
        for dependency in file.dependency:
            if dependency in files:
                continue
            ours = serialized.get(dependency)
            add(ours if ours is not None else _well_known(dependency))
        files[file.name] = file

    last = serialized[wanted]
    assert last is not None, "all of them are"
    add(last)
    return list(files.values())


def _serialized(name: str, text: str) -> descriptor_pb2.FileDescriptorProto | None:
    """The file, if the registry said it in base64; None if it is the text of a .proto file."""
    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError):
        return None
    file.name = name
    return file


def _well_known(name: str) -> descriptor_pb2.FileDescriptorProto:
    from importlib import import_module

    from google.protobuf.descriptor_pool import Default

    with contextlib.suppress(ImportError):
        import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    file = descriptor_pb2.FileDescriptorProto()
    try:
        Default().FindFileByName(name).CopyToProto(file)
    except KeyError:
        raise FormatError(f"its Protobuf schema imports {name}, which the registry does not have") from None
    return file


def _by_protoc(sources: dict[str, str], wanted: str) -> list[descriptor_pb2.FileDescriptorProto]:
    """In a process of its own: the text is anybody's, and protoc says to stderr what it does not like."""
    with tempfile.TemporaryDirectory(prefix="ottla-proto-") as folder:
        for name, text in sources.items():
            path = os.path.join(folder, *_safe_parts(name))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        output = os.path.join(folder, "descriptors")
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", "--include_imports"]
        done = subprocess.run(  # noqa: S603  (our own interpreter, and names that were checked)
            [*command, f"--descriptor_set_out={output}", os.path.join(folder, wanted)],
            capture_output=True,
            text=True,
            timeout=PROTOC_S_MAX,
            check=False,
        )
        if done.returncode != 0:
            said = " ".join(done.stderr.replace(folder + os.sep, "").split())[-300:]
            raise FormatError(f"protoc cannot compile its Protobuf schema: {said}")
        with open(output, "rb") as made:
            return list(descriptor_pb2.FileDescriptorSet.FromString(made.read()).file)


def _safe_parts(name: str) -> list[str]:
    """The registry chose the name: it must not lead out of the folder."""
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise FormatError(f"its Protobuf schema imports {name!r}, which is no name of a file")
    return parts
