"""Record batches that lie: about their size, their count, their checksum, or what they hold when unpacked."""

import struct
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache

import cramjam
import pytest
from tests.hostile.generate import uvarint
from tests.hostile.healthy import WAIT_S_MAX, Healthy
from tests.kafka_clients.harness import BrokerProcess, wait_for
from tests.kafka_clients.wire_client import Wire, batch

from ottla.records.batch import (
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    read_header,
    set_crc,
)
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec, compress
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

NONE = 0
CORRUPT_MESSAGE = 2
MESSAGE_TOO_LARGE = 10
INVALID_TIMESTAMP = 32
UNSUPPORTED_COMPRESSION_TYPE = 76
INVALID_RECORD = 87

BOMB_BYTES = 300 << 20
MESSAGE_BYTES_MAX = 20 << 20
LEGAL_RECORDS = 500_000


@pytest.fixture(scope="module")
def target(broker: BrokerProcess) -> str:
    return broker.create_topic("target", config={"max.message.bytes": str(MESSAGE_BYTES_MAX)})


def changed(sealed: bool = True, body: bytes | None = None, **fields: int) -> bytes:
    """A sound batch of two records with some of its header, or its body, replaced; its checksum is right."""
    sound = bytes(batch(b"one", b"two"))
    header = read_header(sound)._replace(**fields)
    made = bytearray(HEADER.pack(*header) + (sound[HEADER_SIZE:] if body is None else body))
    if body is not None and "length" not in fields:
        struct.pack_into(">i", made, 8, len(made) - 12)
    if sealed:
        set_crc(made)
    return bytes(made)


def with_body(codec: Codec, body: bytes, count: int = 1) -> bytes:
    return changed(body=body, attributes=int(codec), count=count, last_offset_delta=count - 1)


def varint(number: int) -> bytes:
    return uvarint((number << 1) ^ (number >> 63))


def record(content: bytes, length: int | None = None) -> bytes:
    return varint(len(content) if length is None else length) + content


