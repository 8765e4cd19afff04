"""Real clients that authenticate with PLAIN and SCRAM, and who does not, where a listener demands it."""

import asyncio
import contextlib
import random
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import kafka
import kafka.errors
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from tests.kafka_clients.secure_broker import (
    MECHANISMS,
    PROTOCOLS,
    SecureBroker,
    secure_broker,
)
from tests.kafka_clients.wire_client import Closed, framed, logs_in
from tests.support.waiting import wait_for

from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

WITHIN_S = 30.0
HANGING = 10_000
GROWTH_BYTES_MAX = 100 << 20


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    folder = tmp_path_factory.mktemp("secure")
    with secure_broker(folder, connection_failed_authentication_delay_ms="5") as broker:
        yield broker


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_produces_and_consumes(
    secure: SecureBroker, topic: str, mechanism: str, protocol: str
) -> None:
    own = secure.librdkafka(mechanism, protocol=protocol)
    secure.create_topic(topic)
    producer = Producer(own)
    producer.produce(topic, b"hello")
    assert producer.flush(WITHIN_S) == 0
    consumer = Consumer({**own, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(WITHIN_S)
        assert message is not None
        assert (message.error(), message.value()) == (None, b"hello")
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_produces_and_consumes(
    secure: SecureBroker, topic: str, mechanism: str, protocol: str
) -> None:
    secure.create_topic(topic)
    own = secure.python(mechanism, protocol)
    producer = kafka.KafkaProducer(**own)
    try:
        assert producer.send(topic, b"hello").get(WITHIN_S).offset == 0
    finally:
        producer.close()
    consumer = kafka.KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=int(WITHIN_S * 1000), **own
    )
    try:
        assert next(consumer).value == b"hello"
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_produces_and_consumes(
    secure: SecureBroker, topic: str, mechanism: str, protocol: str
) -> None:
    secure.create_topic(topic)
    own = secure.python(mechanism, protocol)

    async def story() -> bytes:
        async with AIOKafkaProducer(**own) as producer:
            await producer.send_and_wait(topic, b"hello")
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **own) as consumer:
            record = await asyncio.wait_for(consumer.getone(), WITHIN_S)
            value: bytes = record.value
            return value

    assert asyncio.run(story()) == b"hello"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_an_authentication_error_to_librdkafka(
    secure: SecureBroker, mechanism: str
) -> None:
    errors: list[KafkaError] = []
    client = AdminClient({**secure.librdkafka(mechanism, "wrong"), "error_cb": errors.append})
    wait_for(
        lambda: client.poll(0.1) >= 0 and any(error.code() == KafkaError._AUTHENTICATION for error in errors),
        WITHIN_S,
        "the error of authentication",
    )


def test_users_are_added_changed_and_removed_while_clients_come(secure: SecureBroker) -> None:
    def can_connect(password: str) -> bool:
        with secure.wire() as wire:
            return logs_in(wire, "SCRAM-SHA-256", "carol", password)

    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)

    def put(password: bytes) -> None:
        alteration = UserScramCredentialUpsertion("carol", info, password)
        secure.admin.alter_user_scram_credentials([alteration])["carol"].result(WITHIN_S)

    assert not can_connect("first")
    put(b"first")
    assert can_connect("first")
    description = secure.admin.describe_user_scram_credentials(["carol"])["carol"].result(WITHIN_S)
    assert [(own.mechanism, own.iterations) for own in description.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_256, 8192)
    ]
    put(b"second")
    assert can_connect("second")
    assert not can_connect("first")
    deletion = UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_256)
    secure.admin.alter_user_scram_credentials([deletion])["carol"].result(WITHIN_S)
    assert not can_connect("second")


def test_clients_authenticate_again_on_the_same_connection(tmp_path: Path, topic: str) -> None:
    """KIP-368, with librdkafka, which does so when most of the time is over."""
    with secure_broker(tmp_path, connections_max_reauth_ms="2000") as broker:
        broker.create_topic(topic)
        producer = Producer(broker.librdkafka("SCRAM-SHA-512"))
        began = time.monotonic()
        while time.monotonic() - began < 4.5:
            producer.produce(topic, b"x")
            assert producer.flush(WITHIN_S) == 0
        assert "expired" not in broker.log


