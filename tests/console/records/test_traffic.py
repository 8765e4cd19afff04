"""Records that come, go out as files, and are sent."""

import io
import json
import time
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.support.waiting import wait_for

from ottla import Broker
from ottla.base.command_error import CommandError
from ottla.base.errors import ErrorCode
from ottla.client import Client, ClientError
from ottla.client.formats import Decoder, Decoders, Outgoing
from ottla.client.partitioner import partition_of
from ottla.console.records.connection import Extent
from ottla.console.records.download import download, file_format
from ottla.console.records.send import send
from ottla.console.records.tail import Came, Over, tail
from ottla.records.batch import NO_PRODUCER_ID, NO_SEQUENCE, read_header

Connect = Callable[[], Client]


def test_a_tail_shows_what_comes_and_leaves_out_what_nobody_could_read(
    broker: Broker, open_client: Connect, fill: Any
) -> None:
    topic = fill([{"value": b"before"}], 2)
    events = tail(open_client, topic, [0, 1], is_wanted=lambda message: message.value != b"unwanted")
    next(events)
    producer = Producer(broker.client_config | {"linger.ms": 50})
    for number in range(120):
        producer.produce(topic, b"%d" % number, partition=number % 2)
    producer.produce(topic, b"unwanted")
    assert producer.flush(30) == 0
    came = []

    def all_came() -> bool:
        event = next(events)
        came.extend([event] if isinstance(event, Came) else [])
        return sum(len(event.messages) + event.left_out for event in came) >= 120

    wait_for(all_came)
    assert all(len(event.messages) <= 50 for event in came)
    assert came[-1].messages[-1].value == b"119"
    assert not any(message.value in (b"unwanted", b"before") for event in came for message in event.messages)
    events.close()  # type: ignore[attr-defined]


def test_a_tail_begins_where_a_page_ended_and_is_over_in_time(open_client: Connect, fill: Any) -> None:
    topic = fill([{"value": b"%d" % number} for number in range(5)])
    events = tail(open_client, topic, [0], {0: 3}, seconds_max=0.3)
    came = next(events)
    assert isinstance(came, Came)
    assert [message.value for message in came.messages] == [b"3", b"4"]
    assert isinstance(list(events)[-1], Over)


def test_a_download_is_the_records_of_all_partitions_up_to_a_limit(open_client: Connect, fill: Any) -> None:
    topic = fill([{"value": b"%d" % number, "partition": number % 2} for number in range(2_000)], 2)
    ranges = {0: Extent(0, 1000), 1: Extent(10, 1000)}
    lines = b"".join(download(open_client, topic, ranges, file_format("jsonl"))).splitlines()
    assert len(lines) == 1990
    assert [json.loads(lines[at])["value"] for at in (0, 1000)] == ["0", "21"]
    limited = b"".join(download(open_client, topic, ranges, file_format("csv"), limit=5)).splitlines()
    assert len(limited) == 6
    table = pq.read_table(io.BytesIO(b"".join(download(open_client, topic, ranges, file_format("parquet")))))
    assert table.num_rows == 1990
    with pytest.raises(CommandError, match="'xls' is no kind of file; there are jsonl, csv, parquet"):
        file_format("xls")


def test_a_record_is_sent_with_everything_it_has(broker: Broker, client: Client, fill: Any) -> None:
    topic = fill([], 4)
    record = Outgoing(b"k", b"v", [("name", b"1"), ("name", None)])
    sent = send(client, topic, [0, 1, 2, 3], record, int(time.time() * 1000))
    assert (sent.topic, sent.partition, sent.offset) == (topic, partition_of(b"k", 4), 0)
    tombstone = send(client, topic, [0, 1, 2, 3], Outgoing(b"k", None, [], sent.partition, 12_345), 0)
    assert tombstone.offset == 1
    consumer = Consumer(broker.client_config | {"group.id": "none", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, sent.partition, 0)])
    first, second = consumer.consume(2, 30)
    consumer.close()
    assert (first.key(), first.value(), first.headers()) == (b"k", b"v", [("name", b"1"), ("name", None)])
    assert (second.key(), second.value(), second.timestamp()[1]) == (b"k", None, 12_345)
    with pytest.raises(CommandError, match="has no partition 9; it has 0 to 3"):
        send(client, topic, [0, 1, 2, 3], Outgoing(None, b"", [], 9), 0)


def test_who_may_not_have_a_producer_id_sends_without_one() -> None:
    class Refusing:
        """As older clusters are, to who has no right on the cluster."""

        def producer_id(self) -> tuple[int, int]:
            raise ClientError("no", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

        def produce(self, batches: dict[Any, bytearray]) -> dict[Any, int]:
            (header,) = map(read_header, batches.values())
            assert (header.producer_id, header.base_sequence) == (NO_PRODUCER_ID, NO_SEQUENCE)
            return dict.fromkeys(batches, 7)

    sent = send(Refusing(), "t", [0], Outgoing(None, b"v", [], None), 0)  # type: ignore[arg-type]
    assert sent == ("t", 0, 7)


def test_half_a_pair_of_surrogates_does_not_end_a_download(open_client: Connect, fill: Any) -> None:
    topic = fill([{"value": rb'{"name": "\ud800"}'}, {"value": b"{}"}])
    decoders = Decoders(Decoder("key", "auto", None), Decoder("value", "json", None))
    pieces = download(open_client, topic, {0: Extent(0, 2)}, file_format("jsonl"), decoders)
    lines = b"".join(pieces).splitlines()
    assert [json.loads(line)["value"] for line in lines] == [{"name": "\ud800"}, {}]
