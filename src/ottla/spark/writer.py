"""Writing: Arrow columns in, record batches out.

`write` runs in a worker and sends rows; `commit` runs beside the driver when all tasks are done and
publishes. A task is one idempotent producer: what its client sends again is stored once.

At least once, there is nothing to publish, as what is sent can be read. A task that Spark runs again is
another producer, and its rows are there twice. Exactly once, a task leaves an open transaction behind, and
`commit` ends those that Spark has chosen (docs/design/017-exactly-once-from-spark.md).
"""

import time
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from ottla.arrow.batches import EncodedBatch, encode
from ottla.arrow.partitioner import partition_of
from ottla.arrow.slices import column_of
from ottla.client import Client, ClientError, TopicPartition, Transaction
from ottla.client.errors import UNKNOWN_TOPIC
from ottla.records.compression import Codec
from ottla.spark.batch_commit import abort_batch, abort_job, commit_batch, commit_job, last_decided
from ottla.spark.clients import client, reached
from ottla.spark.decision import Staged, Standing, Task, set_back, standing
from ottla.spark.errors import SourceError, briefly, not_created, null_topic
from ottla.spark.options import WriteOptions

STAGED_ROWS_MAX = 65_536
STAGED_BYTES_MAX = 8 << 20
NO_PRODUCER = -1
# Set by Spark for the tasks of a micro-batch; it does not document them.
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
Wave: TypeAlias = dict[TopicPartition, EncodedBatch]  # one batch for each partition, as a request has them
ABORT_S = 10.0
_SEQUENCE_MASK = 0x7FFFFFFF


@dataclass
class Written(WriterCommitMessage):
    """What one task has sent: rows, and the next offset per partition (unknown with acks=0)."""

    rows: int
    ends: dict[TopicPartition, int] = field(default_factory=dict)


Messages: TypeAlias = list[WriterCommitMessage | None]