RECORD_0 = record(b"\x00\x00\x00\x02k\x02v\x00")
RECORD_1 = record(b"\x00\x00\x02\x02k\x02w\x00")
CORRUPT = {
    "a wrong checksum": changed(sealed=False, crc=12345),
    "a length below the minimum": changed(length=48),
    "a negative length": changed(length=-1),
    "a length beyond the end": changed(length=10_000),
    "a huge length": changed(length=2**31 - 1),
    "a magic that does not exist": changed(magic=3),
    "a negative magic": changed(magic=-1),
    "a cut batch": bytes(batch(b"x"))[:-1],
    "noise": b"\x4a" * 200,
}
INVALID = {
    "more records than offsets": changed(count=3),
    "fewer records than offsets": changed(count=1),
    "no records": changed(count=0, last_offset_delta=-1),
    "a negative count": changed(count=-1, last_offset_delta=-2),
    "a huge count": changed(count=2**31 - 1, last_offset_delta=2**31 - 2),
    "a count above the records": changed(count=5, last_offset_delta=4),
    "a base offset": changed(base_offset=7),
    "a negative base offset": changed(base_offset=-7),
    "a control batch": changed(attributes=CONTROL),
    "fewer bytes than a header": bytes(batch(b"x"))[:60],
    "a producer without a sequence": changed(producer_id=5, producer_epoch=0, base_sequence=-1),
    "two batches": bytes(batch(b"one")) + bytes(batch(b"two")),
    "an old format": changed(magic=1),
    "an empty body": changed(body=b""),
    "a record longer than the batch": changed(body=record(bytes(10), 500), count=1, last_offset_delta=0),
    "a record of negative length": changed(body=record(bytes(10), -4), count=1, last_offset_delta=0),
    "bytes after the last record": changed(body=record(bytes(6)) + b"zz", count=1, last_offset_delta=0),
    "a length without end": changed(body=b"\xff" * 20, count=1, last_offset_delta=0),
    **{
        f"{codec.label} that is none": with_body(codec, b"\x01\x02\x03\x04 nonsense")
        for codec in list(Codec)[1:]
    },
    "snappy that announces 4 GiB": with_body(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\x00" * 20),
    "offsets that do not begin at 0": changed(body=RECORD_1 + RECORD_0),
    "one offset twice": changed(body=RECORD_0 * 2),
    "a key of length -2": changed(body=record(b"\x00\x00\x00\x03\x01\x00"), count=1, last_offset_delta=0),
    "a value of length -70": changed(
        body=record(b"\x00\x00\x00\x01" + varint(-70) + b"\x00"), count=1, last_offset_delta=0
    ),
    "a length of more bytes than it needs": changed(
        body=b"\x8c\x00\x00\x00\x00\x01\x01\x00", count=1, last_offset_delta=0
    ),
    **{
        f"two frames of {codec.label}": with_body(
            codec, compress(codec, RECORD_0) + compress(codec, RECORD_1), 2
        )
        for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD)
    },
    **{
        f"{codec.label} and more": with_body(codec, compress(codec, RECORD_0) + b"more")
        for codec in list(Codec)[1:]
    },
    "lz4 with linked blocks": with_body(Codec.LZ4, bytes(cramjam.lz4.compress(RECORD_0))),
    "snappy blocks of negative size": with_body(
        Codec.SNAPPY, b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xff"
    ),
}
# The fields of a record: attributes, timestamp delta, offset delta, key, value, headers.
LYING_RECORDS = {
    "a key longer than its record": b"\x00\x00\x00" + varint(1000) + b"k" + varint(1) + b"v" + b"\x00",
    "a value longer than its record": b"\x00\x00\x00" + varint(1) + b"k" + varint(10_000) + b"v" + b"\x00",
    "more headers than there is room for": b"\x00\x00\x00\x02k\x02v" + varint(1_000_000),
    "a negative number of headers": b"\x00\x00\x00\x02k\x02v" + varint(-5),
    "bytes after the headers": b"\x00\x00\x00\x02k\x02v\x00" + b"left over",
}


@pytest.mark.parametrize("what", CORRUPT)
def test_a_batch_damaged_on_its_way_is_corrupt(broker: BrokerProcess, target: str, what: str) -> None:
    assert_refused(broker, target, CORRUPT[what], CORRUPT_MESSAGE)


@pytest.mark.parametrize("what", INVALID)
def test_a_batch_that_contradicts_itself_is_invalid(broker: BrokerProcess, target: str, what: str) -> None:
    assert_refused(broker, target, INVALID[what], INVALID_RECORD)


@pytest.mark.parametrize("what", LYING_RECORDS)
def test_a_record_that_lies_about_its_inside_is_invalid(
    broker: BrokerProcess, target: str, what: str
) -> None:
    """Taken in, it would break every consumer that comes to it, for ever."""
    sent = changed(body=record(LYING_RECORDS[what]), count=1, last_offset_delta=0)
    assert_refused(broker, target, sent, INVALID_RECORD)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_unsupported(broker: BrokerProcess, target: str, codec: int) -> None:
    assert_refused(broker, target, changed(attributes=codec), UNSUPPORTED_COMPRESSION_TYPE)


def test_times_out_of_range_are_refused(broker: BrokerProcess, target: str) -> None:
    far = int(time.time() * 1000) + 10 * 3_600_000
    assert_refused(broker, target, bytes(build_batch([NewRecord(b"k", b"v", (), far)])), INVALID_TIMESTAMP)
    assert_refused(broker, target, changed(attributes=LOG_APPEND_TIME), INVALID_TIMESTAMP)
    assert_refused(broker, target, changed(base_timestamp=-(2**63), max_timestamp=0), INVALID_TIMESTAMP)
    bounded = broker.create_topic("bounded", config={"message.timestamp.before.max.ms": "60000"})
    with Wire(broker.port) as wire:
        old, fresh = (build_batch([NewRecord(b"k", b"v", (), at)]) for at in (1, int(time.time() * 1000)))
        assert wire.produce(bounded, bytes(old)).error_code == INVALID_TIMESTAMP
        assert wire.produce(bounded, bytes(fresh)).error_code == NONE


