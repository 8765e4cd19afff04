"""Slices of a buffer to an Arrow array, copied once, by Arrow.

A `binary_view` array (16 bytes a row: the length, then either up to 12 bytes of content or where the
content is) is laid over the buffer with numpy, and Arrow's cast to `binary` does the copying.

Arrow arrays are made of buffers here: `pa.array` and `pa.scalar` load pandas, if it is installed, and that
takes a worker a third of a second.

Not obvious: a view of long content also has its first four bytes, for comparisons. The cast does not look
at them, nobody else sees the views, and so they stay zero.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.arrow.words import Ints, Unsigned, Words

_INLINE_BYTES_MAX = 12
_ONE = np.uint64(1)
_THIRTY_TWO = np.uint64(32)


def gather(words: Words, at: Ints, length: Ints) -> Any:
    """A binary array of `length` bytes from each position; a negative length is null."""
    if not len(at):
        return pa.nulls(0, pa.binary())
    longest, shortest = int(length.max()), int(length.min())
    nulls = shortest < 0
    size = np.maximum(length, 0) if nulls else length
    views = np.zeros((len(at), 2), dtype=np.uint64)
    views[:, 0] = size.view(np.uint64)
    if shortest > _INLINE_BYTES_MAX:
        views[:, 1] = at.view(np.uint64) << _THIRTY_TWO
    else:
        if shortest < longest or longest > 0:
            _put_inline(words, views, at, size)
        if longest > _INLINE_BYTES_MAX:
            long = size > _INLINE_BYTES_MAX
            views[long, 0] = size[long].view(np.uint64)
            views[long, 1] = at[long].view(np.uint64) << _THIRTY_TWO
    valid = pa.py_buffer(np.packbits(length >= 0, bitorder="little")) if nulls else None
    buffers = [valid, pa.py_buffer(views), pa.py_buffer(words.buffer)]
    return pa.Array.from_buffers(pa.binary_view(), len(at), buffers).cast(pa.binary())


def column_of(values: npt.NDArray[Any], kind: Any) -> Any:
    """A column of numbers, not copied."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def strings(texts: Sequence[str]) -> Any:
    """A few strings."""
    pieces = [text.encode() for text in texts]
    offsets = np.zeros(len(pieces) + 1, dtype=np.int32)
    np.cumsum([len(piece) for piece in pieces], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(pieces))]
    return pa.Array.from_buffers(pa.string(), len(pieces), buffers)


def repeated(text: str, count: int) -> Any:
    """One string so many times."""
    piece = text.encode()
    offsets = np.arange(0, len(piece) * count + 1, len(piece), dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(piece * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _put_inline(words: Words, views: Unsigned, at: Ints, size: Ints) -> None:
    """Four bytes of content beside the length, eight after it, and nothing behind them."""
    word = words.at(at) & _mask(np.minimum(size, 8))
    views[:, 0] |= word << _THIRTY_TWO
    longest = int(size.max())
    if longest > 8:
        views[:, 1] = words.at(np.minimum(at + 4, words.size)) & _mask(np.clip(size - 4, 0, 8))
    elif longest > 4:
        views[:, 1] = word >> _THIRTY_TWO


def _mask(size: Ints) -> Unsigned:
    """So many low bytes; a shift by all 64 bits gives 0 in numpy, and 0 - 1 is all of them."""
    return (_ONE << (size.view(np.uint64) << np.uint64(3))) - _ONE
