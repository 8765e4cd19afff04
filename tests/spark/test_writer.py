"""Arrow rows to topics: the writer on a real broker, without Spark. What it wrote is read with librdkafka."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.cimpl import TopicPartition as KafkaPartition
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType
from tests.spark.harness import Topic, close_clients

from ottla.client import Client, ClientError, TopicPartition
from ottla.records.batch import read_header
from ottla.spark.errors import OptionError, SourceError
from ottla.spark.options import write_options
from ottla.spark.schema import HEADERS, check_written
from ottla.spark.source import OttlaSource
from ottla.spark.writer import BatchWriter, StreamWriter, Written, send
from ottla.testing.embedded import Broker

Make = Callable[..., Topic]
HEADERS_ARROW = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def write(target: Topic, *batches: pa.RecordBatch, **options: Any) -> Written:
    given = {"kafka.bootstrap.servers": target.bootstrap, "topic": target.name}
    given |= {name.replace("__", "."): str(value) for name, value in options.items()}
    return send(write_options({name: text for name, text in given.items() if text != "None"}), iter(batches))


def consume(topic: Topic, count: int) -> list[Any]:
    """All records, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": topic.bootstrap, "group.id": "x", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic.name, 60).topics[topic.name].partitions
        consumer.assign([KafkaPartition(topic.name, number, 0) for number in partitions])
        records: list[Any] = []
        while len(records) < count:
            some = consumer.consume(count, 60)
            assert some, f"{len(records)} of {count} records came"
            records += some
    finally:
        consumer.close()
    return sorted(records, key=lambda each: (each.partition(), each.offset()))


def test_keys_values_and_headers_arrive_as_they_are(topic: Make) -> None:
    orders = topic()
    headers = pa.array([[("h", b"1"), ("h", None)], None, []], HEADERS_ARROW)
    written = write(
        orders, batch(key=["a", None, ""], value=[b"1", None, b""], headers=headers, other=[1, 2, 3])
    )
    assert written == Written(3, {TopicPartition(orders.name, 0): 3})
    first, second, third = consume(orders, 3)
    assert (first.key(), first.value(), first.headers()) == (b"a", b"1", [("h", b"1"), ("h", None)])
    assert (second.key(), second.value(), second.headers()) == (None, None, None)
    assert (third.key(), third.value(), third.headers()) == (b"", b"", None)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_written(topic: Make, codec: str) -> None:
    orders = topic()
    write(orders, batch(value=[f"value {number}" for number in range(2000)]), kafka__compression__type=codec)
    assert [each.value() for each in consume(orders, 2000)][-1] == b"value 1999"


