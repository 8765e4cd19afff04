"""The official connector reads and writes Ottla, and format("ottla") gives the same data frames as it
does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.harness import Topic, read, read_stream, run, texts, to_table, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

Make = Callable[..., Topic]
BOTH = ("kafka", "ottla")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def traffic() -> dict[str, Topic]:
    """What the first test that needs it has made."""
    return {}


def rows(frame: "DataFrame") -> "list[Row]":
    return frame.orderBy("topic", "partition", "offset").collect()


def mixed(topic: Make, traffic: dict[str, Topic]) -> Topic:
    """Three partitions with every codec, with keys, headers and nulls, and with times of their own."""
    if "mixed" not in traffic:
        made = traffic["mixed"] = topic(3)
        for number, codec in enumerate(CODECS):
            base = 1_700_000_000_000 + 1000 * number
            made.produce(range(100), number % 3, codec=codec, key=f"k{number}".encode(), timestamp=base)
            made.produce(range(5), number % 3, headers=[("a", b"1"), ("b", None)], timestamp=base + 1)
    return traffic["mixed"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"includeHeaders": "true"},
        {"startingTimestamp": "1700000001001"},
        {"startingTimestamp": "1700000001001", "endingTimestamp": "1700000003000"},
        {"startingOffsets": {"0": 7, "1": -2, "2": 100}, "endingOffsets": {"0": -1, "1": 50, "2": 101}},
        {"startingOffsetsByTimestamp": {"0": 1, "1": 1700000001001, "2": 1700000002000}},
        {"startingTimestamp": "1800000000000", "startingOffsetsByTimestampStrategy": "latest"},
        {"minPartitions": "9", "includeHeaders": "true"},
        {"maxRecordsPerPartition": "10"},
    ],
)
def test_both_sources_give_the_same_rows(
    spark: "SparkSession", topic: Make, traffic: dict[str, Topic], options: dict[str, Any]
) -> None:
    made = mixed(topic, traffic)
    given = {
        name: json.dumps({made.name: value}) if isinstance(value, dict) else value
        for name, value in options.items()
    }
    theirs, ours = (read(spark, made.options(**given), name) for name in BOTH)
    assert theirs.schema == ours.schema
    assert rows(theirs) == rows(ours)


@pytest.mark.parametrize("name", BOTH)
def test_what_one_writes_both_read(spark: "SparkSession", topic: Make, name: str) -> None:
    made = topic(3)
    frame = spark.range(0, 1000, 1, 2).selectExpr(
        "if(id % 7 = 0, null, cast(id as string)) key",
        "cast(id as string) value",
        "if(id % 5 = 0, array(struct('h' as key, cast('x' as binary) as value)), null) headers",
        "cast(if(id % 11 = 0, id % 3, null) as int) partition",
    )
    options = {"kafka.bootstrap.servers": made.bootstrap, "topic": made.name, "includeHeaders": "true"}
    frame.write.format(name).options(**options).mode("append").save()
    theirs, ours = (read(spark, made.options(includeHeaders="true"), one) for one in BOTH)
    assert values(ours) == texts(range(1000))
    assert rows(theirs) == rows(ours)


def test_both_put_a_key_into_the_same_partition(spark: "SparkSession", topic: Make) -> None:
    found = []
    for name in BOTH:
        made = topic(5)
        options = {"kafka.bootstrap.servers": made.bootstrap, "topic": made.name}
        frame = spark.range(0, 200, 1, 1).selectExpr("concat('key', id) key", "'' value")
        frame.write.format(name).options(**options).mode("append").save()
        pairs = read(spark, made.options()).selectExpr("cast(key as string) key", "partition").collect()
        found.append(sorted((row.key, row.partition) for row in pairs))
    assert found[0] == found[1]


def test_the_official_connector_streams_from_and_to_ottla(
    spark: "SparkSession", topic: Make, tmp_path: Path
) -> None:
    source, target = topic(2), topic(2)
    source.produce(range(200), 0)
    source.produce(range(200, 300), 1)
    stream = read_stream(spark, source.options(startingOffsets="earliest", maxOffsetsPerTrigger=120), "kafka")
    writer = stream.selectExpr("key", "value").writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", target.bootstrap).option("topic", target.name)
    run(writer.option("checkpointLocation", f"{tmp_path}/c").trigger(availableNow=True).start())
    assert values(read(spark, target.options(), "kafka")) == texts(range(300))


def test_a_query_changes_sources_and_keeps_its_checkpoint(
    spark: "SparkSession", topic: Make, tmp_path: Path
) -> None:
    orders = topic(2)
    options = orders.options(startingOffsets="earliest", maxOffsetsPerTrigger=30)
    for turn, name in enumerate(("kafka", "ottla", "kafka")):
        orders.produce(range(100 * turn, 100 * turn + 100), turn % 2)
        run(to_table(read_stream(spark, options, name), f"{tmp_path}/table", f"{tmp_path}/checkpoint"))
    assert values(spark.read.parquet(f"{tmp_path}/table")) == texts(range(300))
