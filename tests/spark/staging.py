"""Micro-batches without Spark: what it would call, in its order, with a process that may die in between."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.harness import Topic
from tests.support.waiting import wait_for

from ottla.arrow.columns import decode
from ottla.client import Client, TopicPartition
from ottla.client.connection import Connection
from ottla.spark import batch_commit, writer
from ottla.spark.decision import Staged, Task
from ottla.spark.options import WriteOptions, write_options

TASKS = 3


class Killed(BaseException):
    """The process is dead: nobody catches this, and nothing is sent any more."""


class Requests:
    """Counts what this process sends, and does something at one of them."""

    def __init__(self) -> None:
        self.sent = 0
        self.acts: dict[int, Callable[[], None]] = {}

    def before(self) -> None:
        act = self.acts.pop(self.sent, None)
        self.sent += 1
        if act is not None:
            act()


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Requests]:
    requests, send = Requests(), Connection.send

    def counting(connection: Connection, *arguments: Any, **named: Any) -> None:
        requests.before()
        send(connection, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "send", counting)
        yield requests


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, at: int, *, is_sent: bool) -> Iterator[Requests]:
    """Die instead of sending this request, or after it was sent and before it was answered."""
    requests, send = Requests(), Connection.send

    def sending(connection: Connection, *arguments: Any, **named: Any) -> None:
        requests.sent += 1
        if requests.sent <= at or (is_sent and requests.sent == at + 1):
            send(connection, *arguments, **named)
        if requests.sent > at:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "send", sending)
        yield requests


class Query:
    """A streaming query that writes rows to a topic, and its driver."""

    def __init__(self, target: Topic, **options: str) -> None:
        self.target = target
        self.id = str(uuid.uuid4())
        given = {"kafka.bootstrap.servers": target.bootstrap, "topic": target.name} | {
            name.replace("__", "."): value for name, value in options.items()
        }
        self.options: WriteOptions = write_options({"delivery": "exactly-once", **given})

    def values(self, label: str, batch: int = 0) -> list[str]:
        return sorted(f"{self.id} {batch} {label} {number}" for number in range(TASKS * 4))

    def rows(self, label: str, task: int, batch: int = 0) -> pa.RecordBatch:
        """Four rows of a task, in several partitions."""
        texts = [f"{self.id} {batch} {label} {number}" for number in range(task * 4, task * 4 + 4)]
        partitions = pa.array([0, 0, (task + 1) % 3, 2], pa.int32())
        return pa.RecordBatch.from_pydict({"value": texts, "partition": partitions})

    def task(self, label: str, number: int, *, batch: int = 0, attempt: int = 0) -> Staged:
        task = Task(self.id, batch, number, attempt)
        return writer.stage(self.options, task, iter([self.rows(label, number, batch)]))

    def tasks(self, label: str, batch: int = 0) -> list[Staged]:
        return [self.task(label, number, batch=batch) for number in range(TASKS)]

    def commit(self, staged: list[Staged], batch: int = 0) -> None:
        batch_commit.commit_batch(self.options, staged, batch)

    def abort(self, staged: list[Staged], batch: int = 0) -> None:
        batch_commit.abort_batch(self.options, staged, batch)

    def run(self, label: str, batch: int = 0) -> None:
        self.commit(self.tasks(label, batch), batch)


def committed(target: Topic, prefix: str = "") -> list[str]:
    """What a reader of committed records sees, once no transaction is open any more."""
    partitions = [TopicPartition(target.name, number) for number in range(3)]
    with Client(target.bootstrap) as client:
        ends = wait_for(lambda: _stable_ends(client, partitions), what="the last transaction to end")
        values = []
        for topic_partition, end in ends.items():
            chunks = client.fetch(topic_partition, 0, end, read_committed=True)
            for batch in decode(chunks, *topic_partition, 0, end, columns=["value"]):
                values += [value.decode() for value in batch.column("value").to_pylist()]
    return sorted(value for value in values if value.startswith(prefix))


def _stable_ends(client: Client, partitions: list[TopicPartition]) -> dict[TopicPartition, int] | None:
    ends = client.ends(partitions)
    return ends if client.ends(partitions, read_committed=True) == ends else None
