"""Every message in every version against kio: what we write it reads, what it writes we read."""

import dataclasses
import datetime
import io
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.serial._implicit_defaults import get_tagged_field_default

from ottla.base.ids import ZERO_UUID
from ottla.wire.codec import decode, encode, encode_chunks
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.schema import Array, Field, Nested, fields_of

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MS = datetime.timedelta(milliseconds=1)

TEXTS = st.one_of(st.text(max_size=4), st.sampled_from(["", "x" * 126, "é" * 64, "y" * 300]))
BLOBS = st.one_of(st.binary(max_size=4), st.sampled_from([b"z" * 127, b"z" * 20000]))
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "bytes": BLOBS,
    "datetime_i64": st.integers(0, 10**13),
    "error_code": st.sampled_from([code.value for code in ErrorCode]),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "records": BLOBS,
    "string": TEXTS,
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1),
    "timedelta_i64": st.integers(-(10**12), 10**12),
    "uint16": st.integers(0, 2**16 - 1),
    "uuid": st.binary(min_size=16, max_size=16),
}


def their_class(cls: type, version: int) -> type:
    load = load_request_schema if cls.__name__.endswith("Request") else load_response_schema
    return load(cls.API_KEY, version)


def paired_fields(cls: type, theirs: type) -> list[tuple[Field, Any]]:
    """Our fields with kio's, which has no `_ms` in its names."""
    ours = {field.name: field for field in fields_of(cls)}
    return [(ours.get(f.name) or ours[f.name + "_ms"], f) for f in dataclasses.fields(theirs)]


def item_class(field: Any) -> Any:
    kind = field.type
    while getattr(kind, "__args__", None):
        kind = next(arg for arg in kind.__args__ if arg not in (type(None), ...))
    return kind


def instances(cls: type, theirs: type, version: int) -> st.SearchStrategy[Any]:
    return st.builds(cls, **{o.name: values(o, t, version) for o, t in paired_fields(cls, theirs)})


def values(ours: Field, theirs: Any, version: int) -> st.SearchStrategy[Any]:
    inner = ours.kind.item if isinstance(ours.kind, Array) else ours.kind
    if isinstance(inner, Nested):
        made = instances(inner.cls, item_class(theirs), version)
    else:
        made = SCALARS[theirs.metadata["kafka_type"]]
    if isinstance(ours.kind, Array):
        made = st.lists(made, max_size=2)
    elif isinstance(inner, Nested) and ours.tag is not None:
        absent = from_kio(get_tagged_field_default(theirs), inner.cls, version)
        made = made.filter(lambda value: value != absent)
    return st.none() | made if ours.is_nullable_in(version) else made


def from_kio(theirs: Any, cls: type, version: int) -> Any:
    """Their instance as one of ours."""
    given = {}
    for ours, field in paired_fields(cls, type(theirs)):
        value = getattr(theirs, field.name)
        tagged_struct = ours.tag is not None and isinstance(ours.kind, Nested)
        if tagged_struct and value == get_tagged_field_default(field):
            value = None
        given[ours.name] = plain(value, ours, field.metadata.get("kafka_type"), version)
    return cls(**given)


def plain(value: Any, ours: Field, kafka_type: str | None, version: int) -> Any:
    kind = ours.kind.item if isinstance(ours.kind, Array) else ours.kind
    match value:
        case tuple():
            return [plain(each, ours, kafka_type, version) for each in value]
        case None if kafka_type == "uuid" and not ours.optional:
            return ZERO_UUID
        case None if kafka_type == "datetime_i64":
            return -1
        case uuid.UUID():
            return value.bytes
        case datetime.timedelta():
            return round(value / MS)
        case datetime.datetime():
            return round((value - EPOCH) / MS)
        case ErrorCode():
            return value.value
        case _ if isinstance(kind, Nested) and value is not None:
            return from_kio(value, kind.cls, version)
    return value


def check_round_trip(message: Any, theirs_class: type, version: int) -> None:
    ours = encode(message, version)
    theirs, size = entity_reader(theirs_class)(ours, 0)
    assert size == len(ours)
    assert from_kio(theirs, type(message), version) == message

    buffer = io.BytesIO()
    entity_writer(theirs_class)(buffer, theirs)
    assert decode(type(message), version, memoryview(buffer.getvalue())) == message
    assert decode(type(message), version, memoryview(b"??" + ours + b"trailing"), 2) == message


@settings(max_examples=6)
@given(data=st.data())
def test_kio_reads_what_we_write_and_we_read_what_kio_writes(
    data: st.DataObject, message_class: type, version: int
) -> None:
    theirs = their_class(message_class, version)
    check_round_trip(data.draw(instances(message_class, theirs, version)), theirs, version)


def test_a_message_with_every_field_set_goes_there_and_back(
    message_class: type, version: int, full: Any
) -> None:
    check_round_trip(full(message_class, version), their_class(message_class, version), version)


def test_the_chunks_of_a_message_are_its_bytes(message_class: type, version: int, full: Any) -> None:
    message = full(message_class, version)
    assert b"".join(encode_chunks(message, version)) == encode(message, version)


@pytest.mark.parametrize("version", [8, 9, 13])
def test_long_arrays_and_strings_need_longer_varints(version: int, full: Any) -> None:
    message = full(MetadataResponse, version)
    message.brokers *= 80
    message.topics[0].partitions[0].isr_nodes = list(range(20000))
    message.topics[0].name = "n" * 249
    check_round_trip(message, their_class(MetadataResponse, version), version)


@pytest.mark.parametrize("version", [1, 9, 13])
def test_no_topics_and_all_topics_are_different_questions(version: int) -> None:
    for topics in ([], None):
        wire = encode(MetadataRequest(topics=topics), version)
        assert decode(MetadataRequest, version, memoryview(wire)).topics == topics
