"""The fast check of a produced batch accepts exactly what reading it would."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import ApiError, ErrorCode
from ottla.records.builder import encode_record, varint
from ottla.records.check import HEADERS_MAX, NO_RECORDS, Budget, check_records
from ottla.records.record import read_varint, walk

examples = settings(max_examples=150)
nullable = st.none() | st.binary(max_size=3) | st.integers(0, 300).map(lambda size: b"v" * size)
headers = st.just(()) | st.lists(st.tuples(st.text(max_size=3), nullable), max_size=3).map(tuple)
deltas = st.integers(0, 70) | st.integers(-(2**40), 2**40) | st.just(100)
stretches = st.lists(
    st.tuples(deltas, nullable, nullable, headers, st.integers(1, 150)), min_size=1, max_size=5
)


def accepts(check, body, count):
    return newest(check, body, count) is not None


def newest(check, body, count):
    """The greatest timestamp delta, or None if the records are refused."""
    try:
        return check(body, count)
    except ApiError as error:
        assert error.code is ErrorCode.INVALID_RECORD  # noqa: PT017
        return None


def read(body, count):
    """The plain way: every record is made."""
    return max((raw[3] for raw in walk(body, count)), default=NO_RECORDS)


def agree(body, count):
    plain = newest(read, bytes(body), count)
    assert newest(check_records, memoryview(body), count) == plain
    return plain is not None


def body_of(runs):
    """Runs of records that are alike but for their offsets."""
    body, offset = bytearray(), 0
    for time_delta, key, value, given_headers, repeats in runs:
        for _ in range(repeats):
            body += encode_record(offset, time_delta, key, value, given_headers)
            offset += 1
    return body, offset


@examples
@given(stretches, st.data())
def test_it_agrees_on_runs_and_on_damage(runs, data):
    body, count = body_of(runs)
    assert agree(body, count)
    for _ in range(8):
        at = data.draw(st.integers(0, len(body) - 1))
        keep, body[at] = body[at], data.draw(st.integers(0, 255))
        agree(body, count + data.draw(st.integers(-1, 1)))
        body[at] = keep
    agree(body[: data.draw(st.integers(0, len(body)))], count)


@examples
@given(
    st.sampled_from(
        [(0, 60), (64, 8000), (-63, 63), (-8000, -64), (-8000, 8000), (2**30, 2**31), (0, 2**48)]
    ),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_it_finds_the_newest_record_of_a_run_in_any_order(span, seed, in_order):
    """Runs of one size, in which the timestamps lie side by side or all over the place."""
    rng = random.Random(seed)
    times = [rng.randint(*span) for _ in range(400)]
    body = bytearray()
    for offset, time_delta in enumerate(sorted(times) if in_order else times):
        body += encode_record(offset, time_delta, b"key", b"value" * 20)
    assert check_records(body, 400) == max(times)


@examples
@given(st.binary(max_size=300), st.integers(-2, 40))
def test_it_agrees_on_noise(noise, count):
    agree(noise, count)


@pytest.mark.parametrize("seed", range(60))
def test_it_agrees_where_lengths_lie_in_wait(seed):
    """Damage that looks like a length or goes on like one, at the very strides where the fast way looks."""
    rng = random.Random(seed)
    key = rng.choice([None, b"", b"key", b"k" * 70])
    value = b"\x80" * rng.choice([0, 1, 55, 60, 63, 64, 100, 200, 9000])
    body, count = body_of([(rng.choice([0, 63, 64, 9000]), key, value, (), rng.randrange(1, 400))])
    stride = len(body) // count
    for _ in range(12):
        damaged = bytearray(body)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(count) * stride + rng.randrange(8)
            if at < len(damaged):
                damaged[at] = rng.choice(
                    [0, 1, 2, 12, 127, 128, 129, 255, damaged[at] ^ 128, damaged[at] + 2 & 255]
                )
        agree(damaged, count)


@pytest.mark.parametrize("prefix", [b"\x8c\x00", b"\x8c\x80\x00", b"\x8c\x80\x80\x80\x00"])
def test_a_length_written_longer_than_needed_is_still_that_length(prefix):
    body = (prefix + b"\x00\x00\x00\x01\x01\x00") * 200
    assert agree(body, 200)


@pytest.mark.parametrize(
    "fields",
    [
        b"\x00" + b"\x80" * 9 + b"\x00" + b"\x00\x01\x01\x00",
        b"\x00\x00" + b"\x80" * 4 + b"\x00" + b"\x01\x01\x00",
        b"\x00\x00\x00" + varint(8192) + bytes(8192) + b"\x01\x00",
    ],
    ids=["a long time", "a long offset", "a long key"],
)
def test_runs_of_unusual_records_are_accepted(fields):
    assert agree((varint(len(fields)) + fields) * 100, 100)


@pytest.mark.parametrize("count", [-(2**31), -1, 0, 2, 2**31 - 1])
def test_a_wrong_count_is_refused(count):
    assert not agree(encode_record(0, 0, b"k", b"v"), count)


# -- what is asked of producers besides ----------------------------------------------------------------------


def strict(body, count, **more):
    return check_records(body, count, strict=True, **more)


def read_strictly(body, count):
    """The plain way: what is read is what would have been written."""
    raws = list(walk(body, count))
    for index, (start, stop, delta, time_delta, key, value, headers) in enumerate(raws):
        written = encode_record(delta, time_delta, key, value, headers)
        # The attributes of a record mean nothing, and any are taken.
        same = bytearray(body[start:stop])
        same[read_varint(body, start)[1] - start] = 0
        if delta != index or written != same:
            raise ApiError(ErrorCode.INVALID_RECORD)
    return max((raw[3] for raw in raws), default=NO_RECORDS)


def agree_strictly(body, count):
    assert newest(strict, bytes(body), count) == newest(read_strictly, bytes(body), count)


@examples
@given(stretches, st.data())
def test_a_producer_is_held_to_what_a_writer_would_have_written(runs, data):
    body, count = body_of(runs)
    assert accepts(strict, body, count)
    agree_strictly(body, count)
    for _ in range(8):
        at = data.draw(st.integers(0, len(body) - 1))
        keep, body[at] = body[at], data.draw(st.integers(0, 255))
        agree_strictly(body, count)
        body[at] = keep


@pytest.mark.parametrize("at", [2, 40, 99])
def test_a_timestamp_delta_written_longer_than_needed_is_refused_in_a_run_of_records_too(at):
    body, count = body_of([(100, None, None, (), 100)])
    place = at * 8 + 3 if at < 64 else 64 * 8 + (at - 64) * 9 + 3
    assert body[place - 1 : place + 1] == varint(100)
    body[place] = 0
    assert accepts(check_records, body, count)
    assert not accepts(strict, body, count)


@pytest.mark.parametrize("count", [1, 64, 65, 200, 8193, 70_000])
@pytest.mark.parametrize("sizes", [(3,), (3, 5)], ids=["one size", "two sizes"])
def test_offset_deltas_count_up_from_0(count, sizes):
    def record(delta, place):
        return encode_record(delta, 0, b"k", b"v" * sizes[place % len(sizes)])

    records = [record(delta, delta) for delta in range(count)]
    assert accepts(strict, b"".join(records), count)
    for at in {0, count - 1, random.Random(count).randrange(count)}:
        for wrong in {at + 1, at - 1, at ^ 64, at ^ 8192, 0} - {at}:
            damaged = b"".join([*records[:at], record(wrong, at), *records[at + 1 :]])
            assert not accepts(strict, damaged, count)
            assert accepts(check_records, damaged, count)  # compaction leaves such


@pytest.mark.parametrize("size", [-2, -3, -64, -65, -9000, -(2**31)])
def test_a_length_below_minus_1_is_no_null(size):
    for fields in (
        b"\x00\x00\x00" + varint(size) + b"\x01\x00",
        b"\x00\x00\x00\x01" + varint(size) + b"\x00",
        b"\x00\x00\x00\x01\x01\x02\x02h" + varint(size),
    ):
        body = varint(len(fields)) + fields
        assert accepts(check_records, body, 1)
        assert not accepts(strict, body, 1)


@pytest.mark.parametrize("at", range(8))
def test_a_varint_is_no_longer_than_it_need_be(at):
    """The length of a record and its seven other varints, one of them with a byte too many."""
    parts = [varint(5), varint(7), varint(0), varint(1) + b"k", varint(1) + b"v", varint(1)]
    parts += [varint(1) + b"h", varint(1) + b"w"]

    def padded(part):
        return bytes((part[0] | 128, 0)) + part[1:]

    fields = [padded(part) if place == at else part for place, part in enumerate(parts)][1:]
    content = b"\x00" + b"".join(fields)
    size = varint(len(content))
    body = (padded(size) if at == 0 else size) + content
    assert accepts(check_records, body, 1)
    assert not accepts(strict, body, 1)


def test_timestamps_stay_in_64_bits():
    for delta in (2**62, -(2**62)):
        assert accepts(strict, encode_record(0, delta, None, b"v"), 1)
    for delta in (2**62 + 1, -(2**62) - 1, 2**63 - 1):
        assert not accepts(strict, encode_record(0, delta, None, b"v"), 1)


def with_headers(count):
    fields = b"\x00\x00\x00\x01\x01" + varint(count) + b"\x00\x00" * count
    return varint(len(fields)) + fields


def test_headers_are_counted_before_they_are_walked():
    spent = []
    budget = Budget(1000, refill=lambda: spent.append(1) or 1 << 40)
    assert not accepts(
        lambda body, count: strict(body, count, budget=budget), with_headers(HEADERS_MAX + 1), 1
    )
    assert spent == []
    assert not accepts(lambda body, count: strict(body, count, headers_max=9), with_headers(10), 1)
    assert accepts(lambda body, count: strict(body, count, headers_max=10), with_headers(10), 1)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b"".join(encode_record(n, 0, b"k", b"v" * (n % 2)) for n in range(20_000)), 20_000),
        (with_headers(20_000), 1),
    ],
    ids=["records", "headers"],
)
def test_a_budget_bounds_how_much_is_looked_at_at_once(body, count):
    class EnoughError(Exception):
        pass

    def refuse():
        raise EnoughError

    with pytest.raises(EnoughError):
        check_records(body, count, budget=Budget(10_000, refill=refuse))
    check_records(body, count, budget=Budget(20_001, refill=refuse))


def test_records_that_cannot_be_there_are_not_looked_for():
    spent = []
    budget = Budget(0, refill=lambda: spent.append(1) or 1 << 40)
    assert not accepts(lambda body, count: strict(body, count, budget=budget), bytes(6_999), 1_000)
    assert spent == []
