"""The keys of a batch's records, and where its records begin, without looking at the rest of them.

Compaction reads every record of a log, and this is what it costs: one step per record in Python, so the steps
are few. Lengths of one or two bytes are written out; whatever else occurs takes the slow way. The body is the
uncompressed one, and has passed its batch's checksum; it is still not believed: a field that leaves its
record is INVALID_RECORD.

Not obvious: the lowest bit of a zigzag varint's first byte is its sign, so one bit tells a null from a value
(Kafka takes every negative length for null).
"""

from itertools import repeat

from ottla.base.errors import ApiError, ErrorCode
from ottla.records.record import VARINT_BYTES_MAX


def keys_of(body: bytes, count: int) -> tuple[list[bytes | None], int]:
    """The key of each record, None for one without, and how many records have no value (tombstones)."""
    keys: list[bytes | None] = []
    add = keys.append
    at = tombstones = 0
    try:
        for _ in repeat(None, count):
            size = body[at]
            if size < 128:
                stop = at + 1 + (size >> 1)
                at += 2
            elif (high := body[at + 1]) < 128:
                stop = at + 2 + (high << 6) + ((size & 127) >> 1)
                at += 3
            else:
                size, at = _varint(body, at)
                stop = at + size
                at += 1
            while body[at] > 127:
                at += 1
            at += 1
            while body[at] > 127:
                at += 1
            size = body[at + 1]
            at += 2
            if size & 1:
                at = _after(body, at - 1)
                add(None)
            else:
                if size > 127:
                    size, at = _varint(body, at - 1)
                    size <<= 1
                end = at + (size >> 1)
                add(body[at:end])
                at = end
            if body[at] & 1:
                tombstones += 1
            if at >= stop:
                raise _malformed(f"the fields of record {len(keys) - 1} leave it")
            at = stop
    except IndexError:
        raise _malformed(f"{count} records do not fit into {len(body)} bytes") from None
    if at != len(body):
        raise _malformed(f"{count} records cover {at} of {len(body)} bytes")
    return keys, tombstones


def starts_of(body: bytes, count: int) -> list[int]:
    """Where each record begins, and where the last one ends."""
    starts = [0]
    add = starts.append
    at = 0
    try:
        for _ in repeat(None, count):
            size = body[at]
            if size < 128:
                at += 1 + (size >> 1)
            elif (high := body[at + 1]) < 128:
                at += 2 + (high << 6) + ((size & 127) >> 1)
            else:
                size, at = _varint(body, at)
                at += size
            add(at)
    except IndexError:
        at = -1
    if at != len(body):
        raise _malformed(f"{count} records do not cover {len(body)} bytes")
    return starts


def time_delta_of(body: bytes, start: int) -> int:
    """The timestamp delta of the record that begins at `start`."""
    at = _after(body, start) + 1
    byte = body[at]
    value, shift = byte & 127, 7
    while byte > 127:
        at += 1
        byte = body[at]
        value |= (byte & 127) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1)


def _after(body: bytes, at: int) -> int:
    while body[at] > 127:
        at += 1
    return at + 1


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """A length; one that is negative or too long is refused."""
    end = _after(body, at)
    value = 0
    for byte in reversed(body[at:end]):
        value = value << 7 | byte & 127
    if value & 1 or end - at > VARINT_BYTES_MAX:
        raise _malformed("a length that cannot be")
    return value >> 1, end


def _malformed(what: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, f"The batch is malformed: {what}.")
