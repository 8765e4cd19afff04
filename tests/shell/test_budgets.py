"""What connections hold in memory: who is closed when it is too much, and what a closing one still holds."""

import asyncio
import contextlib
import logging
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from tests.api.harness import Machine
from tests.kafka_clients.wire_client import frame_of, framed
from tests.support.waiting import until

from ottla.cli.broker.process import DEFAULT_LEVEL
from ottla.shell.budgets import LINGER_MS, Budgets
from ottla.shell.connection import Connection
from ottla.shell.server import Server
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

KIBIBYTE = 1024


@dataclass
class Holder:
    """A connection, as far as it matters for what is held of requests."""

    number: int
    held_bytes: int = 0
    is_stranger: bool = False
    closed: list[str] = field(default_factory=list)

    def close(self, reason: str, *, over_limit: bool) -> None:
        assert over_limit
        self.closed.append(reason)


class Room:
    """Connections that hold something, under a limit of 1 MiB."""

    def __init__(self) -> None:
        self.broker = Machine({"queued.max.request.bytes": str(KIBIBYTE * KIBIBYTE)}).broker
        self.holders: dict[int, Holder] = {}
        self.budgets = Budgets(
            self.broker.settings,
            self.broker.identities,
            self.broker.allowance,
            cast("dict[int, Connection]", self.holders),
        )

    def hold(self, number: int, kibibytes: int, now_ms: int) -> Holder:
        holder = self.holders.setdefault(number, Holder(number))
        holder.held_bytes = kibibytes * KIBIBYTE
        self.budgets.on_held(cast("Connection", holder), now_ms)
        return holder

    def closed(self) -> list[int]:
        return [number for number, holder in self.holders.items() if holder.closed]


def test_who_has_held_little_for_long_goes_before_who_holds_much_for_a_moment() -> None:
    room = Room()
    for number in range(5):
        room.hold(number, 200, now_ms=1_000 + number)
    room.hold(9, 500, now_ms=8_000)
    assert room.closed() == [0, 1, 2]
    assert "queued.max.request.bytes" in room.holders[0].closed[0]


def test_who_has_not_authenticated_goes_before_who_has() -> None:
    room = Room()
    room.hold(1, 900, now_ms=1_000)
    for number in (2, 3):
        room.holders[number] = Holder(number, is_stranger=True)
        room.hold(number, 100, now_ms=8_000)
    assert room.closed() == [3]
    room.hold(4, 200, now_ms=8_000)
    assert sorted(room.closed()) == [1, 2, 3], "strangers first, and then who holds most"


def test_a_request_that_was_finished_does_not_count_for_the_next_one() -> None:
    room = Room()
    room.hold(1, 100, now_ms=1_000)
    room.hold(1, 0, now_ms=2_000)
    room.hold(2, 500, now_ms=50_000)
    room.hold(1, 500, now_ms=60_000)
    room.hold(3, 100, now_ms=60_001)
    assert room.closed() == [2]


def test_other_brokers_are_not_closed_for_what_they_hold() -> None:
    room = Room()
    room.broker.identities.admit(1, 2)
    room.hold(1, 1_000, now_ms=1_000)
    room.hold(2, 100, now_ms=9_000)
    assert room.closed() == [2]
    room.hold(1, 2_000, now_ms=9_500)
    assert room.closed() == [2]


def metadata(topics: int, name: str = "x" * 200) -> MetadataRequest:
    names = [MetadataRequestTopic(name=name and f"{name}{at}") for at in range(topics)]
    return MetadataRequest(topics=names, allow_auto_topic_creation=False)


def serving(
    folder: Path, visit: Callable[[Server, socket.socket], Any], given: dict[str, str] | None = None
) -> None:
    """A broker, and a client of it that reads nothing by itself."""

    async def live() -> None:
        settings = {
            "listeners": "127.0.0.1:0",
            "log.dirs": str(folder),
            "socket.send.buffer.bytes": str(64 * KIBIBYTE),
            **(given or {}),
        }
        server = Server(settings, on_halt=lambda _: None)
        await server.start()
        try:
            with socket.create_connection((server.address.host, server.address.port)) as client:
                client.setblocking(False)
                await visit(server, client)
        finally:
            await server.stop()

    asyncio.run(live())


