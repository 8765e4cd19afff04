"""A proxy on loopback between clients and one broker, which can hold back a request and deliver it late.

While a request is held, its connection stands still as if the network had swallowed the packet; the client
gives up on it and goes on over a new one. When it is released, the broker gets it on the old connection,
whether or not the client is still there, and what the broker answers is kept. The broker must name the
proxy's address to its clients (`advertised.listeners`).
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Self

HOST = "127.0.0.1"
WITHIN_S = 60.0
PRODUCE, END_TXN = 0, 26


class Request(NamedTuple):
    """The head of a request, and its frame with the length before it."""

    api_key: int
    version: int
    client_id: str
    frame: bytes


@dataclass
class Hold:
    """A request of this kind and client is held, the next one."""

    api_key: int
    client_id: str
    request: Request | None = None
    answer: bytes = b""
    is_held: threading.Event = field(default_factory=threading.Event)
    is_answered: threading.Event = field(default_factory=threading.Event)
    _is_released: threading.Event = field(default_factory=threading.Event)

    def wait_held(self) -> Request:
        assert self.is_held.wait(WITHIN_S), "the client did not send such a request"
        assert self.request is not None
        return self.request

    def deliver(self) -> bytes:
        """Late, and what the broker answers to it: empty if it closes the connection instead."""
        self._is_released.set()
        assert self.is_answered.wait(WITHIN_S), "the broker did not answer"
        return self.answer

    def matches(self, request: Request) -> bool:
        return (self.api_key, self.client_id) == (request.api_key, request.client_id) and self.request is None


class Proxy:
    """`with Proxy(port) as proxy:` listens on the port `proxy.port` until the end of the block."""

    def __init__(self, broker_port: int, port: int) -> None:
        self.port, self._broker_port = port, broker_port
        self._holds: list[Hold] = []
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server((HOST, port))

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for hold in self._holds:
            hold._is_released.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def hold(self, api_key: int, client_id: str) -> Hold:
        hold = Hold(api_key, client_id)
        with self._lock:
            self._holds.append(hold)
        return hold

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                broker = socket.create_connection((HOST, self._broker_port))
            except OSError:
                return
            for connection in (client, broker):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets += (client, broker)
            Connection(client, broker, self._held).start()

    def _held(self, request: Request) -> Hold | None:
        with self._lock:
            for hold in self._holds:
                if hold.matches(request):
                    hold.request = request
                    return hold
        return None


class Connection:
    """Requests go one way and answers the other, each in a thread, frame by frame."""

    def __init__(
        self, client: socket.socket, broker: socket.socket, held: Callable[[Request], Hold | None]
    ) -> None:
        self._client, self._broker, self._held = client, broker, held
        self._waiting: list[Hold | None] = []  # for answers, which come in the order of the requests
        self._lock = threading.Lock()

    def start(self) -> None:
        for work in (self._forward, self._answer):
            threading.Thread(target=work, daemon=True).start()

    def _forward(self) -> None:
        for frame in frames(self._client):
            request = parsed(frame)
            hold = self._held(request)
            if hold is not None:
                hold.is_held.set()
                hold._is_released.wait()
            with self._lock:
                self._waiting.append(hold)
            try:
                self._broker.sendall(frame)
            except OSError:
                break
        with contextlib.suppress(OSError):
            self._broker.shutdown(socket.SHUT_WR)

    def _answer(self) -> None:
        for frame in frames(self._broker):
            with self._lock:
                hold = self._waiting.pop(0) if self._waiting else None
            if hold is not None:
                hold.answer = frame
                hold.is_answered.set()
            with contextlib.suppress(OSError):  # the client may be gone
                self._client.sendall(frame)
        with self._lock:
            unanswered, self._waiting = self._waiting, []
        for hold in unanswered:
            if hold is not None:
                hold.is_answered.set()
        with contextlib.suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)


def frames(connection: socket.socket) -> Iterator[bytes]:
    """Whole ones, with their length, until the other side closes."""
    while True:
        head = _exactly(connection, 4)
        body = _exactly(connection, struct.unpack(">i", head)[0]) if len(head) == 4 else b""
        if not body:
            return
        yield head + body


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    with contextlib.suppress(OSError):
        while len(parts) < count:
            part = connection.recv(min(count - len(parts), 1 << 20))
            if not part:
                return b""
            parts += part
    return bytes(parts) if len(parts) == count else b""


def parsed(frame: bytes) -> Request:
    api_key, version, _, length = struct.unpack_from(">hhih", frame, 4)
    return Request(api_key, version, frame[14 : 14 + max(0, length)].decode(), frame)
