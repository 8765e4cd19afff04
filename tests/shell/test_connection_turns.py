"""Connections that send very many requests at once, and those beside them."""

import asyncio
import itertools
import socket
import struct
import time
from pathlib import Path

from tests.kafka_clients.wire_client import frame_of
from tests.shell.test_budgets import serving, until

from ottla.shell.connection_turns import SHARE_NS, Turns, Waiter
from ottla.shell.server import Server
from ottla.wire.messages.api_versions import ApiVersionsRequest

REQUESTS = 300
WITHIN_S = 30.0


def asked(*numbers: int) -> bytes:
    return b"".join(frame_of(ApiVersionsRequest(), 0, number) for number in numbers)


async def answers(client: socket.socket, count: int) -> list[int]:
    """The correlation ids of so many answers."""
    loop, data, numbers = asyncio.get_running_loop(), bytearray(), list[int]()
    while len(numbers) < count:
        part = await asyncio.wait_for(loop.sock_recv(client, 1 << 16), WITHIN_S)
        assert part, f"closed after {len(numbers)} answers"
        data += part
        while len(data) >= 4 and len(data) >= 4 + (size := struct.unpack_from(">i", data)[0]):
            numbers.append(struct.unpack_from(">i", data, 4)[0])
            del data[: 4 + size]
    return numbers


async def slow_down(server: Server, step_ns: int) -> None:
    """Those who are connected are on a slow machine: each look at the clock takes that long."""
    await until(lambda: bool(server.clients.connections), "the connection to be there")
    clock_ns = itertools.count(time.monotonic_ns(), step_ns).__next__
    for connection in server.clients.connections.values():
        connection._meter.clock_ns = clock_ns


async def waits(server: Server) -> None:
    """Until a connection waits for its turn."""
    wait, is_waiting = server.core.turns.wait, asyncio.Event()

    def noticed(connection: Waiter) -> None:
        is_waiting.set()
        wait(connection)

    server.core.turns.wait = noticed  # type: ignore[method-assign]
    await asyncio.wait_for(is_waiting.wait(), WITHIN_S)


def test_who_sends_much_at_once_is_served_in_turns_and_in_its_order(tmp_path: Path) -> None:
    async def visit(server: Server, client: socket.socket) -> None:
        await slow_down(server, SHARE_NS // 4)
        loop = asyncio.get_running_loop()
        with socket.create_connection((server.address.host, server.address.port)) as other:
            other.setblocking(False)
            await loop.sock_sendall(client, asked(*range(REQUESTS)))
            await waits(server)
            await loop.sock_sendall(other, asked(7))
            assert await answers(other, 1) == [7]
            assert server.core.turns, "the first is not done yet"
        assert await answers(client, REQUESTS) == list(range(REQUESTS))

    serving(tmp_path, visit)


def test_a_connection_that_ends_while_it_waits_for_its_turn_leaves_nothing_behind(tmp_path: Path) -> None:
    async def visit(server: Server, client: socket.socket) -> None:
        await slow_down(server, SHARE_NS)
        await asyncio.get_running_loop().sock_sendall(client, asked(*range(REQUESTS)))
        await waits(server)
        (connection,) = server.clients.connections.values()
        connection.close("the test says so")
        await until(
            lambda: not server.clients.connections and not server.core.turns, "the connection to be gone"
        )
        assert server.clients.budgets.held_bytes == 0

    serving(tmp_path, visit)


class Sender:
    """Has so many requests left, which take a millisecond each."""

    def __init__(self, turns: Turns, now_ns: list[int], left: int) -> None:
        self.turns, self.now_ns, self.left = turns, now_ns, left

    def go_on(self) -> None:
        begun_ns = self.now_ns[0]
        while self.left:
            self.left -= 1
            self.now_ns[0] += 1_000_000
            if self.left and self.turns.is_over(self.now_ns[0] - begun_ns):
                self.turns.wait(self)
                break
        self.turns.spent_ns += self.now_ns[0] - begun_ns


def test_a_round_is_as_long_as_its_share_and_a_request_of_each() -> None:
    now_ns = [0]
    turns = Turns()
    senders = [Sender(turns, now_ns, 100) for _ in range(10)]
    for sender in senders:
        sender.go_on()
    assert now_ns[0] <= SHARE_NS + 11 * 1_000_000
    rounds = 1
    while turns:
        before_ns, rounds = now_ns[0], rounds + 1
        turns.begin_round()
        assert now_ns[0] - before_ns <= SHARE_NS + 11 * 1_000_000
    assert rounds < 60
    assert [sender.left for sender in senders] == [0] * 10
