"""Batches out of columns are the batches that the builder makes of the same records, byte by byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ApiError
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.records.many import COUNT_MAX, batch_of, body_of, values_of
from ottla.records.record import Headers, open_body, read_records

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


RECORDS = st.lists(
    st.builds(
        NewRecord,
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=200),
        HEADERS,
        st.integers(0, 1 << 45),
    ),
    min_size=1,
    max_size=90,
)


@given(RECORDS)
def test_values_come_out_of_any_body(records: list[NewRecord]) -> None:
    body = open_body(build_batch(records))
    assert values_of(body, len(records)) == [record.value for record in records]


@given(RECORDS, st.data())
def test_a_body_that_is_cut_or_miscounted_gives_no_values(
    records: list[NewRecord], data: st.DataObject
) -> None:
    body = bytes(open_body(build_batch(records)))
    cut = data.draw(st.integers(0, len(body) - 1))
    for some, count in ((body[:cut], len(records)), (body, len(records) + 1), (body, len(records) - 1)):
        with pytest.raises(ApiError):
            values_of(some, count)


def test_offsets_of_every_width_are_stepped_over() -> None:
    values: list[bytes] = [b"%d" % number for number in range(9000)]
    assert values_of(body_of(values), len(values)) == values
    far = build_batch([NewRecord(None, b"v")], offset_deltas=[1 << 20], last_offset_delta=1 << 20)
    assert values_of(open_body(far), 1) == [b"v"]
