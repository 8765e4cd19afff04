"""What the guard counts: a broker in this process is given requests of several kinds, and answers them.

    python -m bench.guard_script     prints what each takes, as JSON

The requests come in through a `Connection` whose transport keeps nothing, so that everything of the broker is
in the path and nothing of the loop, the kernel or the clock: that stands still, and the loop does not turn
meanwhile, so nothing is late, nothing ticks, and no thread works. Every answer is checked.
"""

import asyncio
import itertools
import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from bench import wire
from bench import wire_groups as groups
from ottla.shell.server import Server

TOPIC, GROUP = "guarded", "guards"
WARM_UP, REQUESTS = 50, 100


class Transport:
    """Takes what is written, and remembers the last of it."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self.written = b""

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2), "socket": self._socket}.get(name)

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def write(self, chunk: bytes) -> None:
        self.written = chunk

    def writelines(self, chunks: list[bytes]) -> None:
        self.written = b"".join(chunks)

    close = abort = pause_reading


class Asker:
    """Sends a frame, and has the answer when that returns; nothing, if it is parked."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._transport = Transport()
        self._connection = server.clients._connect(server.clients.listeners.bound[0])
        self._connection.connection_made(self._transport)  # type: ignore[arg-type]

    def ask(self, frame: bytes) -> bytes:
        self._transport.written = b""
        buffer = self._connection.get_buffer(len(frame))
        buffer[: len(frame)] = frame
        self._connection.buffer_updated(len(frame))
        return self.answer

    @property
    def answer(self) -> bytes:
        return bytes(self._transport.written)


def _produce(records_bytes: int, batch_bytes: int) -> Callable[[Asker], None]:
    batch, _ = wire.record_batch(b"x" * records_bytes, batch_bytes)
    request, at = wire.produce_request(TOPIC, batch), wire.error_offset(TOPIC)

    def ask(asker: Asker) -> None:
        assert wire.produce_error(asker.ask(request), at) == 0

    return ask


def _fetch(asker: Asker) -> None:
    answer = asker.ask(wire.fetch_request(TOPIC, 0, 1_000))
    assert wire.fetch_error(answer, TOPIC) == 0


class LongPoll:
    """A fetch waits at the end of the log, and somebody else's produce wakes it."""

    def __init__(self) -> None:
        self._producer: Asker | None = None
        self._end_offset = 0
        self._record = wire.produce_request(TOPIC, wire.record_batch(b"x" * 100, 0)[0])

    def __call__(self, asker: Asker) -> None:
        if self._producer is None:
            self._producer = Asker(asker.server)
            self._produce(self._producer)
        assert not asker.ask(wire.fetch_request(TOPIC, self._end_offset, 1_000, wait_ms=60_000))
        self._produce(self._producer)
        assert wire.fetch_error(asker.answer, TOPIC) == 0

    def _produce(self, producer: Asker) -> None:
        answer, at = producer.ask(self._record), wire.error_offset(TOPIC)
        assert wire.produce_error(answer, at) == 0
        self._end_offset = int.from_bytes(answer[at + 2 : at + 10], "big") + 1


def _commit(asker: Asker) -> None:
    answer = asker.ask(groups.commit(GROUP, "", -1, TOPIC, range(1), 1))
    assert answer.endswith(b"\0\0"), "the error of the only partition comes last"


def _metadata(asker: Asker) -> None:
    assert TOPIC.encode() in asker.ask(wire.metadata_request(TOPIC))


CASES: dict[str, Callable[[Asker], None]] = {
    "produce, one record of 100 B": _produce(100, 0),
    "produce, 16 KiB of records of 1 KiB": _produce(1024, 16 << 10),
    "fetch of one record": _fetch,
    "fetch that waits, and the produce that wakes it": LongPoll(),
    "offset commit": _commit,
    "metadata of one topic": _metadata,
}


class Counter:
    """What the interpreter does while something is done: instructions of its own, and calls of functions that
    are not written in Python."""

    def __init__(self) -> None:
        self.instructions = self.calls = 0

    def count(self, act: Callable[[], None]) -> None:
        sys.settrace(self._trace)
        sys.setprofile(self._profile)
        try:
            act()
        finally:
            sys.setprofile(None)
            sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.instructions += event == "opcode"
        return self._trace

    def _profile(self, _frame: FrameType, event: str, _argument: Any) -> None:
        self.calls += event == "c_call"


def _repeat(case: Callable[[Asker], None], asker: Asker, count: int) -> None:
    for _ in range(count):
        case(asker)


async def _run() -> dict[str, dict[str, int]]:
    """Of each case, for one request."""
    counted = {}
    with tempfile.TemporaryDirectory(prefix="ottla-guard-") as folder:
        server = Server({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": folder}, on_halt=sys.exit)
        await server.start()
        Asker(server).ask(groups.find_coordinator(GROUP))  # which makes its topic
        for prepare in (_metadata, _produce(100, 0), _commit):
            await _until_done(prepare, server)
        await asyncio.sleep(0.05)  # a round that this has used up is over then, on a slow machine, too
        _stop_the_clock(server)
        for name, case in CASES.items():
            asker, counter = Asker(server), Counter()
            _repeat(case, asker, WARM_UP)
            counter.count(partial(_repeat, case, asker, REQUESTS))
            counted[name] = {
                "bytecodes": counter.instructions // REQUESTS, "calls of C": counter.calls // REQUESTS
            }  # fmt: skip
        await server.stop()
    return counted


def _stop_the_clock(server: Server) -> None:
    time.monotonic_ns = itertools.repeat(time.monotonic_ns()).__next__
    if hasattr(server.broker, "requests"):  # a tree from before it measured requests has none
        server.broker.requests.clock_ns = time.monotonic_ns


async def _until_done(prepare: Callable[[Asker], None], server: Server) -> None:
    """What is asked for first takes its time."""
    for _ in range(1_200):
        try:
            prepare(Asker(server))
        except AssertionError:
            await asyncio.sleep(0.05)
        else:
            return
    raise AssertionError("the broker was not ready in a minute")


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_run())))
