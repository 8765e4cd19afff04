"""What decides that a batch is written: which transactions it is made of, stored as offsets of a group.

Pure: values in, values out. `batch_commit` asks the cluster and does what is decided here, as described in
docs/design/017-exactly-once-from-spark.md.

Not obvious: transactional ids do not have the batch's number in them. An attempt of a task begins its
transaction under the same id in every batch, which ends what an earlier process has left open there.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from ottla.client import Committed, TopicPartition, Transaction
from ottla.client.transaction_states import Described
from ottla.spark.errors import SourceError, named

PREFIX = "ottla-spark"
ONGOING = "Ongoing"
METADATA_MAX = 4000  # characters; brokers take 4,096 (offset.metadata.max.bytes)
FORMAT = "v1"

Spans = dict[TopicPartition, tuple[int, int]]


class Task(NamedTuple):
    """An attempt of a task. `query` is the query's id, or that of a batch job, which has no batches."""

    query: str
    batch: int | None
    number: int
    attempt: int

    @property
    def transactional_id(self) -> str:
        return attempt_id(self.query, self.number, self.attempt)


def driver_id(query: str) -> str:
    """The transactional id under which batches are decided, and the group that decisions are in."""
    return f"{PREFIX}-{query}"


def attempt_id(query: str, number: int, attempt: int) -> str:
    return f"{PREFIX}-{query}-{number}-{attempt}"


@dataclass
class Staged(WriterCommitMessage):
    """What a task has left for the driver. Without a transaction it had no rows, or, if it is not written, it
    found that its batch was decided before."""

    task: Task
    transaction: Transaction | None = None
    rows: int = 0
    spans: Spans = field(default_factory=dict)  # first offset, and the one after the last
    is_written: bool = False


class Chosen(NamedTuple):
    """A transaction that is part of a batch, and where its first record is."""

    number: int
    attempt: int
    producer_id: int
    producer_epoch: int
    rows: int
    topic_partition: TopicPartition
    offset: int

    def transaction(self, query: str) -> Transaction:
        return Transaction(
            attempt_id(query, self.number, self.attempt), self.producer_id, self.producer_epoch
        )


@dataclass(frozen=True)
class Decision:
    """The transactions of a batch that are to be committed, and where all of its records are."""

    batch: int
    chosen: tuple[Chosen, ...]
    spans: Spans

    @property
    def anchor(self) -> TopicPartition:
        """The partition whose offset the decision is stored as."""
        return min(self.spans)

    def without(self, done: Iterable[Chosen]) -> "Decision":
        return replace(self, chosen=tuple(chosen for chosen in self.chosen if chosen not in set(done)))


class Standing(Enum):
    """How far the batches of a query are."""

    UNDECIDED = "none of it will be seen unless it is decided"
    DECIDED = "all of it will be seen"
    PASSED = "a later one is decided, so its driver or its checkpoint is an old one"


def standing(last_decided: int | None, batch: int) -> Standing:
    if last_decided is None or last_decided < batch:
        return Standing.UNDECIDED
    return Standing.DECIDED if last_decided == batch else Standing.PASSED


def decide(batch: int, staged: Iterable[Staged]) -> Decision:
    """All that was staged; tasks without rows have nothing to commit."""
    chosen, spans = [], Spans()
    for message in staged:
        if message.transaction is None:
            continue
        first = min(message.spans)
        _, producer_id, epoch = message.transaction
        offset = message.spans[first][0]
        task = message.task
        chosen.append(Chosen(task.number, task.attempt, producer_id, epoch, message.rows, first, offset))
        for topic_partition, (start, end) in message.spans.items():
            low, high = spans.get(topic_partition, (start, end))
            spans[topic_partition] = min(low, start), max(high, end)
    return Decision(batch, tuple(sorted(chosen)), spans)


# -- open, ended, forgotten ----------------------------------------------------------------------------------


def attempts(staged: Iterable[Staged]) -> set[str]:
    """The ids to ask for: those that Spark has chosen, those that failed before them, and the one after,
    which may be a speculative copy. Spark runs no more than two at a time."""
    return {
        attempt_id(message.task.query, message.task.number, attempt)
        for message in staged
        for attempt in range(message.task.attempt + 2)
    }


def ran_out(staged: Iterable[Staged], described: Mapping[str, Described]) -> list[Staged]:
    """Those whose transaction is not open any more."""
    return [
        message
        for message in staged
        if message.transaction is not None and not _is_open(message.transaction, described)
    ]


def rivals(staged: Iterable[Staged], described: Mapping[str, Described]) -> list[str]:
    """The ids of attempts that are open and were not chosen."""
    chosen = {message.task.transactional_id for message in staged if message.transaction is not None}
    return sorted(name for name, state in described.items() if name not in chosen and state.state == ONGOING)


def _is_open(transaction: Transaction, described: Mapping[str, Described]) -> bool:
    state = described.get(transaction.transactional_id)
    return (
        state is not None
        and state.state == ONGOING
        and (state.producer_id, state.producer_epoch) == transaction[1:]
    )


