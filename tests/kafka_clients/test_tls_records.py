"""TLS records that no client would send, before and after a handshake: no crash, no growth."""

import contextlib
import random
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from tests.kafka_clients.secure_broker import AUTHORITY, SecureBroker, secure_broker
from tests.support.waiting import wait_for

WITHIN_S = 30.0
WARM_UP, CASES = 100, 400
GROWTH_BYTES_MAX = 30 << 20
CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION, HEARTBEAT = range(20, 25)


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path) as broker:
        yield broker


def hello(context: ssl.SSLContext) -> bytes:
    """What a client sends first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def damaged(sound: bytes, chance: random.Random) -> bytes:
    """Cut, with bytes that are others, or with a length that is a lie."""
    changed = bytearray(sound)
    for _ in range(chance.randrange(1, 9)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    if chance.random() < 0.3:
        changed[3:5] = chance.randbytes(2)
    return bytes(changed[: chance.randrange(1, len(changed) + 1)] if chance.random() < 0.3 else changed)


def record(chance: random.Random) -> bytes:
    kind = chance.choice(
        [CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION, HEARTBEAT, chance.randrange(256)]
    )
    content = chance.randbytes(chance.randrange(600))
    return bytes([kind, 3, chance.randrange(5)]) + len(content).to_bytes(2) + content


def test_whatever_is_sent_as_tls_records_costs_only_its_connection(secure: SecureBroker) -> None:
    chance = random.Random(14)
    context = ssl.create_default_context(cadata=AUTHORITY.pem)
    address, before = ("127.0.0.1", secure.tls_port), 0
    for number in range(CASES):
        if number == WARM_UP:
            before = secure.rss_bytes()
        with contextlib.suppress(OSError), socket.create_connection(address, WITHIN_S) as channel:
            raw = channel
            if number % 4 == 0:  # after a handshake, past the layer that would seal it
                sealed = context.wrap_socket(channel, server_hostname="localhost")
                raw = socket.socket(fileno=sealed.detach())
                sent = record(chance)
            else:
                sent = damaged(hello(context), chance) + (record(chance) if chance.random() < 0.5 else b"")
            with raw:
                raw.sendall(sent)
                raw.settimeout(0.01 if chance.random() < 0.9 else 0.1)
                while raw.recv(4096):
                    pass
    wait_for(lambda: secure.open_files() < 200, WITHIN_S, "the connections to be gone")
    assert secure.rss_bytes() - before < GROWTH_BYTES_MAX
    own = secure.librdkafka("SCRAM-SHA-256", protocol="SASL_SSL")
    assert AdminClient(own).list_topics(timeout=WITHIN_S).brokers
    assert secure.bugs() == []
