"""How far behind a query is after a batch: what Spark reports of its progress, as records.

Spark asks a source for the end of its topics before every batch and puts that beside the end of the batch
(`latestOffset` and `endOffset` of a source's progress). A Python source cannot add metrics of its own to it,
so the difference is made here. Brokers show the same from outside: the query's consumer group, which the
source commits to after every batch, in `ottla groups` and in the metrics.

Not obvious: a run with `availableNow` reads up to where topics ended when it began, and that is what it is
behind of.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from ottla.client import TopicPartition
from ottla.spark.offsets import Offsets, from_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

Progress = Mapping[str, Any]  # StreamingQueryProgress, which is a dict


def lag_of(progress: Progress) -> dict[TopicPartition, int]:
    """Records that are in the log and in no batch yet, by partition; of a `StreamingQueryProgress`, such as
    `query.lastProgress`. Sources of other kinds are passed over. An offset that no record has, such as a
    marker of a transaction, counts as one."""
    lags: dict[TopicPartition, int] = {}
    for source in progress["sources"]:
        end, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        for topic_partition, log_end in latest.items():
            behind = max(0, log_end - end.get(topic_partition, log_end))
            lags[topic_partition] = lags.get(topic_partition, 0) + behind
    return lags


def rows_of(progress: Progress) -> int:
    """What a batch has read, of all sources."""
    return sum(source["numInputRows"] for source in progress["sources"])


def sentence(progress: Progress) -> str:
    """A batch in a line: orders-copy, batch 12: 1,000 rows in 0.8 s, 340 behind (orders 340)."""
    lags = lag_of(progress)
    by_topic: dict[str, int] = {}
    for topic_partition, behind in lags.items():
        by_topic[topic_partition.topic] = by_topic.get(topic_partition.topic, 0) + behind
    name = progress.get("name") or progress["id"]
    rows = rows_of(progress)
    took_s = progress["durationMs"].get("triggerExecution", 0) / 1000
    topics = ", ".join(f"{topic} {behind:,}" for topic, behind in sorted(by_topic.items()) if behind)
    return (
        f"{name}, batch {progress['batchId']}: {rows:,} {'row' if rows == 1 else 'rows'} in {took_s:.1f} s, "
        f"{sum(lags.values()):,} behind" + (f" ({topics})" if topics else "")
    )


class LagListener(StreamingQueryListener):
    """Tells of every batch that had rows, of all queries of a session."""

    def __init__(self, tell: Callable[[Progress], object]) -> None:
        self._tell = tell

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:  # noqa: N802  (Spark's name)
        pass

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:  # noqa: N802
        if rows_of(event.progress):
            self._tell(event.progress)

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:  # noqa: N802
        pass


def tell_lag(spark: "SparkSession", tell: Callable[[str], object] = print) -> LagListener:
    """A sentence after every batch, from now on. `spark.streams.removeListener` ends it."""
    listener = LagListener(lambda progress: tell(sentence(progress)))
    spark.streams.addListener(listener)
    return listener


def _offsets(text: str | None) -> Offsets:
    """None and what is no JSON of ours: sources of other kinds have offsets, too."""
    try:
        tree = json.loads(text or "null")
        return from_json(tree) if isinstance(tree, dict) else {}
    except (ValueError, TypeError, AttributeError):
        return {}
