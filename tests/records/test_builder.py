"""What we build, others read; what others build, we read: aiokafka, kafka-python, kio, librdkafka, Java."""

import io
import json
import pathlib
from datetime import UTC, datetime

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as PythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder
from kio.records.readers import read_batch
from kio.records.schema import NewRecordBatch, RecordHeader
from kio.records.schema import Record as KioRecord
from kio.records.writers import write_batch

from ottla.base.errors import ApiError, ErrorCode
from ottla.records.batch import HEADER_SIZE, assign, crc_ok, read_header
from ottla.records.builder import (
    NewRecord,
    build_batch,
    build_plain,
    encode_record,
    of_producer,
    seal,
    varint,
)
from ottla.records.check import check_records
from ottla.records.compression import Codec
from ottla.records.record import Record, open_body, read_records

# Written by librdkafka 2.16 and by kafka-clients 4.3.1 (the latter transactional), twelve records each.
GOLDEN = json.loads(pathlib.Path(__file__).with_name("golden.json").read_text())
GOLDEN_RECORDS = [
    Record(
        i,
        1_700_000_000_000 + i,
        b"key-%d" % i if i % 2 else None,
        None if i == 5 else b"value %d " % i * 4,
        (("h", b"v"), ("n", None)) if i % 3 == 0 else (),
    )
    for i in range(12)
]

examples = settings(max_examples=40)
nullable = st.none() | st.binary(max_size=100)
headers = st.lists(st.tuples(st.text(max_size=5), nullable), max_size=3).map(tuple)
records = st.lists(st.tuples(nullable, nullable, headers, st.integers(0, 2**42)), min_size=1, max_size=12)


def plain(batch):
    return [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]


def expected(given_records, base_offset=0):
    return [(base_offset + i, time, k, v, hs) for i, (k, v, hs, time) in enumerate(given_records)]


@pytest.mark.parametrize("codec", Codec)
@examples
@given(given_records=records, base_offset=st.integers(0, 2**40))
def test_aiokafka_reads_what_we_build(codec, given_records, base_offset):
    ours = build_batch(
        given_records, base_offset=base_offset, codec=codec, producer_id=5, producer_epoch=2, base_sequence=9
    )
    theirs = AioBatch(ours)
    assert theirs.validate_crc()
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (5, 2, 9)
    assert theirs.max_timestamp == max(time for *_, time in given_records)
    assert plain(theirs) == expected(given_records, base_offset)


@pytest.mark.parametrize("codec", Codec)
@examples
@given(given_records=records)
def test_we_read_what_aiokafka_builds(codec, given_records):
    builder = AioBuilder(2, int(codec), True, 7, 1, 3, 1 << 20)
    for offset, (key, value, hs, time) in enumerate(given_records):
        builder.append(offset, time, key, value, list(hs))
    theirs = bytes(builder.build())
    header = read_header(theirs)
    assert crc_ok(theirs, header)
    assert (header.producer_id, header.base_sequence, header.is_transactional) == (7, 3, True)
    assert read_records(theirs) == expected(given_records)
    check_records(open_body(theirs), len(given_records))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@examples
@given(given_records=records)
def test_kafka_python_and_we_read_each_other(codec, given_records):
    theirs = PythonBatch(build_batch(given_records, codec=codec))
    assert theirs.validate_crc()
    assert plain(theirs) == expected(given_records)
    builder = PythonBuilder(2, int(codec), False, -1, -1, -1, 1 << 20)
    for offset, (key, value, hs, time) in enumerate(given_records):
        builder.append(offset, time, key, value, list(hs))
    assert read_records(bytes(builder.build())) == expected(given_records)


@examples
@given(given_records=records)
def test_kio_and_we_read_each_other(given_records):
    ours = bytes(build_batch(given_records))
    theirs, size = read_batch(ours, 0)
    assert size == len(ours)
    assert [(r.key, r.value, len(r.headers)) for r in theirs.records] == [
        (k, v, len(hs)) for k, v, hs, _ in given_records
    ]
    buffer = io.BytesIO()
    write_batch(buffer, _for_kio(given_records))
    written = buffer.getvalue()
    assert crc_ok(written, read_header(written))
    assert [record[2:] for record in read_records(written)] == [(k, v, hs) for k, v, hs, _ in given_records]


def _for_kio(given_records):
    rows = tuple(
        KioRecord(
            attributes=0,
            timestamp=datetime.fromtimestamp(1_000_000 + i, UTC),
            offset=i,
            key=key,
            value=value,
            headers=tuple(RecordHeader(key=name.encode(), value=content) for name, content in hs),
        )
        for i, (key, value, hs, _) in enumerate(given_records)
    )
    return NewRecordBatch(producer_id=-1, producer_epoch=-1, base_sequence=-1, records=rows, attributes=0)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("writer", ["librdkafka", "java"])
def test_batches_that_clients_in_other_languages_wrote_are_read(writer, codec):
    batch = bytes.fromhex(GOLDEN[writer][codec.label])
    header = read_header(batch)
    assert (header.size, header.codec, header.count) == (len(batch), codec, 12)
    assert header.is_transactional == (writer == "java")
    assert crc_ok(batch, header)
    assert read_records(batch) == GOLDEN_RECORDS
    check_records(open_body(batch), 12)


