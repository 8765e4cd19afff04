"""Reading: what happens in a worker, and batch reads as a whole.

A worker fetches raw record batches and hands Arrow columns to Spark; there is no Python object per record.
Gaps in the offsets are not looked at: compaction and transactions leave them, and nothing is lost by them.
Loss is an offset that a log no longer has, or has not any more.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ottla.arrow.columns import Part, decode_parts
from ottla.base.errors import ApiError, ErrorCode
from ottla.client import Begun, Client, ClientError, Fetched, OffsetOutOfRange, TopicPartition
from ottla.records.batch import read_header
from ottla.spark import errors
from ottla.spark.clients import client, reached
from ottla.spark.errors import DataLoss, briefly
from ottla.spark.filters import Bounds, push
from ottla.spark.offsets import Offsets
from ottla.spark.options import ReadOptions
from ottla.spark.plan import Range, Ranges, plan
from ottla.spark.positions import ByOffset, resolve
from ottla.spark.topics import Subscribed

log = logging.getLogger(__name__)

RANGES_AT_ONCE = 256  # of which the first batches are asked for in one request
GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


def lose(options: ReadOptions, loss: DataLoss) -> None:
    """Fail the query, or say what it goes on without."""
    if options.fail_on_data_loss:
        raise loss
    log.warning("%s (the query goes on: failOnDataLoss is false)", loss)


def read_rows(
    options: ReadOptions, columns: list[str], partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """The rows of one task. Spark gives an input partition without ranges when a plan has none."""
    if not isinstance(partition, Ranges):
        return iter(())
    return _decoded(options, columns, partition)


def _decoded(options: ReadOptions, columns: list[str], task: Ranges) -> Iterator[pa.RecordBatch]:
    parts = _parts(options, task.ranges)
    try:
        yield from decode_parts(parts, include_headers=options.include_headers, columns=columns)
    except ApiError as error:  # damaged records
        raise ClientError(str(error), error.code) from None


def _parts(options: ReadOptions, ranges: Sequence[Range]) -> Iterator[tuple[Part, "Chunks"]]:
    begun: dict[TopicPartition, Begun] = {}
    for nth, range_ in enumerate(ranges):
        if nth % RANGES_AT_ONCE == 0 and len(ranges) > 1:
            begun = _begin(options, ranges[nth : nth + RANGES_AT_ONCE])
        at = range_.start
        while at < range_.end:
            chunks = Chunks(options, range_, at, begun.pop(range_.topic_partition, None))
            yield Part(range_.topic, range_.partition, at, range_.end), chunks
            at = chunks.after


def _begin(options: ReadOptions, ranges: Sequence[Range]) -> dict[TopicPartition, Begun]:
    """The first batches of many ranges. A partition of which there are two pieces is not asked for."""
    count = Counter(range_.topic_partition for range_ in ranges)
    return client(options.where).fetch_together(
        {range_.topic_partition: range_.start for range_ in ranges if count[range_.topic_partition] == 1},
        read_committed=options.read_committed,
        max_bytes=options.fetch_bytes,
    )


class Chunks:
    """The record batches of a range from `start` on, up to its end or to where something is lost.

    `after` is what to go on with: the end of the range, or the first offset behind what was lost.
    """

    def __init__(self, options: ReadOptions, whole: Range, start: int, begun: Begun | None = None) -> None:
        self._options = options
        self._whole = whole
        self._start = start
        self._begun = begun
        self.after = whole.end

    def __iter__(self) -> Iterator[Fetched]:
        if self._begun is not None:
            (fetched, self._start), self._begun = self._begun, None
            yield fetched
            if self._start >= self._whole.end:
                return
        last: Fetched | None = None
        try:
            for last in client(self._options.where).fetch(
                self._whole.topic_partition,
                self._start,
                self._whole.end,
                read_committed=self._options.read_committed,
                max_bytes=self._options.fetch_bytes,
            ):
                yield last
        except OffsetOutOfRange as error:
            at = _after(last, self._start)
            if error.start is not None and error.start > at:
                self.after = min(self._whole.end, error.start)
            self._lose(at, _why(error, self.after))
        except ClientError as error:
            if error.code not in GONE:
                raise
            self._lose(_after(last, self._start), "the topic or partition was deleted")

    def _lose(self, at: int, why: str) -> None:
        lose(
            self._options,
            errors.not_readable(self._whole.topic_partition, at, self.after, why, self._options.group),
        )


def _after(fetched: Fetched | None, otherwise: int) -> int:
    """The offset after the last batch of a chunk."""
    if fetched is None:
        return otherwise
    at, after = 0, otherwise
    while at < len(fetched.records):
        header = read_header(fetched.records, at)
        at, after = at + header.size, header.next_offset
    return after


def _why(error: OffsetOutOfRange, again: int) -> str:
    if error.start is not None and error.start >= again:
        return f"the log starts at offset {error.start} now (retention, or DeleteRecords)"
    return f"the log ends at offset {error.end} now (it was cut back, or the topic was created again)"


def still_there(source: Client, options: ReadOptions, ranges: Iterable[Range]) -> list[Range]:
    """The ranges, each from where its log begins; what is missing is a loss."""
    wanted = [range_ for range_ in ranges if range_.size > 0]
    if not wanted:
        return []
    try:
        starts = source.starts([range_.topic_partition for range_ in wanted])
    except ClientError as error:
        if error.code not in GONE:
            raise
        partitions = source.partitions({range_.topic for range_ in wanted})
        gone = {
            range_.topic_partition
            for range_ in wanted
            if range_.partition not in partitions.get(range_.topic, [])
        }
        if gone:
            lose(options, errors.partitions_deleted(gone))
        wanted = [range_ for range_ in wanted if range_.topic_partition not in gone]
        starts = source.starts([range_.topic_partition for range_ in wanted])
    kept = []
    for range_ in wanted:
        start = starts[range_.topic_partition]
        if start > range_.start:
            until = min(start, range_.end)
            why = f"the log starts at offset {start} now (retention, or DeleteRecords)"
            lose(
                options, errors.not_readable(range_.topic_partition, range_.start, until, why, options.group)
            )
            range_ = replace(range_, start=until)
        kept.append(range_)
    return kept


class BatchReader(DataSourceReader):
    """One read of what is there now, between two positions."""

    def __init__(self, options: ReadOptions, columns: list[str]) -> None:
        self.options = options
        self.columns = columns
        self.bounds = Bounds()

    @briefly
    def partitions(self) -> list[InputPartition]:
        options = self.options
        source = reached(options.where)
        topic_partitions = Subscribed(source, options.subscription).must_exist()
        starts, ends = (
            resolve(
                source, position, topic_partitions, is_start=is_start, read_committed=options.read_committed
            )
            for position, is_start in ((options.start, True), (options.end, False))
        )
        if isinstance(options.end, ByOffset):
            ends = self._in_the_log(source, ends)
        for topic_partition in sorted(starts):
            if starts[topic_partition] > ends[topic_partition]:
                raise errors.start_after_end(
                    topic_partition, starts[topic_partition], ends[topic_partition], resolved=True
                )
        ranges = [
            Range(*topic_partition, starts[topic_partition], ends[topic_partition])
            for topic_partition in sorted(starts)
        ]
        return list(plan(self._within(source, still_there(source, options, ranges)), options.split))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_rows(self.options, self.columns, partition)

    def _in_the_log(self, source: Client, ends: Offsets) -> Offsets:
        """Ends as they were asked for, if logs have that much: a task would wait for what is not there. What
        is in the log and belongs to an open transaction is waited for."""
        log_ends = source.ends(ends)
        for topic_partition in sorted(ends):
            if ends[topic_partition] > log_ends[topic_partition]:
                past = errors.end_after_log_end(
                    "endingOffsets", topic_partition, ends[topic_partition], log_ends[topic_partition]
                )
                if self.options.fail_on_data_loss:
                    raise past
                log.warning("%s", past)
        return {
            topic_partition: min(offset, log_ends[topic_partition])
            for topic_partition, offset in ends.items()
        }

    def _within(self, source: Client, ranges: list[Range]) -> list[Range]:
        """What the pushed filters leave of the ranges."""
        left = self.bounds.narrow(ranges)
        if self.bounds.time_ms_min is None or not left:
            return left
        times: dict[TopicPartition, int] = {
            range_.topic_partition: max(0, self.bounds.time_ms_min) for range_ in left
        }
        offsets = source.offsets_at(times)
        kept = []
        for range_ in left:
            start = offsets[range_.topic_partition]
            if start is not None and start < range_.end:
                kept.append(replace(range_, start=max(start, range_.start)))
        return kept


class FilteringReader(BatchReader):
    """A batch reader that takes filters. It is a class of its own because Spark refuses one that overrides
    `pushFilters` unless spark.sql.python.filterPushdown.enabled is set."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  (Spark's name)
        self.bounds, left = push(filters)
        return left
