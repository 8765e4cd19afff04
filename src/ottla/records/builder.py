"""New batches: from records, or from a batch whose body is closed again with another codec.

Rules: what is built is complete, with its checksum, and is the caller's own bytearray, to be patched in place
by `batch.assign`. Records keep the order they are given in.

Not obvious: a batch with a delete horizon keeps that time in its base timestamp, and its records' timestamps
are relative to it like to any other base (KIP-534).
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from ottla.base.files import Buffer
from ottla.records.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    set_crc,
)
from ottla.records.compression import Codec, compress
from ottla.records.record import Headers

_NULL = b"\x01"


class NewRecord(NamedTuple):
    """A record that has no place in a log yet."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int = NO_TIMESTAMP


def build_batch(
    records: Sequence[NewRecord | tuple[bytes | None, bytes | None, Headers, int]],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    offset_deltas: Sequence[int] | None = None,
    last_offset_delta: int | None = None,
) -> bytearray:
    """A batch of `records`.

    `offset_deltas` and `last_offset_delta` are for a batch with holes, as compaction leaves it; without them
    the deltas are 0, 1, 2 and so on.
    """
    deltas = range(len(records)) if offset_deltas is None else offset_deltas
    if last_offset_delta is None:
        last_offset_delta = deltas[-1] if records else 0
    times = [record[3] for record in records] or [NO_TIMESTAMP]
    base_timestamp = times[0] if delete_horizon_ms is None else delete_horizon_ms
    attributes = (
        (LOG_APPEND_TIME if log_append_time_ms is not None else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
        | (DELETE_HORIZON if delete_horizon_ms is not None else 0)
        | codec
    )
    body = bytearray()
    for delta, (key, value, headers, timestamp) in zip(deltas, records, strict=True):
        body += encode_record(delta, timestamp - base_timestamp, key, value, headers)
    packed = body if codec is Codec.NONE else compress(codec, body, level)
    newest = max(times) if log_append_time_ms is None else log_append_time_ms
    batch = bytearray(
        HEADER.pack(
            base_offset, HEADER_SIZE - LOG_OVERHEAD + len(packed), leader_epoch, MAGIC, 0, attributes,
            last_offset_delta, base_timestamp, newest, producer_id, producer_epoch, base_sequence,
            len(records),
        )
    )  # fmt: skip
    batch += packed
    set_crc(batch)
    return batch


def build_plain(key: bytes, value: bytes, timestamp: int) -> bytearray:
    """As `build_batch` of one record without headers, of no producer: it takes a third of the time."""
    fields = b"\0\0\0" + varint(len(key)) + key + varint(len(value)) + value + b"\0"
    record = varint(len(fields)) + fields
    batch = bytearray(
        HEADER.pack(
            0, HEADER_SIZE - LOG_OVERHEAD + len(record), -1, MAGIC, 0, 0, 0, timestamp, timestamp,
            NO_PRODUCER_ID, -1, NO_SEQUENCE, 1,
        )
    )  # fmt: skip
    batch += record
    set_crc(batch)
    return batch


def seal(header: BatchHeader, body: Buffer, codec: Codec, level: int | None = None) -> bytearray:
    """A batch with this header and uncompressed body; length, codec and checksum are set to fit."""
    packed = body if codec is Codec.NONE else compress(codec, body, level)
    batch = bytearray(HEADER_SIZE)
    attributes = header.attributes & ~CODEC_MASK | codec
    length = HEADER_SIZE - LOG_OVERHEAD + len(packed)
    HEADER.pack_into(batch, 0, header[0], length, *header[2:5], attributes, *header[6:])
    batch += packed
    set_crc(batch)
    return batch


def of_producer(batch: Buffer, producer_id: int, producer_epoch: int, base_sequence: int) -> bytearray:
    """A copy of a batch in a log, as this producer would have sent it: the records stay as they are, also
    compressed, and what the broker had written into the header is gone."""
    copy = bytearray(batch)
    header = read_header(copy)._replace(
        base_offset=0,
        leader_epoch=-1,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    HEADER.pack_into(copy, 0, *header._replace(attributes=header.attributes & ~LOG_APPEND_TIME))
    set_crc(copy)
    return copy


def encode_record(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Headers = ()
) -> bytes:
    fields = b"".join((
        b"\x00", varint(timestamp_delta), varint(offset_delta),
        _NULL if key is None else varint(len(key)) + key,
        _NULL if value is None else varint(len(value)) + value,
        encode_headers(headers) if headers else b"\x00",
    ))  # fmt: skip
    return varint(len(fields)) + fields


def encode_headers(headers: Headers) -> bytes:
    """How many there are, and each of them."""
    parts = [varint(len(headers))]
    for name, content in headers:
        parts += _field(name.encode("utf-8", "surrogateescape"))
        parts += _field(content)
    return b"".join(parts)


def _field(content: bytes | None) -> tuple[bytes, ...]:
    return (_NULL,) if content is None else (varint(len(content)), content)


def varint(value: int) -> bytes:
    """A zigzag varint, of an int32 or an int64 alike."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    if rest < 128:
        return _ONE_BYTE[rest]
    if rest < 16_384:
        return _pack_two_bytes(rest & 127 | 128 | rest << 1 & 0x7F00)
    encoded = bytearray()
    while rest > 127:
        encoded.append(rest & 127 | 128)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


_pack_two_bytes = struct.Struct("<H").pack
_ONE_BYTE = tuple(bytes((number,)) for number in range(128))
