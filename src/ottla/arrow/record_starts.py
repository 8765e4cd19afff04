"""Where records begin: what can only be read from front to back, found from all sides at once.

A record begins with its length, so that strictly each must be read to know where the next one is; a plain
loop does that for about 6 M records/s. But its second field, the attributes, is always a zero byte, and a
record without headers ends with one. So every place that looks like the border of two records is collected
with a few comparisons of the whole buffer, and then *proved*: the first candidate is where the first record
begins, every candidate ends where the next one begins, the last ends where the batch does, and there are as
many as there are records. What is not proved, because of payloads full of zeros or because of headers, is
found by the loop.
"""

from itertools import repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.arrow.words import Cursor, Ints, Malformed, Words
from ottla.records.check import RECORD_BYTES_MIN

_LENGTH_MIN = RECORD_BYTES_MIN - 1
_LENGTH_MAX = 1 << 30
_FALSE_MAX = 3  # candidates per record, beyond which looking closer costs more than the loop
_ROUNDS = 3
_BLOCK_BYTES = 1 << 17
_LOOP_BELOW = 32  # so few records are found faster by the loop


class RecordBounds(NamedTuple):
    """Of every record: where its length stands, where its attributes do, and where it ends."""

    starts: Ints
    attributes: Ints
    ends: Ints


def record_starts(words: Words, first: int, count: int) -> RecordBounds:
    """The places of `count` records from `first` to the end of the buffer."""
    if words.size - first < count * RECORD_BYTES_MIN or count <= 0:
        raise Malformed(f"{count} records do not fit into {words.size - first} bytes")
    if count >= _LOOP_BELOW:
        body = words.buffer[first : words.size]
        bounds = _proved(words, first, count, _borders(body, first, count))
        if bounds is None:
            bounds = _proved(words, first, count, _anything(body, first, count))
        if bounds is not None:
            return bounds
    starts = _walk(bytes(words.buffer[: words.size]), first, count)
    cursor = Cursor(words, starts)
    cursor.varint()
    return RecordBounds(starts, cursor.at, np.append(starts[1:], words.size))


def _borders(body: npt.NDArray[np.uint8], first: int, count: int) -> Ints:
    """Every place after a zero byte, and the first, with a zero byte where attributes can be.

    In blocks that stay in the processor's cache.
    """
    starts = [np.array([first], dtype=np.int64)]
    zero = np.empty(_BLOCK_BYTES + 4, dtype=np.bool_)
    near = np.empty(_BLOCK_BYTES, dtype=np.bool_)
    total, stop = 0, len(body) - 4
    for at in range(0, stop, _BLOCK_BYTES):
        size = min(_BLOCK_BYTES, stop - at)
        np.equal(body[at : at + size + 4], 0, out=zero[: size + 4])
        hit = near[:size]
        np.logical_or(zero[2 : size + 2], zero[3 : size + 3], out=hit)
        np.logical_or(hit, zero[4 : size + 4], out=hit)
        np.logical_and(hit, zero[:size], out=hit)
        starts.append(np.flatnonzero(hit) + (first + 1 + at))
        total += len(starts[-1])
        if total > _FALSE_MAX * count:
            break  # payloads full of zeros
    return np.concatenate(starts)


def _anything(body: npt.NDArray[np.uint8], first: int, count: int) -> Ints:
    """Every place where a length can stand right before a zero byte: for records that end with headers."""
    zeros = np.flatnonzero(body[1:] == 0) + 1
    if len(zeros) > 2 * _FALSE_MAX * count:
        return zeros[:0]
    before = zeros - 1
    before = before[body[before] < 0x80]
    for _ in range(2):
        goes_on = body[np.maximum(before - 1, 0)] >= 0x80
        before = before - (goes_on & (before > 0))
    return np.unique(np.append(before + first, first))


def _proved(words: Words, first: int, count: int, candidates: Ints) -> RecordBounds | None:
    """The candidates that are records, if that can be shown; else None."""
    if not count <= len(candidates) <= _FALSE_MAX * count + 1:
        return None
    cursor = Cursor(words, candidates)
    try:
        length = cursor.varint()
    except Malformed:
        return None  # not of a record, or the loop will say so
    ends = cursor.at + length
    good = (length >= _LENGTH_MIN) & (ends <= words.size) & (words.bytes_at(cursor.at) == 0)
    bounds = RecordBounds(candidates, cursor.at, ends)
    if not good.all():
        bounds = RecordBounds(*(column[good] for column in bounds))
    for _ in range(_ROUNDS):
        if len(bounds.starts) <= count:
            break
        reached = np.zeros(words.size + 1, dtype=np.bool_)
        reached[bounds.ends] = True
        reached[first] = True
        good = reached[bounds.starts]
        bounds = RecordBounds(*(column[good] for column in bounds))
    starts, _, ends = bounds
    if len(starts) != count or starts[0] != first or ends[-1] != words.size:
        return None
    return bounds if np.array_equal(starts[1:], ends[:-1]) else None


def _walk(data: bytes, at: int, count: int) -> Ints:
    """One record after the other."""
    starts = [0] * count
    end = len(data)
    try:
        for nth, _ in enumerate(repeat(None, count)):
            starts[nth] = at
            byte = data[at]
            if byte < 0x80:
                length, at = byte, at + 1
            else:
                length, shift, at = byte & 0x7F, 7, at + 1
                while True:
                    byte = data[at]
                    at += 1
                    length |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                    shift += 7
            if length & 1 or not 2 * _LENGTH_MIN <= length <= _LENGTH_MAX:
                raise Malformed(f"a record cannot have {length >> 1} bytes")
            at += length >> 1
    except IndexError:
        raise Malformed(f"{count} records do not fit into {end} bytes") from None
    if at != end:
        raise Malformed(f"{count} records take {at} of {end} bytes")
    return np.array(starts, dtype=np.int64)
