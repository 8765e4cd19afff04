"""The fast walk over keys finds what the careful one finds, or refuses the batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ApiError
from ottla.log.compaction.record_keys import keys_of, starts_of, time_delta_of
from ottla.records.builder import NewRecord, build_batch, encode_record
from ottla.records.record import walk

FIELD = st.one_of(
    st.none(), st.binary(max_size=80), st.sampled_from((b"", b"x" * 70, b"y" * 9000, b"z" * 70_000))
)
RECORD = st.builds(
    NewRecord,
    FIELD,
    FIELD,
    st.sampled_from(((), (("h", b"1"), ("i", None)))),
    st.sampled_from((0, 5, 100, 10**6, 10**13, -1)),
)


@given(st.lists(RECORD, max_size=70))
def test_keys_starts_and_times_are_those_of_the_records(records):
    body = bytes(build_batch(records)[61:])
    keys, tombstones = keys_of(body, len(records))
    assert keys == [record.key for record in records]
    assert tombstones == sum(record.value is None for record in records)
    raw = list(walk(body, len(records)))
    assert starts_of(body, len(records)) == [0, *(one[1] for one in raw)]
    assert [time_delta_of(body, one[0]) for one in raw] == [one[3] for one in raw]


@given(st.binary(max_size=60), st.integers(0, 5))
def test_any_bytes_are_read_or_refused(body, count):
    try:
        keys, _ = keys_of(body, count)
    except ApiError:
        return
    assert len(keys) == count
    assert starts_of(body, count)[-1] == len(body)


@given(st.integers(0, 40), st.integers(0, 255))
def test_one_wrong_byte_never_leads_out_of_the_body(at, byte):
    body = bytearray(encode_record(0, 0, b"key", b"value", (("h", b"v"),)) * 3)
    body[min(at, len(body) - 1)] = byte
    for read in (keys_of, starts_of):
        try:
            read(bytes(body), 3)
        except ApiError:
            continue


def test_counts_and_lengths_that_cannot_be_are_refused():
    body = encode_record(0, 0, b"k" * 100, b"v")
    for wrong in (body + b"\x00", body[:-1], b"\xff\xff\xff\xff\xff\x7f" + body):
        for read in (keys_of, starts_of):
            with pytest.raises(ApiError):
                read(wrong, 1)