def test_a_batch_over_the_limit_is_too_large(broker: BrokerProcess, target: str) -> None:
    assert_refused(broker, target, bytes(batch(b"x" * (MESSAGE_BYTES_MAX + 1))), MESSAGE_TOO_LARGE)


def test_zstd_needs_a_producer_that_knows_it(broker: BrokerProcess, target: str) -> None:
    compressed = bytes(batch(b"x" * 1000, codec=Codec.ZSTD))
    with Wire(broker.port) as wire:
        for version in range(3, 7):
            assert (
                wire.produce(target, compressed, version=version).error_code == UNSUPPORTED_COMPRESSION_TYPE
            )
        assert wire.produce(target, compressed, version=7).error_code == NONE


def assert_refused(broker: BrokerProcess, topic: str, records: bytes, code: int) -> None:
    """With that code, on a connection that goes on, and nothing of it in the log."""
    with Wire(broker.port) as wire:
        before = wire.produce(topic, bytes(batch(b"before"))).base_offset
        for version in (7, 9):
            answer = wire.produce(topic, records, version=version)
            assert answer.error_code == code, answer.error_message
            assert answer.base_offset == -1
        assert wire.produce(topic, bytes(batch(b"after"))).base_offset == before + 1


def test_every_flipped_byte_is_noticed_or_harmless(broker: BrokerProcess, target: str) -> None:
    """The leader epoch is the broker's to write, so that a wrong one in a batch means nothing."""
    sound = bytes(batch(b"value" * 20, b"other" * 10))
    with Wire(broker.port) as wire:
        for at in range(len(sound)):
            for bit in (0x01, 0x80):
                damaged = bytearray(sound)
                damaged[at] ^= bit
                code = wire.produce(target, bytes(damaged)).error_code
                allowed = {NONE} if 12 <= at < 16 else {CORRUPT_MESSAGE, INVALID_RECORD}
                assert code in allowed, f"byte {at}: {code}"


@pytest.mark.parametrize("codec", list(Codec))
def test_flipped_bytes_under_a_right_checksum_never_break_the_broker(
    broker: BrokerProcess, target: str, codec: Codec
) -> None:
    sound = bytes(batch(b"value" * 20, b"other" * 10, codec=codec))
    answers = set()
    with Wire(broker.port) as wire:
        for at in range(16, len(sound)):
            for bit in (0x01, 0x10, 0x80):
                damaged = bytearray(sound)
                damaged[at] ^= bit
                if not 17 <= at < 21:
                    set_crc(damaged)
                answers.add(wire.produce(target, bytes(damaged)).error_code)
    assert INVALID_RECORD in answers
    assert -1 not in answers


# -- bombs ---------------------------------------------------------------------------------------------------


def zeros(codec: Codec) -> bytes:
    """300 MiB of zeros, compressed piece by piece, or what takes their place in this codec."""
    piece = bytes(1 << 20)
    if codec is Codec.GZIP:
        squeeze = zlib.compressobj(9, wbits=31)
        return b"".join(squeeze.compress(piece) for _ in range(BOMB_BYTES >> 20)) + squeeze.flush()
    if codec is Codec.SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(piece))
        blocks = (struct.pack(">i", len(block)) + block) * (BOMB_BYTES >> 20)
        return b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01" + blocks
    module = cramjam.lz4 if codec is Codec.LZ4 else cramjam.zstd
    compressor = module.Compressor()
    for _ in range(BOMB_BYTES >> 20):
        compressor.compress(piece)
    return bytes(compressor.finish())


