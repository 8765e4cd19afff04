"""The codecs: round trips, foreign framings, damage, and bombs that must not go off."""

import gzip
import struct
import subprocess
import sys
import zlib

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import ApiError, ErrorCode
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, Codec, compress, decompress

MIB = 1 << 20
REAL = [codec for codec in Codec if codec is not Codec.NONE]
examples = settings(max_examples=60)


def code_of(codec, data, limit=DECOMPRESSED_BYTES_MAX):
    with pytest.raises(ApiError) as caught:
        decompress(codec, data, limit)
    assert caught.value.message
    return caught.value.code


def test_codecs_have_kafkas_numbers_and_names():
    assert [(codec.label, int(codec)) for codec in Codec] == [
        ("none", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4),
    ]  # fmt: skip
    assert [Codec.from_name(codec.label) for codec in Codec] == list(Codec)
    assert [Codec.from_id(number) for number in range(5)] == list(Codec)


def test_an_unknown_name_is_a_value_error_and_an_unknown_number_unsupported():
    with pytest.raises(ValueError, match="brotli"):
        Codec.from_name("brotli")
    with pytest.raises(ApiError) as caught:
        Codec.from_id(5)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", Codec)
@examples
@given(data=st.binary(max_size=300) | st.binary(min_size=1, max_size=9).map(lambda unit: unit * 20_000))
def test_whatever_is_compressed_comes_back(codec, data):
    packed = compress(codec, data)
    for source in (packed, bytearray(packed), memoryview(packed)):
        assert decompress(codec, source) == data
    assert decompress(codec, compress(codec, memoryview(data)), limit=len(data)) == data


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Codec.GZIP, [-1, 1, 9]), (Codec.LZ4, [1, 9, 12, 17]), (Codec.ZSTD, [-131072, -1, 1, 3, 22])],
)
def test_kafkas_levels_are_taken_and_others_refused(codec, levels):
    data = bytes(range(256)) * 40
    for level in levels:
        assert decompress(codec, compress(codec, data, level)) == data
    for level in (levels[0] - 1, levels[-1] + 1):
        with pytest.raises(ValueError, match=codec.label):
            compress(codec, data, level)


def test_codecs_without_levels_ignore_one():
    assert compress(Codec.SNAPPY, b"x", 5) == compress(Codec.SNAPPY, b"x")
    assert compress(Codec.NONE, b"x", 5) == b"x"


def test_kafkas_default_level_of_lz4_is_the_fast_compressor():
    text = b"".join(b"%d bottles of beer, " % i for i in range(5000))
    assert compress(Codec.LZ4, text, 9) == compress(Codec.LZ4, text)
    assert len(compress(Codec.LZ4, text, 12)) < len(compress(Codec.LZ4, text, 9))


def test_lz4_is_written_with_independent_blocks_as_the_java_client_demands():
    magic, flags = struct.unpack_from("<IB", compress(Codec.LZ4, bytes(200_000)))
    assert magic == 0x184D2204
    assert flags & 0b1110_0000 == 0b0110_0000


def test_lz4_frames_with_linked_blocks_are_read_all_the_same():
    data = bytes(range(256)) * 2000
    assert decompress(Codec.LZ4, bytes(cramjam.lz4.compress(data))) == data


def test_snappy_is_written_in_xerial_framing_and_read_in_either():
    data = bytes(range(256)) * 500
    packed = compress(Codec.SNAPPY, data)
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    (size,) = struct.unpack_from(">i", packed, 16)
    assert cramjam.snappy.decompress_raw_len(packed[20 : 20 + size]) == 32768
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


def test_members_of_gzip_and_frames_of_zstd_and_lz4_in_a_row_are_one_stream():
    assert decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"
    for codec in (Codec.ZSTD, Codec.LZ4):
        assert decompress(codec, compress(codec, b"one ") + compress(codec, b"two")) == b"one two"


