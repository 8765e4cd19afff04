"""format("ottla") serves Apache Kafka, too (from Maven): it reads what others wrote there, and others read
what it has written."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.compat import transactional
from tests.spark.conftest import serving
from tests.spark.harness import Topic, new_topic, read, read_stream, run, table, texts, to_table, values
from tests.support.waiting import wait_for

from ottla.client import Client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DELIVERIES = ("at-least-once", "exactly-once")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[transactional.Server]:
    with serving(transactional.APACHE, tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture
def topic(kafka: transactional.Server) -> Topic:
    return new_topic(kafka.bootstrap, 3)


def seen_by_another_client(topic: Topic, count: int) -> list[int]:
    """At least so many committed records, and all that come with them."""
    consumer = Consumer({"bootstrap.servers": topic.bootstrap, "group.id": "another", "log_level": 0})
    found: list[int] = []
    try:
        consumer.assign([TopicPartition(topic.name, number, 0) for number in range(3)])

        def is_read() -> bool:
            messages = consumer.consume(1000, 0.5)
            found.extend(int(message.value() or b"") for message in messages if message.error() is None)
            return len(found) >= count

        wait_for(is_read, 60, lambda: f"{count} records; there are {len(found)}")
    finally:
        consumer.close()
    return sorted(found)


def test_batch_reads_what_other_clients_have_written(spark: "SparkSession", topic: Topic) -> None:
    for number, codec in enumerate(CODECS):
        topic.produce(range(100 * number, 100 * number + 100), number % 3, codec=codec)
    assert values(read(spark, topic.options())) == texts(range(500))


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_rows_are_written_once_and_other_clients_read_them(
    spark: "SparkSession", topic: Topic, delivery: str
) -> None:
    sink = {"kafka.bootstrap.servers": topic.bootstrap, "topic": topic.name, "delivery": delivery}
    rows = spark.range(0, 1000, 1, 2).selectExpr("cast(id % 10 as string) key", "cast(id as string) value")
    rows.write.format("ottla").options(**sink).mode("append").save()
    assert seen_by_another_client(topic, 1000) == list(range(1000))


def test_a_stream_goes_on_where_it_stopped_and_its_place_is_a_group_of_kafkas(
    spark: "SparkSession", topic: Topic, tmp_path: Path
) -> None:
    options = topic.options(startingOffsets="earliest", groupIdPrefix="billing")

    def once() -> None:
        run(to_table(read_stream(spark, options), f"{tmp_path}/table", f"{tmp_path}/checkpoint"))

    topic.produce(range(100), 0)
    once()
    topic.produce(range(100, 150), 1)
    once()
    assert table(tmp_path) == texts(range(150))
    with Client(topic.bootstrap) as client:
        done = client.committed(f"billing-{topic}")
    assert {place.partition: offset for place, offset in done.items()} == {0: 100, 1: 50, 2: 0}
