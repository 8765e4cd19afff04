"""format("ottla-dying"): the sink, and a process that is killed the first time it comes to a point.

`point` is one of POINTS, `gate` a path. What dies leaves `gate`.seen behind; with `held=true` it first waits
to be killed along with its driver.
"""

import os
import signal
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.client import Client
from ottla.spark import batch_commit
from ottla.spark.options import write_options
from ottla.spark.writer import StreamWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "ottla-dying"
FAILS, KILLED = "a task fails after it wrote", "a worker is killed after it wrote"
BEFORE, DECIDED = "before the commit", "after the decision"
BETWEEN, AFTER = "between two ends", "after the last end"
POINTS = (FAILS, KILLED, BEFORE, DECIDED, BETWEEN, AFTER)
HELD_S = 300.0


class Gate:
    """Passed by all but the first."""

    def __init__(self, path: str, point: str, *, is_held: bool) -> None:
        self.path, self.point, self.is_held = path, point, is_held

    def reached(self, point: str) -> None:
        if point != self.point or os.path.exists(f"{self.path}.seen"):
            return
        with open(f"{self.path}.seen", "w"):
            pass
        if point == FAILS:
            raise ZeroDivisionError("the task fails after it wrote")
        end = time.monotonic() + HELD_S
        while self.is_held and time.monotonic() < end:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)


class DyingWriter(StreamWriter):
    gate: Gate

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        message = super().write(iterator)
        context = TaskContext.get()
        if context is not None and context.partitionId() == 1:
            self.gate.reached(FAILS)
            self.gate.reached(KILLED)
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.gate.reached(BEFORE)
        finish, end, gate = batch_commit.Query._finish, Client.end_transactions, self.gate

        def ending(client: Client, transactions: list[Any], *, committed: bool) -> Any:
            if len(transactions) > 1:
                end(client, transactions[:1], committed=committed)
                gate.reached(BETWEEN)
            return end(client, transactions, committed=committed)

        def finishing(*arguments: Any) -> None:
            gate.reached(DECIDED)
            finish(*arguments)

        batch_commit.Query._finish = finishing  # type: ignore[method-assign]
        Client.end_transactions = ending  # type: ignore[assignment, method-assign]
        super().commit(messages, batchId)
        self.gate.reached(AFTER)


class DyingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        options = dict(self.options)
        held = options.pop("held", "false") == "true"
        gate = Gate(options.pop("gate"), options.pop("point"), is_held=held)
        writer = DyingWriter(write_options(options))
        writer.gate = gate
        return writer


def copy(rows: "DataFrame", bootstrap: str, topic: str, checkpoint: str, **options: str) -> "StreamingQuery":
    """A query from topic to topic, exactly once, with a death."""
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "delivery": "exactly-once", **options}
    writer = rows.select("key", "value").writeStream.format(NAME).options(**given)
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
