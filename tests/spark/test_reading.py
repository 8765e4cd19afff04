"""format("ottla") in a real Spark: found without registration, read as a batch, errors that say what to
do."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from tests.spark.harness import Topic, read, read_stream, texts, values

from ottla.spark.schema import read_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Make = Callable[..., Topic]


def test_a_topic_is_a_data_frame(spark: "SparkSession", topic: Make) -> None:
    orders = topic(3)
    for number in range(3):
        orders.produce(range(100 * number, 100 * number + 100), number, key=b"k", headers=[("h", b"x")])
    frame = read(spark, orders.options(includeHeaders="true"))
    assert frame.schema == read_schema(include_headers=True)
    assert values(frame) == texts(range(300))
    row = frame.where("partition = 1 and offset = 7").first()
    assert row is not None
    assert (bytes(row.key), bytes(row.value), row.topic) == (b"k", b"107", orders.name)
    assert (row.timestampType, row.headers[0].key) == (0, "h")


def test_an_empty_topic_is_an_empty_data_frame(spark: "SparkSession", topic: Make) -> None:
    assert read(spark, topic(2).options()).collect() == []


def test_filters_reach_the_log_when_that_is_asked_for(
    spark: "SparkSession", topic: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = topic(2)
    for number in range(2):
        orders.produce(range(100 * number, 100 * number + 100), number)
    frame = read(spark, orders.options(pushFilters="true"))
    some = frame.where("partition = 1 and offset >= 95 and timestamp > timestamp'2020-01-01'")
    some.explain("formatted")
    (pushed,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("PushedFilters:")]
    assert "EqualTo(partition,1)" in pushed
    assert "GreaterThanOrEqual(offset,95)" in pushed
    assert "GreaterThan(timestamp" not in pushed, "Spark applies it once more"
    assert values(some) == texts(range(195, 200))


def test_a_schema_chooses_columns(spark: "SparkSession", topic: Make) -> None:
    orders = topic()
    orders.produce(range(3))
    options = orders.options()
    frame = spark.read.format("ottla").schema("offset bigint, value binary").options(**options).load()
    assert [(row.offset, bytes(row.value)) for row in frame.collect()] == [(0, b"0"), (1, b"1"), (2, b"2")]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": ""}, "option subscribe names no topics"),
        ({"startingOffset": "latest"}, "option startingoffset is not known; did you mean startingOffsets?"),
        ({"startingOffsets": "latest"}, "option startingOffsets can't be latest for batch queries"),
        ({"subscribe": "missing"}, "[UNKNOWN_TOPIC_OR_PARTITION] There is no topic missing"),
    ],
)
def test_what_is_wrong_is_said_in_the_driver(
    spark: "SparkSession", topic: Make, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        read(spark, topic().options(**options)).collect()
    assert said in str(caught.value)


def test_a_stream_may_not_have_an_end(spark: "SparkSession", topic: Make, tmp_path: object) -> None:
    stream = read_stream(spark, topic().options(endingOffsets="latest"))
    query = stream.writeStream.format("noop").option("checkpointLocation", f"{tmp_path}/c")
    with pytest.raises(PySparkException, match="option endingOffsets is not valid in streaming queries"):
        query.trigger(availableNow=True).start().awaitTermination(60)
