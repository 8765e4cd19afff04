"""Records inside a batch: read, checked shallowly, checked deeply; and what is refused."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import ApiError, ErrorCode
from ottla.records.batch import HEADER, HEADER_SIZE, read_header
from ottla.records.builder import build_batch, encode_record, varint
from ottla.records.record import Record, check_records, check_records_deep, open_body, read_records, walk

steady = settings(derandomize=True, deadline=None, max_examples=150)
nullable = st.none() | st.binary(max_size=80)
headers = st.lists(st.tuples(st.text(max_size=5), nullable), max_size=3).map(tuple)
records = st.lists(st.tuples(nullable, nullable, headers, st.integers(-1, 2**45)), max_size=20)


def read_varint(body, at, bits=32):
    """The format's definition, with no thought of speed."""
    value, shift = 0, 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
        if shift >= 35:
            raise ValueError
    if value >> bits:
        raise ValueError
    return (value >> 1) ^ -(value & 1), at


def covers(body, count):
    """What check_records claims, spelled out record by record."""
    at = 0
    try:
        for _ in range(count):
            size, at = read_varint(body, at)
            if size < 6:
                return False
            at += size
    except (IndexError, ValueError):
        return False
    return count >= 0 and at == len(body)


def accepts(check, body, count):
    try:
        check(body, count)
    except ApiError as error:
        assert error.code is ErrorCode.INVALID_RECORD  # noqa: PT017
        assert error.message  # noqa: PT017
        return False
    return True


def body_of(*sizes):
    return b"".join(varint(size) + bytes(size) for size in sizes)


def refused(body, count=1):
    assert not accepts(check_records_deep, body, count)
    header = read_header(build_batch([]))._replace(
        length=HEADER_SIZE - 12 + len(body), count=count, last_offset_delta=max(count - 1, 0)
    )
    batch = bytearray(HEADER_SIZE) + body
    HEADER.pack_into(batch, 0, *header)
    assert not accepts(lambda *_: read_records(batch), body, count)
    return True


@steady
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
    check_records_deep(batch[HEADER_SIZE:], len(given_records))


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
    check_records_deep(open_body(batch), 9000)


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
    assert not accepts(check_records_deep, bytes(batch[HEADER_SIZE:]), 2)


def test_a_produced_batch_numbers_its_records_without_a_hole():
    body = encode_record(0, 0, None, None) + encode_record(2, 0, None, None)
    assert accepts(check_records, body, 2)
    assert not accepts(check_records_deep, body, 2)


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
            shallow, deep = accepts(check_records, changed, 2), accepts(check_records_deep, changed, 2)
            assert shallow == covers(changed, 2)
            assert shallow or not deep


sizes = st.integers(6, 70) | st.integers(6, 20_000) | st.sampled_from([63, 64, 8191, 8192])
stretches = st.lists(st.tuples(sizes, st.integers(1, 200)), min_size=1, max_size=6)


@steady
@given(stretches, st.data())
def test_the_fast_check_agrees_with_the_plain_one_on_runs_and_on_damage(runs, data):
    lengths = [size for size, repeats in runs for _ in range(repeats)][:600]
    body = bytearray(body_of(*lengths))
    assert accepts(check_records, body, len(lengths))
    assert accepts(check_records, memoryview(body), len(lengths))
    for _ in range(5):
        at = data.draw(st.integers(0, len(body) - 1))
        keep, body[at] = body[at], data.draw(st.integers(0, 255))
        count = len(lengths) + data.draw(st.integers(-1, 1))
        assert accepts(check_records, body, count) == covers(body, count)
        body[at] = keep
    cut = data.draw(st.integers(0, len(body)))
    assert accepts(check_records, body[:cut], len(lengths)) == covers(body[:cut], len(lengths))


@steady
@given(st.binary(max_size=300), st.integers(-2, 40))
def test_the_fast_check_agrees_with_the_plain_one_on_noise(noise, count):
    assert accepts(check_records, noise, count) == covers(noise, count)
    assert accepts(check_records_deep, noise, count) <= covers(noise, count)


@pytest.mark.parametrize("seed", range(40))
def test_the_fast_check_agrees_with_the_plain_one_where_prefixes_lie_in_wait(seed):
    # Bodies full of bytes that look like length prefixes, at the very strides where the fast check looks.
    rng = random.Random(seed)
    size = rng.choice([6, 13, 63, 64, 100, 127, 128, 300])
    prefix = varint(size)
    one = prefix + bytes(rng.choice(prefix + b"\x80\x00\x0c") for _ in range(size))
    body = bytearray(one * rng.randrange(1, 400))
    count = len(body) // len(one)
    for _ in range(rng.randrange(4)):
        body[rng.randrange(len(body))] = rng.choice([*prefix, 0, 12, 13, 128, 255, size & 255])
    for wrong in (-1, 0, 1):
        assert accepts(check_records, bytes(body), count + wrong) == covers(body, count + wrong)


@pytest.mark.parametrize("prefix", [b"\x8c\x00", b"\x8c\x80\x00", b"\x8c\x80\x80\x80\x00"])
def test_a_length_written_longer_than_needed_is_still_that_length(prefix):
    body = (prefix + bytes(6)) * 200
    assert covers(body, 200)
    assert accepts(check_records, body, 200)
