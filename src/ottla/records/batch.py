"""A record batch is a view over bytes: 61 bytes of header, then the records, compressed or not.

Rules: `read_header` trusts its caller for the 61 bytes; `split` is the door for bytes nobody has looked at
yet. The checksum (CRC-32C) covers everything from the attributes at byte 21 to the end, so `assign` may
overwrite base offset and leader epoch without touching it, and whoever changes anything else calls `set_crc`.

Not obvious: `last_offset_delta` is not `count - 1` once compaction has removed records, and an attribute can
name a codec that does not exist: `codec` then raises, the other properties never do.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import Buffer
from ottla.records.checksum import crc32c
from ottla.records.compression import Codec

HEADER_SIZE = 61
LOG_OVERHEAD = 12
MAGIC = 2
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
SEQUENCES = 1 << 31  # they wrap to 0
MAGIC_AT = 16

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_LENGTH_MIN = HEADER_SIZE - LOG_OVERHEAD
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35

HEADER = Struct(">qiibIhiqqqhii")
_OFFSET = Struct(">q")
_INT32 = Struct(">i")
_UINT32 = Struct(">I")
_INT16 = Struct(">h")
_unpack_header = HEADER.unpack_from


class BatchHeader(NamedTuple):
    """The 61 bytes, in their order."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody misses here

    @property
    def size(self) -> int:
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        return Codec.from_id(self.attributes & CODEC_MASK)

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` holds the time after which compaction may drop tombstones (KIP-534)."""
        return self.attributes & DELETE_HORIZON != 0

    @property
    def last_sequence(self) -> int:
        """The last record's sequence; after 2^31 - 1 comes 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % SEQUENCES


def read_header(view: Buffer, at: int = 0) -> BatchHeader:
    """The header at `at`; the caller has made sure that 61 bytes are there."""
    return tuple.__new__(BatchHeader, _unpack_header(view, at))


def size_of(view: Buffer) -> int:
    """How many bytes the batch at the start of `view` says it has."""
    (length,) = _INT32.unpack_from(view, 8)
    return int(length) + LOG_OVERHEAD


def crc_ok(view: Buffer, header: BatchHeader) -> bool:
    """Whether the checksum in `header` is that of the batch at the start of `view`."""
    checksum: int = crc32c(memoryview(view)[_ATTRIBUTES_AT : header.size])
    return checksum == header.crc


def set_crc(view: bytearray | memoryview) -> None:
    """Write the checksum of a view that holds exactly one batch."""
    _UINT32.pack_into(view, _CRC_AT, crc32c(memoryview(view)[_ATTRIBUTES_AT:]))


def assign(view: bytearray | memoryview, base_offset: int, leader_epoch: int, at: int = 0) -> None:
    """Give the batch at `at` its place in the log."""
    _OFFSET.pack_into(view, at, base_offset)
    _INT32.pack_into(view, at + LOG_OVERHEAD, leader_epoch)


def set_log_append_time(view: bytearray | memoryview, now_ms: int) -> None:
    """Stamp a view that holds exactly one batch; every record in it then has this time.

    The base timestamp stays what the producer wrote, as the records' deltas are relative to it.
    """
    (attributes,) = _INT16.unpack_from(view, _ATTRIBUTES_AT)
    _INT16.pack_into(view, _ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _OFFSET.pack_into(view, _MAX_TIMESTAMP_AT, now_ms)
    set_crc(view)


def set_max_timestamp(view: bytearray | memoryview, timestamp: int) -> None:
    """Correct the newest timestamp in a view that holds exactly one batch."""
    _OFFSET.pack_into(view, _MAX_TIMESTAMP_AT, timestamp)
    set_crc(view)


def split(records: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches of a records field, one after the other, each with a view of exactly its bytes.

    Nothing is copied, so the views are as writable as `records` is. Checked here: sizes and the magic byte,
    and nothing else. Kafka answers old formats with INVALID_RECORD in Produce v3 and later, and a magic byte
    or a size that cannot be with CORRUPT_MESSAGE.
    """
    view = memoryview(records)
    at, end = 0, len(view)
    while at < end:
        if end - at < HEADER_SIZE:
            raise _too_short(view[at:])
        header = read_header(view, at)
        if header.magic != MAGIC:
            raise _wrong_magic(header.magic)
        if header.length < _LENGTH_MIN:
            raise _corrupt(f"A batch length of {header.length} is below the minimum of {_LENGTH_MIN}.")
        stop = at + LOG_OVERHEAD + header.length
        if stop > end:
            raise _corrupt(f"A batch of {stop - at} bytes is cut off after {end - at}.")
        yield header, view[at:stop]
        at = stop


def _too_short(view: memoryview) -> ApiError:
    """Fewer bytes than a header: a batch that was cut off, or a message of an old format."""
    if len(view) > MAGIC_AT and view[MAGIC_AT] != MAGIC:
        return _wrong_magic(view[MAGIC_AT])
    return _corrupt(f"{len(view)} bytes are too few for a record batch.")


def _wrong_magic(magic: int) -> ApiError:
    if 0 <= magic < MAGIC:
        return ApiError(ErrorCode.INVALID_RECORD, f"Message format {magic} is not supported: only 2 is.")
    return _corrupt(f"Magic byte {magic} names no message format.")


def _corrupt(message: str) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, message)
