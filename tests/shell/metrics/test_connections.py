"""Connections over real sockets, as metrics show them: how many, why they ended, and what they hold."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kafka_clients.wire_client import Closed, Wire, framed, logs_in
from tests.shell.test_budgets import serving, with_unread_answer
from tests.shell.test_connection_turns import REQUESTS, answers, asked, slow_down
from tests.support.waiting import until, wait_for

from ottla import Broker
from ottla.shell.connection_turns import SHARE_NS
from ottla.shell.metrics.text import by_series
from ottla.shell.server import Server
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.metadata import MetadataRequest

WITHIN_S = 30.0
SASL = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "connection.failed.authentication.delay.ms": "0",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="admin-secret";'
    ),
}


def port_of(broker: Broker) -> int:
    return int(broker.bootstrap_servers.rpartition(":")[2])


def shows(broker: Broker, name: str, value: float) -> Callable[[], bool]:
    return lambda: broker.metrics()[name] == value


def is_served(wire: Wire) -> bool:
    return bool(wire.call(ApiVersionsRequest(), 0).api_keys)


def closed(reason: str) -> str:
    return f'ottla_connections_closed_total{{listener="PLAINTEXT",reason="{reason}"}}'


def test_connections_count_while_they_are_there_and_when_their_client_hangs_up() -> None:
    with Broker() as broker:
        with Wire(port_of(broker)) as first, Wire(port_of(broker)) as second:
            assert is_served(first)
            assert is_served(second)
            shown = broker.metrics()
            assert shown['ottla_connections{listener="PLAINTEXT"}'] == 2
            assert shown[closed("client")] == 0
        wait_for(shows(broker, closed("client"), 2), WITHIN_S, "both are gone")
        shown = broker.metrics()
        assert shown['ottla_connections{listener="PLAINTEXT"}'] == 0
        assert shown['ottla_connections_made_total{listener="PLAINTEXT"}'] == 2
        assert shown['kafka_network_requestmetrics_requests_total{request="ApiVersions",version="0"}'] == 2
        assert shown['ottla_request_seconds_count{request="ApiVersions"}'] == 2
        assert shown['ottla_request_seconds_sum{request="ApiVersions"}'] > 0


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (framed(b"\0\3\0\1\0\0\0\1\0\0\x7f\xff\xff\xff"), "request"),
        (framed(b"\0\3\0\x09" + bytes(1 << 24)), "limit"),
    ],
)
def test_why_the_broker_ends_a_connection_is_shown(sent: bytes, reason: str) -> None:
    with Broker() as broker, socket.create_connection(("127.0.0.1", port_of(broker))) as client:
        client.sendall(sent)
        wait_for(shows(broker, closed(reason), 1), WITHIN_S, "it is closed")
        assert broker.metrics()[closed("client")] == 0


def test_who_is_refused_counts_and_was_never_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.shell.connection.is_local", lambda _peer, _own: False)
    with Broker(config={"max.connections": 1}) as broker, Wire(port_of(broker)) as first:
        assert is_served(first)
        with Wire(port_of(broker)) as second, pytest.raises((Closed, ConnectionError)):
            is_served(second)
        shown = broker.metrics()
        assert shown['ottla_connections_refused_total{listener="PLAINTEXT"}'] == 1
        assert shown['ottla_connections_made_total{listener="PLAINTEXT"}'] == 1


def test_who_authenticates_and_who_does_not_is_counted_by_listener() -> None:
    with Broker(config=SASL) as broker:
        for password in ("admin-secret", "a guess", "another"):
            with Wire(port_of(broker)) as wire:
                assert logs_in(wire, "PLAIN", "admin", password) == (password == "admin-secret")
        shown = broker.metrics()
        name = "kafka_server_socket_server_metrics_{}_authentication_total"
        assert shown[name.format("successful") + '{listener="PLAINTEXT"}'] == 1
        assert shown[name.format("failed") + '{listener="PLAINTEXT"}'] == 2
        assert shown['kafka_network_requestmetrics_errors_total{request="SaslAuthenticate",'
                     'error="SASL_AUTHENTICATION_FAILED"}'] == 2  # fmt: skip


def test_a_handshake_of_tls_that_fails_is_a_failed_authentication() -> None:
    with Broker(secure=True) as broker:
        with socket.create_connection(("127.0.0.1", port_of(broker))) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            client.settimeout(WITHIN_S)
            while client.recv(1_000):
                pass
        shown = broker.metrics()
        failed = [
            value
            for name, value in shown.items()
            if name.startswith("kafka_server_socket_server_metrics_failed_authentication_total")
        ]
        assert sum(failed) == 1


def test_memory_that_requests_and_answers_hold_is_shown_with_its_limits(tmp_path: Path) -> None:
    async def visit(server: Server, client: socket.socket) -> None:
        await with_unread_answer(server, client)
        with socket.create_connection((server.address.host, server.address.port)) as other:
            other.sendall(b"\x00\x01\x00\x00" + bytes(50_000))
            await until(lambda: server.clients.budgets.held_bytes >= 50_000, "half a request is there")
            shown = await samples(server)
        assert shown["ottla_response_memory_bytes"] > 100_000
        assert shown["ottla_request_memory_bytes"] >= 50_000
        assert shown["ottla_response_memory_limit_bytes"] == 128 << 20
        assert shown["ottla_request_memory_limit_bytes"] == 128 << 20
        assert shown['ottla_request_seconds_count{request="Metadata"}'] == 0, "it is not sent"
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)  # or it takes more than a minute
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, 1 << 20)
        await read_all(client, shown['ottla_response_bytes_total{request="Metadata"}'] + 4)
        metadata_counts = server.broker.requests.by_key[MetadataRequest.API_KEY]  # type: ignore[attr-defined]
        await until(lambda: sum(metadata_counts.total.counts), "it is sent")
        shown = await samples(server)
        assert shown['ottla_request_send_seconds_count{request="Metadata"}'] == 1
        assert shown['ottla_request_send_seconds_sum{request="Metadata"}'] > 0

    serving(tmp_path, visit)


async def samples(server: Server) -> dict[str, float]:
    return by_series(await server.metrics())


async def read_all(client: socket.socket, count: float) -> None:
    loop, read = asyncio.get_running_loop(), 0
    while read < count:
        read += len(await asyncio.wait_for(loop.sock_recv(client, 1 << 16), WITHIN_S))


def test_what_a_connection_sends_at_once_waits_in_the_queue_while_others_are_served(tmp_path: Path) -> None:
    async def visit(server: Server, client: socket.socket) -> None:
        await slow_down(server, SHARE_NS // 4)
        await asyncio.get_running_loop().sock_sendall(client, asked(*range(REQUESTS)))
        await answers(client, REQUESTS)
        shown = await samples(server)
        assert shown['ottla_request_queue_seconds_count{request="ApiVersions"}'] == REQUESTS
        assert shown['ottla_request_queue_seconds_sum{request="ApiVersions"}'] > 0
        assert shown['ottla_request_queue_seconds_bucket{request="ApiVersions",le="1e-06"}'] > 0, (
            "others were served as they came"
        )

    serving(tmp_path, visit)