def codecs_of_others(codec, data):
    """The same data as other libraries write it."""
    if codec is Codec.GZIP:
        return [gzip.compress(data), zlib.compress(data, 1, wbits=31)]
    if codec is Codec.SNAPPY:
        return [bytes(cramjam.snappy.compress_raw(data))]
    module = cramjam.lz4 if codec is Codec.LZ4 else cramjam.zstd
    stream = module.Compressor(block_linked=False) if codec is Codec.LZ4 else module.Compressor()
    written = b""
    for at in range(0, len(data), 1000):
        stream.compress(data[at : at + 1000])
        written += bytes(stream.flush())
    return [written + bytes(stream.finish())]


@pytest.mark.parametrize("codec", REAL)
@pytest.mark.parametrize("size", [0, 1, 300, 200_000])
def test_a_producer_sends_one_frame_and_nothing_else(codec, size):
    data = b"".join(b"%d," % number for number in range(size))[:size]
    for packed in (compress(codec, data), *codecs_of_others(codec, data)):
        assert decompress(codec, packed, single=True) == data
        for more in (b"\x00", b"\x01\x02\x03\x04\x05", packed):
            with pytest.raises(ApiError) as caught:
                decompress(codec, packed + more, single=True)
            assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_frame_cut_at_any_byte_is_refused_from_a_producer(codec):
    packed = compress(codec, b"some data, " * 100)
    for end in range(len(packed)):
        with pytest.raises(ApiError) as caught:
            decompress(codec, packed[:end], single=True)
        assert caught.value.code is ErrorCode.INVALID_RECORD


def test_linked_lz4_blocks_which_java_cannot_read_are_refused_from_a_producer():
    linked = bytes(cramjam.lz4.compress(b"some data, " * 30_000))
    assert not linked[4] & 0x20
    with pytest.raises(ApiError, match="linked"):
        decompress(Codec.LZ4, linked, single=True)


def test_blocks_without_end_are_not_walked_to_the_end():
    """Empty blocks of zstd, three bytes each."""
    frame = compress(Codec.ZSTD, b"")[:6] + b"\x00\x00\x00" * 100_000 + b"\x01\x00\x00"
    with pytest.raises(ApiError, match="too many blocks"):
        decompress(Codec.ZSTD, frame, single=True)


def test_a_zstd_frame_that_does_not_tell_its_size_is_read():
    stream = cramjam.zstd.Compressor()
    stream.compress(b"some text " * 100_000)
    assert decompress(Codec.ZSTD, bytes(stream.finish())) == b"some text " * 100_000


@pytest.mark.parametrize("codec", REAL)
def test_garbage_and_nothing_are_invalid(codec):
    for data in (b"", b"\x05", b"garbage!garbage!garbage!", b"\xff" * 40):
        assert code_of(codec, data) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", REAL)
