"""What a batch holds: records, each a length and fields of variable-length integers (zigzag varints).

Three depths, each several times as dear as the one before it:

check_records       the lengths only: exactly `count` records cover the body. Done to every produced batch.
check_records_deep  every field of every record. Done to a batch that is opened anyway.
read_records        the records themselves.

Rules: a body is always the uncompressed one (`open_body` gives it). Whatever does not fit is INVALID_RECORD;
no length is believed before it is compared with the bytes that remain.

Not obvious: header keys are text, but nothing on the way makes a producer send UTF-8. They are decoded with
`surrogateescape`, and the builder encodes them the same way, so that any bytes survive a round trip. Kafka
takes every negative length of a key or value for null, and so do we.
"""

from collections.abc import Iterator
from itertools import repeat
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

# Attributes, timestamp delta, offset delta, key length, value length and header count: one byte each.
_RECORD_BYTES_MIN = 6
_VARINT_BYTES_MAX = 5
_VARLONG_BYTES_MAX = 10

_new = tuple.__new__  # half the price of calling a NamedTuple

_STEPS_MIN = 4
_STEPS_MAX = 256
_RUN_RECORDS_MIN = 32
_PLAIN_RECORDS_MAX = 128  # so few are walked faster than a run is found

# How far a length prefix of one byte, and the bytes of a prefix of two, move us. Whatever is not the ordinary
# prefix of an ordinary record moves us out of any body, which is noticed, and looked at again with care.
_OUT = 1 << 40
_ONE = tuple(
    1 + (byte >> 1) if byte >= 2 * _RECORD_BYTES_MIN and not byte & 1 else _OUT for byte in range(128)
)
_LOW = tuple(2 + (byte >> 1) - 64 if byte >= 128 and not byte & 1 else _OUT for byte in range(256))
_HIGH = tuple(byte << 6 if 0 < byte < 128 else _OUT for byte in range(256))


def check_records(body: Buffer, count: int) -> None:
    """Refuse a body that is not exactly `count` records, looking at nothing but their lengths.

    Records of one size often follow one another, and their length prefixes then lie a fixed stride apart. So
    this walks a few records one by one, and then counts in strided slices, at the speed of C, how many more
    begin with the prefix of the last. That proves of each what the plain walk would have found. Where sizes
    vary, the plain stretches grow, so that looking for runs in vain costs next to nothing.
    """
    at, left, steps = 0, count, count if count <= _PLAIN_RECORDS_MAX else _STEPS_MIN
    try:
        while left > 0:
            steps = min(steps, left)
            last, at = _walk_lengths(body, at, steps)
            left -= steps
            run = _run(body, last, at - last, left) if left else 0
            at += run * (at - last)
            left -= run
            steps = _STEPS_MIN if run >= _RUN_RECORDS_MIN else min(steps * 4, _STEPS_MAX)
    except IndexError:
        raise _invalid(f"{count} records do not fit into {len(body)} bytes") from None
    if at != len(body) or count < 0:
        raise _invalid(f"{count} records cover {at} of {len(body)} bytes")


def _walk_lengths(body: Buffer, at: int, count: int) -> tuple[int, int]:
    """Step over `count` records, at least one; where the last of them begins, and where it ends."""
    try:
        last = _leap(body, at, count - 1)
        end = _leap(body, last, 1)
    except IndexError:
        end = _OUT
    return (last, end) if end <= len(body) else _walk_lengths_with_care(body, at, count)


def _leap(body: Buffer, at: int, count: int) -> int:
    one, low, high = _ONE, _LOW, _HIGH
    for _ in repeat(None, count):
        first = body[at]
        if first < 128:
            at += one[first]
        else:
            at += low[first] + high[body[at + 1]]
    return at


def _walk_lengths_with_care(body: Buffer, at: int, count: int) -> tuple[int, int]:
    last = at
    for _ in range(count):
        last = at
        size, at = _varint(body, at)
        if size < _RECORD_BYTES_MIN:
            raise _invalid(f"a record of {size} bytes")
        at += size
    return last, at


