"""The fast check of a produced batch accepts exactly what reading it would."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import ApiError, ErrorCode
from ottla.records.builder import encode_record, varint
from ottla.records.check import NO_RECORDS, check_records
from ottla.records.record import walk

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
