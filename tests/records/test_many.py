"""Batches out of columns are the batches that the builder makes of the same records, byte by byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.records.many import COUNT_MAX, batch_of, body_of
from ottla.records.record import Headers, read_records

COLUMN = st.lists(st.binary(max_size=200), min_size=1, max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3).map(tuple)


def built(values: list[bytes], keys: list[bytes] | None, headers: Headers) -> bytearray:
    return build_batch(
        [
            NewRecord(None if keys is None else keys[at], value, headers, 1_700_000_000_000)
            for at, value in enumerate(values)
        ]
    )


@given(COLUMN, HEADERS)
def test_values_alone(values: list[bytes], headers: Headers) -> None:
    assert batch_of(values, None, headers, timestamp_ms=1_700_000_000_000) == built(values, None, headers)


@given(st.lists(st.tuples(st.binary(max_size=80), st.binary(max_size=80)), min_size=1, max_size=90), HEADERS)
def test_keys_and_values(pairs: list[tuple[bytes, bytes]], headers: Headers) -> None:
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    assert batch_of(values, keys, headers, timestamp_ms=1_700_000_000_000) == built(values, keys, headers)


@pytest.mark.parametrize("count", [63, 64, 65, 8191, 8192, 8193])
def test_offsets_of_every_width(count: int) -> None:
    values = [b"%d" % number for number in range(count)]
    assert batch_of(values, timestamp_ms=1_700_000_000_000) == built(values, None, ())


def test_a_codec_and_a_producer() -> None:
    batch = batch_of([b"a" * 500] * 3, timestamp_ms=7, codec=Codec.ZSTD, producer=(5, 1, 9))
    assert len(batch) < 500
    expected = build_batch(
        [NewRecord(None, b"a" * 500, (), 7)] * 3,
        codec=Codec.ZSTD,
        producer_id=5,
        producer_epoch=1,
        base_sequence=9,
    )
    assert batch == expected
    assert [record.value for record in read_records(batch)] == [b"a" * 500] * 3


def test_a_batch_has_records_and_not_too_many() -> None:
    for values in ([], [b""] * (COUNT_MAX + 1)):
        with pytest.raises(ValueError, match="a batch of"):
            body_of(values)
