"""Arrow columns to record batches, as other readers see them; and the partition that Java would choose."""

import random
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.arrow.batches import EncodedBatch
from ottla.arrow.batches import encode as encode_lazily
from ottla.arrow.columns import decode
from ottla.arrow.headers import HEADER_TYPE
from ottla.arrow.partitioner import partition_of
from ottla.records.batch import crc_ok, split
from ottla.records.compression import Codec
from ottla.records.record import read_records

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of how it reads its own files
    from kafka.partitioner.default import murmur2
    from kafka.record import MemoryRecords

T0 = 1_700_000_000_000

blobs = st.one_of(st.none(), st.binary(max_size=20), st.integers(0, 9000).map(lambda size: b"x" * size))
header_lists = st.one_of(
    st.none(),
    st.lists(st.fixed_dictionaries({"key": st.text(max_size=200), "value": blobs}), max_size=3),
)
times = st.one_of(st.integers(T0, T0 + 3), st.integers(T0, T0 + 10**9), st.integers(0, 1 << 60))
table_rows = st.tuples(blobs, blobs, header_lists, times)


def encode(*columns: Any, **options: Any) -> list[EncodedBatch]:
    return list(encode_lazily(*columns, **options))


def encoded(rows: list[Any], **options: Any) -> list[Any]:
    keys, values, headers, stamps = (list(column) for column in zip(*rows, strict=True))
    return encode(
        pa.array(values, pa.binary()),
        pa.array(keys, pa.binary()),
        pa.array(headers, HEADER_TYPE),
        np.array(stamps, dtype=np.int64),
        **options,
    )


def read(batches: list[Any]) -> list[tuple[Any, ...]]:
    found = []
    for one in batches:
        ((header, view),) = split(one.bytes)
        assert crc_ok(view, header)
        assert header.count == one.records
        found += [(r.key, r.value, r.headers, r.timestamp) for r in read_records(view)]
        assert header.max_timestamp == max(r.timestamp for r in read_records(view))
    return found


@settings(max_examples=80)
@given(
    st.lists(table_rows, min_size=1, max_size=50), st.sampled_from(Codec), st.sampled_from([500, 9000, 10**6])
)
def test_any_rows_in_any_codec_are_read_back(rows: list[Any], codec: Codec, bytes_max: int) -> None:
    batches = encoded(rows, codec=codec, bytes_max=bytes_max)
    wanted = [
        (key, value, tuple((one["key"], one["value"]) for one in headers or ()), stamp)
        for key, value, headers, stamp in rows
    ]
    assert read(batches) == wanted
    if codec is Codec.NONE:
        assert all(len(one.bytes) <= bytes_max or one.records == 1 for one in batches)


@settings(max_examples=30)
@given(st.lists(table_rows, min_size=1, max_size=30), st.sampled_from(Codec))
def test_kafka_python_reads_the_same(rows: list[Any], codec: Codec) -> None:
    found = []
    for one in encoded(rows, codec=codec):
        records = MemoryRecords(one.bytes)
        while (batch := records.next_batch()) is not None:
            assert batch.validate_crc()
            found += [(r.key, r.value, [tuple(h) for h in r.headers], r.timestamp) for r in batch]
    assert found == [
        (key, value, [(one["key"], one["value"]) for one in headers or ()], stamp)
        for key, value, headers, stamp in rows
    ]


def test_thousands_of_rows_go_there_and_back() -> None:
    made = random.Random(5)
    keys = [made.randbytes(made.randrange(30)) for _ in range(30_000)]
    values = [made.randbytes(made.randrange(300)) for _ in range(30_000)]
    batches = encode(pa.array(values), pa.array(keys), None, T0, codec=Codec.LZ4, bytes_max=100_000)
    assert len(batches) > 40
    base, chunks = 0, []
    for one in batches:
        chunks.append(base.to_bytes(8, "big") + one.bytes[8:])
        base += one.records
    got = pa.Table.from_batches(decode(chunks, "t", 0, 0, base))
    assert got.column("key").to_pylist() == keys
    assert got.column("value").to_pylist() == values
    assert got.column("offset").to_pylist() == list(range(30_000))


