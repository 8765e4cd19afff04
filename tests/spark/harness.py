"""A Spark session for tests, topics to write to, and how to wait for things."""

import json
import os
import re
import subprocess
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bench.servers import PeerError
from bench.spark_connector import fetch
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from confluent_kafka.cimpl import TopicPartition as KafkaPartition
from pyarrow import parquet

from ottla.client import Client
from ottla.spark import clients
from ottla.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

JAVA_MIN = 17
# `make spark-crashes` runs everything, on every broker with transactions.
IS_LONG = bool(os.environ.get("OTTLA_LONG_TESTS"))
LONG = pytest.mark.skipif(not IS_LONG, reason="takes long: make spark-crashes")
QUERY_S = 300
# A query here is short: compiling it well costs more than it brings.
SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "900m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "2",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.log.level": "ERROR",
}


def close_clients() -> None:
    """Close the connections of tasks that ran in this process, which outlives its brokers."""
    while clients._clients:
        clients._clients.popitem()[1].close()


def java_version() -> int:
    """The major version of the java on the path; 0 if it does not say."""
    said = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


def new_session(name: str, settings: Mapping[str, str] | None = None, cores: int = 2) -> "SparkSession":
    return spark_session(name, master=f"local[{cores},4]", settings=SETTINGS | dict(settings or {}))


_shared: "list[SparkSession]" = []


def shared_session() -> "SparkSession":
    """The one session of this process. It has the official connector, where that can be had: see
    tests/compat."""
    if not _shared:
        try:
            jars = fetch(version("pyspark")).settings()
        except PeerError:
            jars = {}
        _shared.append(new_session("tests", jars))
    return _shared[0]


def close_shared_session() -> None:
    """End the session and its JVM, if there is one."""
    if _shared:
        session = _shared.pop()
        gateway = session.sparkContext._gateway
        assert gateway is not None
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(120)


@dataclass(frozen=True)
class Topic:
    bootstrap: str
    name: str

    def __str__(self) -> str:
        return self.name

    def options(self, **more: Any) -> dict[str, str]:
        """The options of a source that reads this topic; a name with a dot is given with two underscores."""
        given = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.name}
        given |= {name.replace("__", "."): str(value) for name, value in more.items()}
        return given

    def produce(
        self, values: Iterable[object], partition: int = 0, *, codec: str = "none", **record: Any
    ) -> None:
        """One record per value, with the value as its text; `record` is what else they have."""
        settings = {"bootstrap.servers": self.bootstrap, "linger.ms": 5, "compression.type": codec}
        producer = Producer(settings)
        for value in values:
            producer.produce(self.name, str(value).encode(), partition=partition, **record)
        assert producer.flush(30) == 0

    def grow(self, partitions: int) -> None:
        admin = self._admin()
        admin.create_partitions([NewPartitions(self.name, partitions)])[self.name].result(60)

    def delete(self) -> None:
        admin = self._admin()
        admin.delete_topics([self.name])[self.name].result(60)

    def delete_records(self, before: int, partition: int = 0) -> None:
        place = KafkaPartition(self.name, partition, before)
        admin = self._admin()
        admin.delete_records([place])[place].result(60)

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})


def new_topic(bootstrap: str, partitions: int) -> Topic:
    """A topic with a name of its own that keeps what it is given."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Client(bootstrap) as client:
        client.create_topics({name: partitions}, config={"retention.ms": "-1"})
    return Topic(bootstrap, name)


def read(spark: "SparkSession", options: Mapping[str, str], name: str = "ottla") -> "DataFrame":
    return spark.read.format(name).options(**options).load()


def read_stream(spark: "SparkSession", options: Mapping[str, str], name: str = "ottla") -> "DataFrame":
    return spark.readStream.format(name).options(**options).load()


def values(frame: "DataFrame") -> list[str]:
    """The values as text, sorted as numbers where they are numbers."""
    found = [row.value for row in frame.selectExpr("cast(value as string) value").collect()]
    return sorted(found, key=lambda text: (len(text), text))


def table(folder: Path) -> list[str]:
    """The values in the Parquet table of a query, without Spark: of the files that its batches have
    committed, and of no other."""
    added = []
    for log in sorted((folder / "table" / "_spark_metadata").glob("[0-9]*")):
        entries = [json.loads(line) for line in log.read_text().splitlines()[1:]]
        added += [entry["path"].removeprefix("file://") for entry in entries if entry["action"] == "add"]
    found = [text for path in added for text in parquet.read_table(path)["value"].to_pylist()]
    return sorted(found, key=lambda text: (len(text), text))


def texts(numbers: Iterable[int]) -> list[str]:
    return [str(number) for number in numbers]


def to_table(
    stream: "DataFrame",
    table: str,
    checkpoint: str,
    query_options: Mapping[str, str] | None = None,
    **trigger: Any,
) -> "StreamingQuery":
    """A query that keeps value, partition and offset in a Parquet table."""
    rows = stream.selectExpr("cast(value as string) value", "topic", "partition", "offset")
    writer = rows.writeStream.format("parquet").option("path", table).option("checkpointLocation", checkpoint)
    return writer.options(**dict(query_options or {})).trigger(**trigger or {"availableNow": True}).start()


def to_topic(stream: "DataFrame", target: Topic, checkpoint: str, **options: str) -> "StreamingQuery":
    """A query that writes keys and values to a topic."""
    given = {"kafka.bootstrap.servers": target.bootstrap, "topic": target.name, **options}
    writer = stream.select("key", "value").writeStream.format("ottla")
    return writer.options(checkpointLocation=checkpoint, **given).trigger(availableNow=True).start()


def held_up(stream: "DataFrame", gate: str, partition: int = 0) -> "DataFrame":
    """The same rows, but the first task that sees some of this partition makes `gate`.seen and waits for
    `gate`.open.

    So a test knows that a batch is half way through, and it stays there until it is let go or killed.
    """

    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import time

        for batch in batches:
            if not batch.num_rows or batch.column("partition")[0].as_py() != partition:
                yield batch
                continue
            if not os.path.exists(f"{gate}.seen"):
                with open(f"{gate}.seen", "w"):
                    pass
            end = time.monotonic() + 60
            while not os.path.exists(f"{gate}.open") and time.monotonic() < end:
                time.sleep(0.01)
            yield batch

    return stream.mapInArrow(wait, stream.schema)


def run(query: "StreamingQuery") -> "StreamingQuery":
    """Until it has ended; its error, if it has one, is raised."""
    try:
        assert query.awaitTermination(QUERY_S), "the query did not end in time"
    finally:
        query.stop()
    return query
