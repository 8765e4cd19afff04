"""What one client writes, every other reads: per codec, and as the broker itself compresses."""

import pytest
from tests.kafka_clients.adapters import CODECS, AioKafka, Client, Confluent, KafkaPython, Sent, take
from tests.kafka_clients.harness import BrokerProcess
from tests.kafka_clients.kcat import Kcat

HEADERS = (("from", b"one"), ("to", b"all"))
RECORDS = [Sent(f"value {n} ".encode() * 30, f"key-{n}".encode(), HEADERS) for n in range(250)]
READERS = (Confluent, AioKafka, KafkaPython)
CODEC_BITS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def assert_everybody_reads(broker: BrokerProcess, topic: str, codec: str) -> None:
    """Every client that has the codec. The others have been skipped over: their own tests say why."""
    expected = [(one.key, one.value, one.headers) for one in RECORDS]
    readers: list[Client] = [cls(broker.bootstrap) for cls in READERS]
    able = [client for client in readers if client.missing_codec(codec) is None]
    assert len(able) >= 2
    for client in able:
        with client.reader(topic) as reader:
            assert [one.content for one in take(reader, len(RECORDS))] == expected, client.name
    kcat = Kcat(broker.bootstrap)
    if kcat.missing_codec(codec) is None:
        received = kcat.consume(topic)
        assert [(one["key"].encode(), one["payload"].encode()) for one in received] == [
            (key, value) for key, value, _ in expected
        ]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", [*READERS, Kcat])
def test_what_one_client_writes_the_others_read(
    broker: BrokerProcess, topic: str, writer: type, codec: str
) -> None:
    client = writer(broker.bootstrap)
    missing = client.missing_codec(codec)
    if missing:
        pytest.skip(missing)
    client.produce(topic, RECORDS, codec=codec)
    assert_everybody_reads(broker, topic, codec)


@pytest.mark.parametrize("sent", ["none", "gzip", "zstd"])
@pytest.mark.parametrize("stored", list(CODEC_BITS))
def test_a_topics_compression_type_is_what_is_stored_and_everybody_reads_it(
    broker: BrokerProcess, topic: str, stored: str, sent: str
) -> None:
    broker.create_topic(topic, config={"compression.type": stored})
    Confluent(broker.bootstrap).produce(topic, RECORDS, codec=sent)
    attributes = broker.segments(topic)[0].read_bytes()[21:23]
    assert attributes[1] & 7 == CODEC_BITS[stored]
    assert_everybody_reads(broker, topic, "none" if stored == "uncompressed" else stored)
