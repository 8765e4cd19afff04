"""The client against a real broker, and what real clients see of what it did."""

from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from ottla import Broker
from ottla.base.errors import ErrorCode
from ottla.client import Client, ClientError, OffsetOutOfRange, TopicPartition
from ottla.client.fetch import FIRST_BYTES
from ottla.records.batch import split
from ottla.records.builder import NewRecord, build_batch
from ottla.records.record import Record, read_records

T0 = 1_700_000_000_000


def batch(*values: bytes, producer: tuple[int, int] = (-1, -1), sequence: int = -1, at: int = T0) -> bytes:
    made = [NewRecord(b"k", value, (), at + number) for number, value in enumerate(values)]
    pid, epoch = producer
    return bytes(build_batch(made, producer_id=pid, producer_epoch=epoch, base_sequence=sequence))


def read(client: Client, place: TopicPartition, start: int, end: int, **options: Any) -> list[Record]:
    chunks = client.fetch(place, start, end, **options)
    return [one for chunk in chunks for _, each in split(chunk.records) for one in read_records(each)]


def test_topics_come_and_go(client: Client) -> None:
    client.create_topics({"coming": 3}, config={"cleanup.policy": "compact"})
    assert "coming" in client.topics()
    assert client.partitions(["coming", "nowhere"]) == {"coming": [0, 1, 2]}
    client.delete_topics(["coming"])
    assert client.partitions(["coming"]) == {}
    assert "nowhere" not in client.topics(), "asking created it"


def test_a_topic_is_created_by_asking_if_both_sides_want_that(client: Client) -> None:
    assert client.partitions(["asked-for"], may_create=True) == {"asked-for": [0]}
    assert client.produce({TopicPartition("asked-for", 0): batch(b"a")}) == {
        TopicPartition("asked-for", 0): 0
    }


def test_the_first_batches_of_many_partitions_come_at_once(client: Client, place: TopicPartition) -> None:
    other, missing = TopicPartition(place.topic, 1), TopicPartition("nowhere", 0)
    client.produce({place: batch(b"a", b"b"), other: batch(b"c")})
    for _ in range(2):
        client.produce({place: batch(b"d" * (FIRST_BYTES - 1000))})
    found = client.fetch_together({place: 0, other: 0})
    assert {one: begun.after for one, begun in found.items()} == {place: 3, other: 1}
    both = [read_records(each) for begun in found.values() for _, each in split(begun.fetched.records)]
    assert [(one.value or b"")[:1] for records in both for one in records] == [b"a", b"b", b"d", b"c"]
    assert client.fetch_together({place: 99, other: 1}) == {}, "what is not there at once is left out"
    assert client.fetch_together({missing: 0}) == {}


def test_a_topic_that_is_there_already_is_an_error_with_its_code(
    client: Client, place: TopicPartition
) -> None:
    with pytest.raises(ClientError, match=f"creating topic '{place.topic}': TOPIC_ALREADY_EXISTS") as caught:
        client.create_topics({place.topic: 1})
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_offsets_are_told_by_end_start_and_time(client: Client, place: TopicPartition) -> None:
    other = TopicPartition(place.topic, 1)
    client.produce({place: batch(b"a", b"b", b"c")})
    assert client.ends([place, other]) == {place: 3, other: 0}
    assert client.ends([place], read_committed=True) == {place: 3}
    assert client.starts([place, other]) == {place: 0, other: 0}
    assert client.offsets_at({place: T0 + 1, other: T0}) == {place: 1, other: None}
    assert client.offsets_at({place: T0 + 3}) == {place: None}
    with pytest.raises(ValueError, match="is no time"):
        client.offsets_at({place: -1})


def test_nobody_waits_long_for_a_topic_that_does_not_exist(client: Client) -> None:
    with pytest.raises(
        ClientError, match="nowhere-0: no such topic or partition; does the topic exist"
    ) as caught:
        client.ends([TopicPartition("nowhere", 0)])
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_batches_are_appended_and_their_base_offsets_told(client: Client, place: TopicPartition) -> None:
    other = TopicPartition(place.topic, 1)
    assert client.produce({place: batch(b"a", b"b"), other: batch(b"c")}) == {place: 0, other: 0}
    assert client.produce({place: batch(b"d")}, acks=1) == {place: 2}
    assert client.produce({other: batch(b"e")}, acks=0) == {other: -1}
    assert [one.value for one in read(client, place, 0, 3)] == [b"a", b"b", b"d"]


def test_a_batch_that_is_sent_again_is_stored_once(client: Client, place: TopicPartition) -> None:
    producer = client.producer_id()
    assert producer[0] >= 0
    first = batch(b"a", b"b", producer=producer, sequence=0)
    assert client.produce({place: first}) == {place: 0}
    assert client.produce({place: first}) == {place: 0}
    assert client.ends([place]) == {place: 2}
    with pytest.raises(ClientError, match=f"writing to {place}: OUT_OF_ORDER_SEQUENCE_NUMBER"):
        client.produce({place: batch(b"z", producer=producer, sequence=9)})


