"""Record batches to Arrow columns, without a Python object per record.

`decode` collects the bodies of batches, decompressed, into one buffer of about 32,768 records, and works on
columns of that: where records begin (`record_starts`), their fields (`words`), keys and values
(`slices`). What was tried and measured is in docs/design/004-arrow.md.

The columns are those of Spark's Kafka connector. Control batches and aborted transactions are left out, and
so is what lies outside the range: a batch is given out whole by the broker, not by the offset.

Rules. Checksums are checked. Nothing in the bytes is believed before it is compared with what surrounds it:
damaged ones are an `ApiError` that says which offset, never a row that is not there.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.arrow.headers import HEADER_TYPE, read_headers
from ottla.arrow.record_starts import record_starts
from ottla.arrow.slices import column_of, gather, repeated, strings
from ottla.arrow.words import SPARE_BYTES, Cursor, Ints, Malformed, Words
from ottla.base.errors import ApiError
from ottla.base.files import Buffer
from ottla.base.ids import TopicPartition
from ottla.records.batch import BatchHeader
from ottla.records.fetched import Fetched
from ottla.records.record import open_body
from ottla.records.visible import damaged, seen

ROWS = 32_768  # of a RecordBatch at least, but the last; twice as many leave the cache (design note 004)
GROUP_BYTES_MAX = 64 << 20
BODY_BYTES_MAX = 512 << 20  # of one batch, decompressed

TIMESTAMP = pa.timestamp("us", "UTC")
_MS_MAX = (1 << 63) // 1000 - 1
_LOG_APPEND_TIME = 1


def schema(*, include_headers: bool = False, columns: Sequence[str] | None = None) -> Any:
    """The connector's columns, or those of them that are asked for, in the order they are asked for."""
    fields = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": TIMESTAMP,
        "timestampType": pa.int32(),
    }
    if include_headers:
        fields["headers"] = HEADER_TYPE
    for name in columns or ():
        if name not in fields:
            hint = "; it takes includeHeaders" if name == "headers" else f": there are {', '.join(fields)}"
            raise ValueError(f"there is no column {name!r}{hint}")
    return pa.schema([(name, fields[name]) for name in (fields if columns is None else columns)])


class Part(NamedTuple):
    """What is wanted of one partition: the records from `start` up to, not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int


def decode(
    chunks: Iterable[Fetched | Buffer],
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    include_headers: bool = False,
    columns: Sequence[str] | None = None,
) -> Iterator[Any]:
    """RecordBatches of the records of one partition from `start` up to, not including, `end`."""
    parts = [(Part(topic, partition, start, end), chunks)]
    return decode_parts(parts, include_headers=include_headers, columns=columns)


def decode_parts(
    parts: Iterable[tuple[Part, Iterable[Fetched | Buffer]]],
    *,
    include_headers: bool = False,
    columns: Sequence[str] | None = None,
) -> Iterator[Any]:
    """RecordBatches of what is wanted. Small parts share one, as a RecordBatch costs what a thousand rows
    do. The chunks of a part are asked for when all parts before it are done."""
    wanted = schema(include_headers=include_headers, columns=columns)
    group = _Group()
    for part, chunks in parts:
        for header, batch in seen(_topic_partition(part), chunks):
            if header.next_offset <= part.start or not header.count:
                continue
            if header.base_offset >= part.end:
                break
            group.add(part, header, batch)
            if group.rows >= ROWS or group.size >= GROUP_BYTES_MAX:
                yield from group.take(wanted)
    if group.rows:
        yield from group.take(wanted)


class _Run(NamedTuple):
    """Records that have one batch's numbers."""

    part: Part
    header: BatchHeader
    at: int


