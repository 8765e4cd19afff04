"""Numbers to bytes, for all records at once: varints put side by side into one short piece per record.

A piece is at most twelve bytes, because that is what an Arrow `binary_view` holds in place. Two 64-bit
words per record collect it, and Arrow's cast to `binary` packs the pieces, so that no byte is moved by
numpy.

A column of one element stands for all records: numpy spreads it. Times are mostly one time, and lengths are
often one length, so that the work on them is done once and not for every record.

Lengths and offsets are mostly below 2^15: their varints are looked up. Larger ones are computed.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.arrow.words import Ints, Unsigned

PIECE_BYTES_MAX = 12
RAW_MAX = 1 << 35  # what five bytes hold
_TABLE = 1 << 16
_SEVEN = 0x7F
_ONE = np.uint64(1)
_GOES_ON = np.uint64(0x8080_8080)


class Varints(NamedTuple):
    """The bytes of a varint for each record, lowest first in a word, and how many they are."""

    bytes: Unsigned
    size: Unsigned


def zigzag(value: Ints) -> Unsigned:
    return ((value << 1) ^ (value >> 63)).view(np.uint64)


def varints(raw: Unsigned) -> Varints:
    """Of numbers below RAW_MAX."""
    if int(raw.max(initial=0)) >= _TABLE:
        return _computed(raw)
    indices = raw.view(np.int64)
    return Varints(_LOOKED_UP.bytes.take(indices), _LOOKED_UP.size.take(indices))


def counted(sizes: Sequence[int]) -> Varints:
    """The offsets of records in their batches: each batch of `sizes` counts from 0."""
    if 2 * max(sizes) > _TABLE:
        return varints(zigzag(np.concatenate([np.arange(size, dtype=np.int64) for size in sizes])))
    return Varints(*(np.concatenate([column[: 2 * size : 2] for size in sizes]) for column in _LOOKED_UP))


def _computed(raw: Unsigned) -> Varints:
    size = np.ones(len(raw), dtype=np.uint64)
    most, bits = int(raw.max(initial=0)), 7
    while most >> bits:
        size += raw >= np.uint64(1 << bits)
        bits += 7
    spread = raw & np.uint64(_SEVEN)
    for nth in range(1, bits // 7):
        spread |= (raw & np.uint64(_SEVEN << 7 * nth)) << np.uint64(nth)
    spread |= _GOES_ON & ((_ONE << ((size - _ONE) << np.uint64(3))) - _ONE)
    return Varints(spread, size)


_LOOKED_UP = _computed(np.arange(_TABLE, dtype=np.uint64))
ZERO = Varints(np.zeros(1, dtype=np.uint64), np.ones(1, dtype=np.uint64))


class Pieces:
    """The bytes of every record up to its next key or value; `parts` gives them, in one array or several.

    Where they are the same for all records, a scalar is given in place of an array.
    """

    def __init__(self) -> None:
        self._done: list[Any] = []
        self._clear()

    def _clear(self) -> None:
        self._low = self._high = self._used = np.zeros(1, dtype=np.uint64)
        self._widest = 0

    def put(self, column: Varints) -> None:
        spread, size = column
        widest = int(size.max(initial=0))
        if self._widest + widest > PIECE_BYTES_MAX:
            self._finish()
        self._widest += widest
        if len(spread) > 1 or spread.any():
            bits = self._used << np.uint64(3)
            self._low = self._low | (spread << bits)  # numpy shifts everything out where there are 64 bits
            if self._widest > 8:
                over = np.where(bits < 64, spread >> (np.uint64(64) - bits), spread << (bits - np.uint64(64)))
                self._high = self._high | over
        self._used = self._used + size

    def _finish(self) -> None:
        thirty_two = np.uint64(32)
        count = len(self._low | self._used)
        views = np.empty((count, 2), dtype=np.uint64)
        views[:, 0] = self._used | (self._low << thirty_two)
        views[:, 1] = (self._low >> thirty_two) | (self._high << thirty_two)
        made = pa.Array.from_buffers(pa.binary_view(), count, [None, pa.py_buffer(views)]).cast(pa.binary())
        self._done.append(made[0] if count == 1 else made)
        self._clear()

    def parts(self) -> list[Any]:
        self._finish()
        return self._done
