"""What the flows of a run tell after each of their batches: rows, and how far behind its topics a flow is.

Spark runs a flow in a session that it clones for it, and a listener of a session hears only of that session's
queries. But what happens in any session passes the bus of the Spark context. A bus for queries that hangs
there and belongs to no session passes all of it on.

Not obvious: events arrive a moment late, on a thread of their own. `settled` waits for them, so that what a
run has done is told before that it is over.
"""

import contextlib
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import JStreamingQueryListener

from ottla.pipelines.sql_statements import last_part
from ottla.spark.lag import LagListener, Progress, lag_of, rows_of, sentence

SETTLE_MS = 2_000


def told_to(tell: Callable[..., None]) -> "Batches | None":
    """From now on. None if this Spark has its buses elsewhere: they are none of what it promises."""
    try:
        return Batches(tell)
    except TypeError as error:  # a package of Java is not callable
        sys.stdout.write(f"batches are not told: {error}\n")
        return None


class JavaListener(JStreamingQueryListener):
    """Java's side of a listener."""

    def onQueryStarted(self, jevent: Any) -> None:  # noqa: N802  (Spark's name)
        """PySpark 4.3 cannot read the event of a query whose jobs have tags, as those of flows have."""


class Batches:
    """Of all flows of the Spark in this process, from now on."""

    def __init__(self, tell: Callable[..., None]) -> None:
        from pyspark import SparkContext
        from pyspark.java_gateway import ensure_callback_server_started

        context: Any = SparkContext._active_spark_context
        ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
        listener = JavaListener(LagListener(lambda progress: tell("batch", **as_event(progress))))
        sql = context._jvm.org.apache.spark.sql
        bus = sql.execution.streaming.runtime.StreamingQueryListenerBus(context._jvm.scala.Option.empty())
        bus.addListener(sql.streaming.PythonStreamingQueryListenerWrapper(listener))
        context._jsc.sc().addSparkListener(bus)
        self._context_bus = context._jsc.sc().listenerBus()

    def settled(self) -> None:
        """All that has happened so far was told, or there is too much of it to wait for."""
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

        with contextlib.suppress(Py4JJavaError):  # a TimeoutException
            self._context_bus.waitUntilEmpty(SETTLE_MS)


def as_event(progress: Progress) -> dict[str, Any]:
    """`behind` is None for a flow that reads no topic."""
    flow, lags = last_part(progress.get("name") or ""), lag_of(progress)
    return {
        "flow": flow,
        "rows": rows_of(progress),
        "behind": sum(lags.values()) if lags else None,
        "sentence": sentence({**progress, "name": flow}),
    }
