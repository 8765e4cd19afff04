"""The network: connections that behave as TCP does, over links that are slow, lose, and are cut.

A link is from one place to another, one way. Frames of one direction of a connection arrive in order or not
at all: once one is lost nothing after it arrives, and each end finds out for itself: the client when its time
is up, the server when it hears of a reset or not at all. What is sent into a cut may also wait there, and
arrive when the link is mended, long after its sender gave up or was killed. A process that dies resets its
connections, if the links are whole; a machine without power says nothing. Where nobody serves, or a link
refuses (a firewall that says so), a connection is refused; into a cut, it is not answered.

A server reads one request of a connection at a time: the next waits until the answer was given.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from tests.sim.world import ViolationError, World

from ottla.broker.effects import Sign

HELD = 0.5

OnAnswer = Callable[[bytes | None], None]
Place = object


class Server(Protocol):
    """A process that serves."""

    place: Any

    def input(self, action: Callable[[], None]) -> None: ...
    def on_frame(self, connection: "Connection", frame: bytes) -> None: ...
    def on_closed(self, connection: "Connection") -> None: ...


class Network:
    def __init__(self, world: World) -> None:
        self.world = world
        self.loss = 0.0
        self.slow = 0.0
        self.cuts: dict[tuple[Place, Place], int] = {}
        self.held: dict[tuple[Place, Place], list[Connection]] = {}
        self.refusals: dict[tuple[Place, Place], int] = {}
        self.dark: set[Place] = set()  # machines without power
        self.servers: dict[Any, Server] = {}
        self.connections: dict[int, Connection] = {}
        self._numbers = 0

    # Links

    def cut(self, source: Place, target: Place) -> None:
        self.cuts[source, target] = self.cuts.get((source, target), 0) + 1

    def mend(self, source: Place, target: Place) -> None:
        left = self.cuts.get((source, target), 0) - 1
        if left > 0:
            self.cuts[source, target] = left
            return
        self.cuts.pop((source, target), None)
        for connection in self.held.pop((source, target), ()):
            connection.release()

    def refuse(self, source: Place, target: Place) -> None:
        """No connection of one to the other is let through any more, those that are there included."""
        self.refusals[source, target] = self.refusals.get((source, target), 0) + 1
        for connection in list(self.connections.values()):
            if (connection.source, connection.target) == (source, target):
                connection.fail_later(self.delay_ms())

    def admit(self, source: Place, target: Place) -> None:
        left = self.refusals.pop((source, target)) - 1
        if left > 0:
            self.refusals[source, target] = left

    def passes(self, source: Place, target: Place) -> bool:
        if (source, target) in self.cuts:
            return False
        return not self.loss or self.world.random.random() >= self.loss

    def delay_ms(self) -> int:
        random = self.world.random
        if self.slow and random.random() < self.slow:
            return 20 + int(random.random() * 600)
        return 1 + int(random.random() * 4)

    # Connections

    def connect(self, source: Place, target: Any) -> "Connection":
        """A connection, which may turn out to be none."""
        self._numbers += 1
        connection = Connection(self, self._numbers, source, target)
        self.connections[connection.number] = connection
        server = self.servers.get(target)
        is_through = self.passes(source, target) and self.passes(target, source)
        if server is not None and is_through and (source, target) not in self.refusals:
            connection.server = server
            return connection
        is_refused = is_through and target not in self.dark
        connection.sign = Sign.REFUSED if is_refused else Sign.SILENT
        connection.fail_later(self.delay_ms() if server is None or is_refused else 200)
        return connection

    def on_stopped(self, server: Server, *, is_silent: bool) -> None:
        """A process is gone; if the machine is still there, it resets what was connected to it."""
        place = server.place
        if self.servers.get(place) is server:
            del self.servers[place]
        if is_silent:
            self.dark.add(place)
        for connection in [one for held in self.held.values() for one in held]:
            if is_silent and connection.source == place:
                connection.held.clear()
        for connection in list(self.connections.values()):
            if connection.server is server:
                connection.server = None
                if not is_silent and self.passes(place, connection.source):
                    connection.fail_later(self.delay_ms())


class Connection:
    def __init__(self, network: Network, number: int, source: Place, target: Any) -> None:
        self.network, self.number = network, number
        self.source, self.target = source, target
        self.server: Server | None = None
        self.is_open = True
        self.sign = Sign.LOST  # what its end means
        self.on_end: Callable[[], None] | None = None
        self.held: list[bytes] = []  # in a cut, on the way up
        self._asked: deque[OnAnswer] = deque()
        self._unread: deque[bytes] = deque()
        self._is_busy = False
        self.is_muted = False  # its client is over a quota
        self._is_lossy_up = self._is_lossy_down = False
        self._up_ms = self._down_ms = 0
        self.lag_ms = 0  # of a proxy on the way up, which a client does not hear of

    # The client's end

    def ask(self, frame: bytes, on_answer: OnAnswer, timeout_ms: int, *, wants_answer: bool = True) -> None:
        """`on_answer` is called once: with the answer, or None when there will be none. The client calls
        this in its own turn, and puts `on_answer` into its own."""
        if wants_answer:
            self._asked.append(on_answer)
            self.network.world.after(timeout_ms, lambda: self._on_timeout(on_answer))
        if self.server is None or self._is_lossy_up:
            return
        link = (self.source, self.target)
        if self.held or (link in self.network.cuts and self.network.world.chance(HELD)):
            if not self.held:
                self.network.held.setdefault(link, []).append(self)
            self.held.append(frame)
        elif self.network.passes(*link):
            self._deliver(frame)
        else:
            self._is_lossy_up = True

    def release(self) -> None:
        held, self.held = self.held, []
        for frame in held:
            self._deliver(frame)

    def _deliver(self, frame: bytes) -> None:
        server = self.server
        if server is None:
            return
        self._up_ms = max(self._up_ms, self.network.world.now_ms + self.network.delay_ms() + self.lag_ms)
        self.network.world.at(self._up_ms, lambda: server.input(lambda: self._arrived(frame)))

    def close(self) -> None:
        """The client gives up: whoever waits gets nothing, and the server is told, if it can be."""
        if not self.is_open:
            return
        self.is_open = False
        self.network.connections.pop(self.number, None)
        asked, self._asked = self._asked, deque()
        for on_answer in asked:
            on_answer(None)
        if self.on_end is not None:
            self.on_end()
        server = self.server
        if server is not None:
            delay_ms = self.network.delay_ms() if self.network.passes(self.source, self.target) else 5_000
            if self.lag_ms:  # behind what was sent before
                delay_ms = max(delay_ms, self._up_ms - self.network.world.now_ms + 1)
            self.network.world.after(delay_ms, lambda: server.input(self._hung_up))

    def fail_later(self, delay_ms: int) -> None:
        self.network.world.after(delay_ms, self.close)

    def _on_timeout(self, on_answer: OnAnswer) -> None:
        if self.is_open and on_answer in self._asked:
            self.sign = Sign.SILENT
            self.close()

    # The server's end

    def _arrived(self, frame: bytes) -> None:
        if self.server is None:
            return
        self._unread.append(frame)
        self._read()

    def _read(self) -> None:
        while self._unread and not self._is_busy and not self.is_muted and self.server is not None:
            self._is_busy = True
            self.server.on_frame(self, self._unread.popleft())

    def answer(self, frame: bytes | None) -> None:
        """The server's answer; None if the protocol wants none."""
        if not self._is_busy:
            raise ViolationError(f"{self.target} answers {self.source} a second time, or was not asked")
        self._is_busy = False
        if frame is not None and not self._is_lossy_down:
            if self.network.passes(self.target, self.source):
                self._down_ms = max(self._down_ms, self.network.world.now_ms + self.network.delay_ms())
                self.network.world.at(self._down_ms, lambda: self._answered(frame))
            else:
                self._is_lossy_down = True

    def read_on(self) -> None:
        self._read()

    def close_by_server(self) -> None:
        server, self.server = self.server, None
        if server is not None:
            server.on_closed(self)
            if self.network.passes(self.target, self.source):  # behind the answers before
                self._down_ms = max(self._down_ms, self.network.world.now_ms + self.network.delay_ms())
                self.network.world.at(self._down_ms, self.close)

    def _answered(self, frame: bytes) -> None:
        if self.is_open and self._asked:
            self._asked.popleft()(frame)

    def _hung_up(self) -> None:
        server, self.server = self.server, None
        if server is not None:
            server.on_closed(self)
