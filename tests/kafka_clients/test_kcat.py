"""kcat against a real broker. It is a command of the system; where it is absent, these tests are skipped."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kafka_clients.adapters import CODECS, Sent
from tests.kafka_clients.harness import BrokerProcess
from tests.kafka_clients.kcat import KCAT, MISSING, Kcat, librdkafka
from tests.kafka_clients.secure_broker import (
    AUTHORITY,
    MECHANISMS,
    PROTOCOLS,
    SecureBroker,
    secure_broker,
)

pytestmark = pytest.mark.skipif(KCAT is None, reason=MISSING)


@pytest.fixture
def kcat(broker: BrokerProcess) -> Kcat:
    return Kcat(broker.bootstrap)


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_carries_keys_and_headers(kcat: Kcat, topic: str, codec: str) -> None:
    missing = kcat.missing_codec(codec)
    if missing:
        pytest.skip(missing)
    headers = (("one", b"1"), ("two", b"second"))
    sent = [Sent(f"value {n}".encode() * 10, f"key-{n}".encode(), headers) for n in range(300)]
    kcat.produce(topic, sent, codec=codec)
    received = kcat.consume(topic)
    assert [(one["key"], one["payload"]) for one in received] == [
        (one.key.decode() if one.key else None, one.value.decode() if one.value else None) for one in sent
    ]
    assert [one["offset"] for one in received] == list(range(300))
    assert received[0]["headers"] == ["one", "1", "two", "second"]


def test_tombstones_and_empty_values_differ(kcat: Kcat, topic: str) -> None:
    kcat.run("-P", "-t", topic, "-K", ":", "-Z", stdin=b"gone:\n")
    kcat.run("-P", "-t", topic, "-K", ":", stdin=b"empty:\n")
    assert [(one["key"], one["payload"]) for one in kcat.consume(topic)] == [("gone", None), ("empty", "")]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_with_every_kind_of_acknowledgement(kcat: Kcat, topic: str, acks: str) -> None:
    kcat.run("-P", "-t", topic, "-X", f"acks={acks}", stdin=b"a\nb\nc\n")
    assert [one["payload"] for one in kcat.consume(topic)] == ["a", "b", "c"]


def test_an_idempotent_producer_and_a_large_message(kcat: Kcat, broker: BrokerProcess, topic: str) -> None:
    broker.create_topic(topic, config={"max.message.bytes": str(6 << 20)})
    limits = ["-X", "message.max.bytes=7000000", "-X", "enable.idempotence=true"]
    kcat.run("-P", "-t", topic, *limits, "-D", "|", stdin=b"x" * (5 << 20) + b"|after")
    received = kcat.consume(topic)
    assert [len(one["payload"]) for one in received] == [5 << 20, 5]


def test_offsets_by_count_and_by_time(kcat: Kcat, topic: str) -> None:
    kcat.run("-P", "-t", topic, stdin=b"".join(b"%d\n" % n for n in range(100)))
    assert [one["offset"] for one in kcat.consume(topic, "-o", "95")] == list(range(95, 100))
    assert [one["offset"] for one in kcat.consume(topic, "-o", "-3")] == [97, 98, 99]
    asked = kcat.run("-Q", "-t", f"{topic}:0:-2", "-t", f"{topic}:0:-1").stdout.decode()
    assert re.findall(r"offset (\d+)", asked)[-1] in {"0", "100"}
    assert re.search(r"offset 0\b", kcat.run("-Q", "-t", f"{topic}:0:1").stdout.decode())


def test_metadata_shows_the_broker_and_its_topics(kcat: Kcat, broker: BrokerProcess, topic: str) -> None:
    broker.create_topic(topic, partitions=4)
    shown = kcat.run("-L", "-t", topic).stdout.decode()
    assert f"broker 1 at 127.0.0.1:{broker.port} (controller)" in shown
    assert f'topic "{topic}" with 4 partitions' in shown
    assert shown.count("leader 1, replicas: 1, isrs: 1") == 4


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure")) as broker:
        yield broker


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_it_gets_in_by_every_mechanism(
    secure: SecureBroker, topic: str, mechanism: str, protocol: str, tmp_path: Path
) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text(AUTHORITY.pem)
    properties = secure.librdkafka(mechanism, protocol=protocol)
    if properties.pop("ssl.ca.pem", None):
        properties["ssl.ca.location"] = str(authority)
    kcat = Kcat(properties.pop("bootstrap.servers"))
    secured = [part for name, value in properties.items() for part in ("-X", f"{name}={value}")]
    if mechanism != "PLAIN" and librdkafka() < (2, 6, 1):  # it repeats its nonce, which Kafka 4 refuses, too
        with pytest.raises(subprocess.CalledProcessError):
            kcat.run("-L", *secured)
        assert "another nonce (a librdkafka before 2.6.1 does that)" in secure.log
        return
    kcat.run("-P", "-t", topic, *secured, stdin=b"hello\n")
    assert [record["payload"] for record in kcat.consume(topic, *secured)] == ["hello"]
