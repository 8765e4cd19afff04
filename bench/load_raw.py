"""Loads over plain blocking sockets with pre-encoded requests: the least that a client can do.

replay   one connection, a fixed number of requests in flight: the broker's own limit
single   N connections, one request in flight each: latency with little noise from the client
"""

import os
import select
import socket
import time
from collections.abc import Callable
from typing import Any

from bench import wire

TIMEOUT_S = 30.0


def address(spec: dict[str, Any]) -> tuple[str, int]:
    host, port = spec["bootstrap"].rsplit(":", 1)
    return host, int(port)


def checked(frame: bytes, at: int) -> None:
    code = wire.produce_error(frame, at)
    if code:
        raise RuntimeError(f"the broker answered Produce with error {code}")


def _warm(sock: socket.socket, request: bytes, at: int, times: int) -> None:
    for _ in range(times):
        sock.sendall(request)
        checked(wire.read_frame(sock), at)


def prepare_replay(spec: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """spec: bootstrap, topic, record_bytes, batch_bytes, records, in_flight."""
    batch, count = wire.record_batch(os.urandom(spec["record_bytes"]), spec["batch_bytes"])
    request = wire.produce_request(spec["topic"], batch)
    at = wire.error_offset(spec["topic"])
    sock = wire.connect(*address(spec), TIMEOUT_S)
    _warm(sock, request, at, 1)
    requests = max(1, spec["records"] // count)

    def run() -> dict[str, Any]:
        started = time.perf_counter()
        replay(sock, request, requests, spec["in_flight"], at)
        seconds = time.perf_counter() - started
        return {"records": requests * count, "seconds": seconds, "batch_bytes_mean": len(batch)}

    return run


def replay(sock: socket.socket, request: bytes, requests: int, in_flight: int, at: int) -> None:
    """Keep `in_flight` requests on the way. Replies may arrive several in one read."""
    sent = answered = 0
    buffer = b""
    while answered < requests:
        while sent < requests and sent - answered < in_flight:
            sock.sendall(request)
            sent += 1
        more = sock.recv(65536)
        if not more:
            raise ConnectionError("the broker closed the connection")
        buffer += more
        while len(buffer) >= 4 and len(buffer) >= (end := 4 + int.from_bytes(buffer[:4], "big")):
            checked(buffer, at)
            buffer = buffer[end:]
            answered += 1


def prepare_single(spec: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """spec: bootstrap, topic, record_bytes, producers, seconds."""
    batch, _ = wire.record_batch(os.urandom(spec["record_bytes"]), 0)
    request = wire.produce_request(spec["topic"], batch)
    at = wire.error_offset(spec["topic"])
    sockets = [wire.connect(*address(spec), TIMEOUT_S) for _ in range(spec["producers"])]
    for sock in sockets:
        _warm(sock, request, at, 20)

    def run() -> dict[str, Any]:
        started = time.perf_counter()
        deadline = started + spec["seconds"]
        if len(sockets) == 1:
            latencies_s = _one(sockets[0], request, at, deadline)
        else:
            latencies_s = _many(sockets, request, at, deadline)
        return summary(latencies_s, time.perf_counter() - started)

    return run


def _one(sock: socket.socket, request: bytes, at: int, deadline: float) -> list[float]:
    clock, latencies_s = time.perf_counter, []
    now = clock()
    while now < deadline:
        sock.sendall(request)
        frame = wire.read_frame(sock)
        done = clock()
        latencies_s.append(done - now)
        checked(frame, at)
        now = clock()
    return latencies_s


def _many(sockets: list[socket.socket], request: bytes, at: int, deadline: float) -> list[float]:
    """All connections on one thread: threads would measure Python's lock, not the broker."""
    clock, latencies_s = time.perf_counter, []
    by_fd = {sock.fileno(): sock for sock in sockets}
    sent_at: dict[int, float] = {}
    with select.epoll(len(sockets)) as poller:
        for fd, sock in by_fd.items():
            poller.register(fd, select.EPOLLIN)
            sent_at[fd] = clock()
            sock.sendall(request)
        while sent_at:
            ready = poller.poll(TIMEOUT_S)
            if not ready:
                raise TimeoutError("no reply from the broker")
            for fd, _ in ready:
                frame = wire.read_frame(by_fd[fd])
                now = clock()
                latencies_s.append(now - sent_at.pop(fd))
                checked(frame, at)
                if now < deadline:
                    sent_at[fd] = now
                    by_fd[fd].sendall(request)
    return latencies_s


def summary(latencies_s: list[float], seconds: float) -> dict[str, Any]:
    ordered = sorted(latencies_s)

    def quantile_us(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e6

    return {
        "records": len(ordered),
        "seconds": seconds,
        "p50_us": quantile_us(0.5),
        "p99_us": quantile_us(0.99),
        "p999_us": quantile_us(0.999),
    }