# -- as offsets ----------------------------------------------------------------------------------------------


def group_of(query: str, nth: int) -> str:
    """Where the n-th piece of a decision is."""
    return driver_id(query) if nth == 0 else f"{driver_id(query)}-{nth}"


def to_offsets(decision: Decision) -> list[Committed]:
    """Pieces, each for a group of its own: the offset is the batch's number."""
    topics: dict[str, dict[str, tuple[int, int]]] = {}
    for (topic, number), span in sorted(decision.spans.items()):
        topics.setdefault(topic, {})[str(number)] = span
    names = list(topics)
    tasks = [
        [
            *chosen[:5],
            names.index(chosen.topic_partition.topic),
            chosen.topic_partition.partition,
            chosen.offset,
        ]
        for chosen in decision.chosen
    ]
    text = json.dumps({"spans": topics, "tasks": tasks}, separators=(",", ":"))
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    pieces = [packed[at : at + METADATA_MAX] for at in range(0, len(packed), METADATA_MAX)]
    return [Committed(decision.batch, f"{FORMAT} {len(pieces)} {piece}") for piece in pieces]


class Head(NamedTuple):
    """The first piece of the last decision, and how many there are."""

    topic_partition: TopicPartition
    batch: int
    pieces: int
    text: str


def head(query: str, committed: Mapping[TopicPartition, Committed]) -> Head | None:
    """Batches may have been stored under different partitions: the last one counts."""
    if not committed:
        return None
    topic_partition, (batch, metadata) = max(committed.items(), key=lambda entry: entry[1].offset)
    try:
        written_as, pieces, text = metadata.split(" ")
        if written_as == FORMAT:
            return Head(topic_partition, batch, int(pieces), text)
    except ValueError:
        pass
    raise unreadable(query, f"{metadata[:40]!r} is not what this version writes")


def whole(query: str, first: Head, others: Iterable[Mapping[TopicPartition, Committed]]) -> Decision:
    """The decision, with its other pieces in their order."""
    packed = [first.text]
    for committed in others:
        piece = committed.get(first.topic_partition)
        if piece is None or piece.offset != first.batch:
            raise unreadable(query, f"a piece of batch {first.batch} is missing")
        packed.append(piece.metadata.split(" ")[-1])
    try:
        tree = json.loads(zlib.decompress(base64.b64decode("".join(packed))))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise unreadable(query, str(error)) from None
    spans = {
        TopicPartition(topic, int(number)): (start, end)
        for topic, numbers in tree["spans"].items()
        for number, (start, end) in numbers.items()
    }
    names = list(tree["spans"])
    chosen = (
        Chosen(number, attempt, producer_id, epoch, rows, TopicPartition(names[topic], partition), offset)
        for number, attempt, producer_id, epoch, rows, topic, partition, offset in tree["tasks"]
    )
    return Decision(first.batch, tuple(chosen), spans)


# -- errors --------------------------------------------------------------------------------------------------


def unreadable(query: str, why: str) -> SourceError:
    return SourceError(
        "KAFKA_BATCH_DECISION_UNREADABLE",
        f"What group {driver_id(query)} stores about the last batch of this query cannot be read: {why}. Has "
        "something else committed offsets to it? Delete the group, then a batch that was being committed is "
        "written again.",
    )


def transactions_ran_out(late: list[Staged], timeout_ms: int) -> SourceError:
    tasks = ", ".join(str(message.task.number) for message in late)
    return SourceError(
        "KAFKA_TRANSACTION_TIMED_OUT",
        f"The transactions of tasks {tasks} are not open any more: the batch took longer than "
        f"kafka.transaction.timeout.ms={timeout_ms}, or another driver has run the same query. Nothing of "
        "the batch is visible. Make batches smaller, or raise kafka.transaction.timeout.ms (and the brokers' "
        "transaction.max.timeout.ms).",
    )


def set_back(batch: int, last: int) -> SourceError:
    return SourceError(
        "KAFKA_CHECKPOINT_SET_BACK",
        f"Batch {batch} is to be written, and this query has written batch {last} already: its checkpoint "
        "was set back, or another driver runs it. What later batches held is not known any more, so they "
        "cannot be recognised. Use the newest checkpoint, or a new one, which writes again from its start.",
    )


def rows_gone(decision: Decision, rows: int, left: int) -> SourceError:
    return SourceError(
        "KAFKA_DATA_LOSS.STAGED_ROWS_GONE",
        f"Batch {decision.batch} was decided, {rows} of its rows timed out before they were committed, and "
        f"the log has {left} of them left ({named(decision.spans)}): retention, compaction or DeleteRecords "
        "took them. A new checkpoint writes the batch again.",
    )


def other_driver(query: str) -> SourceError:
    return SourceError(
        "KAFKA_PRODUCER_FENCED",
        f"Another driver commits batches of query {query}: does it run twice, or was its checkpoint copied? "
        "A copy of a query needs a checkpoint of its own.",
    )