# -- who does not authenticate --


def test_a_frame_before_authentication_may_have_512_kib(secure: SecureBroker) -> None:
    with secure.wire() as wire:
        wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        largest = SaslAuthenticateRequest(auth_bytes=b"x" * (512 * 1024 - 30))
        assert wire.call(largest, 1).error_code == 58
    with secure.wire() as wire:
        wire.send_bytes((512 * 1024 + 1).to_bytes(4))
        with pytest.raises(Closed):
            wire.receive_frame()


def test_who_takes_longer_than_the_deadline_is_closed(tmp_path: Path) -> None:
    with secure_broker(tmp_path, ottla_authentication_timeout_ms="500") as broker:
        began = time.monotonic()
        with broker.wire() as silent, broker.wire() as slow:
            slow.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
            for wire in (silent, slow):
                with pytest.raises(Closed):
                    wire.receive_frame()
        assert time.monotonic() - began >= 0.5
        assert "it has not authenticated in 500 ms (ottla.authentication.timeout.ms)" in broker.log
        assert AdminClient(broker.librdkafka("PLAIN")).list_topics(timeout=WITHIN_S).brokers


def test_ten_thousand_connections_that_say_nothing_hold_nobody_up(secure: SecureBroker) -> None:
    """As many as this process may open, if that is fewer. Half of them begin a request."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(HANGING, soft - 500)
    before = secure.rss_bytes()
    beginning = (500_000).to_bytes(4) + b"\0\x12" + bytes(1_000)
    hanging: list[socket.socket] = []
    try:
        for number in range(count):
            hanging.append(socket.create_connection(("127.0.0.1", secure.secure_port), WITHIN_S))
            if number % 2:
                with contextlib.suppress(OSError):
                    hanging[-1].sendall(beginning)
            if number % 1000 == 0:
                assert AdminClient(secure.librdkafka("PLAIN")).list_topics(timeout=WITHIN_S).brokers
        assert AdminClient(secure.librdkafka("SCRAM-SHA-512")).list_topics(timeout=WITHIN_S).brokers
        assert secure.open_files() < 1_024 + 200
        assert secure.rss_bytes() - before < GROWTH_BYTES_MAX
    finally:
        for held in hanging:
            held.close()
    wait_for(lambda: secure.open_files() < 200, WITHIN_S, "the connections to be gone")


def test_whatever_is_sent_instead_of_tokens_costs_only_its_connection(secure: SecureBroker) -> None:
    """Handshakes with random tokens, with and without headers: no crash, no growth."""
    chance = random.Random(14)
    before = 0
    for number in range(600):
        if number == 100:
            before = secure.rss_bytes()
        with secure.wire() as wire, contextlib.suppress(Closed, OSError):
            mechanism = chance.choice([*MECHANISMS, "GSSAPI", "OTTLA-HMAC-SHA-256", "x" * 1000])
            version = chance.randrange(2)
            if wire.call(SaslHandshakeRequest(mechanism=mechanism), version).error_code:
                continue
            for _ in range(chance.randrange(1, 3)):
                token = chance.choice([b"", b"n,,n=alice,r=", b"\0alice\0", b"c=biws,r="])
                token += chance.randbytes(chance.randrange(2_000))
                if version:
                    wire.send(SaslAuthenticateRequest(auth_bytes=token), chance.randrange(3))
                else:
                    wire.send_bytes(framed(token))
            wire.socket.settimeout(0.001 if chance.random() < 0.9 else WITHIN_S)
            wire.receive_frame()
    assert secure.rss_bytes() - before < 30 << 20
    assert AdminClient(secure.librdkafka("SCRAM-SHA-256")).list_topics(timeout=WITHIN_S).brokers
    assert secure.bugs() == []
