"""What a leader refuses, with Kafka's codes."""

import struct

import pytest
from tests.log.helpers import NOW, append, batch, idempotent, open_log, values
from tests.log.simdisk import SimDisk

from ottla.base.errors import ApiError, ErrorCode
from ottla.log.config import LogConfig
from ottla.log.validation import (
    BYTES_AT_ONCE,
    BYTES_FREE,
    HEADERS_PER_BYTE_MAX,
    ITEMS_AT_ONCE,
    ITEMS_FREE,
    ITEMS_MIN,
    RECORD_ERRORS_MAX,
    SMALL_BYTES,
    LargeBatchError,
    RejectedRecordsError,
    SpentError,
    Validator,
    budget_at_once,
)
from ottla.records.batch import HEADER_SIZE, crc_ok, read_header, set_crc, set_log_append_time
from ottla.records.builder import NewRecord, build_batch, encode_record, seal, varint
from ottla.records.check import RECORDS_MAX
from ottla.records.compression import Codec
from ottla.records.record import read_records


def check(view, *, version=13, internal=False, **config):
    return Validator(LogConfig(**config)).check(view, NOW, version, internal=internal)


def code(view, **more) -> ErrorCode:
    with pytest.raises(ApiError) as error:
        check(view, **more)
    return error.value.code


def patched(layout: str, at: int, value: int, view: memoryview | None = None) -> memoryview:
    view = batch("a", "b") if view is None else view
    struct.pack_into(layout, view, at, value)
    set_crc(view)
    return view


def test_a_sound_batch_passes_as_it_is():
    view = batch("a", "b")
    same, header = check(view)
    assert same is view
    assert header == read_header(view)


def test_bytes_that_changed_are_corrupt():
    view = batch("a")
    for at in range(HEADER_SIZE, len(view)):
        view[at] ^= 1
        assert code(view) is ErrorCode.CORRUPT_MESSAGE
        view[at] ^= 1


def test_too_few_bytes_or_a_wrong_length_are_corrupt():
    view = batch("abc")
    for size in (0, 1, 60, 61, len(view) - 1):
        assert code(view[:size]) is ErrorCode.CORRUPT_MESSAGE
    assert code(patched(">i", 8, 20)) is ErrorCode.CORRUPT_MESSAGE
    assert code(patched(">i", 8, -1)) is ErrorCode.CORRUPT_MESSAGE


def test_more_than_one_batch_is_invalid():
    assert code(memoryview(bytearray(bytes(batch("a")) + bytes(batch("b"))))) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("magic", "expected"),
    [(0, ErrorCode.INVALID_RECORD), (1, ErrorCode.INVALID_RECORD), (3, ErrorCode.CORRUPT_MESSAGE)],
)
def test_only_format_2_is_taken(magic, expected):
    assert code(patched(">b", 16, magic)) is expected


def test_a_batch_that_contradicts_itself_is_invalid():
    assert code(patched(">q", 0, 5)) is ErrorCode.INVALID_RECORD
    for count in (0, -1, 1, 3):
        assert code(patched(">i", 57, count)) is ErrorCode.INVALID_RECORD
    wrong = patched(">i", 57, 3)
    assert code(patched(">i", 23, 2, wrong)) is ErrorCode.INVALID_RECORD
    assert code(memoryview(build_batch([]))) is ErrorCode.INVALID_RECORD


def test_clients_may_not_write_control_batches_but_the_broker_may():
    view = batch(producer_id=1, producer_epoch=0, transactional=True, control=True)
    assert code(view) is ErrorCode.INVALID_RECORD
    check(view, internal=True)


def test_producers_need_a_sequence_and_transactions_a_producer():
    assert code(batch(producer_id=1, producer_epoch=0)) is ErrorCode.INVALID_RECORD
    assert code(batch(producer_id=1, base_sequence=0)) is ErrorCode.INVALID_RECORD
    assert code(batch(transactional=True)) is ErrorCode.INVALID_RECORD
    check(idempotent(0, transactional=True))


