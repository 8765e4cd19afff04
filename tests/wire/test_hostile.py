"""Malformed input: nothing but ProtocolError, and no memory for what was only announced."""

import random
import struct
import tracemalloc
from collections.abc import Iterator
from typing import Annotated, Any

import pytest

from ottla.wire.codec import decode, decode_in_slices, decoder, encode, encode_in_slices
from ottla.wire.codegen import PACE
from ottla.wire.decoders import ITEMS_MAX
from ottla.wire.lazy import lazily
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.primitives import ProtocolError, encode_uvarint
from ottla.wire.schema import i32, message, tag
from ottla.wire.schema import struct as part


def accepts(decode: Any, data: bytes) -> bool:
    """Whether the bytes are a message. Any error but ProtocolError fails the test."""
    try:
        decode(memoryview(data))
    except ProtocolError:
        return False
    return True


def test_a_message_cut_at_any_byte_is_refused(message_class: type, version: int, full: Any) -> None:
    wire = encode(full(message_class, version), version)
    decode = decoder(message_class, version)
    assert accepts(decode, wire)
    assert [cut for cut in range(len(wire)) if accepts(decode, wire[:cut])] == []


def test_a_wrong_byte_anywhere_gives_a_message_or_a_protocol_error(
    message_class: type, version: int, full: Any
) -> None:
    wire = encode(full(message_class, version), version)
    decode = decoder(message_class, version)
    for at in range(len(wire)):
        for byte in (0, 0x7F, 0xFF):
            accepts(decode, wire[:at] + bytes([byte]) + wire[at + 1 :])


def test_random_bytes_give_a_message_or_a_protocol_error(message_class: type, version: int) -> None:
    chance = random.Random(f"{message_class.__name__} {version}")
    decode = decoder(message_class, version)
    for size in range(0, 120, 3):
        accepts(decode, chance.randbytes(size))


HUGE = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x7f\xff", b"\x00\xff\xff\xff")


def test_a_huge_number_anywhere_gives_a_message_or_a_protocol_error(
    message_class: type, version: int, full: Any
) -> None:
    wire = encode(full(message_class, version), version)
    decode = decoder(message_class, version)
    for at in range(len(wire)):
        for huge in HUGE:
            accepts(decode, wire[:at] + huge + wire[at + len(huge) :])


@pytest.mark.parametrize("version", [4, 12])
@pytest.mark.parametrize("message_class", [FetchRequest, FetchResponse])
def test_huge_lengths_and_counts_allocate_nothing(message_class: type, version: int, full: Any) -> None:
    wire = encode(full(message_class, version), version)
    decode = decoder(message_class, version)
    tracemalloc.start()
    for at in range(len(wire)):
        for huge in HUGE:
            accepts(decode, wire[:at] + huge + wire[at + len(huge) :])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 18


def test_an_array_needs_as_many_bytes_as_its_items_take_at_least() -> None:
    # A partition of Fetch v4 takes 16 bytes, so 4 of them do not fit in 63.
    start = struct.pack(">iiiibihxi", -1, 0, 0, 0, 0, 1, 1, 4)
    with pytest.raises(ProtocolError, match=r"FetchTopic.partitions cannot have 4 items"):
        decode(FetchRequest, 4, memoryview(start + bytes(63)))
    decode(FetchRequest, 4, memoryview(start + bytes(64)))


def test_null_is_refused_where_the_version_does_not_allow_it() -> None:
    null_array = struct.pack(">i", -1)
    assert decode(MetadataRequest, 1, memoryview(null_array)).topics is None
    with pytest.raises(ProtocolError, match=r"MetadataRequest.topics is null"):
        decode(MetadataRequest, 0, memoryview(null_array))
    with pytest.raises(ProtocolError, match=r"MetadataRequestTopic.name is null"):
        decode(MetadataRequest, 1, memoryview(struct.pack(">ih", 1, -1)))
    with pytest.raises(ProtocolError, match=r"FetchRequest.topics is null"):
        decode(FetchRequest, 12, memoryview(bytes(40)))


def test_bad_utf8_is_refused() -> None:
    with pytest.raises(ProtocolError, match="utf-8"):
        decode(MetadataRequest, 1, memoryview(struct.pack(">ih2s", 1, 2, b"\xc3\x28")))


def test_a_varint_of_six_bytes_is_refused() -> None:
    with pytest.raises(ProtocolError, match="longer than 5 bytes"):
        decode(MetadataRequest, 9, memoryview(b"\x80\x80\x80\x80\x80\x01" + bytes(20)))


def test_a_compact_string_is_no_longer_than_a_plain_one_may_be() -> None:
    longest = MetadataRequest(topics=[MetadataRequestTopic(name="n" * 32767)])
    assert decode(MetadataRequest, 9, memoryview(encode(longest, 9))) == longest
    wire = b"\x02" + b"\x81\x80\x02" + b"n" * 32768 + bytes(8)
    with pytest.raises(ProtocolError, match="a string of 32768 bytes"):
        decode(MetadataRequest, 9, memoryview(wire))


