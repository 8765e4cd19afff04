"""Readers over plain sockets, all on one thread: each fetches the whole of a partition, one request after
the other, at its own pace. Nothing of a batch is looked at but where it ends."""

import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from bench import wire
from bench.load_raw import TIMEOUT_S, address

_BATCH = struct.Struct(">qi")  # its first offset, and how many bytes follow
_LAST_DELTA_AT = 23


class _Reader:
    def __init__(self, spec: dict[str, Any], sock: socket.socket) -> None:
        self.sock = sock
        self._topic, self._bytes_max = spec["topic"], spec["bytes_max"]
        self._buffer = bytearray(2 * self._bytes_max)
        self._have = 0
        self.offset = self.bytes = 0

    def ask(self) -> None:
        self.sock.sendall(wire.fetch_request(self._topic, self.offset, self._bytes_max))

    def receive(self) -> bool:
        """Is an answer complete?"""
        count = self.sock.recv_into(memoryview(self._buffer)[self._have :])
        if not count:
            raise ConnectionError("the broker closed the connection")
        self._have += count
        need = 4 + int.from_bytes(self._buffer[:4], "big")
        if need > len(self._buffer):
            self._buffer += bytes(need - len(self._buffer))
        if self._have < max(need, 8):
            return False
        frame = memoryview(self._buffer)[: self._have]
        code = wire.fetch_error(bytes(frame[:512]), self._topic)
        if code:
            raise RuntimeError(f"the broker answered Fetch with error {code}")
        self._follow(frame[wire.fetch_records_offset(self._topic) :])
        self.bytes += self._have
        self._have = 0
        return True

    def _follow(self, records: memoryview) -> None:
        """Go on after the last batch that is whole."""
        at = 0
        while at + wire.BATCH_HEADER_BYTES <= len(records):
            base, size = _BATCH.unpack_from(records, at)
            if at + _BATCH.size + size > len(records):
                return
            self.offset = (
                base + int.from_bytes(records[at + _LAST_DELTA_AT : at + _LAST_DELTA_AT + 4], "big") + 1
            )
            at += _BATCH.size + size


def prepare(spec: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """spec: bootstrap, topic, readers, end_offset, bytes_max (of a fetch)."""
    readers = [_Reader(spec, wire.connect(*address(spec), TIMEOUT_S)) for _ in range(spec["readers"])]

    def run() -> dict[str, Any]:
        by_fd = {reader.sock.fileno(): reader for reader in readers}
        cpu, started = time.process_time(), time.perf_counter()
        with select.epoll(len(readers)) as poller:
            for fd, reader in by_fd.items():
                poller.register(fd, select.EPOLLIN)
                reader.ask()
            while by_fd:
                ready = poller.poll(TIMEOUT_S)
                if not ready:
                    raise TimeoutError("no reply from the broker")
                for fd, _ in ready:
                    reader = by_fd[fd]
                    if reader.receive():
                        if reader.offset < spec["end_offset"]:
                            reader.ask()
                        else:
                            poller.unregister(fd)
                            del by_fd[fd]
        return {
            "records": len(readers) * spec["end_offset"],
            "bytes": sum(reader.bytes for reader in readers),
            "seconds": time.perf_counter() - started,
            "client_cpu_s": time.process_time() - cpu,
        }

    return run
