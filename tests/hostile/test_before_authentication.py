"""Strangers on a listener with SASL who announce more than they send."""

import socket
import struct
import tracemalloc
from collections.abc import Iterator

import pytest

from ottla import Broker

USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
HANDSHAKE, AUTHENTICATE, VERSIONS, METADATA = 17, 36, 18, 3
GROWTH_BYTES_MAX = 50 << 20


@pytest.fixture(scope="module")
def gated() -> Iterator[Broker]:
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": USERS,
    }
    with Broker(config) as made:
        yield made


def framed(key: int, version: int, body: bytes, announced: int | None = None) -> bytes:
    request = struct.pack(">hhih", key, version, 1, -1) + body
    return struct.pack(">i", len(request) if announced is None else announced) + request


def is_ended(broker: Broker, sent: bytes) -> bool:
    """Does the broker close a connection on which this arrives, rather than wait for more?"""
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as stranger:
        stranger.sendall(sent)
        while chunk := stranger.recv(65536):
            assert len(chunk) < 1000
        return True


HUGE = struct.pack(">i", 2_000_000_000)


@pytest.mark.parametrize(
    "sent",
    [
        framed(VERSIONS, 0, b"", announced=104_857_600),
        framed(AUTHENTICATE, 0, HUGE),
        framed(HANDSHAKE, 1, struct.pack(">h", 32_767)),
        framed(METADATA, 1, HUGE),
        framed(HANDSHAKE, 1, struct.pack(">h", 5) + b"PLAIN") + framed(AUTHENTICATE, 0, HUGE),
    ],
    ids=["frame", "token", "mechanism", "topics", "token after a handshake"],
)
def test_what_a_stranger_announces_takes_no_memory_cve_2022_34917(gated: Broker, sent: bytes) -> None:
    tracemalloc.start()  # of this process, where the broker is; the peak counts, touched or not
    try:
        for _ in range(5):
            assert is_ended(gated, sent)
        assert tracemalloc.get_traced_memory()[1] < GROWTH_BYTES_MAX
    finally:
        tracemalloc.stop()
