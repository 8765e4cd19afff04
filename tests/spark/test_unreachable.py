"""A cluster that is down, and ends that are not there: a query says so soon, and in a line."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from tests.spark.harness import Topic, read, read_stream, run, to_topic
from tests.support.ports import free_ports

from ottla.spark.clients import reached
from ottla.spark.errors import SourceError
from ottla.spark.options import Where, read_options, write_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOON_S = 60.0  # on a machine that is busy; kafkaConsumer.pollTimeoutMs and delivery.timeout.ms are 120 s
READ_SOON = {"kafka__default__api__timeout__ms": 500}
WRITE_SOON = {"kafka.max.block.ms": "500"}


@pytest.fixture
def nowhere() -> Topic:
    return Topic(f"127.0.0.1:{free_ports(1)[0]}", "orders")


def rows(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame([("pears",)], "value string")


def fails(query: Callable[[], object]) -> str:
    """The message of a query that fails soon, without what Spark puts around it."""
    began_s = time.monotonic()
    with pytest.raises(PySparkException) as caught:
        query()
    assert time.monotonic() - began_s < SOON_S
    text = str(caught.value).split("JVM stacktrace:")[0]
    ours = re.findall(r'^  File ".*/ottla/(?:spark|client)/.*$', text, re.MULTILINE)
    assert len(ours) <= 1, f"it is told without the way to it:\n{text}"
    return next(line for line in text.splitlines() if "KAFKA_" in line)


def test_a_batch_that_begins_without_a_broker_says_which_option_to_correct(
    spark: "SparkSession", nowhere: Topic
) -> None:
    said = fails(lambda: read(spark, nowhere.options(**READ_SOON)).count())
    assert "[KAFKA_BROKER_UNREACHABLE]" in said
    assert f"broker {nowhere.bootstrap}: Connection refused" in said
    assert f"correct kafka.bootstrap.servers, which is {nowhere.bootstrap}" in said


def test_a_stream_that_begins_without_a_broker_says_the_same(
    spark: "SparkSession", nowhere: Topic, topic: Callable[..., Topic], tmp_path: Path
) -> None:
    stream = read_stream(spark, nowhere.options(**READ_SOON))
    said = fails(lambda: run(to_topic(stream, topic(), str(tmp_path / "checkpoint"))))
    assert f"correct kafka.bootstrap.servers, which is {nowhere.bootstrap}" in said


def test_a_batch_that_is_written_to_nobody_says_the_same(spark: "SparkSession", nowhere: Topic) -> None:
    options = {"kafka.bootstrap.servers": nowhere.bootstrap, "topic": nowhere.name, **WRITE_SOON}
    writer = rows(spark).write.format("ottla").mode("append").options(**options)
    assert f"which is {nowhere.bootstrap}" in fails(writer.save)


def test_a_stream_that_is_written_to_nobody_says_the_same(
    spark: "SparkSession", nowhere: Topic, topic: Callable[..., Topic], tmp_path: Path
) -> None:
    orders = topic()
    orders.produce(range(3))
    stream = read_stream(spark, orders.options(startingOffsets="earliest"))
    said = fails(lambda: run(to_topic(stream, nowhere, str(tmp_path / "checkpoint"), **WRITE_SOON)))
    assert f"which is {nowhere.bootstrap}" in said


def test_an_end_that_is_past_the_log_says_where_the_log_ends(
    spark: "SparkSession", topic: Callable[..., Topic]
) -> None:
    orders = topic()
    orders.produce(range(3))
    past = {"endingOffsets": f'{{"{orders}":{{"0":500}}}}'}
    said = fails(lambda: read(spark, orders.options(**past)).count())
    assert "[KAFKA_END_OFFSET_PAST_END_OF_LOG]" in said
    assert f"endingOffsets asks for {orders}-0 up to offset 500, and its log ends at 3" in said
    assert read(spark, orders.options(**past, failOnDataLoss="false")).count() == 3


def test_a_cluster_that_was_reached_once_is_waited_for(topic: Callable[..., Topic]) -> None:
    """Only the first contact is short: `reach` asks nobody any more."""
    where = Where(topic().bootstrap, "patient", reach_s=0.0)
    with pytest.raises(SourceError, match="KAFKA_BROKER_UNREACHABLE"):
        reached(where)
    patient = Where(where.bootstrap, "patient")
    assert reached(patient) is reached(patient)


@pytest.mark.parametrize(("given", "reach_s"), [({}, 10.0), ({"kafka.default.api.timeout.ms": "700"}, 0.7)])
def test_how_long_a_reader_waits_for_a_cluster_can_be_set(given: dict[str, str], reach_s: float) -> None:
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", **given}
    assert read_options(options, is_stream=True).where.reach_s == reach_s


@pytest.mark.parametrize(
    ("given", "batch_s", "stream_s"), [({}, 10.0, 30.0), ({"kafka.max.block.ms": "700"}, 0.7, 0.7)]
)
def test_how_long_a_writer_waits_for_a_cluster_can_be_set(
    given: dict[str, str], batch_s: float, stream_s: float
) -> None:
    options = {"kafka.bootstrap.servers": "h:1", **given}
    assert write_options(options).where.reach_s == batch_s
    assert write_options(options, is_stream=True).where.reach_s == stream_s
