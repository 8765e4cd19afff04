"""Numbers to bytes, for all records at once: varints put side by side into one short piece per record.

A piece is at most twelve bytes, because that is what an Arrow `binary_view` holds in place. Two 64-bit
words per record collect it, and Arrow's cast to `binary` packs the pieces, so that no byte is moved by
numpy.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from ottla.spark.columns_words import Ints, Unsigned

PIECE_BYTES_MAX = 12
RAW_MAX = 1 << 35  # what five bytes hold
_SEVEN = 0x7F
_ONE = np.uint64(1)
_GOES_ON = np.uint64(0x8080_8080)


def zigzag(value: Ints) -> Unsigned:
    return ((value << 1) ^ (value >> 63)).view(np.uint64)


def varint_size(raw: Unsigned) -> Ints:
    """The bytes of each number as a varint, of numbers below RAW_MAX."""
    size = np.ones(len(raw), dtype=np.int64)
    most, bits = int(raw.max(initial=0)), 7
    while most >> bits:
        size += raw >= np.uint64(1 << bits)
        bits += 7
    return size


class Pieces:
    """The bytes of every record up to its next key or value; `arrays` gives them, in one array or several."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._done: list[Any] = []
        self._clear()

    def _clear(self) -> None:
        self._low = np.zeros(self._count, dtype=np.uint64)
        self._high = np.zeros(self._count, dtype=np.uint64)
        self._used = np.zeros(self._count, dtype=np.int64)
        self._widest = 0

    def put_zero(self) -> None:
        """The attributes: one zero byte."""
        self._room(1)
        self._used = self._used + 1

    def put(self, raw: Unsigned) -> Ints:
        """A varint for each record; how many bytes each took."""
        size = varint_size(raw)
        widest = int(size.max(initial=0))
        self._room(widest)
        spread = raw & np.uint64(_SEVEN)
        for nth in range(1, widest):
            spread |= (raw & np.uint64(_SEVEN << 7 * nth)) << np.uint64(nth)
        if widest > 1:
            spread |= _GOES_ON & ((_ONE << ((size - 1) << 3).view(np.uint64)) - _ONE)
        bits = (self._used << 3).view(np.uint64)
        self._low |= spread << bits  # numpy shifts everything out where there are 64 bits or more
        if self._widest > 8:
            self._high |= np.where(
                bits < 64, spread >> (np.uint64(64) - bits), spread << (bits - np.uint64(64))
            )
        self._used = self._used + size
        return size

    def _room(self, size: int) -> None:
        if self._widest + size > PIECE_BYTES_MAX:
            self._finish()
        self._widest += size

    def _finish(self) -> None:
        thirty_two = np.uint64(32)
        views = np.empty((self._count, 2), dtype=np.uint64)
        views[:, 0] = self._used.view(np.uint64) | (self._low << thirty_two)
        views[:, 1] = (self._low >> thirty_two) | (self._high << thirty_two)
        buffers = [None, pa.py_buffer(views)]
        self._done.append(pa.Array.from_buffers(pa.binary_view(), self._count, buffers).cast(pa.binary()))
        self._clear()

    def arrays(self) -> list[Any]:
        self._finish()
        return self._done
