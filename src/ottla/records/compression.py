"""The four codecs of Kafka, each in the framing that Kafka's clients read and write.

gzip    as the standard has it
snappy  written in the Java client's "xerial" framing (magic, two versions, length-prefixed blocks); read is
        either that or one raw block, which is what several other clients write
lz4     the LZ4 frame format with independent blocks, because the Java client refuses linked ones
zstd    frames, with or without their content size

Rule: `decompress` believes nothing it is told about sizes. Room for the output grows with what really comes
out and stops at `limit`, so a bomb costs about `limit` bytes of memory and the time to fill them. Only snappy
must say its size beforehand, and is held to what its input can possibly expand to.

A body is one frame, or gzip member. Several in a row are read where they are on a disk, since they were taken
in once, and refused where `single` asks for it.

Over the limit and damaged are both INVALID_RECORD: the batch passed its checksum, so sending it again, which
is what CORRUPT_MESSAGE invites a client to do, cannot help. (Kafka answers UNKNOWN_SERVER_ERROR to most
damaged streams, by accident of the exception it throws.)
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct

import cramjam

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import Buffer
from ottla.records.frames import lz4_fault, zstd_fault

DECOMPRESSED_BYTES_MAX = 64 << 20

_ROOM_MIN = 1 << 14
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 << 10
_SNAPPY_RATIO_MAX = 32  # three bytes can ask for at most 64
_GZIP_WBITS = 31
_LZ4_LEVEL_DEFAULT = 9
_LZ4_LEVEL_MAX = 12
_LEVELS = {"gzip": (-1, 9), "lz4": (1, 17), "zstd": (-131072, 22)}
# What Rust's standard library says when a fixed output is full; cramjam passes it on and has no other sign.
_OUTPUT_IS_FULL = "failed to write whole buffer"

_INT32 = Struct(">i")


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_id(cls, number: int) -> "Codec":
        """The codec in a batch's attributes, of which 5 to 7 do not exist."""
        if number > cls.ZSTD:
            raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"There is no compression codec {number}.")
        return _CODECS[number]

    @classmethod
    def from_name(cls, name: str) -> "Codec":
        """The codec a configuration names; ValueError for a name that is none."""
        try:
            return cls[name.upper()]
        except KeyError:
            raise ValueError(f"{name!r} is not a compression codec") from None

    @property
    def label(self) -> str:
        """Kafka's name for it."""
        return self.name.lower()


_CODECS = tuple(Codec)
CODEC_NAMES = tuple(codec.label for codec in _CODECS)


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """`data` in the codec's framing; `level` as in Kafka's compression.<codec>.level."""
    if level is not None and codec.label in _LEVELS:
        low, high = _LEVELS[codec.label]
        if not low <= level <= high:
            raise ValueError(f"{codec.label} has levels from {low} to {high}, not {level}")
    return _COMPRESSORS[codec](data, level)


def _compress_none(data: Buffer, _level: int | None) -> bytes:
    return bytes(data)


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    return zlib.compress(data, -1 if level is None else level, wbits=_GZIP_WBITS)


def _compress_snappy(data: Buffer, _level: int | None) -> bytes:
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    # Kafka's default level, 9, means the fast compressor; every other level the slow one.
    effort = 0 if level in (None, _LZ4_LEVEL_DEFAULT) else min(level or 0, _LZ4_LEVEL_MAX)
    compressor = cramjam.lz4.Compressor(level=effort, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def _compress_zstd(data: Buffer, level: int | None) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=level))