class BatchWriter(DataSourceArrowWriter):
    """One job. There is nothing to recognise it by when it is run again."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        self.job = uuid.uuid4().hex

    @briefly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self.options.is_exactly_once:
            return stage(self.options, this_task(self.job), iterator)
        return send(self.options, iterator)

    def commit(self, messages: Messages) -> None:
        commit_job(self.options, _staged(messages))

    def abort(self, messages: Messages) -> None:
        """What was sent without a transaction stays: a log takes nothing back."""
        abort_job(self.options, _staged(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    @briefly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        reached(self.options.where)
        if self.options.is_exactly_once:
            return stage(self.options, this_task(), iterator)
        return send(self.options, iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        commit_batch(self.options, _staged(messages), batchId)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        """What was sent without a transaction stays: a log takes nothing back."""
        abort_batch(self.options, _staged(messages), batchId)


def _staged(messages: Messages) -> list[Staged]:
    return [message for message in messages if isinstance(message, Staged)]


def this_task(job: str | None = None) -> Task:
    """The attempt that runs in this worker: of a job, or of a batch of the query that Spark names."""
    context = TaskContext.get()
    if context is None:
        raise SourceError("NO_TASK", "delivery=exactly-once writes inside of a Spark task only.")
    number, attempt = context.partitionId(), context.attemptNumber()
    if job is not None:
        return Task(job, None, number, attempt)
    query, batch = (context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID))
    if query is None or batch is None:
        raise SourceError(
            "NO_BATCH_ID",
            f"This Spark does not tell a sink its query and batch ({QUERY_ID}, {BATCH_ID}), which "
            "delivery=exactly-once needs; use delivery=at-least-once.",
        )
    return Task(query, int(batch), number, attempt)


def stage(options: WriteOptions, task: Task, batches: Iterable[pa.RecordBatch]) -> Staged:
    """All rows of a task in a transaction that is left open for the driver to end. What fails aborts it."""
    if task.batch is not None:
        last = last_decided(client(options.where), task.query)
        match standing(last, task.batch):
            case Standing.DECIDED:
                return Staged(task)
            case Standing.PASSED:
                assert last is not None
                raise set_back(task.batch, last)
    sender = Sender(options, client(options.where), task.transactional_id)
    try:
        written = _send_all(sender, batches)
    except BaseException:
        if sender.transaction is not None:
            hurried = replace(options.where, timeout_s=min(ABORT_S, options.where.timeout_s))
            with suppress(ClientError):  # then it ends by its timeout
                client(hurried).end_transactions([sender.transaction], committed=False)
        raise
    spans = {
        topic_partition: (sender.starts[topic_partition], end)
        for topic_partition, end in written.ends.items()
    }
    return Staged(task, sender.transaction, written.rows, spans, is_written=True)


def send(options: WriteOptions, batches: Iterable[pa.RecordBatch]) -> Written:
    """All rows of a task, a few megabytes at a time: with many partitions each still gets batches worth
    sending."""
    return _send_all(Sender(options, client(options.where)), batches)


def _send_all(sender: "Sender", batches: Iterable[pa.RecordBatch]) -> Written:
    with sender:
        staged: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            staged.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= STAGED_ROWS_MAX or size >= STAGED_BYTES_MAX:
                sender.send(staged)
                staged, rows, size = [], 0, 0
        if staged:
            sender.send(staged)
        sender.settle()
    return sender.written


class Sender:
    """The producer of one task. One request is under way while the next is made: `settle` waits for it.

    The client is used by one thread at a time: by the one that sends, or, when nothing is under way, by ours.
    """

    def __init__(self, options: WriteOptions, source: Client, transactional_id: str | None = None) -> None:
        self._options = options
        self._client = source
        self._transactional_id = transactional_id
        self._added: set[TopicPartition] = set()  # to the transaction
        self.transaction: Transaction | None = None
        self.starts: dict[TopicPartition, int] = {}
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._counts: dict[str, int] = {}
        self._turn = int(time.monotonic() * 1000)
        self._thread = ThreadPoolExecutor(1)
        self._under_way: tuple[Wave, Future[dict[TopicPartition, int]]] | None = None
        self.written = Written(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._thread.shutdown()

    def send(self, staged: list[pa.RecordBatch]) -> None:
        table = pa.Table.from_batches(staged).combine_chunks()
        (whole,) = table.to_batches()
        parts = {
            topic_partition: self._encoded(topic_partition, rows)
            for topic, rows_of_topic in self._by_topic(whole)
            for topic_partition, rows in self._by_partition(topic, rows_of_topic)
        }
        while wave := {
            topic_partition: batch
            for topic_partition, batches in parts.items()
            if (batch := next(batches, None))
        }:
            self.settle()
            request = {topic_partition: batch.bytes for topic_partition, batch in wave.items()}
            self._add(wave.keys() - self._added)
            sending = self._thread.submit(
                self._client.produce, request, acks=self._options.acks, transaction=self.transaction
            )
            self._under_way = wave, sending

    def settle(self) -> None:
        """Until what was sent is acknowledged, or has failed."""
        if self._under_way is None:
            return
        (wave, sending), self._under_way = self._under_way, None
        offsets = sending.result()
        for topic_partition, batch in wave.items():
            self.written.rows += batch.records
            offset = offsets[topic_partition]
            if offset >= 0:
                self.starts.setdefault(topic_partition, offset)
                self.written.ends[topic_partition] = offset + batch.records
            elif self.transaction is not None:
                raise ClientError(f"writing to {topic_partition}: the broker did not say at which offset")

    def _add(self, topic_partitions: set[TopicPartition]) -> None:
        if self.transaction is not None and topic_partitions:
            self._client.add_partitions(self.transaction, topic_partitions)
            self._added |= topic_partitions

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._options.topic is not None:
            yield self._options.topic, rows
            return
        topics = rows.column("topic").dictionary_encode()
        if topics.null_count:
            raise null_topic()
        names = topics.dictionary.to_pylist()
        for number, own_rows in _grouped(rows, topics.indices.to_numpy(zero_copy_only=False)):
            yield names[number], own_rows

    def _by_partition(
        self, topic: str, rows: pa.RecordBatch
    ) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        count = self._partition_count(topic)
        asked = rows.column("partition") if "partition" in rows.schema.names else None
        if asked is not None and asked.null_count < len(asked):
            wrong = pc.filter(asked, pc.or_(pc.less(asked, 0), pc.greater_equal(asked, count)))
            if len(wrong):
                raise SourceError(
                    "UNKNOWN_TOPIC_OR_PARTITION",
                    f"column partition: {wrong[0]} is no partition of topic {topic}, which has {count}",
                )
        if count == 1:
            yield TopicPartition(topic, 0), rows
            return
        numbers = self._chosen(rows, count)
        if asked is not None:
            numbers = np.where(
                asked.is_valid().to_numpy(zero_copy_only=False),
                asked.fill_null(0).to_numpy(zero_copy_only=False),
                numbers,
            )
        for number, own_rows in _grouped(rows, numbers):
            yield TopicPartition(topic, number), own_rows

    def _chosen(self, rows: pa.RecordBatch, count: int) -> npt.NDArray[np.int32]:
        """By the key, as every Kafka producer does it; rows without one stay together, and take turns."""
        self._turn += 1
        has_keys = "key" in rows.schema.names
        keys = rows.column("key") if has_keys else pa.nulls(rows.num_rows, pa.binary())
        return partition_of(keys, count, turn=self._turn)

    def _partition_count(self, topic: str) -> int:
        if topic not in self._counts:
            self.settle()
            try:
                partitions = self._client.partitions([topic], may_create=True)
            except ClientError as error:
                if error.code in UNKNOWN_TOPIC:
                    raise not_created(topic) from error
                raise
            self._counts[topic] = len(partitions[topic])
        return self._counts[topic]

    def _encoded(self, topic_partition: TopicPartition, rows: pa.RecordBatch) -> Iterator[EncodedBatch]:
        names = rows.schema.names
        producer_id, producer_epoch = self._producer_id()
        sequence = self._sequences.get(topic_partition, 0)
        batches = encode(
            rows.column("value"),
            rows.column("key") if "key" in names else None,
            rows.column("headers") if "headers" in names else None,
            self._times_ms(rows),
            codec=Codec.from_name(self._options.codec),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence if producer_id != NO_PRODUCER else -1,
            is_transactional=self._transactional_id is not None,
            bytes_max=self._options.batch_bytes,
        )
        self._sequences[topic_partition] = (sequence + rows.num_rows) & _SEQUENCE_MASK
        return batches

    def _producer_id(self) -> tuple[int, int]:
        if self._transactional_id is not None:
            if self.transaction is None:
                self.settle()
                timeout_ms = self._options.transaction_timeout_ms
                self.transaction = self._client.begin_transaction(self._transactional_id, timeout_ms)
            return self.transaction[1:]
        if self._producer is None:
            idempotent = self._options.is_idempotent
            self._producer = self._client.producer_id() if idempotent else (NO_PRODUCER, -1)
        return self._producer

    def _times_ms(self, rows: pa.RecordBatch) -> npt.NDArray[np.int64] | int:
        now_ms = int(time.time() * 1000)
        if self._options.timestamp_column is None:
            return now_ms
        times = rows.column(self._options.timestamp_column)
        us = times.cast(pa.timestamp("us", tz=times.type.tz)).view(pa.int64())
        times_ms: npt.NDArray[np.int64] = us.fill_null(now_ms * 1000).to_numpy() // 1000
        return times_ms


def _grouped(
    rows: pa.RecordBatch, numbers: npt.NDArray[np.integer[Any]]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of every number, in their order."""
    distinct = np.unique(numbers)
    if len(distinct) == 1:
        yield int(distinct[0]), rows
        return
    order = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[order], distinct, side="right")
    together = rows.take(column_of(order, pa.int64()))
    start = 0
    for number, end in zip(distinct.tolist(), ends.tolist(), strict=True):
        yield number, together.slice(start, end - start)
        start = end