async def with_unread_answer(server: Server, client: socket.socket) -> Connection:
    """The only connection, once its client has left much of an answer unread."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    await asyncio.get_running_loop().sock_sendall(client, frame_of(metadata(15_000), 9))
    await until(lambda: bool(server.clients.connections), "it is connected")
    (connection,) = server.clients.connections.values()
    await until(lambda: connection.unsent_bytes > 100_000, "much of the answer is unread")
    return connection


def test_what_a_gently_closed_connection_was_not_read_counts_until_it_is_given_up(tmp_path: Path) -> None:
    async def visit(server: Server, client: socket.socket) -> None:
        connection = await with_unread_answer(server, client)
        connection.close("it is sent away", gently=True)
        now_ms = server.core.now_ms()
        connection.count_unsent(now_ms)
        assert connection.is_closing
        assert connection.unsent_bytes > 100_000
        assert server.broker.allowance.unsent_bytes >= connection.unsent_bytes
        server.clients.budgets.sweep(connection.unsent_ms + LINGER_MS)
        assert server.clients.connections, "it may still read"
        server.clients.budgets.sweep(connection.unsent_ms + LINGER_MS + 1)
        await until(lambda: not server.clients.connections, "it is gone")
        assert server.broker.allowance.unsent_bytes == 0

    serving(tmp_path, visit)


def test_what_readers_left_unread_is_handed_back_when_they_hang_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed_back: list[None] = []
    monkeypatch.setattr("ottla.shell.budgets.TRIM_BYTES", KIBIBYTE)
    monkeypatch.setattr("ottla.shell.budgets._trim", lambda: handed_back.append(None))

    async def visit(server: Server, client: socket.socket) -> None:
        await with_unread_answer(server, client)
        assert server.clients.budgets.held_bytes == 0
        server.clients.budgets.sweep(server.core.now_ms())
        handed_back.clear()
        client.close()
        await until(lambda: not server.clients.connections, "the broker to notice")
        server.clients.budgets.sweep(server.core.now_ms())
        assert server.broker.allowance.unsent_bytes == 0
        assert handed_back

    serving(tmp_path, visit)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What `ottla start` says at its default log level."""
    level = logging.getLevelName(DEFAULT_LEVEL.upper())
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


# ApiVersions v3 without a client's id and names, and the number 100,001.
MANY_TAGS = b"\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff\x00\x01\x01\xa1\x8d\x06"
OVER_A_LIMIT = {
    "more bytes than wait for their turn": (b"\x00\x0f\xff\xff" + bytes(90_000), "queued.max.request.bytes"),
    "more bytes than clients may leave unread": (frame_of(metadata(15_000), 9), "ottla.unsent.max.bytes"),
    "too many items": (frame_of(metadata(100_001, name=""), 9), "MetadataRequest.topics .* 100001 items"),
    "too many tagged fields": (framed(MANY_TAGS + bytes(210_000)), "100001 tagged fields"),
    "too large a request": (framed(b"\0\3\0\x09" + bytes(1 << 24)), "Metadata with 16777220 bytes"),
    "too large an answer": (frame_of(metadata(2_000), 9), "the answer to Metadata has more than"),
}  # fmt: skip


@pytest.mark.parametrize("kind", OVER_A_LIMIT)
def test_who_is_closed_because_of_a_limit_is_named_at_the_default_log_level(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    sent, said = OVER_A_LIMIT[kind]
    settings = {"queued.max.request.bytes": "65536"} if "turn" in kind else {}
    if "unread" in kind:
        settings["ottla.unsent.max.bytes"] = str(KIBIBYTE * KIBIBYTE)
    if kind == "too large an answer":
        monkeypatch.setattr("ottla.api.dispatch.ANSWER_BYTES_MAX", 100_000)

    async def visit(server: Server, client: socket.socket) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        await until(lambda: bool(server.clients.connections), "it is connected")
        with contextlib.suppress(ConnectionError):
            await asyncio.get_running_loop().sock_sendall(client, sent)
        await until(lambda: not server.clients.connections, "it is closed")
        (line,) = warnings(caplog)
        assert re.match(f"connection from 127.0.0.1 closed: .*{said}", line)

    serving(tmp_path, visit, settings)


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", framed(b"\0\3\0\1\0\0\0\1\0\0\x7f\xff\xff\xff")])
def test_a_port_scan_warns_nobody(sent: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def visit(server: Server, client: socket.socket) -> None:
        await until(lambda: bool(server.clients.connections), "it is connected")
        await asyncio.get_running_loop().sock_sendall(client, sent)
        await until(lambda: not server.clients.connections, "it is closed")
        assert "closed: " in caplog.text
        assert warnings(caplog) == []

    serving(tmp_path, visit)