def _run(body: Buffer, last: int, stride: int, left: int) -> int:
    """How many records of at most `left` follow the one at `last` with its length prefix of 1 or 2 bytes."""
    at = last + stride
    most = min(left, (len(body) - at) // stride)
    if most <= 0 or body[at] != body[last]:
        return 0
    prefixes = [bytes(body[last : last + 1])]
    if body[last] > 127:
        if body[last + 1] > 127:
            return 0
        prefixes.append(bytes(body[last + 1 : last + 2]))
    done, span = 0, _RUN_RECORDS_MIN
    while done < most:
        span = min(span, most - done)
        same = span
        for shift, prefix in enumerate(prefixes):
            column = bytes(body[at + shift : at + span * stride : stride])
            same = min(same, span - len(column.lstrip(prefix)))
        done += same
        if same < span:
            break
        at += span * stride
        span *= 4
    return done


def check_records_deep(body: Buffer, count: int) -> None:
    """Refuse a body that is not exactly `count` well-formed records with offset deltas 0, 1, 2 and so on."""
    for index, raw in enumerate(walk(body, count)):
        if raw[2] != index:
            raise _invalid(f"record {index} has offset delta {raw[2]}")


def open_body(
    batch: Buffer, header: BatchHeader | None = None, *, limit: int = DECOMPRESSED_BYTES_MAX
) -> Buffer:
    """The uncompressed records of a batch; a view into it, if it is not compressed."""
    header = header or read_header(batch)
    return decompress(header.codec, memoryview(batch)[HEADER_SIZE : header.size], limit)


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
            raise _invalid(f"offset delta {delta} after {before} in a batch that ends with {last}")
        before = delta
        timestamp = base_timestamp + time_delta if stamp is None else stamp
        records.append(_new(Record, (base + delta, timestamp, key, value, headers)))
    return records


def walk(body: Buffer, count: int) -> Iterator[RawRecord]:
    """Every record of a body with its place in it, each checked as it is reached.

    The place lets a caller keep or move a record's bytes without encoding it again.
    """
    if count < 0:
        raise _invalid(f"a batch of {count} records")
    return _walk(body if isinstance(body, bytes) else bytes(body), count)


def _walk(body: bytes, count: int) -> Iterator[RawRecord]:
    # One byte is by far the most common size of these varints, so that case is written out.
    at, end = 0, len(body)
    try:
        for _ in range(count):
            start = at
            size, at = _varint(body, at)
            stop = at + size
            if not at < stop <= end:
                raise _invalid(f"a record of {size} bytes where {end - at} remain")
            time_delta = body[at + 1]
            if time_delta < 128:
                time_delta = (time_delta >> 1) ^ -(time_delta & 1)
                at += 2
            else:
                time_delta, at = _varint(body, at + 1, _VARLONG_BYTES_MAX)
            delta = body[at]
            if delta < 128:
                delta = (delta >> 1) ^ -(delta & 1)
                at += 1
            else:
                delta, at = _varint(body, at)
            key, at = _bytes(body, at)
            value, at = _bytes(body, at)
            headers: Headers = ()
            if body[at]:
                headers, at = _headers(body, at, stop)
            else:
                at += 1
            # Positions only ever grow, so this one comparison proves every field to lie inside its record.
            if at != stop:
                raise _invalid(f"a record of {stop - start} bytes whose fields take {at - start}")
            yield start, stop, delta, time_delta, key, value, headers
    except IndexError:
        raise _invalid(f"{count} records do not fit into {end} bytes") from None
    if at != end:
        raise _invalid(f"{count} records cover {at} of {end} bytes")


def _headers(body: bytes, at: int, stop: int) -> tuple[Headers, int]:
    count, at = _varint(body, at)
    if not 0 <= count <= stop - at:
        raise _invalid(f"{count} headers in {stop - at} bytes")
    headers = []
    for _ in range(count):
        key, at = _bytes(body, at)
        if key is None:
            raise _invalid("a header without a key")
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
        size, at = _varint(body, at)
    if size < 0:
        return None, at
    stop = at + size
    return body[at:stop], stop


def _varint(body: Buffer, at: int, bytes_max: int = _VARINT_BYTES_MAX) -> tuple[int, int]:
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
            if value >> (32 if bytes_max == _VARINT_BYTES_MAX else 64):
                break
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise _invalid("a variable-length integer that is too long")


def _invalid(what: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, f"The batch is malformed: {what}.")
