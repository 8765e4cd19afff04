"""Record headers to list<struct<key: string, value: binary>>: the nth header of all records at once.

A record without headers has null, not an empty list, as in Spark's own connector. A key that is not UTF-8
has its bad bytes replaced, as Java does it.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from ottla.arrow.slices import gather
from ottla.arrow.words import Cursor, Ints, Malformed, Words

HEADER_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def read_headers(words: Words, at: Ints, ends: Ints) -> Any:
    """`at` is where the counts stand, `ends` where the records end, which the last headers must reach."""
    cursor = Cursor(words, at)
    count = cursor.varint()
    if np.any((count < 0) | (count > ends - cursor.at)):
        raise Malformed("a record has more headers than bytes")
    rows = np.flatnonzero(count)
    if np.any(cursor.at[count == 0] != ends[count == 0]):
        raise Malformed("a record does not end where its fields do")
    levels: list[tuple[Ints, Ints, Ints, Ints, Ints]] = []
    position, nth = cursor.at, 0
    while len(rows):
        fields, after = _nth(words, position[rows], ends[rows])
        levels.append((rows, *fields))
        position = position.copy() if nth == 0 else position
        position[rows] = after
        nth += 1
        done = count[rows] == nth
        if np.any(after[done] != ends[rows[done]]):
            raise Malformed("a record does not end where its headers do")
        rows = rows[~done]
    return _lists(words, count, levels)


def _nth(words: Words, at: Ints, ends: Ints) -> tuple[tuple[Ints, Ints, Ints, Ints], Ints]:
    """Where key and value of one header of each record are, and the place after them."""
    _inside(at, ends)
    cursor = Cursor(words, at)
    key_size = cursor.varint()
    key_at = cursor.at
    if np.any(key_size < 0):
        raise Malformed("a header has no key")
    _inside(key_at + key_size, ends)
    cursor.move(key_at + key_size)
    value_size = cursor.varint()
    after = cursor.at + np.maximum(value_size, 0)
    if np.any(after > ends):
        raise Malformed("a header is longer than its record")
    return (key_at, key_size, cursor.at, value_size), after


def _inside(at: Ints, ends: Ints) -> None:
    if np.any(at >= ends):
        raise Malformed("a header is longer than its record")


def _lists(words: Words, count: Ints, levels: list[tuple[Ints, Ints, Ints, Ints, Ints]]) -> Any:
    offsets = np.zeros(len(count) + 1, dtype=np.int32)
    np.cumsum(count, out=offsets[1:])
    if levels:
        rows, key_at, key_size, value_at, value_size = (
            np.concatenate(column) for column in zip(*levels, strict=True)
        )
        order = np.argsort(rows, kind="stable")
        keys = _text(gather(words, key_at[order], key_size[order]))
        values = gather(words, value_at[order], value_size[order])
    else:
        keys, values = pa.nulls(0, pa.string()), pa.nulls(0, pa.binary())
    content = pa.StructArray.from_arrays([keys, values], names=["key", "value"])
    valid = pa.py_buffer(np.packbits(count > 0, bitorder="little"))
    buffers = [valid, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(HEADER_TYPE, len(count), buffers, children=[content])


def _text(keys: Any) -> Any:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