@pytest.mark.parametrize("writer", ["librdkafka", "java"])
def test_an_uncompressed_batch_is_built_byte_for_byte_as_clients_build_it(writer):
    theirs = bytes.fromhex(GOLDEN[writer]["none"])
    producer = {"producer_id": 77, "producer_epoch": 3, "base_sequence": 5, "transactional": True}
    rows = [(r.key, r.value, r.headers, r.timestamp) for r in GOLDEN_RECORDS]
    ours = build_batch(rows, **(producer if writer == "java" else {}))
    assign(ours, 0, read_header(theirs).leader_epoch)
    assert bytes(ours) == theirs


@pytest.mark.parametrize("target", Codec)
@pytest.mark.parametrize("source", Codec)
def test_another_codec_changes_the_body_and_nothing_else(source, target):
    rows = [NewRecord(b"k%d" % i, b"value " * i, (), 1000 + i) for i in range(50)]
    batch = build_batch(rows, base_offset=8, leader_epoch=4, codec=source, producer_id=1, control=True)
    before = read_header(batch)
    again = seal(before, open_body(batch, before), target)
    after = read_header(again)
    assert after.codec is target
    assert after.size == len(again)
    assert crc_ok(again, after)
    same = before._replace(crc=0, length=0, attributes=0)
    assert after._replace(crc=0, length=0, attributes=0) == same
    assert after.is_control
    assert read_records(again) == read_records(batch)


def test_a_body_is_opened_up_to_a_limit():
    batch = build_batch([NewRecord(None, bytes(5000))], codec=Codec.ZSTD)
    with pytest.raises(ApiError) as caught:
        open_body(batch, read_header(batch), limit=4000)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_batch_without_records_keeps_its_place_and_its_producer():
    batch = build_batch(
        [], base_offset=10, last_offset_delta=4, producer_id=3, producer_epoch=1, base_sequence=7
    )
    header = read_header(batch)
    assert (header.count, header.next_offset, header.last_sequence) == (0, 15, 11)
    assert (header.base_timestamp, header.max_timestamp) == (-1, -1)
    assert read_records(batch) == []


def test_log_append_time_and_the_delete_horizon_stand_in_the_header():
    rows = [(b"k", None, (), 1000), (b"l", None, (), 2000)]
    stamped = build_batch(rows, log_append_time_ms=9000)
    assert [r.timestamp for r in read_records(stamped)] == [9000, 9000]
    horizon = build_batch(rows, delete_horizon_ms=50_000)
    header = read_header(horizon)
    assert header.has_delete_horizon
    assert (header.base_timestamp, header.max_timestamp) == (50_000, 2000)
    assert [r.timestamp for r in read_records(horizon)] == [1000, 2000]


def test_seal_takes_records_as_they_lie_in_another_body():
    batch = build_batch([(b"a", b"1", (), 10), (b"b", b"2", (), 11)], base_offset=6)
    kept = encode_record(1, 1, b"b", b"2")
    sealed = seal(read_header(batch)._replace(count=1), kept, Codec.ZSTD)
    assert read_records(sealed) == [Record(7, 11, b"b", b"2")]
    assert bytes(batch[HEADER_SIZE:]).endswith(kept)


def test_as_many_deltas_as_records_are_needed():
    with pytest.raises(ValueError):
        build_batch([(None, None, (), 0)] * 2, offset_deltas=[0])


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_from_a_log_can_be_sent_by_another_producer(codec: Codec) -> None:
    records = [NewRecord(b"k", b"v" * 50, (), 1000), NewRecord(None, None, (("h", b"x"),), 2000)]
    stored = build_batch(
        records, base_offset=70, leader_epoch=3, codec=codec, producer_id=5, producer_epoch=1,
        base_sequence=9, transactional=True, log_append_time_ms=4000,
    )  # fmt: skip
    before = bytes(stored)
    sent = of_producer(stored, 6, 2, 0)
    header = read_header(sent)
    assert bytes(stored) == before
    assert crc_ok(sent, header)
    assert (header.base_offset, header.leader_epoch, header.is_log_append_time) == (0, -1, False)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (6, 2, 0)
    assert header.is_transactional
    assert open_body(sent, header) == open_body(stored, read_header(stored))


@given(
    st.binary(max_size=200) | st.sampled_from([8_191, 8_192, 20_000]).map(bytes),
    st.binary(max_size=200) | st.sampled_from([8_191, 8_192, 20_000]).map(bytes),
    st.integers(0, 1 << 62),
)
def test_a_plain_record_alone_makes_the_batch_that_any_would(key: bytes, value: bytes, time_ms: int) -> None:
    assert build_plain(key, value, time_ms) == build_batch([NewRecord(key, value, timestamp=time_ms)])


@given(st.integers(-20_000, 20_000) | st.integers(-(1 << 63), (1 << 63) - 1))
def test_a_varint_has_seven_bits_of_a_zigzag_in_every_byte(value: int) -> None:
    encoded = varint(value)
    assert [byte > 127 for byte in encoded] == [True] * (len(encoded) - 1) + [False]
    assert len(encoded) == 1 or encoded[-1] > 0
    zigzag = sum((byte & 127) << 7 * at for at, byte in enumerate(encoded))
    assert (zigzag >> 1) ^ -(zigzag & 1) == value