def test_what_a_broker_refuses_names_topic_partition_and_code(client: Client, place: TopicPartition) -> None:
    damaged = bytearray(batch(b"a"))
    damaged[-1] ^= 1
    with pytest.raises(ClientError, match=f"writing to {place}: CORRUPT_MESSAGE") as caught:
        client.produce({place: bytes(damaged)})
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(ValueError, match="one whole record batch is wanted"):
        client.produce({place: batch(b"a") + batch(b"b")})
    with pytest.raises(ValueError, match="acks"):
        client.produce({place: batch(b"a")}, acks=2)


def test_a_range_is_read_in_as_many_answers_as_its_size_takes(client: Client, place: TopicPartition) -> None:
    for number in range(40):
        client.produce({place: batch(*[b"%d" % number * 1000] * 50)})
    chunks = list(client.fetch(place, 75, 1500, max_bytes=100_000))
    assert len(chunks) > 10
    assert all(len(chunk.records) <= 200_000 for chunk in chunks)
    seen = [one.offset for one in read(client, place, 75, 1500, max_bytes=100_000)]
    assert seen == list(range(50, 1500))
    assert [one.offset for one in read(client, place, 0, 2000)] == list(range(2000))


def test_the_end_of_a_range_does_not_bring_what_comes_after_it(client: Client, place: TopicPartition) -> None:
    for _ in range(60):
        client.produce({place: batch(*[b"x" * 1000] * 100)})
    size = sum(len(chunk.records) for chunk in client.fetch(place, 0, 1500))
    assert size < 1500 * 1010 + FIRST_BYTES // 2


def test_a_batch_larger_than_the_limit_still_comes_whole(client: Client, place: TopicPartition) -> None:
    client.produce({place: batch(b"x" * 500_000)})
    assert len(read(client, place, 0, 1, max_bytes=1000)[0].value or b"") == 500_000


def test_an_empty_range_asks_nothing(client: Client) -> None:
    assert list(client.fetch(TopicPartition("nowhere", 0), 5, 5)) == []


def test_an_offset_that_is_gone_says_what_there_is(client: Client, place: TopicPartition) -> None:
    client.produce({place: batch(b"a", b"b")})
    with pytest.raises(OffsetOutOfRange, match=f"{place} from offset 7: the log holds 0 to 2") as caught:
        list(client.fetch(place, 7, 9))
    assert (caught.value.start, caught.value.end) == (0, 2)


def test_a_range_that_the_log_never_reaches_ends_with_the_time(
    broker: Broker, client: Client, place: TopicPartition
) -> None:
    client.produce({place: batch(b"a")})
    why = "up to offset 5: the log ends at 1"
    with Client(broker.bootstrap_servers, timeout_s=4) as hasty, pytest.raises(ClientError, match=why):
        list(hasty.fetch(place, 0, 5))


def test_a_reader_that_stops_half_way_disturbs_nobody(client: Client, place: TopicPartition) -> None:
    for _ in range(20):
        client.produce({place: batch(*[b"x" * 1000] * 100)})
    reading = client.fetch(place, 0, 2000, max_bytes=100_000)
    next(reading)
    assert client.ends([place]) == {place: 2000}
    reading.close()  # type: ignore[attr-defined]
    assert len(read(client, place, 0, 2000)) == 2000


def test_commits_are_seen_by_consumers_of_the_group_and_theirs_by_us(
    broker: Broker, client: Client, place: TopicPartition
) -> None:
    assert client.committed("nobody") == {}
    client.commit_offsets("ours", {place: 7, TopicPartition(place.topic, 1): 9}, metadata="spark")
    assert client.committed("ours") == {place: 7, TopicPartition(place.topic, 1): 9}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "ours"})
    try:
        (seen,) = consumer.committed([Place(*place)], timeout=30)
        assert seen.offset == 7
        assert seen.metadata.startswith("spark")  # its binding reads past the end
        consumer.commit(offsets=[Place(*place, 8)], asynchronous=False)
    finally:
        consumer.close()
    assert client.committed("ours")[place] == 8


def test_records_of_a_real_producer_are_read(broker: Broker, client: Client, place: TopicPartition) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "compression.type": "zstd", "linger.ms": 50}
    )
    for number in range(500):
        producer.produce(place.topic, b"v%d" % number, b"k", partition=0, headers=[("h", b"1")])
    assert producer.flush(30) == 0
    found = read(client, place, 0, 500)
    assert [one.value for one in found] == [b"v%d" % number for number in range(500)]
    assert found[0].headers == (("h", b"1"),)


def test_a_closed_client_says_so(broker: Broker) -> None:
    client = Client(broker.bootstrap_servers)
    client.close()
    with pytest.raises(ClientError, match="closed"):
        client.topics()


def test_a_broker_that_restarts_is_waited_for(tmp_path: Any) -> None:
    with Broker(data=tmp_path) as first:
        port = int(first.bootstrap_servers.rpartition(":")[2])
        client = Client(first.bootstrap_servers, timeout_s=20)
        client.create_topics({"t": 1})
        client.produce({TopicPartition("t", 0): batch(b"a")})
    with Broker(data=tmp_path, port=port), client:
        assert client.ends([TopicPartition("t", 0)]) == {TopicPartition("t", 0): 1}
        assert len(read(client, TopicPartition("t", 0), 0, 1)) == 1