def test_sizes_are_limited_by_message_and_by_segment():
    view = batch("x" * 1000)
    assert code(view, max_message_bytes=500) is ErrorCode.MESSAGE_TOO_LARGE
    assert code(view, segment_bytes=500) is ErrorCode.RECORD_LIST_TOO_LARGE
    check(view, max_message_bytes=len(view), segment_bytes=len(view))


def test_zstd_needs_produce_version_7_and_unknown_codecs_are_refused():
    view = batch("a", codec=Codec.ZSTD)
    assert code(view, version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    check(view, version=7)
    assert code(patched(">h", 21, 6)) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_compressed_batches_are_opened_and_their_records_counted(codec):
    check(batch("a", "b", codec=codec))
    wrong = batch("a", "b", codec=codec)
    patched(">i", 57, 3, wrong)
    assert code(patched(">i", 23, 2, wrong)) is ErrorCode.INVALID_RECORD
    damaged = batch("a" * 100, codec=codec)
    damaged[-8:] = bytes(8)
    set_crc(damaged)
    with pytest.raises(ApiError):
        check(damaged)


def test_timestamps_must_be_near_the_brokers_clock():
    hour = 3_600_000
    check(batch(at=NOW + hour))
    assert code(batch(at=NOW + hour + 1)) is ErrorCode.INVALID_TIMESTAMP
    check(batch(at=0))
    check(batch(at=-1), message_timestamp_before_max_ms=10)
    check(batch(at=NOW - 10), message_timestamp_before_max_ms=10)
    assert code(batch(at=NOW - 11), message_timestamp_before_max_ms=10) is ErrorCode.INVALID_TIMESTAMP
    older = memoryview(build_batch([NewRecord(b"k", b"v", (), NOW), NewRecord(b"k", b"v", (), NOW - 11)]))
    assert code(older, message_timestamp_before_max_ms=10) is ErrorCode.INVALID_TIMESTAMP
    check(batch(at=NOW + 10 * hour), message_timestamp_type="LogAppendTime")


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("claimed", [-1, 0, NOW - 1, NOW + 10**12])
def test_the_newest_timestamp_is_that_of_the_records_whatever_the_header_says(codec, claimed):
    times = [NOW - 5, NOW, NOW - 9]
    right = build_batch([NewRecord(b"k", b"v", (), at) for at in times], codec=codec)
    view = patched(">q", 35, claimed, memoryview(bytearray(right)))
    stored, header = check(view)
    assert header.max_timestamp == NOW
    assert bytes(stored) == right
    stored, header = check(patched(">q", 35, claimed, view), compression_type="gzip")
    assert (header.max_timestamp, header.codec) == (NOW, Codec.GZIP)
    assert crc_ok(stored, header)


def test_records_without_a_timestamp_leave_the_header_without_one():
    _, header = check(patched(">q", 35, NOW, batch("a", "b", at=-1)))
    assert header.max_timestamp == -1
    _, header = check(patched(">q", 35, NOW, batch("a", at=-500)))
    assert header.max_timestamp == -1


def test_a_timestamp_that_no_header_can_hold_is_refused():
    view = patched(">q", 27, (1 << 63) - 1, batch("a", at=0))
    limitless = {"message_timestamp_after_max_ms": (1 << 63) - 1}
    check(patched(">q", 35, 0, view), **limitless)
    late = memoryview(build_batch([NewRecord(b"k", b"v", (), 0), NewRecord(b"k", b"v", (), 5)]))
    assert code(patched(">q", 27, (1 << 63) - 1, late), **limitless) is ErrorCode.INVALID_TIMESTAMP


def rejected(view, **more):
    with pytest.raises(RejectedRecordsError) as error:
        check(view, **more)
    return error.value.code, [index for index, reason in error.value.records if reason]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_the_records_that_are_at_fault_are_listed(codec):
    given = [(b"k", NOW), (None, NOW), (b"k", NOW + 9_000_000), (None, NOW + 9_000_000), (b"k", NOW - 50)]
    view = memoryview(build_batch([NewRecord(key, b"v", (), at) for key, at in given], codec=codec))
    assert rejected(view) == (ErrorCode.INVALID_TIMESTAMP, [2, 3])
    assert rejected(view, message_timestamp_before_max_ms=10) == (ErrorCode.INVALID_TIMESTAMP, [2, 3, 4])
    compacted = {"cleanup_policy": ("compact",)}
    assert rejected(view, **compacted) == (ErrorCode.INVALID_TIMESTAMP, [1, 2, 3])
    broker_time = {"message_timestamp_type": "LogAppendTime"}
    assert rejected(view, **compacted, **broker_time) == (ErrorCode.INVALID_RECORD, [1, 3])
    check(view, **broker_time)


def test_so_many_records_are_listed_and_no_more():
    keyless = [NewRecord(None, b"", (), NOW)] * (RECORD_ERRORS_MAX + 1)
    view = memoryview(build_batch([*keyless, NewRecord(b"k", b"", (), NOW + 9_000_000)]))
    assert rejected(view, cleanup_policy=("compact",)) == (
        ErrorCode.INVALID_TIMESTAMP,
        list(range(RECORD_ERRORS_MAX)),
    )


def test_a_producer_may_not_claim_broker_time():
    view = batch()
    set_log_append_time(view, NOW)
    assert rejected(view) == (ErrorCode.INVALID_TIMESTAMP, [0])


def test_broker_time_is_set_in_place():
    view = batch("a", at=5)
    same, header = check(view, message_timestamp_type="LogAppendTime")
    assert same is view
    assert header.is_log_append_time
    assert [record.timestamp for record in read_records(view)] == [NOW]
    check(view, message_timestamp_type="CreateTime", internal=True)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_compacted_topics_need_keys(codec):
    config = {"cleanup_policy": ("delete", "compact")}
    check(batch("a", codec=codec), **config)
    assert code(batch("a", key=None, codec=codec), **config) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_may_choose_its_codec(source, target):
    view = batch("a" * 100, "b", codec=source)
    stored, header = check(view, compression_type=target)
    wanted = Codec.NONE if target == "uncompressed" else Codec.from_name(target)
    assert header.codec is wanted
    assert (stored is view) == (source is wanted)
    assert [record.value for record in read_records(stored)] == [b"a" * 100, b"b"]
    check(stored)


def test_recompression_counts_for_the_size_limit():
    view = batch("a" * 1000, codec=Codec.ZSTD)
    limit = {"compression_type": "uncompressed", "max_message_bytes": 500}
    assert code(view, **limit) is ErrorCode.MESSAGE_TOO_LARGE


def test_what_was_recompressed_is_what_is_read():
    log = open_log(SimDisk(), compression_type="zstd", compression_zstd_level=5)
    append(log, batch("a", "b"))
    assert values(log) == ["a", "b"]
    assert read_header(log.read(0, 1000, end=2).records).codec is Codec.ZSTD


# -- what costs too much, and what stops consumers -----------------------------------------------------------


def sealed(body: bytes, count: int, codec: Codec = Codec.ZSTD, **fields: int) -> memoryview:
    """A batch that says to have `count` records, which are in `body`."""
    header = read_header(batch("v"))._replace(count=count, last_offset_delta=count - 1, **fields)
    return memoryview(seal(header, body, codec))


def with_headers(count: int) -> bytes:
    fields = b"\x00\x00\x00\x02k\x02v" + varint(count) + b"\x00\x00" * count
    return varint(len(fields)) + fields


TINY = b"\x0c\x00\x00\x00\x01\x01\x00"


def with_overlong_headers(count: int) -> bytes:
    fields = b"\x00\x00\x00\x02k\x02v" + varint(count) + b"\x80\x00\x80\x00" * count
    return varint(len(fields)) + fields


BOMBS = {
    "8 million records": lambda: (TINY * 8_000_000, 8_000_000),
    "a million records that do not count up": lambda: (TINY * RECORDS_MAX, RECORDS_MAX),
    "15 million headers": lambda: (with_headers(15_000_000), 1),
    "a million headers in a few bytes": lambda: (with_headers(1_000_000), 1),
    "many overlong headers": lambda: (with_overlong_headers(5_000_000), 1),
}
TOPICS = {
    "plain": {},
    "compacted": {"cleanup_policy": ("compact",)},
    "broker time": {"message_timestamp_type": "LogAppendTime"},
    "other codec": {"compression_type": "gzip"},
    "bounded past": {"message_timestamp_before_max_ms": 10_000},
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD], ids=lambda codec: codec.label)
def test_a_few_bytes_of_work_without_end_are_refused_before_they_are_walked(bomb, codec):
    """However much the topic wants to know: nothing but the first items are looked at."""
    view = sealed(*BOMBS[bomb](), codec)
    assert len(view) < 300_000
    for config in TOPICS.values() if codec is Codec.ZSTD else [{}]:
        validator, pauses = Validator(LogConfig(**config)), []
        with pytest.raises((ApiError, LargeBatchError)) as refused:
            validator.check(view, NOW, 13, internal=False, budget=budget_at_once(len(view)))
        error = refused.value
        if isinstance(error, LargeBatchError):
            check = error.check()
            check.run(lambda pauses=pauses: pauses.append(1))
            with pytest.raises(ApiError) as refused:
                check.take()
        assert refused.value.code is ErrorCode.INVALID_RECORD
        assert len(pauses) < 5


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD], ids=lambda codec: codec.label)
def test_a_large_batch_is_checked_apart_in_slices_and_then_taken(topic, codec):
    count = 2 * ITEMS_AT_ONCE
    records = [NewRecord(b"k", b"v" * (n % 3), (), NOW) for n in range(count)]
    view = memoryview(build_batch(records, codec=codec))
    config = {**TOPICS[topic], "max_message_bytes": 10 << 20}
    validator = Validator(LogConfig(**config))
    with pytest.raises(LargeBatchError) as large:
        validator.check(view, NOW, 13, internal=False, budget=budget_at_once(len(view)))
    pauses: list[int] = []
    check = large.value.check()
    view[:] = bytes(len(view))  # the frame it came in is gone by now
    check.run(lambda: pauses.append(1))
    assert len(pauses) >= count // 2_048
    checked, header = validator.check(check.take(), NOW + 7, 13, internal=False)
    assert header.count == count
    assert crc_ok(checked, header)
    assert [record.value for record in read_records(checked)] == [record.value for record in records]
    assert header.is_log_append_time == (topic == "broker time")
    if header.is_log_append_time:
        assert header.max_timestamp == NOW + 7  # when it was appended, not when it was checked


