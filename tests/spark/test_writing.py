"""format("ottla") as a sink in a real Spark: batch, streaming, and what it refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from tests.spark.harness import Topic, read, read_stream, run, texts, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Make = Callable[..., Topic]


def sink(topic: Topic) -> dict[str, str]:
    return {"kafka.bootstrap.servers": topic.bootstrap, "topic": topic.name}


def test_a_data_frame_becomes_a_topic(spark: "SparkSession", topic: Make) -> None:
    orders = topic(3)
    rows = spark.range(0, 5000, 1, 2).selectExpr(
        "cast(id % 10 as string) key",
        "cast(id as string) value",
        "array(struct('h' as key, cast('x' as binary) as value)) headers",
    )
    rows.write.format("ottla").options(**sink(orders)).mode("append").save()
    frame = read(spark, orders.options(includeHeaders="true"))
    assert values(frame) == texts(range(5000))
    assert frame.selectExpr("count(distinct key, partition) n", "min(headers[0].key) h").first() == (10, "h")


def test_a_stream_is_copied_and_goes_on_after_a_restart(
    spark: "SparkSession", topic: Make, tmp_path: Path
) -> None:
    source, target = topic(2), topic(2)
    stream = read_stream(spark, source.options(startingOffsets="earliest"))
    for some in (range(50), range(50, 80)):
        source.produce(some, 1)
        writer = stream.selectExpr("key", "value").writeStream.format("ottla").options(**sink(target))
        writer = writer.option("checkpointLocation", f"{tmp_path}/checkpoint").queryName("copy")
        run(writer.trigger(availableNow=True).start())
    assert values(read(spark, target.options())) == texts(range(80))


@pytest.mark.parametrize(
    ("column", "mode", "options", "said"),
    [
        ("id value", "append", {}, "value attribute unsupported type bigint"),
        ("'x' value", "overwrite", {}, "mode overwrite is not supported"),
        ("'x' value", "append", {"kafka.acks": "many"}, "option kafka.acks"),
        ("'x' value", "append", {"topics": "x"}, "option topics is not known; did you mean topic?"),
    ],
)
def test_what_cannot_be_written_is_said_in_the_driver(
    spark: "SparkSession", topic: Make, column: str, mode: str, options: dict[str, str], said: str
) -> None:
    writer = spark.range(1).selectExpr(column).write.format("ottla").options(**sink(topic()), **options)
    with pytest.raises(PySparkException) as caught:
        writer.mode(mode).save()
    assert said in str(caught.value)
