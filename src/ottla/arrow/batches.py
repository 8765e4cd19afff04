"""Arrow columns to record batches, without a Python object per record.

The opposite of `columns`. numpy makes the short pieces between keys and values (`varints`), and Arrow
joins them with keys and values row by row: the data buffer of the result *is* the body of a batch.

Rules. A batch is at most `bytes_max` bytes before it is compressed, unless a single record is larger: then
it is alone in its batch, and the broker says what it thinks of it. Rows keep their order. Sequences count
up from `base_sequence`, over all batches, and after 2^31 - 1 comes 0.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.arrow.partitioner import as_binary, binary_buffers
from ottla.arrow.slices import column_of, strings
from ottla.arrow.varints import RAW_MAX, ZERO, Pieces, Varints, counted, varints, zigzag
from ottla.arrow.words import Ints
from ottla.base.files import Buffer
from ottla.records.batch import (
    HEADER_SIZE,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    SEQUENCES,
    TRANSACTIONAL,
    BatchHeader,
)
from ottla.records.builder import encode_record, seal, varint
from ottla.records.compression import Codec
from ottla.records.record import read_varint

BATCH_BYTES_MAX = 1_000_000  # brokers take 1 MiB and a little, unless told otherwise
TOGETHER_BYTES_MAX = 2 << 20  # more leaves the processor's cache
_ATTRIBUTES_BYTES = np.uint64(1)
_FIXED_BYTES = 1 + 5  # attributes, and the longest length
_NO_HEADERS, _NOTHING = strings(["\0", ""]).cast(pa.binary())
_Portion: TypeAlias = tuple[int, int]
_T = TypeVar("_T", bound=np.generic)


class EncodedBatch(NamedTuple):
    """A whole record batch, to be produced as it is, and how many records it has."""

    bytes: Buffer
    records: int


def encode(
    value: Any,
    key: Any = None,
    headers: Any = None,
    timestamp_ms: Any = 0,
    *,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    bytes_max: int = BATCH_BYTES_MAX,
) -> Iterator[EncodedBatch]:
    """`headers` is list<struct<key: string, value: binary>>; `timestamp_ms` one time, or one for each row.

    Batches are made as they are asked for, about TOGETHER_BYTES_MAX at a time: who is done with one before
    the next has its memory used again.
    """
    rows = _Rows(as_binary(value), None if key is None else as_binary(key), _tails(headers), timestamp_ms)
    for (first, last), body in rows.bodies(bytes_max):
        header = BatchHeader(
            base_offset=0,
            length=0,
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=TRANSACTIONAL if is_transactional else 0,
            last_offset_delta=last - first - 1,
            base_timestamp=int(_some(rows.time, first, last)[0]),
            max_timestamp=int(_some(rows.time, first, last).max()),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence if base_sequence < 0 else (base_sequence + first) % SEQUENCES,
            count=last - first,
        )
        yield EncodedBatch(seal(header, body, codec), last - first)


class _Rows:
    def __init__(self, value: Any, key: Any, tail: Any, timestamp_ms: Any) -> None:
        count = len(value)
        self.value, self.key, self.tail = value, key, tail
        self.time: Ints = np.atleast_1d(np.asarray(timestamp_ms, dtype=np.int64))
        times = None if len(self.time) == 1 else self.time
        for name, column in (("key", key), ("headers", tail), ("timestamp", times)):
            if column is not None and len(column) != count:
                raise ValueError(f"{count} values, but {len(column)} of {name}")
        value_size, key_size, tail_size = (
            _sizes(value),
            np.full(1, -1, dtype=np.int64) if key is None else _sizes(key),
            np.ones(1, dtype=np.int64) if tail is None else _sizes(tail),
        )
        self._value_size, self._key_size = varints(zigzag(value_size)), varints(zigzag(key_size))
        # What stands behind the length, but for attributes and the two deltas.
        self._inner = (
            (self._key_size.size + self._value_size.size).view(np.int64)
            + np.maximum(key_size, 0)
            + np.maximum(value_size, 0)
            + tail_size
        )

    def bodies(self, bytes_max: int) -> Iterator[tuple[_Portion, Any]]:
        """The rows of each batch, and its body. Many are made at once, so that small ones cost no more."""
        portions: list[_Portion] = []
        size = 0
        for portion, most in self._portions(bytes_max):
            if portions and size + most > TOGETHER_BYTES_MAX:
                yield from self._together(portions)
                portions, size = [], 0
            portions.append(portion)
            size += most
        if portions:
            yield from self._together(portions)

    def _portions(self, bytes_max: int) -> Iterator[tuple[_Portion, int]]:
        """First and last row of a batch, and its bytes at most: deltas are counted as long as they can be."""
        count = len(self.value)
        if not count:
            return
        span = int(self.time.max()) - int(self.time.min())
        deltas = 2 * max(min(count, bytes_max // 7), 1), 2 * span + 1
        extra = _FIXED_BYTES + sum(max(1, -(-raw.bit_length() // 7)) for raw in deltas)
        after = np.cumsum(np.broadcast_to(self._inner + extra, count))
        first = before = 0
        while first < count:
            last = int(np.searchsorted(after, before + bytes_max - HEADER_SIZE, side="right"))
            last = max(last, first + 1)
            end = int(after[last - 1])
            yield (first, last), end - before
            first, before = last, end

    def _together(self, portions: list[_Portion]) -> Iterator[tuple[_Portion, Any]]:
        start, stop = portions[0][0], portions[-1][1]
        count = stop - start
        sizes = [last - first for first, last in portions]
        raw_time = zigzag(self._time_deltas(portions))
        if int(raw_time.max()) >= RAW_MAX:
            yield from ((portion, self._slow_body(*portion)) for portion in portions)
            return
        time, delta = varints(raw_time), counted(sizes)
        inner = _some(self._inner, start, stop) + (time.size + delta.size + _ATTRIBUTES_BYTES).view(np.int64)
        head = Pieces()
        head.put(varints(zigzag(inner)))
        head.put(ZERO)  # the attributes
        head.put(time)
        head.put(delta)
        head.put(Varints(*(_some(part, start, stop) for part in self._key_size)))
        parts = head.parts()
        if self.key is not None:
            parts.append(_filled(self.key.slice(start, count)))
        middle = Pieces()
        middle.put(Varints(*(_some(part, start, stop) for part in self._value_size)))
        parts += middle.parts()
        parts.append(_filled(self.value.slice(start, count)))
        parts.append(_NO_HEADERS if self.tail is None else self.tail.slice(start, count))
        offsets, joined = pc.binary_join_element_wise(*parts, _NOTHING).buffers()[1:]
        ends = np.frombuffer(offsets, dtype=np.int32)[np.cumsum(sizes)].tolist()
        for portion, at, end in zip(portions, [0, *ends[:-1]], ends, strict=True):
            yield portion, memoryview(joined)[at:end]

    def _time_deltas(self, portions: list[_Portion]) -> Ints:
        """How much later each record is than the first of its batch."""
        if len(self.time) == 1:
            return np.zeros(1, dtype=np.int64)
        return np.concatenate([self.time[first:last] - self.time[first] for first, last in portions])

    def _slow_body(self, first: int, last: int) -> bytes:
        """Times that are half a year apart in one batch need more bytes than the fast way has."""
        count = last - first
        values = self.value.slice(first, count).to_pylist()
        keys = repeat(None, count) if self.key is None else self.key.slice(first, count).to_pylist()
        tails = repeat(b"\0", count) if self.tail is None else self.tail.slice(first, count).to_pylist()
        times = self._time_deltas([(first, last)]).tolist()
        body = bytearray()
        for delta, (key, value, tail, time) in enumerate(zip(keys, values, tails, times, strict=True)):
            record = encode_record(delta, time, key, value, ())
            # All but the length before it and the number of headers behind it, which is none.
            inner = record[read_varint(record, 0)[1] : -1] + tail
            body += varint(len(inner)) + inner
        return bytes(body)


def _some(column: npt.NDArray[_T], first: int, last: int) -> npt.NDArray[_T]:
    """Some rows of a column. One element stands for all rows."""
    return column if len(column) == 1 else column[first:last]


def _sizes(column: Any) -> Ints:
    """The length of every row, -1 for a null; one length, if it is that of all."""
    offsets, _ = binary_buffers(column)
    size: Ints = np.diff(offsets)
    if column.null_count:
        size[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return size[:1] if len(size) and np.all(size == size[0]) else size


def _filled(column: Any) -> Any:
    """A null has a length of its own and no bytes."""
    return pc.fill_null(column, _NOTHING) if column.null_count else column


def _tails(headers: Any) -> Any:
    """Each record's headers as they are encoded, their number before them; None if there are none at all."""
    if headers is None:
        return None
    if isinstance(headers, pa.ChunkedArray):
        headers = headers.combine_chunks()
    count = np.nan_to_num(pc.list_value_length(headers).to_numpy(zero_copy_only=False)).astype(np.int64)
    if not count.any():
        return None
    flat = headers.flatten()
    key, value = as_binary(pc.struct_field(flat, "key")), as_binary(pc.struct_field(flat, "value"))
    if flat.null_count or key.null_count:
        raise ValueError("a header needs a key")
    key_piece, value_piece, count_piece = Pieces(), Pieces(), Pieces()
    key_piece.put(varints(zigzag(_sizes(key))))
    value_piece.put(varints(zigzag(_sizes(value))))
    count_piece.put(varints(zigzag(count)))
    parts = (*key_piece.parts(), key, *value_piece.parts(), _filled(value))
    encoded = pc.binary_join_element_wise(*parts, _NOTHING)
    offsets = np.zeros(len(count) + 1, dtype=np.int32)
    np.cumsum(count, out=offsets[1:])
    lists = pa.ListArray.from_arrays(column_of(offsets, pa.int32()), encoded)
    return pc.binary_join_element_wise(*count_piece.parts(), pc.binary_join(lists, _NOTHING), _NOTHING)
