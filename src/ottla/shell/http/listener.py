"""Where HTTP is served: who may be connected, for how long, and how many requests are answered.

There may be anybody out there. So there are few connections, and one more makes room for itself: of the
address that has the most of them, the one goes that is due first, so that nobody keeps others out. What takes
too long is cut off. Requests are answered so many in a second, and others wait a moment: they are a small
part of what the broker has to do.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

from ottla.base.addresses import Address
from ottla.shell.endpoints import cannot_listen, start_listening
from ottla.shell.http.connection import Answering, Asked, HttpConnection

CONNECTIONS_MAX = 64
REQUESTS_PER_S_MAX = 500
SWEEP_S = 1.0
BACKLOG = 1_024


class HttpListener:
    """`answer` says what a path is answered with."""

    def __init__(self, answer: Callable[[Asked], Answering]) -> None:
        self.answer = answer
        self.connections: set[HttpConnection] = set()
        self._loop = asyncio.get_running_loop()
        self._free_s = 0.0  # when the next request may be answered
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def listen(self, address: Address) -> Address:
        """The address that it came to be, where the port is a free one."""
        try:
            self._server = await self._loop.create_server(
                lambda: HttpConnection(self, self._loop.time), address.host, address.port, backlog=BACKLOG,
                start_serving=False,
            )  # fmt: skip
            await start_listening(self._server)
        except OSError as error:
            raise cannot_listen(address, error, "--http") from None
        self._sweep()
        return Address(address.host, self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            connection.close()

    @property
    def unsent_bytes(self) -> int:
        """Of answers that their clients have not read yet."""
        return sum(connection.unsent_bytes for connection in self.connections)

    # -- connections --

    def admit(self, connection: HttpConnection) -> bool:
        if self._server is None or not self._server.is_serving():
            return False
        if len(self.connections) >= CONNECTIONS_MAX:
            self._make_room(connection.peer)
        self.connections.add(connection)
        return True

    def _make_room(self, peer: str) -> None:
        counts = Counter(connection.peer for connection in self.connections)
        counts[peer] += 1
        most = max(counts.values())
        candidates = [connection for connection in self.connections if counts[connection.peer] == most]
        soonest = min(candidates, key=lambda connection: (connection.is_answering, connection.due_s))
        self.forget(soonest)
        soonest.close()

    def forget(self, connection: HttpConnection) -> None:
        self.connections.discard(connection)

    def _sweep(self) -> None:
        now_s = self._loop.time()
        for connection in list(self.connections):
            if now_s > connection.due_s and not connection.is_answering:
                connection.close()
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)

    # -- requests --

    def when_due(self, answer: Callable[[], None]) -> None:
        now_s = self._loop.time()
        due_s = max(now_s, min(self._free_s, now_s + CONNECTIONS_MAX / REQUESTS_PER_S_MAX))
        self._free_s = due_s + 1 / REQUESTS_PER_S_MAX
        if due_s <= now_s:
            answer()
        else:
            self._loop.call_at(due_s, answer)
