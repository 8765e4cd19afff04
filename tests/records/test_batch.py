"""The 61-byte header, what may be patched in place, and how a records field falls into batches."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import ApiError, ErrorCode
from ottla.records.batch import (
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    assign,
    crc_ok,
    read_header,
    set_crc,
    set_log_append_time,
    split,
)
from ottla.records.builder import build_batch
from ottla.records.compression import Codec
from ottla.records.record import read_records

RECORDS = [(b"key", b"value", (), 1000), (None, b"second", (("h", b"x"),), 1005)]
examples = settings(max_examples=100)


def patched(**fields):
    batch = build_batch(RECORDS)
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(**fields))
    return batch


def code_of(records):
    with pytest.raises(ApiError) as caught:
        list(split(records))
    assert caught.value.message
    return caught.value.code


def test_a_header_is_61_bytes_in_the_order_of_the_format():
    raw = bytes(range(HEADER_SIZE))
    header = read_header(raw)
    assert HEADER.size == HEADER_SIZE == 61
    assert header.base_offset == int.from_bytes(raw[0:8], "big")
    assert header.length == int.from_bytes(raw[8:12], "big")
    assert header.leader_epoch == int.from_bytes(raw[12:16], "big")
    assert header.magic == raw[16]
    assert header.crc == int.from_bytes(raw[17:21], "big")
    assert header.attributes == int.from_bytes(raw[21:23], "big")
    assert header.last_offset_delta == int.from_bytes(raw[23:27], "big")
    assert header.base_timestamp == int.from_bytes(raw[27:35], "big")
    assert header.max_timestamp == int.from_bytes(raw[35:43], "big")
    assert header.producer_id == int.from_bytes(raw[43:51], "big")
    assert header.producer_epoch == int.from_bytes(raw[51:53], "big")
    assert header.base_sequence == int.from_bytes(raw[53:57], "big")
    assert header.count == int.from_bytes(raw[57:61], "big")


def test_a_header_is_read_anywhere_in_a_buffer():
    batch = build_batch(RECORDS, base_offset=7)
    assert read_header(b"xyz" + batch, 3) == read_header(batch)


def test_a_header_knows_its_size_and_its_offsets():
    header = read_header(build_batch(RECORDS, base_offset=40))
    assert header.size == header.length + LOG_OVERHEAD == len(build_batch(RECORDS))
    assert (header.last_offset, header.next_offset, header.count) == (41, 42, 2)


@pytest.mark.parametrize(
    ("bit", "name"),
    [
        (0x08, "is_log_append_time"),
        (0x10, "is_transactional"),
        (0x20, "is_control"),
        (0x40, "has_delete_horizon"),
    ],
)
def test_an_attribute_bit_is_one_property_and_no_other(bit, name):
    flags = ["is_log_append_time", "is_transactional", "is_control", "has_delete_horizon"]
    header = read_header(patched(attributes=bit))
    assert [flag for flag in flags if getattr(header, flag)] == [name]


@pytest.mark.parametrize("codec", Codec)
def test_the_lowest_three_bits_are_the_codec(codec):
    header = read_header(patched(attributes=codec | 0x78))
    assert header.codec is codec


@pytest.mark.parametrize("number", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_unsupported(number):
    with pytest.raises(ApiError) as caught:
        _ = read_header(patched(attributes=number)).codec
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [(0, 9, 9), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 3, 9, 6), (-1, 9, -1)],
)
def test_sequences_wrap_to_zero(base, delta, last):
    assert read_header(patched(base_sequence=base, last_offset_delta=delta)).last_sequence == last


def test_producer_id_minus_one_means_none():
    assert read_header(build_batch(RECORDS)).producer_id == -1
    assert read_header(build_batch(RECORDS, producer_id=0)).producer_id == 0


def test_every_flipped_bit_after_the_checksum_is_noticed():
    good = build_batch(RECORDS)
    assert crc_ok(good, read_header(good))
    for at in range(17, len(good)):
        for bit in range(8):
            bad = bytearray(good)
            bad[at] ^= 1 << bit
            assert not crc_ok(bad, read_header(bad)), (at, bit)


def test_the_checksum_ends_where_the_batch_ends():
    batch = build_batch(RECORDS)
    assert crc_ok(memoryview(batch + b"the next batch"), read_header(batch))


def test_offset_and_epoch_are_assigned_in_place_without_touching_the_checksum():
    batch = build_batch(RECORDS)
    before = read_header(batch)
    assign(memoryview(batch), 1 << 40, 77)
    after = read_header(batch)
    assert after == before._replace(base_offset=1 << 40, leader_epoch=77)
    assert crc_ok(batch, after)


def test_the_second_batch_of_a_buffer_is_assigned_in_place():
    both = build_batch(RECORDS) + build_batch(RECORDS)
    at = len(both) // 2
    assign(both, 9, 3, at)
    headers = [header for header, _ in split(both)]
    assert [(h.base_offset, h.leader_epoch) for h in headers] == [(0, -1), (9, 3)]


@pytest.mark.parametrize("codec", Codec)
def test_log_append_time_is_every_records_time_and_leaves_the_base_alone(codec):
    batch = build_batch(RECORDS, codec=codec)
    before = read_header(batch)
    set_log_append_time(batch, 5555)
    after = read_header(batch)
    assert after.is_log_append_time
    assert after.codec is codec
    assert (after.base_timestamp, after.max_timestamp) == (before.base_timestamp, 5555)
    assert crc_ok(batch, after)
    assert [record.timestamp for record in read_records(batch)] == [5555, 5555]


@examples
@given(st.lists(st.integers(1, 5), max_size=6))
def test_split_yields_every_batch_with_exactly_its_bytes(counts):
    batches = [build_batch(RECORDS[:1] * count) for count in counts]
    found = list(split(b"".join(batches)))
    assert [bytes(view) for _, view in found] == batches
    assert [header for header, _ in found] == [read_header(batch) for batch in batches]


def test_split_views_write_through_to_a_writable_buffer():
    both = build_batch(RECORDS) + build_batch(RECORDS)
    for index, (_, view) in enumerate(split(both)):
        assign(view, 100 + index, 1)
    assert [header.base_offset for header, _ in split(bytes(both))] == [100, 101]


def test_a_batch_cut_at_any_byte_is_corrupt():
    batch = build_batch(RECORDS)
    for size in range(1, len(batch)):
        assert code_of(batch[:size]) is ErrorCode.CORRUPT_MESSAGE
        assert code_of(batch + batch[:size]) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-(2**31), -12, -1, 0, 10, 48, 2**31 - 1])
def test_a_length_that_cannot_be_is_corrupt(length):
    assert code_of(patched(length=length)) is ErrorCode.CORRUPT_MESSAGE


def test_a_header_without_records_is_a_whole_batch():
    # Compaction leaves such batches, to remember a producer's last sequence.
    ((header, view),) = split(build_batch([]))
    assert (header.length, header.count, len(view)) == (49, 0, 61)


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_message_format_is_an_invalid_record_whatever_its_size(magic):
    assert code_of(patched(magic=magic)) is ErrorCode.INVALID_RECORD
    old = struct.pack(">qiIbb", 0, 14, 0, magic, 0) + bytes(8)
    assert code_of(old) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [-128, -1, 3, 127])
def test_a_magic_byte_of_no_format_is_corrupt(magic):
    assert code_of(patched(magic=magic)) is ErrorCode.CORRUPT_MESSAGE
    assert code_of(patched(magic=magic)[:40]) is ErrorCode.CORRUPT_MESSAGE


@examples
@given(st.binary(max_size=200))
def test_split_of_any_bytes_ends_in_batches_or_an_answer(noise):
    try:
        for header, view in split(noise):
            assert len(view) == header.size
    except ApiError as error:
        assert error.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)  # noqa: PT017


def test_set_crc_makes_a_changed_batch_whole():
    batch = patched(producer_id=5)
    assert not crc_ok(batch, read_header(batch))
    set_crc(memoryview(batch))
    assert crc_ok(batch, read_header(batch))
    assert isinstance(read_header(batch), BatchHeader)
