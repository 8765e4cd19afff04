"""Real clients over TLS, with and without certificates of their own."""

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from tests.kafka_clients.kcat import KCAT, MISSING, Kcat
from tests.support.certificates import Authority, Identity

from ottla import Broker

AUTHORITY = Authority()
CLIENT = AUTHORITY.issue("client")
VALUES = [b"%d" % number for number in range(100)] + [b"x" * 900_000]
WITHIN_S = 60.0
pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module", params=["none", "required"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Only `required` asks for certificates."""
    config = AUTHORITY.properties() | {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.client.auth": request.param,
    }
    with Broker(config=config) as made:
        yield made


@pytest.fixture
def own(broker: Broker) -> Identity | None:
    """The certificate that a client needs."""
    return CLIENT if broker.config["ssl.client.auth"] == "required" else None


def address(broker: Broker) -> str:
    server = broker._server
    assert server is not None
    return str(server.clients.endpoints["SSL"])


def files(folder: Path, own: Identity | None) -> tuple[str, str | None]:
    """The authority, and key and certificate of the client."""
    authority = folder / "ca.pem"
    authority.write_text(AUTHORITY.pem)
    return str(authority), own.write(folder / "client.pem") if own else None


def context_of(folder: Path, own: Identity | None) -> ssl.SSLContext:
    authority, certificate = files(folder, own)
    context = ssl.create_default_context(cafile=authority)
    if certificate:
        context.load_cert_chain(certificate)
    return context


def librdkafka(broker: Broker, own: Identity | None, **more: str) -> dict[str, str]:
    config = {"bootstrap.servers": address(broker), "security.protocol": "SSL", "ssl.ca.pem": AUTHORITY.pem}
    if own:
        config |= {"ssl.key.pem": own.key_pem(), "ssl.certificate.pem": own.chain_pem}
    return config | {name.replace("_", "."): value for name, value in more.items()}


def test_confluent_kafka(broker: Broker, own: Identity | None) -> None:
    producer = Producer(librdkafka(broker, own, acks="all"))
    for value in VALUES:
        producer.produce("confluent", value)
    assert producer.flush(WITHIN_S) == 0
    consumer = Consumer(librdkafka(broker, own, group_id="confluent", auto_offset_reset="earliest"))
    try:
        consumer.subscribe(["confluent"])
        messages = [consumer.poll(WITHIN_S) for _ in VALUES]
        assert [message and message.value() for message in messages] == VALUES
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    nodes = AdminClient(librdkafka(broker, own)).list_topics(timeout=WITHIN_S).brokers.values()
    assert [f"{node.host}:{node.port}" for node in nodes] == [address(broker)], "that of its own listener"


def test_confluent_kafka_without_what_it_takes_is_not_served(broker: Broker, own: Identity | None) -> None:
    refused = librdkafka(broker, None) if own else {"bootstrap.servers": address(broker)}
    with pytest.raises(KafkaException):
        AdminClient(refused | {"log_level": "0"}).list_topics(timeout=2)


def test_aiokafka(broker: Broker, own: Identity | None, tmp_path: Path) -> None:
    async def live() -> list[bytes | None]:
        settings = {
            "bootstrap_servers": address(broker),
            "security_protocol": "SSL",
            "ssl_context": context_of(tmp_path, own),
        }
        producer = AIOKafkaProducer(**settings, acks="all")
        await producer.start()
        try:
            for value in VALUES:
                await producer.send_and_wait("aiokafka", value)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer("aiokafka", **settings, group_id="aiokafka", auto_offset_reset="earliest")
        await consumer.start()
        try:
            async with asyncio.timeout(WITHIN_S):
                return [(await consumer.getone()).value for _ in VALUES]
        finally:
            await consumer.stop()

    assert asyncio.run(live()) == VALUES


@pytest.mark.skipif(KCAT is None, reason=MISSING)
def test_kcat(broker: Broker, own: Identity | None, tmp_path: Path) -> None:
    authority, certificate = files(tmp_path, own)
    settings = {"security.protocol": "SSL", "ssl.ca.location": authority}
    if certificate:
        settings |= {"ssl.certificate.location": certificate, "ssl.key.location": certificate}
    kcat = Kcat(address(broker), settings)
    kcat.run("-P", "-t", "kcat", stdin=b"".join(value + b"\n" for value in VALUES[:100]))
    assert [record["payload"].encode() for record in kcat.consume("kcat")] == VALUES[:100]


def test_kafka_python(broker: Broker, own: Identity | None, tmp_path: Path) -> None:
    authority, certificate = files(tmp_path, own)
    settings = {
        "bootstrap_servers": address(broker),
        "security_protocol": "SSL",
        "ssl_cafile": authority,
        "ssl_certfile": certificate,
    }
    producer = KafkaProducer(**settings, acks="all")
    for value in VALUES:
        producer.send("kafka-python", value)
    producer.flush(WITHIN_S)
    producer.close()
    consumer = KafkaConsumer(
        "kafka-python", **settings, group_id="kafka-python", auto_offset_reset="earliest",
        consumer_timeout_ms=WITHIN_S * 1000,
    )  # fmt: skip
    try:
        values = [next(consumer).value for _ in VALUES]
    finally:
        consumer.close()
    assert values == VALUES
