"""Streaming reads: which offsets a micro-batch covers. All of this runs in one driver-side process per
query; only `read` runs in workers.

What Spark does, and what follows from it (docs/design/005-spark-offsets.md):

- It persists the end of a batch before it runs, never the start. The start of the first batch travels
  inside its end.
- It calls `latestOffset(start)` only when everything before `start` is in the sink. So that is the moment
  to commit `start` to the consumer group; `commit(end)` comes later, and not at all for the last batch of a
  run.
- It compares offsets as text: a query without news gets back exactly what it gave.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.client import Client, ClientError, TopicPartition
from ottla.spark import errors
from ottla.spark.clients import client, reached
from ottla.spark.errors import briefly
from ottla.spark.offsets import START, Json, Offsets, first_end, from_json, limited, started_at, to_json
from ottla.spark.options import ReadOptions
from ottla.spark.plan import Range, plan
from ottla.spark.positions import resolve
from ottla.spark.reader import GONE, lose, read_rows, still_there
from ottla.spark.topics import Subscribed

log = logging.getLogger(__name__)

COMMIT_S = 10.0
COMMIT_AGAIN_S = 60.0


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A copy without any state travels to the workers with the plan."""

    def __init__(self, options: ReadOptions, columns: list[str]) -> None:
        self.options = options
        self.columns = columns
        self.initial: Offsets | None = None
        self.latest: Offsets | None = None
        self.target: Offsets | None = None  # of an AvailableNow run
        self.is_available_now = False
        self.triggered_at_ms = 0.0
        self.subscribed: Subscribed | None = None
        self.progress = Progress(options)

    # -- what Spark asks, in the driver ----------------------------------------------------------------------

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  (Spark's name)
        """Spark has no limit with two sides for Python: `latestOffset` sees to the other one."""
        if self.options.rows_max is not None:
            return ReadMaxRows(self.options.rows_max)
        if self.options.rows_min is not None:
            return ReadMinRows(self.options.rows_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  (Spark's name)
        self.is_available_now = True

    @briefly
    def initialOffset(self) -> Json:  # noqa: N802  (Spark's name)
        """Spark asks twice for one batch, and has to hear the same."""
        if self.initial is None:
            self.initial = resolve(
                self._source(),
                self.options.start,
                self._subscribed().must_exist(),
                is_start=True,
                read_committed=self.options.read_committed,
            )
        return to_json(self.initial)

    @briefly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begin = from_json(start)
        is_first = START not in start and begin == self.initial
        self.progress.commit(begin)
        end = self._next(begin, limit)
        if is_first:
            return first_end(begin, end)
        return start if end == begin else dict(to_json(end))

    def reportLatestOffset(self) -> Json | None:  # noqa: N802  (Spark's name)
        return None if self.latest is None else to_json(self.latest)

    @briefly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        source = self._source()
        first = started_at(start, end)
        begins, ends = from_json(start) if first is None else first, from_json(end)
        deleted = begins.keys() - ends.keys()
        if deleted:
            lose(self.options, errors.partitions_deleted(deleted))
        begins |= self._added(source, ends.keys() - begins.keys())
        ranges = []
        for topic_partition in sorted(ends.keys() & begins.keys()):
            if ends[topic_partition] < begins[topic_partition]:
                lose(
                    self.options,
                    errors.offset_changed(topic_partition, begins[topic_partition], ends[topic_partition]),
                )
            ranges.append(Range(*topic_partition, begins[topic_partition], ends[topic_partition]))
        return list(plan(still_there(source, self.options, ranges), self.options.split))

    def commit(self, end: dict[str, Any]) -> None:
        self.progress.commit(from_json(end))

    def stop(self) -> None:
        self.progress.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_rows(self.options, self.columns, partition)

    # -- deciding --------------------------------------------------------------------------------------------

    def _next(self, begin: Offsets, limit: ReadLimit) -> Offsets:
        """The end of the next batch; `begin` if there is to be none."""
        if self.target is None:
            self.latest = self._ends(begin)
            if self.is_available_now:
                self.target = self.latest
        else:
            self.latest = self.target
        end = self.latest
        if isinstance(limit, ReadAllAvailable):
            return end
        added = [topic_partition for topic_partition in end if topic_partition not in begin]
        starts = begin | (self._source().starts(added) if added else {})
        if not self.is_available_now and self._is_too_early(starts, end):
            return begin
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return end if rows_max is None else limited(starts, end, rows_max)

    def _is_too_early(self, starts: Offsets, end: Offsets) -> bool:
        """Whether to wait for `minOffsetsPerTrigger`, or until `maxTriggerDelay` has passed since the
        last batch."""
        if self.options.rows_min is None:
            return False
        now_ms = time.monotonic() * 1000
        rows = sum(end[topic_partition] - starts[topic_partition] for topic_partition in end)
        waited = not self.triggered_at_ms or now_ms - self.triggered_at_ms >= self.options.delay_ms_max
        if rows < self.options.rows_min and not waited:
            return True
        self.triggered_at_ms = now_ms
        return False

    def _ends(self, begin: Offsets) -> Offsets:
        """Where the logs end now. What looks like a loss is looked at again before it is one."""
        for tries_left in reversed(range(self.options.tries)):
            try:
                topic_partitions = self._subscribed().topic_partitions()
                ends = self._source().ends(topic_partitions, read_committed=self.options.read_committed)
            except ClientError as error:
                if error.code not in GONE or not tries_left:
                    raise
                continue
            gone = begin.keys() - ends.keys()
            back = [
                topic_partition
                for topic_partition in sorted(begin.keys() & ends.keys())
                if ends[topic_partition] < begin[topic_partition]
            ]
            if not gone and not back:
                return ends
            if tries_left:
                time.sleep(self.options.try_again_ms / 1000)
        if gone:
            lose(self.options, errors.partitions_deleted(gone))
        for topic_partition in back:
            lose(
                self.options,
                errors.offset_changed(topic_partition, begin[topic_partition], ends[topic_partition]),
            )
        return ends

    def _added(self, source: Client, topic_partitions: set[TopicPartition]) -> Offsets:
        """Where partitions begin that were not there in the batch before."""
        if not topic_partitions:
            return {}
        there = source.partitions({topic_partition.topic for topic_partition in topic_partitions})
        existing = [
            topic_partition
            for topic_partition in topic_partitions
            if topic_partition.partition in there.get(topic_partition.topic, [])
        ]
        if len(existing) < len(topic_partitions):
            lose(self.options, errors.initial_offset_not_found(topic_partitions - set(existing)))
        starts = source.starts(existing) if existing else {}
        for topic_partition, start in sorted(starts.items()):
            if start:
                lose(self.options, errors.added_partition(topic_partition, start))
        return starts

    def _source(self) -> Client:
        return reached(self.options.where)

    def _subscribed(self) -> Subscribed:
        if self.subscribed is None:
            self.subscribed = Subscribed(
                self._source(), self.options.subscription, self.options.metadata_ttl_ms
            )
        return self.subscribed


class Progress:
    """What the query has done, shown to everybody as the offsets of a consumer group. Nothing is ever read
    from it.

    A group that cannot be written to does not stop a query: it is said in the log, and tried again after a
    while.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.done: Offsets = {}
        self.paused_until = 0.0

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        news = {
            topic_partition: offset
            for topic_partition, offset in offsets.items()
            if self.done.get(topic_partition) != offset
        }
        if not self.options.commit_offsets or not news or time.monotonic() < self.paused_until:
            return
        try:
            self._client().commit_offsets(self.options.group, news)
        except ClientError as error:
            log.warning("progress is not shown in the consumer group: %s", error)
            self.paused_until = time.monotonic() + COMMIT_AGAIN_S
        else:
            self.done |= news

    def close(self) -> None:
        """The process ends with the query, and its connections with it."""

    def _client(self) -> Client:
        where = self.options.where
        return client(replace(where, timeout_s=min(COMMIT_S, where.timeout_s)))
