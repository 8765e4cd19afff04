"""Record batches to Arrow columns: rows are what the plain reader of `ottla.records` gives, or an error."""

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.arrow import columns
from ottla.arrow.columns import Part, decode, decode_parts, schema
from ottla.base.errors import ApiError
from ottla.records.batch import assign, read_header, set_crc, split
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.records.control import build_marker
from ottla.records.fetched import Aborted, Fetched
from ottla.records.record import read_records

T0 = 1_700_000_000_000

blobs = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.binary(min_size=100, max_size=300),
    st.integers(0, 200).map(bytes),  # zeros look like the borders of records
    st.just(b"\0\x0c\0\0\0\1\1\0" * 9),  # a payload that is records itself
)
headers = st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3).map(tuple)
times = st.one_of(st.integers(T0 - 5, T0 + 10_000), st.integers(-1, 1 << 50))
records = st.builds(NewRecord, blobs, blobs, st.one_of(st.just(()), headers), times)
plain = st.builds(NewRecord, blobs, blobs, st.just(()), times)


def table(*chunks: Any, start: int = 0, end: int = 1 << 62, **options: Any) -> Any:
    options = {"include_headers": True} | options
    found = list(decode(chunks, "t", 3, start, end, **options))
    names = options.get("columns")
    return pa.Table.from_batches(found, schema(include_headers=options["include_headers"], columns=names))


def rows(*chunks: Any, **options: Any) -> list[tuple[Any, ...]]:
    """(offset, timestamp in ms, key, value, headers) of every row."""
    got = table(*chunks, **options)
    stamps = got.column("timestamp").cast(pa.int64()).to_pylist()
    return [
        (offset, stamp // 1000, key, value, tuple((one["key"], one["value"]) for one in many or ()))
        for offset, stamp, key, value, many in zip(
            got.column("offset").to_pylist(),
            stamps,
            got.column("key").to_pylist(),
            got.column("value").to_pylist(),
            got.column("headers").to_pylist(),
            strict=True,
        )
    ]


def expected(*chunks: bytes) -> list[tuple[Any, ...]]:
    return [tuple(one) for chunk in chunks for _, batch in split(chunk) for one in read_records(batch)]


def batch(count: int = 3, base: int = 0, **options: Any) -> bytes:
    made = [NewRecord(b"k%d" % n, b"v" * 30, (), T0 + n) for n in range(count)]
    return bytes(build_batch(made, base_offset=base, **options))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.lists(st.one_of(plain, records), min_size=1, max_size=60), st.sampled_from(Codec))),
    st.booleans(),
)
def test_any_records_in_any_codec_come_back_as_they_are(
    batches: list[tuple[list[NewRecord], Codec]], together: bool
) -> None:
    chunks, base = [], 0
    for made, codec in batches:
        chunks.append(bytes(build_batch(made, base_offset=base, codec=codec)))
        base += len(made) + 2
    given_ = [b"".join(chunks)] if together else chunks
    assert rows(*given_) == expected(*chunks)


@settings(max_examples=60)
@given(
    st.lists(st.one_of(plain, records), min_size=40, max_size=200), st.integers(0, 250), st.integers(0, 250)
)
def test_a_range_is_trimmed_to_the_record(made: list[NewRecord], start: int, end: int) -> None:
    cut = len(made) // 2
    raw = bytes(build_batch(made[:cut]) + build_batch(made[cut:], base_offset=cut))
    assert rows(raw, start=start, end=end) == [one for one in expected(raw) if start <= one[0] < end]


@settings(max_examples=200)
@given(
    st.lists(st.one_of(plain, records), min_size=1, max_size=80),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=4),
    st.booleans(),
)
def test_damaged_bytes_are_an_error_or_the_rows_that_the_plain_reader_gives(
    made: list[NewRecord], damage: list[tuple[int, int]], resealed: bool
) -> None:
    raw = build_batch(made)
    for at, byte in damage:
        raw[61 + at % (len(raw) - 61)] = byte
    if resealed:
        set_crc(raw)
    try:
        got = rows(bytes(raw))
    except ApiError:
        return
    try:
        wanted = expected(bytes(raw))
    except ApiError:
        pytest.fail("the plain reader refuses this")
    text = [(*one[:4], tuple((_java(key), value) for key, value in one[4])) for one in wanted]
    assert got == text


def _java(key: str) -> str:
    """Bytes that are no UTF-8 survive in our own reader, and are replaced in Java and in Arrow."""
    return key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@settings(max_examples=200)
@given(st.binary(max_size=300), st.integers(0, 100))
def test_noise_where_records_should_be_is_never_a_crash(noise: bytes, count: int) -> None:
    raw = build_batch([NewRecord(b"k", b"v")])[:61] + noise
    struct.pack_into(">i", raw, 8, len(raw) - 12)
    struct.pack_into(">ii", raw, 23, max(count - 1, 0), 0)
    struct.pack_into(">i", raw, 57, count)
    set_crc(raw)
    try:
        got = rows(bytes(raw))
    except ApiError:
        return
    assert len(got) == count


@pytest.mark.parametrize("cut", [1, 16, 17, 60, 61, 80])
def test_a_batch_that_is_cut_off_is_an_error(cut: int) -> None:
    with pytest.raises(ApiError, match="t-3: what was fetched is no record batch"):
        rows(batch()[:cut])


@pytest.mark.parametrize("magic", [0, 1])
def test_the_old_formats_are_refused_by_name(magic: int) -> None:
    old = bytearray(batch())
    old[16] = magic
    with pytest.raises(ApiError, match=f"Message format {magic} is not supported"):
        rows(bytes(old))


