"""A broker with real sockets and threads and a slow disk: who reads old records waits, and nobody else."""

import asyncio
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.asking import BY_NAME, batch, fetch_of, new_topic, parts, to, values
from tests.support.frames import decode_answer, encode_request
from tests.support.waiting import WITHIN_S

from ottla.base.files import Bytes, OsFile, OsFiles
from ottla.shell.server import Server
from ottla.wire.messages.create_topics import CreateTopicsRequest

OLD, NEW = "old", "new"


class SlowDisk:
    """Nothing of the old topic is in memory until a worker has read it, and it does when it may."""

    def __init__(self) -> None:
        self.may_read = threading.Event()
        self.is_warm = False

    def warm(self, _files: OsFiles, _path: str, _at: int, _count: int) -> None:
        assert self.may_read.wait(WITHIN_S)
        self.is_warm = True


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    disk, read_now = SlowDisk(), OsFile.read_now

    def read_old(file: OsFile, at: int, count: int) -> Bytes | None:
        is_cold = f"/{OLD}-0/" in file.path and not disk.is_warm
        return None if is_cold else read_now(file, at, count)

    monkeypatch.setattr(OsFile, "read_now", read_old)
    monkeypatch.setattr(OsFiles, "warm", lambda *arguments: disk.warm(*arguments))
    yield disk
    disk.may_read.set()  # or the broker could not stop


class Line:
    """A connection on which requests are sent without waiting for their answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    def send(self, number: int, request: Any, version: int) -> None:
        frame = encode_request(request, version, number)
        self._writer.write(struct.pack(">i", len(frame)) + frame)

    async def receive(self, request: type, version: int) -> tuple[int, Any]:
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return decode_answer(request, version, memoryview(await self._reader.readexactly(size)))

    async def ask(self, number: int, request: Any, version: int) -> Any:
        self.send(number, request, version)
        answered, answer = await self.receive(type(request), version)
        assert answered == number
        return answer


def test_answers_keep_their_order_on_a_connection_and_others_are_served_meanwhile(
    tmp_path: Path, slow_disk: SlowDisk
):
    async def live() -> None:
        server = Server({"listeners": "127.0.0.1:0", "log.dirs": str(tmp_path)}, on_halt=pytest.fail)
        await server.start()
        address = server.address
        lines = [Line(*await asyncio.open_connection(address.host, address.port)) for _ in range(2)]
        reader, other = lines
        topics = [new_topic(OLD, 1), new_topic(NEW, 1)]
        await other.ask(1, CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
        for number, topic in enumerate((OLD, NEW)):
            await other.ask(number, to(topic, batch(f"{topic} record")), BY_NAME)
        reader.send(1, fetch_of((OLD, 0, 0)), BY_NAME)
        reader.send(2, fetch_of((NEW, 0, 0)), BY_NAME)
        served = await other.ask(7, fetch_of((NEW, 0, 0)), BY_NAME)
        assert values(parts(served)[NEW, 0]) == ["new record"]
        assert not slow_disk.is_warm
        slow_disk.may_read.set()
        fetch = type(fetch_of())
        for number, topic in ((1, OLD), (2, NEW)):
            answered, answer = await reader.receive(fetch, BY_NAME)
            assert (answered, values(parts(answer)[topic, 0])) == (number, [f"{topic} record"])
        for line in lines:
            await line.close()
        await server.stop()

    asyncio.run(asyncio.wait_for(live(), 4 * WITHIN_S))