class _Group:
    """Bodies one after the other, and which batch each came from."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._bodies: list[Buffer] = []
        self._runs: list[_Run] = []
        self.size = 0
        self.rows = 0

    def add(self, part: Part, header: BatchHeader, batch: memoryview) -> None:
        try:
            body = open_body(batch, header, limit=BODY_BYTES_MAX)
        except ApiError as error:
            raise damaged(_topic_partition(part), header, str(error)) from None
        self._bodies.append(body)
        self._runs.append(_Run(part, header, self.size))
        self.size += len(body)
        self.rows += header.count

    def take(self, wanted: Any) -> Iterator[Any]:
        """Columns of all that was added. If something is wrong in it, the batch that it is in is named."""
        runs, bodies = self._runs, self._bodies
        joined = np.frombuffer(b"".join((*bodies, bytes(SPARE_BYTES))), dtype=np.uint8)
        words = Words(joined, self.size)
        self._clear()
        try:
            columns = _Columns(words, runs)
        except Malformed as error:
            if len(runs) > 1:
                yield from _one_by_one(runs, bodies, wanted)
                return
            raise damaged(_topic_partition(runs[0].part), runs[0].header, str(error)) from None
        for rows in columns.rows():
            try:
                yield columns.batch(rows, wanted)
            except Malformed as error:
                raise damaged(_topic_partition(runs[0].part), runs[0].header, str(error)) from None


def _one_by_one(runs: list[_Run], bodies: list[Buffer], wanted: Any) -> Iterator[Any]:
    """A group with something wrong in it again, batch by batch, to find out which it is."""
    for run, body in zip(runs, bodies, strict=True):
        single = _Group()
        single._bodies, single._runs = [body], [run._replace(at=0)]
        single.size, single.rows = len(body), run.header.count
        yield from single.take(wanted)
    raise AssertionError("the batches of a malformed group are all well-formed")


class _Columns:
    """The numbers of every record, and where its key, value and headers are."""

    def __init__(self, words: Words, runs: list[_Run]) -> None:
        self._words = words
        self._parts = [run.part for run in runs]
        headers = [run.header for run in runs]
        self._counts = counts = np.array([header.count for header in headers], dtype=np.int64)
        if np.any(counts < 0):
            raise Malformed("a batch says that it has fewer than no records")
        total = int(counts.sum())
        starts, attributes, self._ends = record_starts(words, 0, total)
        firsts = np.cumsum(counts) - counts
        if np.any(starts[firsts] != np.array([run.at for run in runs], dtype=np.int64)):
            raise Malformed("the records of a batch take more or less than its bytes")
        cursor = Cursor(words, attributes + 1)
        time_delta = cursor.varlong()
        delta = cursor.varint()
        self._key_size = cursor.varint()
        self._key_at = cursor.at
        self._value_size, self._value_at = self._value(cursor)
        self._spread(headers, counts, firsts, delta, time_delta)

    def _value(self, cursor: Cursor) -> tuple[Ints, Ints]:
        """The value's length and place. Positions only grow, so inside the record once is inside for good."""
        after_key = cursor.at + np.maximum(self._key_size, 0)
        if np.any(after_key >= self._ends):
            raise Malformed("a key is longer than its record")
        cursor.move(after_key)
        size = cursor.varint()
        self._headers_at = cursor.at + np.maximum(size, 0)
        if np.any(self._headers_at >= self._ends):
            raise Malformed("a value is longer than its record")
        plain = self._words.bytes_at(self._headers_at) == 0
        if np.any(plain & (self._headers_at + 1 != self._ends)):
            raise Malformed("a record does not end where its fields do")
        return size, cursor.at

    def _spread(
        self, headers: list[BatchHeader], counts: Ints, firsts: Ints, delta: Ints, time_delta: Ints
    ) -> None:
        """Offsets, times and their types: what a batch says, for each of its records."""

        def spread(of: Callable[[BatchHeader], int]) -> Ints:
            return np.repeat(np.array([of(header) for header in headers], dtype=np.int64), counts)

        rising = np.ones(len(delta), dtype=np.bool_)
        np.greater(delta[1:], delta[:-1], out=rising[1:])
        rising[firsts] = delta[firsts] >= 0
        if not rising.all() or np.any(delta > spread(lambda header: header.last_offset_delta)):
            raise Malformed("the offsets of records do not rise inside of their batch")
        self.offset = spread(lambda header: header.base_offset) + delta
        self._time = spread(lambda header: header.base_timestamp) + time_delta
        appended = [header.is_log_append_time for header in headers]
        self._time_type = np.repeat(np.array(appended, dtype=np.int32) * _LOG_APPEND_TIME, counts)
        if any(appended):
            stamp = spread(lambda header: header.max_timestamp)
            self._time = np.where(self._time_type == _LOG_APPEND_TIME, stamp, self._time)
        if np.any((self._time > _MS_MAX) | (self._time < -_MS_MAX)):
            raise Malformed("a timestamp is farther away than Arrow can tell")

    def rows(self) -> Iterator[slice | Ints]:
        """The rows that are wanted, some at a time: all of them but at the ends of parts."""
        if self._parts[0] == self._parts[-1]:  # parts come one after the other
            first, last = np.searchsorted(self.offset, self._parts[0][2:]).tolist()
        else:
            bounds = (self._each(lambda part: part.start), self._each(lambda part: part.end))
            inside = (self.offset >= bounds[0]) & (self.offset < bounds[1])
            if not inside.all():
                rows = np.flatnonzero(inside)
                yield from (rows[at : at + ROWS * 2] for at in range(0, len(rows), ROWS * 2))
                return
            first, last = 0, len(inside)
        yield from (slice(at, min(at + ROWS * 2, last)) for at in range(first, last, ROWS * 2))

    def _each(self, of: Callable[[Part], int]) -> Ints:
        """A number of its part for every record."""
        return np.repeat(np.array([of(part) for part in self._parts], dtype=np.int64), self._counts)

    def batch(self, rows: slice | Ints, wanted: Any) -> Any:
        make: dict[str, Callable[[], Any]] = {
            "key": lambda: gather(self._words, self._key_at[rows], self._key_size[rows]),
            "value": lambda: gather(self._words, self._value_at[rows], self._value_size[rows]),
            "topic": lambda: self._topics(rows),
            "partition": lambda: self._partitions(rows),
            "offset": lambda: column_of(self.offset[rows], pa.int64()),
            "timestamp": lambda: column_of(self._time[rows] * 1000, TIMESTAMP),
            "timestampType": lambda: column_of(self._time_type[rows], pa.int32()),
            "headers": lambda: read_headers(self._words, self._headers_at[rows], self._ends[rows]),
        }
        arrays = [make[name]() for name in wanted.names]
        return pa.RecordBatch.from_arrays(arrays, schema=wanted)

    def _partitions(self, rows: slice | Ints) -> Any:
        return column_of(self._each(lambda part: part.partition)[rows].astype(np.int32), pa.int32())

    def _topics(self, rows: slice | Ints) -> Any:
        names = list(dict.fromkeys(part.topic for part in self._parts))
        if len(names) == 1:
            return repeated(names[0], len(self.offset[rows]))
        nth = {name: number for number, name in enumerate(names)}
        indices = column_of(self._each(lambda part: nth[part.topic])[rows], pa.int64())
        return pa.DictionaryArray.from_arrays(indices, strings(names)).cast(pa.string())


def _topic_partition(part: Part) -> TopicPartition:
    return TopicPartition(part.topic, part.partition)
