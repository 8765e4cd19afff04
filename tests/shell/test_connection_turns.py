"""Connections that send very many requests at once, and those beside them."""

import asyncio
import itertools
import socket
import struct
from pathlib import Path

from tests.kafka_clients.wire_client import frame_of
from tests.shell.test_budgets import serving, until

from ottla.shell.connection_turns import SHARE_US, Turns, Waiter
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
        server.core.turns.elapsed_us = itertools.count(0, SHARE_US // 4).__next__  # a slow machine
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
        server.core.turns.elapsed_us = itertools.count(0, SHARE_US).__next__
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

    def __init__(self, turns: Turns, now_us: list[int], left: int) -> None:
        self.turns, self.now_us, self.left = turns, now_us, left

    def go_on(self) -> None:
        begun_us = self.turns.elapsed_us()
        while self.left:
            self.left -= 1
            self.now_us[0] += 1_000
            if self.left and self.turns.is_over(begun_us):
                self.turns.wait(self)
                break
        self.turns.spend(begun_us)


def test_a_round_is_as_long_as_its_share_and_a_request_of_each() -> None:
    now_us = [0]
    turns = Turns(lambda: now_us[0])
    senders = [Sender(turns, now_us, 100) for _ in range(10)]
    for sender in senders:
        sender.go_on()
    assert now_us[0] <= SHARE_US + 11 * 1_000
    rounds = 1
    while turns:
        before_us, rounds = now_us[0], rounds + 1
        turns.begin_round()
        assert now_us[0] - before_us <= SHARE_US + 11 * 1_000
    assert rounds < 60
    assert [sender.left for sender in senders] == [0] * 10