@settings(max_examples=60)
@given(st.integers(1, 40), blobs, blobs, header_lists, st.booleans(), st.sampled_from([500, 10**6]))
def test_rows_that_are_all_alike_are_read_back(
    count: int, key: Any, value: Any, headers: Any, one_differs: bool, bytes_max: int
) -> None:
    """What is the same for all rows is worked out once: also when there is one row, and with one stamp."""
    keys, values = [key] * count, [value] * count
    if one_differs:
        keys[-1], values[0] = b"another", None
    batches = encode(
        pa.array(values, pa.binary()),
        pa.array(keys, pa.binary()),
        pa.array([headers] * count, HEADER_TYPE),
        T0,
        bytes_max=bytes_max,
    )
    pairs = tuple((one["key"], one["value"]) for one in headers or ())
    assert read(batches) == [(key, value, pairs, T0) for key, value in zip(keys, values, strict=True)]


def test_offsets_and_lengths_beyond_what_is_looked_up_are_computed() -> None:
    values = [b""] * 40_000 + [b"x" * 40_000] * 3
    batches = encode(pa.array(values), None, None, T0)
    assert batches[0].records > 1 << 15
    assert [value for _, value, _, _ in read(batches)] == values


def test_columns_of_different_lengths_are_refused() -> None:
    values = pa.array([b"a", b"b", b"c"])
    with pytest.raises(ValueError, match="3 values, but 2 of key"):
        encode(values, values.slice(1))
    with pytest.raises(ValueError, match="3 values, but 2 of timestamp"):
        encode(values, None, None, np.array([T0, T0]))


def test_sequences_go_on_from_batch_to_batch_and_wrap_after_the_last() -> None:
    last = (1 << 31) - 1
    rows = [(b"k", b"v" * 100, None, T0)] * 10
    batches = encoded(rows, producer_id=7, producer_epoch=2, base_sequence=last - 5, bytes_max=400)
    headers = [next(split(one.bytes))[0] for one in batches]
    assert {(one.producer_id, one.producer_epoch) for one in headers} == {(7, 2)}
    at = last - 5
    for one in headers:
        assert one.base_sequence == at
        at = (at + one.count) % (1 << 31)
    assert at == 4


def test_without_a_producer_there_is_no_sequence_in_any_batch() -> None:
    batches = encoded([(b"k", b"v" * 100, None, T0)] * 10, bytes_max=400)
    assert {next(split(one.bytes))[0].base_sequence for one in batches} == {-1}


def test_a_record_beyond_the_limit_is_alone_in_its_batch() -> None:
    rows = [(None, b"a", None, T0), (None, b"b" * 5000, None, T0), (None, b"c", None, T0)]
    assert [one.records for one in encoded(rows, bytes_max=1000)] == [1, 1, 1]


def test_text_and_slices_and_chunks_are_columns_too() -> None:
    words = pa.chunked_array([pa.array(["left out", "ä", None]).slice(1), pa.array(["b"])])
    ((*_, batch),) = (encode(words, pa.array(["x", "y", "z"]), None, T0),)
    assert [(r.key, r.value) for r in read_records(batch.bytes)] == [
        (b"x", "ä".encode()),
        (b"y", None),
        (b"z", b"b"),
    ]


def test_no_rows_are_no_batches() -> None:
    assert encode(pa.array([], pa.binary())) == []


def test_a_header_without_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="a header needs a key"):
        encoded([(b"k", b"v", [{"key": None, "value": b"x"}], T0)])


@given(st.lists(st.binary(max_size=40), max_size=60), st.integers(1, 50))
def test_a_key_goes_where_javas_producer_puts_it(keys: list[bytes], count: int) -> None:
    wanted = [(murmur2(key) & 0x7FFFFFFF) % count for key in keys]
    assert partition_of(pa.array(keys, pa.binary()), count).tolist() == wanted
    assert partition_of(pa.array([b"", *keys], pa.binary()).slice(1), count).tolist() == wanted


def test_rows_without_a_key_go_to_partitions_in_turn_in_runs() -> None:
    places = partition_of(pa.nulls(5000, pa.binary()), 3, turn=1).tolist()
    assert [len(run) for run in np.split(places, np.flatnonzero(np.diff(places)) + 1)] == [1667, 1667, 1666]
    assert sorted(set(places)) == [0, 1, 2]
    assert places[0] == 1
    assert set(partition_of(pa.nulls(10, pa.binary()), 3, turn=4).tolist()) == {1}
