"""What a batch holds: records, each a length and fields of variable-length integers (zigzag varints).

`read_records` gives the records of a batch, `walk` the records of a body with their places in it. Whether a
body is sound at all is asked much more often than what is in it: `check` does that faster.

Rules: a body is always the uncompressed one (`open_body` gives it). Whatever does not fit is INVALID_RECORD;
no length is believed before it is compared with the bytes that remain.

Not obvious: header keys are text, but nothing on the way makes a producer send UTF-8. They are decoded with
`surrogateescape`, and the builder encodes them the same way, so that any bytes survive a round trip. Kafka
takes every negative length of a key or value for null, and so do we.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import Buffer
from ottla.records.batch import HEADER_SIZE, BatchHeader, read_header
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, decompress

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


# Start and stop in the body, offset delta, timestamp delta, key, value, headers.
RawRecord: TypeAlias = tuple[int, int, int, int, bytes | None, bytes | None, Headers]

VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10

_new = tuple.__new__  # half the price of calling a NamedTuple


def open_body(
    batch: Buffer,
    header: BatchHeader | None = None,
    *,
    limit: int = DECOMPRESSED_BYTES_MAX,
    single: bool = False,
) -> Buffer:
    """The uncompressed records of a batch; a view into it, if it is not compressed. `single`: of one that is
    no more than one frame."""
    header = header or read_header(batch)
    return decompress(header.codec, memoryview(batch)[HEADER_SIZE : header.size], limit, single=single)


def read_records(
    batch: Buffer, header: BatchHeader | None = None, *, limit: int = DECOMPRESSED_BYTES_MAX
) -> list[Record]:
    """The records of a batch, which may lack some offsets if it was compacted."""
    header = header or read_header(batch)
    base, base_timestamp = header.base_offset, header.base_timestamp
    stamp = header.max_timestamp if header.is_log_append_time else None
    before, last = -1, header.last_offset_delta
    records = []
    body = open_body(batch, header, limit=limit)
    for _, _, delta, time_delta, key, value, headers in walk(body, header.count):
        if not before < delta <= last:
            raise malformed(f"offset delta {delta} after {before} in a batch that ends with {last}")
        before = delta
        timestamp = base_timestamp + time_delta if stamp is None else stamp
        records.append(_new(Record, (base + delta, timestamp, key, value, headers)))
    return records


def walk(body: Buffer, count: int) -> Iterator[RawRecord]:
    """Every record of a body with its place in it, each checked as it is reached.

    The place lets a caller keep or move a record's bytes without encoding it again.
    """
    if count < 0:
        raise malformed(f"a batch of {count} records")
    return _walk(body if isinstance(body, bytes) else bytes(body), count)


def _walk(body: bytes, count: int) -> Iterator[RawRecord]:
    # One byte is by far the most common size of these varints, so that case is written out.
    at, end = 0, len(body)
    try:
        for _ in range(count):
            start = at
            size, at = read_varint(body, at)
            stop = at + size
            if not at < stop <= end:
                raise malformed(f"a record of {size} bytes where {end - at} remain")
            time_delta = body[at + 1]
            if time_delta < 128:
                time_delta = (time_delta >> 1) ^ -(time_delta & 1)
                at += 2
            else:
                time_delta, at = read_varint(body, at + 1, VARLONG_BYTES_MAX)
            delta = body[at]
            if delta < 128:
                delta = (delta >> 1) ^ -(delta & 1)
                at += 1
            else:
                delta, at = read_varint(body, at)
            key, at = _bytes(body, at)
            value, at = _bytes(body, at)
            headers: Headers = ()
            if body[at]:
                headers, at = _headers(body, at, stop)
            else:
                at += 1
            # Positions only ever grow, so this one comparison proves every field to lie inside its record.
            if at != stop:
                raise malformed(f"a record of {stop - start} bytes whose fields take {at - start}")
            yield start, stop, delta, time_delta, key, value, headers
    except IndexError:
        raise malformed(f"{count} records do not fit into {end} bytes") from None
    if at != end:
        raise malformed(f"{count} records cover {at} of {end} bytes")


def _headers(body: bytes, at: int, stop: int) -> tuple[Headers, int]:
    count, at = read_varint(body, at)
    if not 0 <= count <= stop - at:
        raise malformed(f"{count} headers in {stop - at} bytes")
    headers = []
    for _ in range(count):
        key, at = _bytes(body, at)
        if key is None:
            raise malformed("a header without a key")
        value, at = _bytes(body, at)
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), at


def _bytes(body: bytes, at: int) -> tuple[bytes | None, int]:
    """A field with its length before it. That it stays inside its record is for the caller to see."""
    size = body[at]
    if size < 128:
        at += 1
        size = (size >> 1) ^ -(size & 1)
    else:
        size, at = read_varint(body, at)
    if size < 0:
        return None, at
    stop = at + size
    return body[at:stop], stop


def read_varint(body: Buffer, at: int, bytes_max: int = VARINT_BYTES_MAX) -> tuple[int, int]:
    byte = body[at]
    at += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift, stop = byte - 128, 7, at + bytes_max - 1
    while at < stop:
        byte = body[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value >> (32 if bytes_max == VARINT_BYTES_MAX else 64):
                break
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise malformed("a variable-length integer that is too long")


def malformed(what: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, f"The batch is malformed: {what}.")
