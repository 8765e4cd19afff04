"""format("ottla") in a real Spark: found without registration, read as a batch, errors that say what to
do."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from tests.spark.harness import Topic, read, texts, values

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
    rows = {(row.partition, row.offset): row for row in frame.collect()}
    assert sorted(int(bytes(row.value)) for row in rows.values()) == list(range(300))
    row = rows[1, 7]
    assert (bytes(row.key), bytes(row.value), row.topic) == (b"k", b"107", orders.name)
    assert (row.timestampType, row.headers[0].key) == (0, "h")


def test_filters_reach_the_log_when_that_is_asked_for(
    spark: "SparkSession", topic: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = topic(2)
    for number in range(2):
        orders.produce(range(100 * number, 100 * number + 100), number)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = read(spark, orders.options(pushFilters="true"))
        some = frame.where("partition = 1 and offset >= 95 and timestamp > timestamp'2020-01-01'")
        some.explain("formatted")
        found = values(some)
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    (pushed,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("PushedFilters:")]
    assert "EqualTo(partition,1)" in pushed
    assert "GreaterThanOrEqual(offset,95)" in pushed
    assert "GreaterThan(timestamp" not in pushed, "Spark applies it once more"
    assert found == texts(range(195, 200))


def test_a_schema_chooses_columns(spark: "SparkSession", topic: Make) -> None:
    orders = topic()
    orders.produce(range(3))
    options = orders.options()
    frame = spark.read.format("ottla").schema("offset bigint, value binary").options(**options).load()
    assert [(row.offset, bytes(row.value)) for row in frame.collect()] == [(0, b"0"), (1, b"1"), (2, b"2")]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffset": "latest"}, "option startingoffset is not known; did you mean startingOffsets?"),
        ({"subscribe": "missing"}, "[UNKNOWN_TOPIC_OR_PARTITION] There is no topic missing"),
    ],
)
def test_what_is_wrong_is_said_in_the_driver(
    spark: "SparkSession", topic: Make, options: dict[str, str], said: str
) -> None:
    """When a frame is made, and when it is read: `test_options` has the rest."""
    with pytest.raises(PySparkException) as caught:
        read(spark, topic().options(**options)).collect()
    assert said in str(caught.value)
