"""format("ottla") as a sink in a real Spark. `test_crashes` has the streaming one."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from tests.spark.harness import Topic, read

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
    found = read(spark, orders.options(includeHeaders="true")).collect()
    assert sorted(int(bytes(row.value)) for row in found) == list(range(5000))
    assert len({(bytes(row.key), row.partition) for row in found}) == 10
    assert {row.headers[0].key for row in found} == {"h"}


def test_what_cannot_be_written_is_said_in_the_driver(spark: "SparkSession", topic: Make) -> None:
    """`test_writer` and `test_options` have the rest."""
    writer = spark.range(1).selectExpr("id value").write.format("ottla").options(**sink(topic()))
    with pytest.raises(PySparkException, match="value attribute unsupported type bigint"):
        writer.mode("append").save()
