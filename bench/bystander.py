"""A client that minds its own business while a broker is busy with something else: how long does it wait?

It sends a record of 100 bytes (acks=all) every few milliseconds, in a process of its own, until its standard
input ends, and then prints how long the answers took. `Bystander` is the other side: a context in which the
workload runs.
"""

import json
import socket
import subprocess
import sys
import threading
import time
from typing import Any, Self

from bench import wire
from bench.load_raw import checked, summary
from bench.servers import HOST, ROOT, Peer, PeerError

PAUSE_S = 0.002
PATIENCE_S = 120.0
WARM_UP = 50


class Bystander:
    """`figures` are there after the block, if it has come to its end."""

    def __init__(self, peer: Peer, topic: str) -> None:
        self.figures: dict[str, float] = {}
        self._command = [sys.executable, "-m", "bench.bystander", str(peer.port), topic]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            self._end()
            raise PeerError("nobody answers the bystander")
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if not any(error):
                said, _ = self._process.communicate(timeout=PATIENCE_S)
                self.figures = json.loads(said)
        except (OSError, ValueError, subprocess.TimeoutExpired) as failure:
            raise PeerError(f"the bystander was not answered: {failure}") from failure
        finally:
            self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def until_led(sock: socket.socket, request: bytes, at: int) -> None:
    """A broker of a cluster may hear a little later than others that it leads the partition."""
    deadline = time.perf_counter() + PATIENCE_S
    while True:
        sock.sendall(request)
        frame = wire.read_frame(sock)
        if wire.produce_error(frame, at) not in wire.RETRIABLE or time.perf_counter() > deadline:
            checked(frame, at)
            return
        time.sleep(PAUSE_S)


def main(port: int, topic: str) -> None:
    is_over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
    batch, _ = wire.record_batch(bytes(100), 0)
    request, at = wire.produce_request(topic, batch), wire.error_offset(topic)
    waited_s: list[float] = []
    began = time.perf_counter()
    with wire.connect(HOST, port, PATIENCE_S) as sock:

        def ask() -> float:
            asked = time.perf_counter()
            sock.sendall(request)
            checked(wire.read_frame(sock), at)
            return time.perf_counter() - asked

        until_led(sock, request, at)
        for _ in range(WARM_UP):
            ask()
        print("ready", flush=True)
        while not is_over.is_set():
            waited_s.append(ask())
            time.sleep(PAUSE_S)
    figures: dict[str, Any] = summary(waited_s, time.perf_counter() - began)
    print(json.dumps(figures | {"longest_us": max(waited_s) * 1e6}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
