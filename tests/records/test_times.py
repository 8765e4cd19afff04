"""Timestamps are found without looking at the rest of a record."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import ApiError, ErrorCode
from ottla.records.builder import encode_record
from ottla.records.record import walk
from ottla.records.times import first_since, walk_times

examples = settings(max_examples=150)
deltas = st.integers(0, 70) | st.integers(-(2**40), 2**40) | st.just(100)
nullable = st.none() | st.binary(max_size=3) | st.sampled_from([b"v" * 60, b"v" * 300, b"v" * 9000])
headers = st.just(()) | st.lists(st.tuples(st.text(max_size=3), nullable), max_size=3).map(tuple)
some_records = st.lists(st.tuples(deltas, nullable, nullable, headers), min_size=1, max_size=20)


def body_of(records):
    return b"".join(encode_record(offset, *fields) for offset, fields in enumerate(records))


@examples
@given(some_records)
def test_they_are_those_that_reading_all_would_give(records):
    body = body_of(records)
    read = list(walk(body, len(records)))
    assert list(walk_times(body, len(records))) == [(raw[3], raw[4] is not None) for raw in read]
    for time_delta in {raw[3] for raw in read} | {0, 2**41}:
        for offset_delta in (-1, 0, len(records) // 2):
            expected = next(
                ((raw[2], raw[3]) for raw in read if raw[3] >= time_delta and raw[2] >= offset_delta), None
            )
            for kind in (bytes, bytearray, memoryview):
                assert first_since(kind(body), len(records), time_delta, offset_delta) == expected


@pytest.mark.parametrize("seed", range(30))
def test_damage_ends_in_an_answer_or_an_error(seed):
    rng = random.Random(seed)
    records = [(rng.choice([0, 5, 9000]), b"k", b"v" * rng.choice([1, 70]), ()) for _ in range(50)]
    body = body_of(records)
    for _ in range(40):
        damaged = bytearray(body)
        damaged[rng.randrange(len(body))] = rng.choice([0, 1, 127, 128, 129, 255, rng.randrange(256)])
        for look in (
            lambda data=damaged: first_since(data, 50, 2**41, 0),
            lambda data=damaged: list(walk_times(data, 50)),
        ):
            try:
                look()
            except ApiError as error:
                assert error.code is ErrorCode.INVALID_RECORD  # noqa: PT017


def test_a_long_walk_pauses_after_some_records():
    pauses = []
    body = body_of([(0, None, None, ())] * 10_000)
    assert first_since(body, 10_000, 1, 0, lambda: pauses.append(None)) is None
    assert len(pauses) == 5
