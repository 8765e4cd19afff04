"""Where the one frame of a compressed body ends, found by stepping over its blocks without opening them.

Consumers differ in what they make of a body that goes on after its first frame: some read all frames, some
the first, some fail for good. No producer writes one, so none is taken in. The same goes for linked LZ4
blocks, which the Java client cannot read.

Nothing is believed here either: a block that leaves the body ends the walk, and so do more blocks than any
encoder would make.
"""

from struct import Struct

from ottla.base.files import Buffer

_LZ4_MAGIC = 0x184D2204
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_RLE = 1
_BLOCKS_MIN = 64
_BYTES_PER_BLOCK = 16

_UINT32 = Struct("<I")


def lz4_fault(data: Buffer) -> str | None:
    """What keeps `data` from being one frame of independent blocks, as far as can be seen from outside."""
    if len(data) < 7 or _UINT32.unpack_from(data)[0] != _LZ4_MAGIC:
        return "it does not begin with a frame"
    flags = data[4]
    if not flags & 0x20:
        return "its blocks are linked"
    at = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    checksum = 4 if flags & 0x10 else 0
    for _ in range(_BLOCKS_MIN + len(data) // _BYTES_PER_BLOCK):
        if at + 4 > len(data):
            return "it is cut off"
        size = _UINT32.unpack_from(data, at)[0] & 0x7FFFFFFF
        at += 4
        if not size:
            return _trailing(data, at + (4 if flags & 0x04 else 0))
        at += size + checksum
    return "it has too many blocks"


def zstd_fault(data: Buffer) -> str | None:
    """What keeps `data` from being one zstd frame, as far as can be seen from outside."""
    if len(data) < 5 or _UINT32.unpack_from(data)[0] != _ZSTD_MAGIC:
        return "it does not begin with a frame"
    flags = data[4]
    is_single_segment = bool(flags & 0x20)
    at = 5 + (not is_single_segment) + (0, 1, 2, 4)[flags & 3] + (int(is_single_segment), 2, 4, 8)[flags >> 6]
    for _ in range(_BLOCKS_MIN + len(data) // _BYTES_PER_BLOCK):
        if at + 3 > len(data):
            return "it is cut off"
        block = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        at += 3 + (1 if block >> 1 & 3 == _ZSTD_RLE else block >> 3)
        if block & 1:
            return _trailing(data, at + (4 if flags & 0x04 else 0))
    return "it has too many blocks"


def _trailing(data: Buffer, end: int) -> str | None:
    if end == len(data):
        return None
    return "it is cut off" if end > len(data) else f"{len(data) - end} bytes follow its first frame"
