"""Records inside a batch: read, checked; and what is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import ApiError, ErrorCode
from ottla.records.batch import HEADER, HEADER_SIZE, read_header
from ottla.records.builder import build_batch, encode_record, varint
from ottla.records.check import check_records
from ottla.records.record import (
    VARINT_BYTES_MAX,
    VARLONG_BYTES_MAX,
    Record,
    open_body,
    read_records,
    read_varint,
    walk,
)

examples = settings(max_examples=150)
nullable = st.none() | st.binary(max_size=80)
headers = st.lists(st.tuples(st.text(max_size=5), nullable), max_size=3).map(tuple)
records = st.lists(st.tuples(nullable, nullable, headers, st.integers(-1, 2**45)), max_size=20)


def accepts(check, body, count):
    try:
        check(body, count)
    except ApiError as error:
        assert error.code is ErrorCode.INVALID_RECORD  # noqa: PT017
        assert error.message  # noqa: PT017
        return False
    return True


def consume(body, count):
    for _ in walk(body, count):
        pass


def refused(body, count=1):
    assert not accepts(check_records, body, count)
    assert not accepts(consume, body, count)
    header = read_header(build_batch([]))._replace(
        length=HEADER_SIZE - 12 + len(body), count=count, last_offset_delta=max(count - 1, 0)
    )
    batch = bytearray(HEADER_SIZE) + body
    HEADER.pack_into(batch, 0, *header)
    assert not accepts(lambda *_: read_records(batch), body, count)
    return True


@examples
@given(records, st.integers(0, 2**40))
def test_what_is_built_is_read_back(given_records, base_offset):
    batch = build_batch(given_records, base_offset=base_offset)
    expected = [
        Record(base_offset + i, time, key, value, hs)
        for i, (key, value, hs, time) in enumerate(given_records)
    ]
    assert read_records(batch) == expected
    assert read_records(memoryview(batch), read_header(batch)) == expected
    check_records(memoryview(batch)[HEADER_SIZE:], len(given_records))


def test_walk_gives_the_place_of_every_record_in_the_body():
    batch = build_batch([(b"a", None, (), 5), (None, b"bb", (("h", None),), 9)])
    body = open_body(batch)
    raws = list(walk(body, 2))
    assert [raw[2:] for raw in raws] == [(0, 0, b"a", None, ()), (1, 4, None, b"bb", (("h", None),))]
    assert b"".join(bytes(body[start:stop]) for start, stop, *_ in raws) == bytes(body)


def test_header_keys_that_are_not_utf8_survive_a_round_trip():
    body = encode_record(0, 0, None, None, (("\udcff\udc00x".replace("\udc00", "\x00"), b"v"),))
    batch = build_batch([(None, None, next(walk(body, 1))[6], 0)])
    assert bytes(batch[HEADER_SIZE:]) == body
    assert b"\xff\x00x" in body


def test_large_deltas_lengths_and_times_take_long_varints():
    far = [(b"k" * 200, b"v" * 20_000, (("h" * 100, b"x" * 9000),) * 70, 0), (None, None, (), 2**45)]
    assert [r[1:] for r in read_records(build_batch(far))] == [
        (0, *far[0][:3]),
        (2**45, None, None, ()),
    ]
    backwards = build_batch([(None, None, (), 2**45), (None, None, (), 0)])
    assert [r.timestamp for r in read_records(backwards)] == [2**45, 0]


def test_many_records_take_offset_deltas_of_several_bytes():
    batch = build_batch([(None, b"", (), 0)] * 9000)
    assert [r.offset for r in read_records(batch)] == list(range(9000))
    check_records(open_body(batch), 9000)


def test_a_compacted_batch_is_read_with_its_holes():
    batch = build_batch(
        [(b"a", b"1", (), 10), (b"b", b"2", (), 12)],
        base_offset=100,
        offset_deltas=[3, 7],
        last_offset_delta=9,
    )
    assert [r.offset for r in read_records(batch)] == [103, 107]
    assert read_header(batch).next_offset == 110


@pytest.mark.parametrize("deltas", [[1, 1], [2, 1], [-1, 0], [0, 5]])
def test_offset_deltas_out_of_order_or_range_are_invalid(deltas):
    batch = build_batch([(b"a", b"1", (), 10)] * 2, offset_deltas=deltas, last_offset_delta=4)
    assert not accepts(lambda *_: read_records(batch), b"", 0)


def test_any_negative_length_of_a_key_or_value_is_null():
    body = b"\x0c" + b"\x00\x00\x00" + b"\x05" + b"\x07" + b"\x00"
    assert [raw[4:6] for raw in walk(body, 1)] == [(None, None)]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "no record at all"),
        (b"\x01" + bytes(7), "a negative record length"),
        (b"\x00" + bytes(7), "an empty record"),
        (b"\x0a\x00\x00\x00\x01\x01", "no room for the header count"),
        (b"\x0c\x00\x00\x00\x01\x01", "one byte short"),
        (b"\x0c\x00\x00\x00\x01\x01\x00\x00", "one byte too many"),
        (b"\x0e\x00\x00\x00\x01\x01\x00\x00", "a byte of the record left over"),
        (b"\x0e\x00\x00\x00\x01\x01\x01\x00", "a negative header count"),
        (b"\x0c\x00\x00\x00\x01\x01\x7e", "more headers than bytes"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", "a header without a key"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x7e\x01", "a header key past the record"),
        (b"\x10\x00\x00\x00\x7e\x01\x02\x02\x01", "a key past the record"),
        (b"\x10\x00\x00\x00\x01\x7e\x02\x02\x01", "a value past the record"),
        (b"\x10\x00\x00\x00\xfe\xff\xff\xff\x0f", "a key of 2 GiB"),
        (b"\xff\xff\xff\xff\xff\xff" + bytes(40), "a length of more than five bytes"),
        (b"\xfe\xff\xff\xff\x1f" + bytes(40), "a length of more than 32 bits"),
        (b"\xfe\xff\xff\xff\x0f" + bytes(40), "a record of 2 GiB"),
        (b"\x1c\x00" + b"\xff" * 10 + b"\x00\x00", "a time of more than ten bytes"),
        (b"\x1e\x00" + b"\xff" * 9 + b"\x7f" + b"\x00\x01\x01\x00", "a time of more than 64 bits"),
    ],
)
def test_a_malformed_body_is_an_invalid_record(body, why):
    assert refused(body), why


@pytest.mark.parametrize("count", [-(2**31), -1, 0, 2, 2**31 - 1])
def test_a_wrong_count_is_an_invalid_record(count):
    body = encode_record(0, 0, b"k", b"v")
    assert refused(body, count)
    assert not accepts(check_records, body, count)


def test_every_single_byte_changed_is_refused_or_read_as_something_else_but_never_a_crash():
    body = bytes(open_body(build_batch([(b"key", b"value", (("h", b"v"),), 9), (None, b"x" * 70, (), 12)])))
    for at in range(len(body)):
        for byte in range(256):
            changed = body[:at] + bytes((byte,)) + body[at + 1 :]
            assert accepts(check_records, changed, 2) == accepts(consume, changed, 2)


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_varint_goes_there_and_back(value):
    written = varint(value)
    assert read_varint(written, 0) == read_varint(written, 0, VARLONG_BYTES_MAX) == (value, len(written))


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_varlong_goes_there_and_back(value):
    written = varint(value)
    assert read_varint(b"?" + written, 1, VARLONG_BYTES_MAX) == (value, 1 + len(written))


def test_small_numbers_of_either_sign_take_one_byte():
    assert [varint(value) for value in (0, -1, 1, -64, 63)] == [b"\0", b"\1", b"\2", b"\x7f", b"\x7e"]


@pytest.mark.parametrize("longest", [VARINT_BYTES_MAX, VARLONG_BYTES_MAX])
def test_a_varint_has_a_longest_form(longest):
    read_varint(b"\x80" * (longest - 1) + b"\0", 0, longest)
    with pytest.raises(ApiError):
        read_varint(b"\x80" * longest + b"\0", 0, longest)