def test_a_key_goes_where_every_other_producer_puts_it(topic: Make) -> None:
    ours, theirs = topic(7), topic(7)
    keys = [f"key-{number}" for number in range(300)]
    write(ours, batch(key=keys, value=keys))
    producer = Producer({"bootstrap.servers": theirs.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(theirs.name, key, key)
    assert producer.flush(60) == 0
    both = [
        {(each.key(), each.partition()) for each in consume(each_topic, 300)} for each_topic in (ours, theirs)
    ]
    assert both[0] == both[1]


def test_rows_without_a_key_are_spread_in_time_and_stay_in_order(topic: Make) -> None:
    orders = topic(3)
    for start in range(0, 600, 100):
        write(orders, batch(value=[str(number) for number in range(start, start + 100)]))
    records = consume(orders, 600)
    for number in range(3):
        values = [int(each.value()) for each in records if each.partition() == number]
        assert values == sorted(values)


def test_a_partition_column_decides_where_it_has_a_value(topic: Make) -> None:
    orders = topic(4)
    asked = pa.array([3, None, 1], pa.int32())
    write(orders, batch(key=["a", "a", "a"], value=["x", "y", "z"], partition=asked))
    by_key = consume(orders, 3)
    found = {each.value(): each.partition() for each in by_key}
    assert (found[b"x"], found[b"z"]) == (3, 1)
    with pytest.raises(SourceError, match=rf"4 is no partition of topic {orders}, which has 4"):
        write(orders, batch(value=["x"], partition=pa.array([4], pa.int32())))


def test_the_topic_is_an_option_or_a_column_and_the_option_wins(topic: Make) -> None:
    one, other = topic(), topic()
    rows = batch(topic=[one.name, other.name, one.name], value=["1", "2", "3"])
    write(one, rows, topic=None)
    assert [each.value() for each in consume(one, 2)] == [b"1", b"3"]
    assert [each.value() for each in consume(other, 1)] == [b"2"]
    write(other, rows)
    assert len(consume(other, 4)) == 4


def test_a_null_topic_has_the_official_name(topic: Make) -> None:
    orders = topic()
    with pytest.raises(SourceError) as caught:
        write(orders, batch(topic=[orders.name, None], value=["1", "2"]), topic=None)
    assert caught.value.error_class == "KAFKA_NULL_TOPIC_IN_DATA"


def test_a_topic_that_is_not_there_is_created_if_brokers_do_that(topic: Make, broker: Broker) -> None:
    new = Topic(broker.bootstrap_servers, f"new-{topic()}")
    write(new, batch(value=["x", "y"]))
    assert [each.value() for each in consume(new, 2)] == [b"x", b"y"]


def test_a_topic_that_no_broker_creates_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.client.retry.UNKNOWN_TOPIC_S", 0.3)
    with Broker({"auto.create.topics.enable": False}) as strict:
        nowhere = Topic(strict.bootstrap_servers, "nowhere")
        with pytest.raises(SourceError, match=r"There is no topic nowhere to write to.*create it first"):
            write(nowhere, batch(value=["x"]))
        close_clients()
        with Client(strict.bootstrap_servers) as client:
            assert client.topics() == []


def test_a_record_that_the_broker_refuses_fails_the_task_with_its_reason(topic: Make) -> None:
    small = topic(max_message_bytes=1000)
    with pytest.raises(ClientError, match="MESSAGE_TOO_LARGE"):
        write(small, batch(value=["x" * 5000]))


def test_batches_are_as_large_as_they_may_be(topic: Make, broker: Broker) -> None:
    orders = topic()
    rows = [batch(value=["x" * 100] * 1000) for _ in range(20)]
    write(orders, *rows, kafka__batch__size=20_000)
    with Client(broker.bootstrap_servers) as client:
        (fetched,) = client.fetch(TopicPartition(orders.name, 0), 0, 10)
        header = read_header(fetched.records)
    assert 15_000 < header.size <= 20_000
    assert (header.base_sequence, header.producer_id >= 0) == (0, True)
    values = [each.value() for each in consume(orders, 20_000)]
    assert len(values) == 20_000


@pytest.mark.parametrize(
    "options", [{"kafka__acks": 1}, {"kafka__acks": 0}, {"kafka__enable__idempotence": "false"}]
)
def test_without_idempotence_there_is_no_producer(
    topic: Make, broker: Broker, options: dict[str, Any]
) -> None:
    orders = topic()
    write(orders, batch(value=["x"]), **options)
    consume(orders, 1)
    with Client(broker.bootstrap_servers) as client:
        (fetched,) = client.fetch(TopicPartition(orders.name, 0), 0, 1)
        assert read_header(fetched.records).producer_id == -1


def test_the_time_of_a_record_is_now_or_a_column(topic: Make) -> None:
    orders = topic()
    noon = datetime(2026, 1, 1, 12, 0, 0, 123_456, tzinfo=UTC)
    times = pa.array([noon, None], pa.timestamp("us", "UTC"))
    write(orders, batch(value=["a", "b"], timestamp=times), timestampColumn="timestamp")
    write(orders, batch(value=["c"], timestamp=times[:1]))
    at = [each.timestamp()[1] for each in consume(orders, 3)]
    assert at[0] == 1767268800123
    assert min(at[1:]) > 1767268800123


def test_a_task_without_rows_writes_nothing(topic: Make) -> None:
    orders = topic()
    assert write(orders) == Written(0)
    assert write(orders, batch(value=pa.array([], pa.string()))) == Written(0)


def test_both_writers_send_in_write_and_have_nothing_to_publish(topic: Make) -> None:
    orders = topic()
    options = write_options({"kafka.bootstrap.servers": orders.bootstrap, "topic": orders.name})
    message = BatchWriter(options).write(iter([batch(value=["x"])]))
    BatchWriter(options).commit([message, None])
    stream = StreamWriter(options)
    message = stream.write(iter([batch(value=["y"])]))
    stream.abort([message], 0)
    stream.commit([message], 0)
    assert [each.value() for each in consume(orders, 2)] == [b"x", b"y"]


@pytest.mark.parametrize(
    ("fields", "topic_option", "said"),
    [
        ({"key": StringType()}, "t", "required attribute 'value' not found"),
        ({"value": StringType()}, None, "topic option required when no 'topic' attribute"),
        (
            {"value": LongType()},
            "t",
            r"value attribute unsupported type bigint. value must be a\(n\) string or binary",
        ),
        ({"value": StringType(), "key": LongType()}, "t", "key attribute unsupported type bigint"),
        ({"value": StringType(), "partition": LongType()}, "t", r"partition must be a\(n\) int"),
        ({"value": StringType(), "headers": StringType()}, "t", "headers attribute unsupported type string"),
        ({"value": StringType(), "topic": IntegerType()}, "t", "topic attribute unsupported type int"),
        (
            {"value": StringType(), "at": StringType()},
            "t",
            "option timestampColumn: 'at' is not a timestamp column",
        ),
    ],
)
def test_columns_have_the_official_types(fields: dict[str, Any], topic_option: str | None, said: str) -> None:
    schema = StructType([StructField(name, kind) for name, kind in fields.items()])
    with pytest.raises(OptionError, match=said):
        check_written(schema, topic_option, "at" if "at" in fields else None)


def test_a_log_is_not_overwritten() -> None:
    source = OttlaSource({"kafka.bootstrap.servers": "x:1", "topic": "t"})
    with pytest.raises(OptionError, match="mode overwrite is not supported"):
        source.writer(StructType([StructField("value", StringType())]), overwrite=True)


def test_what_may_be_written() -> None:
    fields = {"value": StringType(), "headers": HEADERS, "partition": IntegerType(), "at": TimestampType()}
    check_written(StructType([StructField(name, kind) for name, kind in fields.items()]), "t", "at")
