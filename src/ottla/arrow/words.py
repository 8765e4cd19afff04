"""Bytes to numbers, for all records at once: unaligned 64-bit loads, and varints as bit operations.

`Words` is a buffer seen as one 64-bit word per byte position. A load of eight bytes costs about twice a
load of one, and most fields of a record fit into a word or two, so that a varint is a few arithmetic
operations on whole columns.

Rules: a position is int64 and at most `size`; the buffer has eight bytes to spare behind that. A varint
whose end is not where its kind allows is `Malformed`; lengths are not judged here.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ottla.records.record import VARINT_BYTES_MAX, VARLONG_BYTES_MAX

Ints: TypeAlias = npt.NDArray[np.int64]
Unsigned: TypeAlias = npt.NDArray[np.uint64]

SPARE_BYTES = 16
_WORD_BYTES = 8

_GOES_ON = np.uint64(0x80)
_ENDS = np.uint64(0x8080_8080_8080_8080)
_SEVEN = np.uint64(0x7F)
_SECOND_SEVEN = np.uint64(0x3F80)
_BITS = np.uint64(0x7F7F_7F7F_7F7F_7F7F)
_ONE = np.uint64(1)
# Three folds bring eight groups of 7 bits together: pairs to 14, fours to 28, all to 56.
_FOLDS = tuple(
    (np.uint64(keep), np.uint64(move), np.uint64(shift))
    for keep, move, shift in (
        (0x007F_007F_007F_007F, 0x7F00_7F00_7F00_7F00, 1),
        (0x0000_3FFF_0000_3FFF, 0x3FFF_0000_3FFF_0000, 2),
        (0x0000_0000_0FFF_FFFF, 0x0FFF_FFFF_0000_0000, 4),
    )
)


class Malformed(Exception):  # noqa: N818  (the caller says where, and makes an error of it)
    """The records are not what their batch says they are."""


class Words:
    """`buffer` holds `size` bytes and at least SPARE_BYTES more."""

    def __init__(self, buffer: npt.NDArray[np.uint8], size: int) -> None:
        self.buffer = buffer
        self.size = size
        count = len(buffer) - _WORD_BYTES + 1
        self._words: Unsigned = np.ndarray(count, dtype="<u8", buffer=buffer.data, strides=(1,))

    def at(self, positions: Ints) -> Unsigned:
        return self._words[positions]

    def bytes_at(self, positions: Ints) -> npt.NDArray[np.uint8]:
        return self.buffer[positions]


class Cursor:
    """Reads one varint after the other in every record; loads a word only when the last one is used up."""

    def __init__(self, words: Words, at: Ints) -> None:
        self._words = words
        self.at = at
        self._word = words.at(at)
        self._left = _WORD_BYTES

    def varint(self) -> Ints:
        """A zigzag varint of at most five bytes, which every position now stands behind."""
        if self._left < VARINT_BYTES_MAX:
            self.move(self.at)
        raw, size = _decode(self._word)
        self._step(size, VARINT_BYTES_MAX)
        return _zigzag(raw)

    def varlong(self) -> Ints:
        """A zigzag varint of at most ten bytes. More than eight is a time far away: rare, and read slowly."""
        if self._left < _WORD_BYTES:
            self.move(self.at)
        if not np.any(self._word & _ENDS == _ENDS):
            raw, size = _decode(self._word)
            self._step(size, _WORD_BYTES)
            return _zigzag(raw)
        value, sizes = _long(self._words, self.at)
        self.move(self.at + sizes)
        return value

    def move(self, at: Ints) -> None:
        """Go to other positions, which the caller knows to be inside the buffer."""
        self.at = at
        self._word = self._words.at(at)
        self._left = _WORD_BYTES

    def _step(self, size: "Unsigned | int", bytes_max: int) -> None:
        widest = size if isinstance(size, int) else int(size.max())
        if widest > bytes_max:
            raise Malformed("a variable-length integer is too long")
        self._left -= widest
        if isinstance(size, int):
            self.at = self.at + size
            self._word = self._word >> np.uint64(8 * size)
        else:
            self.at = self.at + size.view(np.int64)
            self._word = self._word >> (size << np.uint64(3))


def _decode(word: Unsigned) -> tuple[Unsigned, Unsigned | int]:
    """The varint in the low bytes of each word, and its size: one number where it is one byte for all."""
    more = word & _GOES_ON
    if not more.any():
        return word & _SEVEN, 1
    if not (more & (word >> np.uint64(8))).any():
        two = more >> np.uint64(7)
        return (word & _SEVEN) | ((word >> _ONE) & (two * _SECOND_SEVEN)), two + _ONE
    return _decode_any(word)


def _decode_any(word: Unsigned) -> tuple[Unsigned, Unsigned]:
    """Up to eight bytes. A word without an end counts as nine, which nobody allows."""
    ends = ~word & _ENDS
    below = (
        ends & (~ends + _ONE)
    ) - _ONE  # all bits below that of the last byte's flag; all, if there is none
    size = (np.bitwise_count(below).astype(np.uint64) + _ONE) >> np.uint64(3)
    size[ends == 0] = _WORD_BYTES + 1
    raw = word & below & _BITS
    for keep, move, shift in _FOLDS:
        raw = (raw & keep) | ((raw & move) >> shift)
    return raw, size


def _zigzag(raw: Unsigned) -> Ints:
    return ((raw >> _ONE) ^ (~(raw & _ONE) + _ONE)).view(np.int64)


def _long(words: Words, at: Ints) -> tuple[Ints, Ints]:
    """Byte by byte, for varints of any size up to ten bytes."""
    raw = np.zeros(len(at), dtype=np.uint64)
    size = np.zeros(len(at), dtype=np.int64)
    rows = np.arange(len(at))
    for nth in range(VARLONG_BYTES_MAX):
        byte = words.bytes_at(at[rows] + nth).astype(np.uint64)
        raw[rows] |= (byte & _SEVEN) << np.uint64(7 * nth)
        size[rows] += 1
        if nth == VARLONG_BYTES_MAX - 1 and np.any(byte > 1):
            break
        rows = rows[byte >= _GOES_ON]
        if not len(rows):
            return _zigzag(raw), size
    raise Malformed("a variable-length integer is too long")
