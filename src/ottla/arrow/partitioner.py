"""Which partition a key belongs to: Java's default partitioner, for a whole column.

The partition is murmur2 of the key's bytes, without its sign, modulo the number of partitions, so that
Spark and any other producer put a key into the same place. Rows without a key go to partitions in turn, in
runs: enough of them one after the other to fill a record batch, as Java's sticky partitioner does.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.arrow.words import Ints

RUN_ROWS_MIN = 1000
_SEED = 0x9747B28C
_M = np.uint32(0x5BD1E995)
_SIGN = np.uint32(0x7FFFFFFF)


def partition_of(keys: Any, count: int, *, turn: int = 0) -> npt.NDArray[np.int32]:
    """The partition of every row. `turn` is where runs of rows without a key begin: count it up."""
    if count <= 0:
        raise ValueError(f"a topic has at least one partition, not {count}")
    keys = as_binary(keys)
    partitions = ((murmur2(keys) & _SIGN) % np.uint32(count)).astype(np.int32)
    if keys.null_count:
        nulls = np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))
        run = max(RUN_ROWS_MIN, -(-len(nulls) // count))
        partitions[nulls] = (turn + np.arange(len(nulls)) // run) % count
    return partitions


def murmur2(keys: Any) -> npt.NDArray[np.uint32]:
    """Kafka's 32-bit murmur2 of every key; of a null it means nothing."""
    offsets, content = binary_buffers(keys)
    at, size = offsets[:-1], np.diff(offsets)
    hashed = (np.uint32(_SEED) ^ size.astype(np.uint32)).astype(np.uint32)
    padded = np.concatenate((content, np.zeros(4, dtype=np.uint8)))
    words = np.ndarray(len(padded) - 3, dtype="<u4", buffer=padded.data, strides=(1,))
    whole = size >> 2
    for nth in range(int(whole.max(initial=0))):
        rows: Any = slice(None) if nth < whole.min() else np.flatnonzero(whole > nth)
        mixed = words[at[rows] + 4 * nth] * _M
        mixed ^= mixed >> np.uint32(24)
        hashed[rows] = (hashed[rows] * _M) ^ (mixed * _M)
    rest = (size & 3).astype(np.uint32)
    if rest.any():
        mask = (np.uint32(1) << (rest << np.uint32(3))) - np.uint32(1)
        tail = words[at + (whole << 2)] & mask
        hashed = np.where(rest > 0, (hashed ^ tail) * _M, hashed)
    hashed ^= hashed >> np.uint32(13)
    hashed *= _M
    hashed ^= hashed >> np.uint32(15)
    return hashed


def as_binary(column: Any) -> Any:
    """A column of bytes or text, in one piece, as Arrow's `binary`."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column if column.type == pa.binary() else pc.cast(column, pa.binary())


def binary_buffers(column: Any) -> tuple[Ints, npt.NDArray[np.uint8]]:
    """Where each row begins, and the bytes; of a null the length is whatever Arrow left there."""
    _, offsets, content = column.buffers()
    if not len(column):
        return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.uint8)
    starts = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    bytes_ = np.frombuffer(content, dtype=np.uint8) if content is not None else np.zeros(0, dtype=np.uint8)
    return starts.astype(np.int64), bytes_
