"""The sparse indexes and their files."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.log.index import IndexFileError, OffsetIndex, TimeIndex


def offset_index(*entries):
    index = OffsetIndex()
    for entry in entries:
        index.append(*entry)
    return index


def time_index(*entries):
    index = TimeIndex()
    for entry in entries:
        index.append(*entry)
    return index


def test_a_lookup_begins_at_the_last_batch_that_is_not_after_the_offset():
    index = offset_index((5, 100), (9, 300))
    assert [index.floor(offset) for offset in (0, 4, 5, 8, 9, 50)] == [0, 0, 100, 100, 300, 300]
    assert [index.boundary(position) for position in (0, 99, 100, 299, 300, 999)] == [
        0,
        0,
        100,
        100,
        300,
        300,
    ]


def test_the_files_are_kafkas():
    assert offset_index((5, 100), (9, 300)).to_bytes() == struct.pack(">iiii", 5, 100, 9, 300)
    stamp = 1_700_000_000_123
    assert time_index((stamp, 5), (stamp + 1, 9)).to_bytes() == struct.pack(">qiqi", stamp, 5, stamp + 1, 9)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 2**31 - 1), unique=True), st.lists(st.integers(0, 2**63 - 1), unique=True))
def test_indexes_survive_their_files(numbers, stamps):
    index = offset_index(*((number, number) for number in sorted(numbers)))
    read = OffsetIndex.from_bytes(index.to_bytes() + bytes(80), 2**31)
    assert (read.offsets, read.positions) == (index.offsets, index.positions)
    times = time_index(*((stamp, at) for at, stamp in enumerate(sorted(stamps), 1)))
    again = TimeIndex.from_bytes(times.to_bytes() + bytes(120))
    assert (again.timestamps, again.offsets) == (times.timestamps, times.offsets)


def test_zeros_behind_the_entries_are_not_entries_even_if_the_last_ends_with_zeros():
    index = offset_index((1, 256), (2, 65536))
    assert len(OffsetIndex.from_bytes(index.to_bytes() + bytes(8), 1 << 20)) == 2


@pytest.mark.parametrize(
    "data",
    [
        b"1234567",
        struct.pack(">iiii", 9, 100, 5, 300),
        struct.pack(">iiii", 5, 300, 9, 100),
        struct.pack(">ii", -1, 100),
        struct.pack(">ii", 5, 1000),
    ],
)
def test_an_offset_index_that_cannot_be_right_is_refused(data):
    with pytest.raises(IndexFileError):
        OffsetIndex.from_bytes(data, 1000)


@pytest.mark.parametrize(
    "data",
    [b"1", struct.pack(">qiqi", 9, 1, 5, 2), struct.pack(">qiqi", 5, 9, 6, 3), struct.pack(">qi", 5, -3)],
)
def test_a_time_index_that_cannot_be_right_is_refused(data):
    with pytest.raises(IndexFileError):
        TimeIndex.from_bytes(data)


def test_the_time_index_only_takes_newer_timestamps():
    index = time_index((-1, 0), (5, 1), (5, 2), (4, 3), (7, 4))
    assert list(zip(index.timestamps, index.offsets, strict=True)) == [(5, 1), (7, 4)]
    assert index.last == (7, 4)
    assert TimeIndex().last is None
    assert [index.floor(timestamp) for timestamp in (5, 6, 7, 8)] == [0, 1, 1, 4]


def test_truncation_forgets_entries_at_and_after_the_offset():
    index, times = offset_index((5, 100), (9, 300)), time_index((1, 5), (2, 9))
    index.truncate(9)
    times.truncate(9)
    assert (len(index), len(times)) == (1, 1)
