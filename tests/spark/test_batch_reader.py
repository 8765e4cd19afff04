"""Batch reads: positions, columns, filters and loss, on a real broker and without Spark."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, LessThan
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StringType, StructField, StructType
from tests.kafka_clients.harness import wait_for
from tests.spark.harness import Topic, texts

from ottla.base.errors import ErrorCode
from ottla.client import ClientError
from ottla.records.fetched import Fetched
from ottla.spark.errors import DataLoss, OptionError, SourceError
from ottla.spark.options import read_options
from ottla.spark.reader import BatchReader, Chunks, FilteringReader
from ottla.spark.schema import columns_of, read_schema

Make = Callable[..., Topic]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def reader(topic: Topic, columns: list[str] | None = None, **given: Any) -> BatchReader:
    options = read_options(topic.options(**given), is_stream=False)
    names = columns or read_schema(include_headers=options.include_headers).fieldNames()
    return BatchReader(options, names)


def rows(batch: BatchReader) -> pa.Table:
    batches = [each for partition in batch.partitions() for each in batch.read(partition)]
    return pa.Table.from_batches(batches) if batches else pa.table({"value": []})


def values(batch: BatchReader) -> list[str]:
    return [value.decode() for value in rows(batch)["value"].to_pylist()]


def test_damaged_records_fail_the_read_as_an_error_of_the_client(
    topic: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = topic()
    orders.produce(["v"])

    def damaged(chunks: Chunks) -> Iterator[Fetched]:
        for fetched in chunks_of(chunks):
            content = bytearray(fetched.records)
            content[-1] ^= 1
            yield Fetched(memoryview(content))

    chunks_of = Chunks.__iter__
    monkeypatch.setattr(Chunks, "__iter__", damaged)
    with pytest.raises(ClientError, match="offsets 0 to 0 is damaged: its checksum is wrong") as raised:
        rows(reader(orders))
    assert raised.value.code == ErrorCode.CORRUPT_MESSAGE


def test_rows_have_the_official_columns(topic: Make) -> None:
    orders = topic()
    orders.produce(["v"], key=b"k", timestamp=1500, headers=[("h", b"1"), ("h", None)])
    orders.produce(["w"], timestamp=1501)
    table = rows(reader(orders, includeHeaders="true"))
    assert table.schema == to_arrow_schema(read_schema(include_headers=True), timezone="UTC")
    assert table.to_pylist() == [
        {
            "key": b"k",
            "value": b"v",
            "topic": orders.name,
            "partition": 0,
            "offset": 0,
            "timestamp": EPOCH + timedelta(milliseconds=1500),
            "timestampType": 0,
            "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
        },
        {
            "key": None,
            "value": b"w",
            "topic": orders.name,
            "partition": 0,
            "offset": 1,
            "timestamp": EPOCH + timedelta(milliseconds=1501),
            "timestampType": 0,
            "headers": None,
        },
    ]


def test_a_time_that_the_broker_gave_is_of_type_one(topic: Make) -> None:
    orders = topic(message_timestamp_type="LogAppendTime")
    orders.produce(["v"], timestamp=1500)
    (row,) = rows(reader(orders)).to_pylist()
    assert row["timestampType"] == 1
    assert row["timestamp"] > EPOCH + timedelta(days=365)


def test_a_schema_chooses_columns_and_nothing_else(topic: Make) -> None:
    orders = topic()
    orders.produce(range(3))
    assert rows(reader(orders, ["offset", "value"])).schema.names == ["offset", "value"]
    chosen = StructType([StructField("topic", StringType()), StructField("partition", IntegerType(), False)])
    assert columns_of(chosen, include_headers=False) == ["topic", "partition"]
    with pytest.raises(OptionError, match="value string is not a column"):
        columns_of(StructType([StructField("value", StringType())]), include_headers=False)
    with pytest.raises(OptionError, match="headers are read only with the option includeHeaders"):
        columns_of(read_schema(include_headers=True), include_headers=False)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(topic: Make, codec: str) -> None:
    orders = topic()
    orders.produce(range(500), codec=codec)
    assert values(reader(orders)) == texts(range(500))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, range(10)),
        ({"startingOffsets": {"T": {"0": 3}}}, range(3, 10)),
        ({"startingOffsets": {"T": {"0": -2}}, "endingOffsets": {"T": {"0": 4}}}, range(4)),
        ({"endingOffsets": {"T": {"0": -1}}}, range(10)),
        ({"startingTimestamp": 1005}, range(5, 10)),
        ({"endingTimestamp": 1005}, range(5)),
        ({"startingTimestamp": 1002, "endingTimestamp": 1008}, range(2, 8)),
        ({"startingOffsetsByTimestamp": {"T": {"0": 1007}}}, range(7, 10)),
        ({"endingOffsetsByTimestamp": {"T": {"0": 1007}}}, range(7)),
        ({"endingTimestamp": 5000}, range(10)),
        ({"startingTimestamp": 5000, "startingOffsetsByTimestampStrategy": "latest"}, range(0)),
        ({"startingTimestamp": 1001, "startingOffsets": "earliest"}, range(1, 10)),
        ({"startingOffsets": {"T": {"0": 4}}, "endingOffsets": {"T": {"0": 4}}}, range(0)),
    ],
)
def test_every_form_of_a_start_and_an_end(topic: Make, options: dict[str, Any], expected: range) -> None:
    orders = topic()
    for number in range(10):
        orders.produce([number], timestamp=1000 + number)
    given = {
        name: json.dumps(value).replace('"T"', f'"{orders}"') if isinstance(value, dict) else value
        for name, value in options.items()
    }
    assert values(reader(orders, **given)) == texts(expected)


def test_a_start_that_turns_out_to_be_after_the_end_is_an_error(topic: Make) -> None:
    orders = topic()
    orders.produce(range(5), timestamp=1000)
    with pytest.raises(SourceError) as caught:
        reader(orders, startingOffsets=f'{{"{orders}":{{"0":9}}}}').partitions()
    assert caught.value.error_class == "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"
    assert f"9 is greater than the resolved end offset 5 for topic {orders} partition 0" in str(caught.value)


def test_offsets_that_are_gone_are_a_loss_unless_that_is_allowed(topic: Make) -> None:
    orders = topic()
    orders.produce(range(10))
    orders.delete_records(6)
    start = f'{{"{orders}":{{"0":2}}}}'
    with pytest.raises(DataLoss, match=r"COULD_NOT_READ_OFFSET_RANGE.*offset \[2, 6\)"):
        reader(orders, startingOffsets=start).partitions()
    assert values(reader(orders, startingOffsets=start, failOnDataLoss="false")) == texts(range(6, 10))
    assert values(reader(orders)) == texts(range(6, 10)), "earliest is where the log begins"


def test_what_goes_while_a_task_waits_is_a_loss_too(topic: Make) -> None:
    orders = topic()
    orders.produce(range(10))
    strict, lenient = reader(orders), reader(orders, failOnDataLoss="false")
    (task,) = strict.partitions()
    orders.delete_records(7)
    with pytest.raises(DataLoss, match=rf"offset \[0, 7\) for topic partition {orders}-0"):
        list(strict.read(task))
    (batch,) = lenient.read(task)
    assert batch["value"].to_pylist() == [b"7", b"8", b"9"]
    orders.delete()
    with pytest.raises(DataLoss, match="the topic or partition was deleted"):
        list(strict.read(task))
    assert list(lenient.read(task)) == []


def test_gaps_that_compaction_left_are_no_loss(topic: Make) -> None:
    table = topic(
        cleanup_policy="compact",
        min_cleanable_dirty_ratio=0.01,
        segment_bytes=1000,
        min_compaction_lag_ms=0,
        segment_ms=100,
    )
    for number in range(40):
        table.produce([number], key=b"k%d" % (number % 2))
    query = reader(table, startingOffsets=f'{{"{table}":{{"0":1}}}}')

    def compacted() -> list[str] | None:
        table.produce(["more"], key=b"k2")
        seen = [value for value in values(query) if value != "more"]
        return seen if len(seen) < 39 and "38" in seen else None

    assert "0" not in wait_for(compacted, 100, what="the cleaner")


def test_many_small_partitions_are_one_task_and_options_change_that(topic: Make) -> None:
    orders = topic(8)
    for number in range(8):
        orders.produce(range(10), number)
    assert len(reader(orders).partitions()) == 1
    assert len(reader(orders, minPartitions=16).partitions()) == 16
    assert len(reader(orders, maxRecordsPerPartition=5).partitions()) == 16
    assert len(reader(orders, minPartitions=3, maxPartitions=3).partitions()) == 3
    for given in ({}, {"minPartitions": 16}, {"maxRecordsPerPartition": 5}):
        assert rows(reader(orders, **given)).num_rows == 80


def test_a_small_fetch_limit_still_brings_every_record(topic: Make) -> None:
    orders = topic()
    orders.produce("x" * 2000 for _ in range(50))
    assert rows(reader(orders, kafka__max__partition__fetch__bytes=100)).num_rows == 50


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([GreaterThanOrEqual(("offset",), 6)], range(6, 10)),
        ([EqualTo(("partition",), 1)], range(0)),
        ([GreaterThanOrEqual(("timestamp",), EPOCH + timedelta(milliseconds=1004))], range(4, 10)),
        ([GreaterThanOrEqual(("timestamp",), EPOCH + timedelta(days=9))], range(0)),
        (
            [
                GreaterThanOrEqual(("timestamp",), EPOCH + timedelta(milliseconds=1004)),
                LessThan(("offset",), 7),
            ],
            range(4, 7),
        ),
        ([GreaterThanOrEqual(("timestamp",), EPOCH - timedelta(days=1))], range(10)),
    ],
)
def test_filters_decide_what_is_fetched(topic: Make, filters: list[Filter], expected: range) -> None:
    orders = topic()
    for number in range(10):
        orders.produce([number], timestamp=1000 + number)
    batch = FilteringReader(read_options(orders.options(pushFilters="true"), is_stream=False), ["value"])
    list(batch.pushFilters(filters))
    assert values(batch) == texts(expected)