def test_a_stream_cut_at_any_byte_is_invalid_or_ends_at_a_block(codec):
    data = bytes(range(256)) * 300
    packed = compress(codec, data)
    whole = 0
    for size in range(1, len(packed), max(1, len(packed) // 200)):
        try:
            part = decompress(codec, packed[:size])
        except ApiError as error:
            assert error.code is ErrorCode.INVALID_RECORD  # noqa: PT017
        else:
            whole += 1
            assert data.startswith(part)
            assert len(part) < len(data)
    assert whole == 0 or codec is Codec.SNAPPY  # xerial framing has no end mark; the record count tells


@pytest.mark.parametrize("codec", REAL)
def test_a_flipped_byte_is_invalid_or_harmless_but_never_a_crash(codec):
    packed = compress(codec, b"some text, and some more text, and so on " * 20)
    for at in range(len(packed)):
        for flip in (0x01, 0x80, 0xFF):
            bad = bytearray(packed)
            bad[at] ^= flip
            try:
                decompress(codec, bad, limit=MIB)
            except ApiError as error:
                assert error.code is ErrorCode.INVALID_RECORD  # noqa: PT017


@pytest.mark.parametrize("codec", REAL)
@settings(max_examples=150)
@given(noise=st.binary(max_size=120), start=st.integers(0, 20))
def test_any_bytes_end_in_data_or_an_answer(codec, noise, start):
    try:
        assert len(decompress(codec, compress(codec, b"abc")[:start] + noise, limit=MIB)) <= MIB
    except ApiError as error:
        assert error.code is ErrorCode.INVALID_RECORD  # noqa: PT017


@pytest.mark.parametrize(
    "blocks",
    [
        b"\x00",
        b"\x00\x00\x00",
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff\x00",
        b"\x00\x00\x00\x02\x00",
    ],
)
def test_xerial_blocks_that_do_not_fit_are_invalid(blocks):
    assert code_of(Codec.SNAPPY, compress(Codec.SNAPPY, b"") + blocks) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", Codec)
def test_the_limit_is_exact(codec):
    data = bytes(100_000)
    packed = compress(codec, data)
    assert decompress(codec, packed, limit=100_000) == data
    assert code_of(codec, packed, limit=99_999) is ErrorCode.INVALID_RECORD
    assert code_of(codec, packed, limit=0) is ErrorCode.INVALID_RECORD


def test_snappy_that_announces_more_than_it_can_hold_is_refused_before_anything_is_allocated():
    announces_48_mib = b"\x80\x80\x80\x18"
    assert code_of(Codec.SNAPPY, announces_48_mib + b"\x00a") is ErrorCode.INVALID_RECORD


def test_a_million_bytes_of_empty_gzip_members_take_no_quadratic_time():
    assert decompress(Codec.GZIP, zlib.compress(b"", wbits=31) * 50_000) == b""


BOMBS = """
import sys, zlib
import cramjam
from ottla.base.errors import ApiError, ErrorCode
from ottla.records.compression import Codec, compress, decompress

MIB = 1 << 20
LIMIT = 16 * MIB

def peak_kib():
    with open("/proc/self/status") as status:  # ru_maxrss begins with the peak of whoever started us
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))

def stream(compressor):
    for _ in range(512):
        compressor.compress(bytes(MIB))
    return bytes(compressor.finish())

block = bytes(cramjam.snappy.compress_raw(bytes(MIB)))
bombs = {
    Codec.GZIP: [stream(cramjam.gzip.Compressor())],
    Codec.LZ4: [stream(cramjam.lz4.Compressor(block_linked=False))],
    Codec.ZSTD: [
        stream(cramjam.zstd.Compressor()),
        compress(Codec.ZSTD, bytes(2 * MIB)) * 256,
        b"\\x28\\xb5\\x2f\\xfd\\x00\\x88" + b"\\x02\\x00\\x10a" * 4096 + b"\\x03\\x00\\x10a",
    ],
    Codec.SNAPPY: [
        compress(Codec.SNAPPY, b"") + (len(block).to_bytes(4, "big") + block) * 512,
        b"\\xff\\xff\\xff\\xff\\x0f" + block,
    ],
}
sys.stdout.write(f"{len(bombs)} codecs, peak before {peak_kib()} KiB\\n")
for codec, packed in bombs.items():
    for data in packed:
        before = peak_kib()
        try:
            decompress(codec, data, LIMIT)
        except ApiError as error:
            assert error.code is ErrorCode.INVALID_RECORD, error
            assert "more than" in str(error), (codec, error)
        else:
            raise SystemExit(f"{codec.label} went off")
        grown = peak_kib() - before
        sys.stdout.write(f"{codec.label} {len(data)} bytes: {grown} KiB\\n")
        assert grown < 48 * 1024, (codec, grown)
"""


def test_bombs_of_half_a_gibibyte_cost_no_more_memory_than_about_the_limit():
    # In a process of its own, because the peak of this one says nothing; 512 MiB against a limit of 16.
    done = subprocess.run(
        [sys.executable, "-c", BOMBS], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 codecs" in done.stdout