def test_a_wrong_checksum_names_the_offsets() -> None:
    raw = bytearray(batch(3) + batch(3, base=3))
    raw[-3] ^= 1
    with pytest.raises(ApiError, match="the record batch of offsets 3 to 5 is damaged: its checksum"):
        rows(bytes(raw))


def test_among_many_batches_the_damaged_one_is_named() -> None:
    bad = bytearray(batch(3, base=3))
    bad[61] = 0x7F
    set_crc(bad)
    with pytest.raises(ApiError, match="offsets 3 to 5 is damaged"):
        rows(batch(3) + bytes(bad) + batch(3, base=6))


@pytest.mark.parametrize("start", [0, 1])
def test_small_partitions_share_a_record_batch(start: int) -> None:
    parts = [
        (Part("one", 0, start, 3), [batch(3)]),
        (Part("one", 1, 0, 2), [batch(4)]),
        (Part("two", 7, 5, 8), [batch(2, base=4), batch(5, base=6)]),
    ]
    (found,) = decode_parts(iter(parts), columns=["topic", "partition", "offset"])
    wanted = [("one", 0, at) for at in range(start, 3)] + [("one", 1, 0), ("one", 1, 1)]
    wanted += [("two", 7, at) for at in range(5, 8)]
    assert [tuple(row.values()) for row in found.to_pylist()] == wanted


def test_of_many_partitions_the_damaged_one_is_named() -> None:
    damaged = bytearray(batch(3))
    damaged[61] = 0x7F
    set_crc(damaged)
    parts = [(Part("one", 0, 0, 3), [batch(3)]), (Part("two", 5, 0, 3), [bytes(damaged)])]
    with pytest.raises(ApiError, match="two-5: the record batch of offsets 0 to 2 is damaged"):
        list(decode_parts(parts))


def marker_at(base_offset: int, producer_id: int, committed: bool) -> bytes:
    marker = build_marker(producer_id, 0, committed, coordinator_epoch=1, timestamp_ms=T0)
    assign(marker, base_offset, -1)
    return bytes(marker)


def test_control_batches_are_no_rows() -> None:
    marker = marker_at(3, 9, committed=True)
    assert [one[0] for one in rows(batch(3) + marker + batch(2, base=4))] == [0, 1, 2, 4, 5]


def test_what_an_aborted_transaction_wrote_is_dropped_and_nothing_else() -> None:
    def wrote(producer: int, base: int) -> bytes:
        return batch(2, base, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)

    log = b"".join(
        (
            wrote(1, 0),
            wrote(2, 2),
            marker_at(4, 1, committed=False),
            wrote(1, 5),
            marker_at(7, 2, committed=True),
            marker_at(8, 1, committed=True),
            batch(1, 9),
        )
    )
    seen = rows(Fetched(memoryview(log), (Aborted(1, 0),)))
    assert [one[0] for one in seen] == [2, 3, 5, 6, 9]
    assert len(rows(Fetched(memoryview(log)))) == 7


def test_a_log_append_time_is_every_records_time() -> None:
    got = table(batch(3, log_append_time_ms=T0 + 99) + batch(2, base=3))
    assert got.column("timestampType").to_pylist() == [1, 1, 1, 0, 0]
    assert got.column("timestamp").cast(pa.int64()).to_pylist()[:3] == [(T0 + 99) * 1000] * 3


def test_the_holes_that_compaction_leaves_are_kept() -> None:
    made = [NewRecord(b"a", b"1", (), T0), NewRecord(b"b", b"2", (), T0)]
    raw = bytes(build_batch(made, base_offset=100, offset_deltas=[3, 70], last_offset_delta=90))
    assert [one[0] for one in rows(raw)] == [103, 170]


def test_the_schema_is_that_of_the_connector() -> None:
    got = table(batch(), include_headers=False)
    assert got.column_names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert got.schema.field("timestamp").type == pa.timestamp("us", "UTC")
    assert got.column("topic").to_pylist() == ["t"] * 3
    assert got.column("partition").to_pylist() == [3] * 3


def test_only_the_asked_for_columns_are_made_in_the_asked_for_order() -> None:
    got = table(batch(), columns=["offset", "value"])
    assert got.column_names == ["offset", "value"]
    with pytest.raises(ValueError, match="there is no column 'headers'; it takes includeHeaders"):
        list(decode([batch()], "t", 0, 0, 9, columns=["headers"]))


def test_many_small_batches_become_few_large_ones() -> None:
    raw = b"".join(batch(100, base) for base in range(0, 200_000, 100))
    sizes = [one.num_rows for one in decode([raw], "t", 0, 0, 200_000)]
    assert sum(sizes) == 200_000
    assert all(size >= columns.ROWS for size in sizes[:-1])


def test_a_record_without_headers_has_null_and_not_an_empty_list() -> None:
    with_headers = NewRecord(b"k", b"v", (("h", None), ("h", b"")), T0)
    raw = bytes(build_batch([NewRecord(b"k", b"v", (), T0), with_headers]))
    found = table(raw).column("headers").to_pylist()
    assert found == [None, [{"key": "h", "value": None}, {"key": "h", "value": b""}]]


def test_nothing_in_is_nothing_out() -> None:
    assert list(decode([], "t", 0, 0, 9)) == []
    assert list(decode([b""], "t", 0, 0, 9)) == []
    assert read_header(batch()).count == 3
