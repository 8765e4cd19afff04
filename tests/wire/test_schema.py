"""Declaring, and what happens to instances that cannot be encoded."""

from dataclasses import field
from typing import Annotated, Any

import pytest

from ottla.wire.codec import decode, decoder, encode, encode_chunks, encoder
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.schema import (
    Records,
    Uuid,
    f64,
    fields_of,
    i8,
    i32,
    message,
    since,
    struct,
    tag,
    u16,
    u32,
    until,
)


@struct
class Part:
    number: i32
    later: Annotated[str, since(1)] = "none"


@message(key=99, versions=(0, 2), flexible=2)
class Everything:
    flag: bool
    small: Annotated[u16, until(1)] = 0
    wide: u32
    ratio: f64
    ids: list[Uuid] = field(default_factory=list)
    kinds: list[i8] = field(default_factory=list)
    payload: bytes
    maybe: Annotated[Part | None, since(1)] = None
    part: Part
    tagged: Annotated[list[i32] | None, since(2), tag(0)] = field(default_factory=list)
    spare: Annotated[list[str], since(2), tag(1)] = field(default_factory=list)


def everything() -> Everything:
    return Everything(flag=True, wide=2**32 - 1, ratio=0.25, payload=b"p", part=Part(number=1))


def round_trip(message: Any, version: int) -> Any:
    return decode(type(message), version, memoryview(encode(message, version)))


def test_the_wire_of_a_version_without_flexible_lengths() -> None:
    wire = encode(everything(), 0)
    assert wire.hex() == "010000ffffffff3fd00000000000000000000000000000000000017000000001"


def test_every_kind_goes_there_and_back() -> None:
    message = everything()
    message.ids = [bytes(range(16)), bytes(16)]
    message.kinds = [-128, 127]
    message.maybe = Part(number=2, later="x")
    message.tagged = None
    message.spare = ["a", ""]
    assert round_trip(message, 2) == message


def test_a_field_that_the_version_lacks_is_not_written_and_reads_as_its_default() -> None:
    message = everything()
    message.small = 7
    message.maybe = Part(number=2)
    message.part.later = "lost"
    assert round_trip(message, 0).maybe is None
    assert round_trip(message, 0).part.later == "none"
    assert round_trip(message, 1).small == 7
    assert round_trip(message, 1).maybe == Part(number=2)
    assert round_trip(message, 2).small == 0


def test_a_default_list_is_not_shared_between_messages() -> None:
    first, second = round_trip(everything(), 2), round_trip(everything(), 2)
    first.tagged.append(1)
    first.ids.append(bytes(16))
    assert second.tagged == second.ids == []


def test_a_version_outside_the_range_is_a_bug() -> None:
    for make in (decoder, encoder):
        with pytest.raises(ValueError, match="Everything has versions 0 to 2, not 3"):
            make(Everything, 3)


def test_record_batches_are_passed_by_reference_and_all_else_is_joined() -> None:
    batches = [bytearray(b"one"), memoryview(b"two"), b"", None]
    partitions = [
        PartitionData(partition_index=i, high_watermark=0, records=b) for i, b in enumerate(batches)
    ]
    reply = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])
    for version in (4, 12):
        chunks = encode_chunks(reply, version)
        assert len(chunks) == 5
        assert chunks[1] is batches[0]
        assert chunks[3] is batches[1]
        assert b"".join(chunks) == encode(reply, version)
        found = decode(FetchResponse, version, memoryview(b"".join(chunks))).responses[0].partitions
        assert [each.records for each in found] == batches


def test_a_reply_that_ends_with_records_has_no_empty_chunk_after_them() -> None:
    partition = PartitionData(partition_index=0, high_watermark=0, records=b"one")
    reply = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    assert len(encode_chunks(reply, 4)) == 2


def test_records_are_decoded_as_a_view_of_the_frame() -> None:
    partition = PartitionProduceData(index=0, records=b"batch")
    topic = TopicProduceData(name="t", partition_data=[partition])
    frame = bytearray(encode(ProduceRequest(acks=1, timeout_ms=0, topic_data=[topic]), 9))
    records = decode(ProduceRequest, 9, memoryview(frame)).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    records[0:1] = b"B"
    assert b"Batch" in frame


def test_a_tagged_struct_is_none_when_it_is_absent() -> None:
    partition = PartitionData(partition_index=0, high_watermark=0)
    reply = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
    assert round_trip(reply, 13).responses[0].partitions[0].current_leader is None
    partition.current_leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
    assert round_trip(reply, 13) == reply


def request(**changes: Any) -> FetchRequest:
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 0, **changes})


BAD: list[tuple[Any, int, str]] = [
    (MetadataRequest(topics=None), 0, "MetadataRequest.topics in v0 cannot be None"),
    (
        MetadataRequest(topics=[MetadataRequestTopic(name=None)]),
        9,
        "MetadataRequestTopic.name in v9 cannot be None",
    ),
    (request(topics=None), 12, "FetchRequest.topics in v12 cannot be None"),
    (request(min_bytes=2**31), 4, "FetchRequest.min_bytes in v4 cannot be 2147483648"),
    (request(rack_id="r" * 32768), 11, "FetchRequest.rack_id in v11 must be a string of at most 32767 bytes"),
    (request(rack_id=7), 12, "FetchRequest.rack_id in v12 must be a string"),
    (request(topics=[FetchTopic(partitions=[3])]), 13, "an item of FetchTopic.partitions in v13 must be"),
    (request(topics=7), 13, "FetchRequest.topics in v13 must be a list, not 7"),
]


@pytest.mark.parametrize(("message", "version", "complaint"), BAD, ids=[complaint for _, _, complaint in BAD])
def test_a_message_that_cannot_be_encoded_names_the_field(message: Any, version: int, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint.replace(".", r"\.")):
        encode(message, version)


def test_a_string_too_long_for_a_flexible_version_is_refused_too() -> None:
    with pytest.raises(ValueError, match="a string of 32768 bytes"):
        encode(request(rack_id="r" * 32768), 12)


def test_bytes_that_are_none_or_text_are_refused() -> None:
    message = everything()
    for payload in (None, 7):
        message.payload = payload  # type: ignore[assignment]
        with pytest.raises(ValueError, match=r"Everything\.payload in v1"):
            encode(message, 1)


def test_a_field_that_some_version_lacks_must_have_a_default() -> None:
    @struct
    class Bad:
        a: Annotated[i32, since(1)]

    with pytest.raises(TypeError, match=r"Bad\.a is not in every version"):
        fields_of(Bad)


@pytest.mark.parametrize("hint", [int, dict[str, str], list[list[str]], list[str | None]])
def test_a_type_that_the_protocol_lacks_is_refused(hint: Any) -> None:
    bad = struct(type("Bad", (), {"__annotations__": {"a": hint}}))
    with pytest.raises(TypeError):
        fields_of(bad)


def test_a_tagged_field_has_a_plain_default_and_no_records() -> None:
    @message(key=1, versions=(0, 0), flexible=0)
    class BadDefault:
        a: Annotated[str, tag(0)] = field(default_factory=str)

    @message(key=1, versions=(0, 0), flexible=0)
    class BadKind:
        a: Annotated[Records | None, tag(0)] = None

    assert decode(BadDefault, 0, memoryview(b"\0")).a == ""
    with pytest.raises(TypeError, match="needs a plain default"):
        encoder(BadDefault, 0)
    with pytest.raises(TypeError, match="records cannot stand in a tagged field"):
        encoder(BadKind, 0)