def test_what_is_large_when_decompressed_is_checked_apart():
    view = memoryview(build_batch([NewRecord(b"k", bytes(2 * BYTES_AT_ONCE), (), NOW)], codec=Codec.ZSTD))
    validator = Validator(LogConfig())
    with pytest.raises(LargeBatchError):
        validator.check(view, NOW, 13, internal=False, budget=budget_at_once(len(view)))
    validator.check(view, NOW, 13, internal=False)


def test_a_batch_of_size_is_recompressed_apart():
    view = memoryview(build_batch([NewRecord(b"k", bytes(500_000), (), NOW)]))
    with pytest.raises(LargeBatchError):
        Validator(LogConfig(compression_type="gzip")).check(
            view, NOW, 13, internal=False, budget=budget_at_once(len(view))
        )
    Validator(LogConfig()).check(view, NOW, 13, internal=False, budget=budget_at_once(len(view)))


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.label)
@pytest.mark.parametrize("headers", [0, 20])
def test_the_densest_batches_of_real_producers_are_taken(codec, headers):
    """Records that differ in nothing but their offset, squeezed as well as the codec can."""
    same = tuple((f"header-{number}", b"always the same") for number in range(headers))
    count = 5_000 if headers else 50_000
    level = {"gzip": 9, "zstd": 5 if headers else 19}.get(codec.label)
    view = memoryview(build_batch([NewRecord(b"", b"", same, NOW)] * count, codec=codec, level=level))
    check(view, max_message_bytes=10 << 20)