@pytest.mark.parametrize("codec", list(Codec)[1:], ids=lambda codec: codec.label)
def test_a_decompression_bomb_is_refused_and_its_memory_bounded(
    broker: BrokerProcess, target: str, healthy: Healthy, codec: Codec
) -> None:
    bomb = with_body(codec, zeros(codec))
    assert len(bomb) < MESSAGE_BYTES_MAX
    with Wire(broker.port) as wire:
        assert wire.produce(target, bomb).error_code == INVALID_RECORD
        before = broker.rss_bytes()
        for _ in range(4):
            assert wire.produce(target, bomb).error_code == INVALID_RECORD
        assert broker.rss_bytes() - before < 50 << 20


# -- work ----------------------------------------------------------------------------------------------------

TINY = b"\x0c\x00\x00\x00\x01\x01\x00"
CONFIGS = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "broker-time": {"message.timestamp.type": "LogAppendTime"},
    "recompressed": {"compression.type": "gzip"},
}


def with_headers(count: int, pair: bytes = b"\x00\x00") -> bytes:
    return record(b"\x00\x00\x00\x02k\x02v" + varint(count) + pair * count)


@cache
def heavy() -> dict[str, tuple[bytes, int]]:
    """Batches that take long to walk, each with its answer. The last is the most that is legal."""
    legal = b"".join(record(b"\x00\x00" + varint(n) + b"\x02k" + (b"\x01", b"\x02v")[n % 2] + b"\x00")
                     for n in range(LEGAL_RECORDS))  # fmt: skip
    squeezed = {
        "records": (TINY * 8_500_000, 8_500_000),
        "headers": (with_headers(30_000_000), 1),
        "overlong headers": (with_headers(15_000_000, b"\x80\x00\x80\x00"), 1),
    }
    batches = {
        name: (with_body(Codec.ZSTD, bytes(cramjam.zstd.compress(body)), count), INVALID_RECORD)
        for name, (body, count) in squeezed.items()
    }
    batches["legal"] = (with_body(Codec.ZSTD, bytes(cramjam.zstd.compress(legal)), LEGAL_RECORDS), NONE)
    return batches


@pytest.mark.parametrize("topic", CONFIGS)
def test_batches_full_of_work_keep_nobody_waiting(
    broker: BrokerProcess, healthy: Healthy, topic: str
) -> None:
    name = broker.create_topic(f"work-{topic}", config=CONFIGS[topic])
    before = len(healthy.seconds)

    def attack(batches: list[tuple[bytes, int]]) -> list[tuple[int, int]]:
        with Wire(broker.port) as wire:
            return [(wire.produce(name, sent).error_code, code) for sent, code in batches]

    with ThreadPoolExecutor(4) as clients:
        order = list(heavy().values())
        for answers in clients.map(attack, [order, order[::-1], order, order[2:] + order[:2]]):
            assert [code for code, _ in answers] == [expected for _, expected in answers]
    wait_for(lambda: len(healthy.seconds) >= before + 20, what="healthy rounds beside and after it")
    rounds = sorted(healthy.seconds[before:])
    assert rounds[-1 - len(rounds) // 50] < WAIT_S_MAX  # the machine may stand still once
    assert broker.rss_bytes() < 500 << 20


def test_a_broker_that_stops_does_not_finish_the_checks_of_large_batches(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    """Some thirty of them would take it more than half a minute."""
    broker = start_broker()
    name = broker.create_topic("large")
    sent, _ = heavy()["legal"]
    partition = PartitionProduceData(index=0, records=sent)
    request = ProduceRequest(
        acks=1, timeout_ms=60_000, topic_data=[TopicProduceData(name=name, partition_data=[partition])]
    )
    with ExitStack() as wires:
        clients = [wires.enter_context(Wire(broker.port)) for _ in range(30)]
        for client in clients:
            client.send(request, 9)
        clients[0].receive_frame()
        began = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - began < 15


def test_the_header_that_says_how_many_was_not_made_up() -> None:
    """The tests above change one field at a time of a batch that is sound."""
    assert isinstance(read_header(changed()), BatchHeader)
    assert changed() == bytes(batch(b"one", b"two"))