class OverLimitError(ApiError):
    """There is more in a body than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            ErrorCode.INVALID_RECORD, f"The batch holds more than {limit} bytes when decompressed."
        )


def decompress(
    codec: Codec, data: Buffer, limit: int = DECOMPRESSED_BYTES_MAX, *, single: bool = False
) -> Buffer:
    """What `data` holds, or INVALID_RECORD if that is damaged or more than `limit` bytes; also, if `single`,
    when it is more than one frame."""
    if single and codec is Codec.GZIP:
        return _decompress_member(data, limit)
    if single and codec in _FAULTS and (fault := _FAULTS[codec](data)) is not None:
        raise _damaged(codec, fault)
    return _DECOMPRESSORS[codec](data, limit)


def _decompress_none(data: Buffer, limit: int) -> Buffer:
    if len(data) > limit:
        raise OverLimitError(limit)
    return data


def _decompress_gzip(data: Buffer, limit: int) -> Buffer:
    return _grow(Codec.GZIP, cramjam.gzip.decompress_into, data, limit)


def _decompress_member(data: Buffer, limit: int) -> Buffer:
    member = zlib.decompressobj(_GZIP_WBITS)
    try:
        content = member.decompress(data, limit + 1)
    except zlib.error as error:
        raise _damaged(Codec.GZIP, error) from None
    if len(content) > limit:
        raise OverLimitError(limit)
    if not member.eof:
        raise _damaged(Codec.GZIP, "it is cut off")
    if member.unused_data:
        raise _damaged(Codec.GZIP, f"{len(member.unused_data)} bytes follow its first member")
    return content


def _decompress_snappy(data: Buffer, limit: int) -> Buffer:
    view = memoryview(data)
    blocks = _xerial_blocks(view) if view[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC else [view]
    try:
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
        if sum(sizes) > limit:
            raise OverLimitError(limit)
        for block, size in zip(blocks, sizes, strict=True):
            if size > _SNAPPY_RATIO_MAX * len(block):
                raise _damaged(Codec.SNAPPY, f"{len(block)} bytes cannot hold {size}")
        output = bytearray(sum(sizes))
        room = memoryview(output)
        for block, size in zip(blocks, sizes, strict=True):
            cramjam.snappy.decompress_raw_into(block, room)
            room = room[size:]
    except cramjam.DecompressionError as error:
        raise _damaged(Codec.SNAPPY, error) from None
    return output


def _xerial_blocks(view: memoryview) -> list[memoryview]:
    blocks, at = [], len(_XERIAL_HEADER)
    while at < len(view):
        start = at + _INT32.size
        at = start + (_INT32.unpack_from(view, at)[0] if start <= len(view) else 0)
        if not start < at <= len(view):
            raise _damaged(Codec.SNAPPY, "a block's length does not fit")
        blocks.append(view[start:at])
    return blocks


def _decompress_lz4(data: Buffer, limit: int) -> Buffer:
    return _grow(Codec.LZ4, cramjam.lz4.decompress_into, data, limit)


def _decompress_zstd(data: Buffer, limit: int) -> Buffer:
    return _grow(Codec.ZSTD, cramjam.zstd.decompress_into, data, limit)


def _grow(codec: Codec, into: Callable[[Buffer, bytearray], int], data: Buffer, limit: int) -> Buffer:
    """Decompress into a room of fixed size, and try again in one four times larger when it proves too small.

    The failed tries together do a third of the work of the last one.
    """
    room = min(max(4 * len(data), _ROOM_MIN), limit)
    while True:
        output = bytearray(room)
        try:
            written = into(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _OUTPUT_IS_FULL:
                raise _damaged(codec, error) from None
            if room >= limit:
                raise OverLimitError(limit) from None
            room = min(room * 4, limit)
            continue
        del output[written:]
        return output


def _damaged(codec: Codec, reason: object) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_RECORD, f"The batch's {codec.label} data cannot be decompressed: {reason}."
    )


_COMPRESSORS: dict[Codec, Callable[[Buffer, int | None], bytes]] = {
    Codec.NONE: _compress_none,
    Codec.GZIP: _compress_gzip,
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: _compress_zstd,
}
_FAULTS = {Codec.LZ4: lz4_fault, Codec.ZSTD: zstd_fault}
_DECOMPRESSORS: dict[Codec, Callable[[Buffer, int], Buffer]] = {
    Codec.NONE: _decompress_none,
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}