def test_headers_are_counted_against_the_bytes_they_come_in():
    few = sealed(with_headers(HEADERS_PER_BYTE_MAX * SMALL_BYTES), 1)
    assert len(few) < SMALL_BYTES
    check(few)
    assert code(sealed(with_headers(HEADERS_PER_BYTE_MAX * SMALL_BYTES + 1), 1)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.label)
def test_offsets_out_of_turn_are_refused(codec):
    for deltas in ([1, 2], [0, 0], [0, 2], [1, 0], [0, -1]):
        body = b"".join(encode_record(delta, 0, b"k", b"v") for delta in deltas)
        assert code(sealed(body, 2, codec)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD], ids=lambda codec: codec.label)
def test_a_second_frame_in_a_body_is_refused(codec):
    one = sealed(encode_record(0, 0, b"k", b"v"), 1, codec)[HEADER_SIZE:]
    two = sealed(encode_record(1, 0, b"k", b"v"), 1, codec)[HEADER_SIZE:]
    view = memoryview(bytearray(bytes(sealed(b"", 2, codec)[:HEADER_SIZE]) + bytes(one) + bytes(two)))
    assert code(patched(">i", 8, len(view) - 12, view)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("base", [-(1 << 63), -(1 << 63) + 1, NOW - (1 << 63)])
def test_timestamps_from_before_all_bounds_are_refused(base):
    """Kafka computes them in 64 bits, where the difference to its clock would turn round."""
    view = sealed(encode_record(0, 0, b"k", b"v"), 1, base_timestamp=base)
    assert code(view) is ErrorCode.INVALID_TIMESTAMP
    check(sealed(encode_record(0, 0, b"k", b"v"), 1, base_timestamp=-5))


def test_a_follower_takes_what_its_leader_has():
    """What is in a log stays readable, whatever is asked of producers now."""
    body = encode_record(1, 0, b"k", b"v") + encode_record(0, 0, b"k", b"v")
    log = open_log(SimDisk())
    log.append_batches(sealed(body, 2), NOW)
    assert log.log_end_offset == 2


def test_a_request_may_cost_what_it_brings_and_no_more_than_its_round_has_left():
    small, large = budget_at_once(100), budget_at_once(1 << 20)
    assert (small.items, large.items) == (ITEMS_FREE + 12, ITEMS_AT_ONCE)
    assert (small.bytes, large.bytes) == (BYTES_FREE + 1600, BYTES_AT_ONCE)
    assert budget_at_once(1 << 20, 5_000).items == 5_000
    assert budget_at_once(1 << 20, -3).items == ITEMS_MIN  # ordinary small batches never wait


def test_a_check_that_is_stopped_begins_anew_when_it_is_run_again() -> None:
    validator = Validator(LogConfig())
    records = [NewRecord(b"k", b"v" * (n % 3), (), NOW) for n in range(2 * ITEMS_AT_ONCE)]
    view = memoryview(build_batch(records))
    with pytest.raises(LargeBatchError) as large:
        validator.check(view, NOW, 13, internal=False, budget=budget_at_once(len(view)))
    check, pauses = large.value.check(), []

    def pause() -> None:
        pauses.append(1)
        if len(pauses) == 3:
            raise SpentError

    check.run(pause)
    assert (len(pauses), check.count) == (3, 2 * ITEMS_AT_ONCE)
    check.run(pause)
    assert validator.check(check.take(), NOW, 13, internal=False)[1].count == 2 * ITEMS_AT_ONCE
