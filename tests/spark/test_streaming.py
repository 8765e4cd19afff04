"""Micro-batches in a real Spark: restarts from checkpoints, what is shown to the world, loss."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from tests.kafka_clients.harness import wait_for
from tests.spark.harness import QUERY_S, Topic, read_stream, run, table, texts, to_table, values

from ottla.client import Client, TopicPartition
from ottla.spark.offsets import START
from ottla.testing.embedded import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Make = Callable[..., Topic]


def once(spark: "SparkSession", options: dict[str, str], folder: Path) -> None:
    """All that is there now, into a Parquet table."""
    run(to_table(read_stream(spark, options), f"{folder}/table", f"{folder}/checkpoint"))


def test_runs_go_on_where_the_last_one_ended_and_show_it_in_a_consumer_group(
    spark: "SparkSession", topic: Make, broker: Broker, tmp_path: Path
) -> None:
    orders = topic(2)
    options = orders.options(startingOffsets="earliest", maxOffsetsPerTrigger=70, groupIdPrefix="billing")
    orders.produce(range(100), 0)
    once(spark, options, tmp_path)
    assert table(tmp_path) == texts(range(100))
    orders.produce(range(100, 150), 1)
    orders.grow(3)
    orders.produce(range(150, 160), 2)
    once(spark, options, tmp_path)
    assert table(tmp_path) == texts(range(160))
    offsets = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    assert START in offsets[0].read_text()
    assert not [path.name for path in offsets[1:] if START in path.read_text()]
    with Client(broker.bootstrap_servers) as client:
        done = client.committed(f"billing-{orders}")
    assert done == {TopicPartition(orders.name, n): end for n, end in enumerate((100, 50, 10))}
    orders.produce(range(160, 167), 1)
    query = f'consumergroup="billing-{orders}",topic="{orders}"'
    metrics = broker.metrics()
    lags = [metrics[f'kafka_consumergroup_lag{{{query},partition="{index}"}}'] for index in range(3)]
    assert lags == [0, 7, 0], "to Prometheus a query is a group like any other"
    assert metrics[f"kafka_consumergroup_current_offset_sum{{{query}}}"] == 160


def test_a_first_batch_that_failed_is_delivered_after_a_restart(
    spark: "SparkSession", topic: Make, tmp_path: Path
) -> None:
    """The silent-loss trap: the first batch is written down, its sink fails, and at the restart the start
    that Spark asks for again is behind the batch's end."""
    orders = topic()
    orders.produce(range(110))
    seen: list[str] = []

    def query(start: str, sink: "Callable[[DataFrame, int], None]") -> "StreamingQuery":
        stream = read_stream(spark, orders.options(startingOffsets=start))
        writer = stream.writeStream.foreachBatch(sink).option("checkpointLocation", f"{tmp_path}/checkpoint")
        return writer.trigger(availableNow=True).start()

    def broken(_rows: "DataFrame", _batch: int) -> None:
        raise RuntimeError("the sink is down")

    with pytest.raises(StreamingQueryException, match="the sink is down"):
        run(query(f'{{"{orders}":{{"0":100}}}}', broken))
    orders.produce(range(110, 130))
    run(query("latest", lambda rows, _batch: seen.extend(values(rows))))
    assert seen == texts(range(100, 130))


def test_new_topics_of_a_pattern_join_a_running_query(
    spark: "SparkSession", topic: Make, broker: Broker, tmp_path: Path
) -> None:
    first = topic(prefix="east")
    options = first.options(
        startingOffsets="earliest", subscribePattern=first.name.replace("east", "(east|west)")
    )
    del options["subscribe"]
    query = to_table(
        read_stream(spark, options),
        f"{tmp_path}/table",
        f"{tmp_path}/checkpoint",
        processingTime="100 milliseconds",
    )
    try:
        first.produce(range(5))
        wait_for(lambda: table(tmp_path) == texts(range(5)), QUERY_S)
        second = Topic(broker.bootstrap_servers, broker.create_topic(first.name.replace("east", "west")))
        second.produce(range(5, 9))
        wait_for(lambda: table(tmp_path) == texts(range(9)), QUERY_S)
    finally:
        query.stop()


def test_loss_fails_the_query_with_the_range_and_the_reason_unless_that_is_allowed(
    spark: "SparkSession", topic: Make, tmp_path: Path
) -> None:
    orders = topic()
    orders.produce(range(10))
    options = orders.options(startingOffsets="earliest")
    once(spark, options, tmp_path)
    orders.produce(range(10, 20))
    orders.delete_records(15)
    with pytest.raises(StreamingQueryException) as caught:
        once(spark, options, tmp_path)
    said = str(caught.value)
    assert "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE]" in said
    assert f"offset [10, 15) for topic partition {orders}-0" in said
    assert "the log starts at offset 15 now" in said
    tolerant = options | {"failOnDataLoss": "false"}
    once(spark, tolerant, tmp_path)
    assert table(tmp_path) == texts([*range(10), *range(15, 20)])
    orders.delete()
    with pytest.raises(StreamingQueryException, match=r"\[KAFKA_DATA_LOSS.PARTITIONS_DELETED\]"):
        once(spark, options, tmp_path)