@part
class Inner:
    a: i32 = 0


@message(key=1, versions=(0, 1), flexible=1)
class Tagged:
    first: i32 = 0
    one: Annotated[i32, tag(1)] = -1
    three: Annotated[str | None, tag(3)] = None
    four: Annotated[Inner | None, tag(4)] = None


def tagged(*fields: tuple[int, bytes]) -> memoryview:
    section = b"".join(bytes([number, len(body)]) + body for number, body in fields)
    return memoryview(bytes(4) + bytes([len(fields)]) + section)


def test_unknown_tags_are_stepped_over_before_between_and_after_known_ones() -> None:
    wire = tagged((0, b"??"), (1, b"\0\0\0\7"), (2, b""), (3, b"\3hi"), (4, b"\0\0\0\5\0"), (9, b"?"))
    assert decode(Tagged, 1, wire) == Tagged(one=7, three="hi", four=Inner(a=5))


@pytest.mark.parametrize("numbers", [(1, 1), (3, 1), (9, 9), (9, 5)])
def test_tags_that_do_not_rise_are_refused(numbers: tuple[int, int]) -> None:
    bodies = {1: b"\0\0\0\7", 3: b"\3hi"}
    with pytest.raises(ProtocolError, match=f"tag {numbers[1]} comes after tag {numbers[0]}"):
        decode(Tagged, 1, tagged(*((number, bodies.get(number, b"")) for number in numbers)))


def test_a_known_tag_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"Tagged.one does not fill its tagged field"):
        decode(Tagged, 1, tagged((1, b"\0\0\0\7\0")))


def test_a_tag_longer_than_the_message_is_refused() -> None:
    for number in (1, 2):
        with pytest.raises(ProtocolError, match=f"tagged field {number} runs past the end"):
            decode(Tagged, 1, memoryview(bytes(4) + bytes([1, number, 5, 0, 0, 0, 0])))
    with pytest.raises(ProtocolError, match="tagged field 0 runs past the end"):
        decode(ApiVersionsResponse, 3, memoryview(b"\0\0\1\0\0\0\0\1\0\x7f"))


def test_a_section_that_announces_four_billion_tags_ends_with_the_bytes() -> None:
    with pytest.raises(ProtocolError):
        decode(FetchResponse, 12, memoryview(bytes(10) + b"\1" + b"\xff\xff\xff\xff\x0f" + b"\5\0"))


def test_an_array_has_a_largest_number_of_items() -> None:
    topics = [MetadataRequestTopic(name="t")] * (ITEMS_MAX + 1)
    read = decoder(MetadataRequest, 4)
    assert accepts(read, encode(MetadataRequest(topics=topics[1:]), 4))
    assert not accepts(read, encode(MetadataRequest(topics=topics), 4))


def test_nested_arrays_and_unknown_tags_count_together() -> None:
    read = decoder(ListOffsetsRequest, 6)
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=0)] * 1_000
    topics = [ListOffsetsTopic(name="t", partitions=partitions)] * (ITEMS_MAX // 1_001)
    assert accepts(read, encode(ListOffsetsRequest(replica_id=-1, topics=topics), 6))
    assert not accepts(read, encode(ListOffsetsRequest(replica_id=-1, topics=topics + topics[:1]), 6))
    tags = b"".join(encode_uvarint(tag) + b"\0" for tag in range(ITEMS_MAX + 1))
    body = encode(ListOffsetsRequest(replica_id=-1, topics=[]), 6)[:-1]
    assert accepts(read, body + encode_uvarint(1_000) + tags)
    assert not accepts(read, body + encode_uvarint(ITEMS_MAX + 1) + tags)


def test_a_message_is_decoded_and_encoded_in_slices_to_the_same() -> None:
    topics = [MetadataRequestTopic(name=f"topic-{at}") for at in range(1_000)]
    whole = encode(MetadataRequest(topics=topics), 9)
    messages: list[MetadataRequest] = []

    def decode_all() -> Iterator[None]:
        messages.append((yield from decode_in_slices(MetadataRequest, 9, memoryview(whole), 0, ITEMS_MAX)))

    assert len(list(decode_all())) >= 1_000 // PACE
    assert messages == [MetadataRequest(topics=topics)]
    lazy = MetadataRequest(topics=lazily(lambda at: MetadataRequestTopic(name=f"topic-{at}"), range(1_000)))
    chunks = list(encode_in_slices(lazy, 9))
    assert chunks.count(None) >= 1_000 // PACE
    assert b"".join(chunk for chunk in chunks if chunk is not None) == whole
