"""The client against Apache Kafka: its versions, transactions and groups. Skipped if it is not at hand."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from bench import apache
from bench.servers import PeerError
from tests.compat import traffic
from tests.compat.apache import Node
from tests.kafka_clients.harness import wait_for

from ottla.arrow.batches import encode
from ottla.arrow.columns import decode
from ottla.base.errors import ErrorCode
from ottla.client import Client, ClientError, Committed, OffsetOutOfRange, TopicPartition
from ottla.records.compression import Codec

pytestmark = pytest.mark.timeout(apache.FETCH_S + 120)


@pytest.fixture(scope="module")
def kafka() -> Iterator[Node]:
    node = Node({"group.initial.rebalance.delay.ms": "0"})
    try:
        apache.fetch()
        node.prepare()
        node.start()
        node.wait_ready()
    except PeerError as error:
        node.close()
        pytest.skip(f"needs Apache Kafka: {error}")
    try:
        yield node
    finally:
        node.stop()
        node.close()


@pytest.fixture
def client(kafka: Node) -> Iterator[Client]:
    with Client(kafka.bootstrap, timeout_s=30) as made:
        yield made


def values(client: Client, place: TopicPartition, *, read_committed: bool) -> list[bytes]:
    end = client.ends([place], read_committed=read_committed)[place]
    chunks = client.fetch(place, 0, end, read_committed=read_committed)
    batches = decode(chunks, place.topic, place.partition, 0, end)
    return [one for batch in batches for one in batch.column("value").to_pylist()]


def test_an_aborted_transaction_is_seen_only_by_those_who_want_it(kafka: Node, client: Client) -> None:
    client.create_topics({"transactions": 1})
    place = TopicPartition("transactions", 0)
    asked = ["transactions", "nowhere"]
    assert wait_for(lambda: client.partitions(asked), what="the topic") == {"transactions": [0]}
    traffic.send_transactions(kafka.bootstrap, "transactions", "tests")
    wait_for(
        lambda: client.ends([place], read_committed=True) == client.ends([place]), what="the last marker"
    )
    assert len(values(client, place, read_committed=False)) == 15
    seen = values(client, place, read_committed=True)
    assert len(seen) == 10
    assert not any(b"abort" in one for one in seen)


@pytest.mark.parametrize("codec", list(Codec))
def test_what_we_encode_apache_kafka_stores_and_gives_back(client: Client, codec: Codec) -> None:
    place = TopicPartition(f"written-{codec.label}", 0)
    client.create_topics({place.topic: 1})
    producer_id, epoch = client.producer_id()
    sent = [b"value %d" % number * 20 for number in range(5000)]
    batches = list(encode(
        pa.array(sent), None, None, 1_700_000_000_000,
        codec=codec, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, bytes_max=100_000,
    ))  # fmt: skip
    at = 0
    for one in batches:
        assert client.produce({place: one.bytes}) == {place: at}
        at += one.records
    assert client.produce({place: batches[-1].bytes}) == {place: at - batches[-1].records}, "stored twice"
    assert values(client, place, read_committed=False) == sent


def test_groups_and_offsets_are_kept_by_it(client: Client) -> None:
    place = TopicPartition("grouped", 0)
    client.create_topics({"grouped": 1})
    client.commit_offsets("spark", {place: 3})
    assert client.committed("spark") == {place: 3}
    assert client.committed("nobody") == {}
    with pytest.raises(OffsetOutOfRange) as caught:
        list(client.fetch(place, 9, 10))
    assert (caught.value.start, caught.value.end) == (0, 0)
    client.delete_topics(["grouped"])


def test_a_transaction_is_ended_by_another_client_and_may_be_ended_again(kafka: Node, client: Client) -> None:
    place = TopicPartition("handed-over", 0)
    client.create_topics({place.topic: 1})
    begun = client.begin_transaction("handed-over", 60_000)
    (batch,) = encode(
        pa.array([b"x"]), None, None, 0, producer_id=begun.producer_id, producer_epoch=begun.producer_epoch,
        base_sequence=0, is_transactional=True,
    )  # fmt: skip
    client.add_partitions(begun, [place])
    client.produce({place: batch.bytes}, transaction=begun)
    client.commit_offsets_in(begun, "handed-over", {place: Committed(7, "said")})
    assert client.ends([place], read_committed=True) == {place: 0}
    assert client.committed("handed-over") == {}
    with Client(kafka.bootstrap, timeout_s=30) as other:
        assert other.end_transactions([begun], committed=True) == {}
        assert other.end_transactions([begun], committed=True) == {}, "the same answer as before"
        refused = other.end_transactions([begun], committed=False)
    assert refused == {begun: ErrorCode.INVALID_TXN_STATE}
    wait_for(lambda: client.ends([place], read_committed=True) == {place: 2}, what="the marker")
    assert values(client, place, read_committed=True) == [b"x"]
    entries = wait_for(
        lambda: client.committed_entries("handed-over", require_stable=True), what="the offset"
    )
    assert entries == {place: Committed(7, "said")}


def test_whoever_begins_again_fences_the_one_before(client: Client) -> None:
    place = TopicPartition("fenced", 0)
    client.create_topics({place.topic: 1})
    first = client.begin_transaction("fenced", 60_000)
    client.add_partitions(first, [place])
    second = client.begin_transaction("fenced", 60_000)
    assert second.producer_epoch > first.producer_epoch
    assert (
        client.describe_transactions(["fenced", "nobody"])["fenced"].producer_epoch == second.producer_epoch
    )
    with pytest.raises(
        ClientError, match=r"adding partitions to the transaction of 'fenced'.*(FENCED|EPOCH)"
    ):
        client.add_partitions(first, [place])
    assert first in client.end_transactions([first], committed=True)
