"""The keeper of several brokers in one process: a tree in memory, with a session for each. No Java, no disk.

`SharedTree` is the one thing that all of them see, each from its own thread: a lock guards it, and what
changes is posted to every session's loop while it is held, so that all see it in one order.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterable

from ottla.base.metrics import Histogram
from ottla.controller.keeper import NodeChanged, Operation
from ottla.controller.tree import Tree
from ottla.shell.keeper import KeeperListener, OnOutcome, Session


class SharedTree:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tree = Tree()
        self._sessions: list[SharedKeeper] = []

    def prepare(self, operations: Iterable[Operation]) -> None:
        """Write nodes that are to be there before the first session."""
        assert not self._sessions, "too late: somebody would not hear of it"
        self._tree.write(operations, self)

    def join(self, session: "SharedKeeper") -> list[NodeChanged]:
        with self._lock:
            self._sessions.append(session)
            return self._tree.load()

    def leave(self, session: "SharedKeeper") -> None:
        """The session ends, and its ephemeral nodes go."""
        with self._lock:
            if session in self._sessions:
                self._sessions.remove(session)
            self._tell(self._tree.end(session))

    def expire(self, session: "SharedKeeper") -> None:
        """As after a timeout: its ephemeral nodes go, and it gets a new session."""
        with self._lock:
            self._tell(self._tree.end(session))
            if session in self._sessions:
                session.post(session.on_expired)

    def mute(self, session: "SharedKeeper") -> None:
        """Its broker is gone: it hears of nothing any more, and its nodes stay until `leave`."""
        with self._lock:
            if session in self._sessions:
                self._sessions.remove(session)

    def owner_of(self, path: str) -> Hashable | None:
        with self._lock:
            node = self._tree.nodes.get(path)
            return node.owner if node else None

    def write(self, session: "SharedKeeper", operations: Iterable[Operation], done: OnOutcome) -> None:
        with self._lock:
            changed, outcome = self._tree.write(operations, session)
            self._tell(changed)
            session.post(done, outcome)

    def confirm(self, session: "SharedKeeper", done: Callable[[], None]) -> None:
        """Behind all that was posted before. A session that was muted is told nothing."""
        with self._lock:
            if session in self._sessions:
                session.post(done)

    def _tell(self, changed: list[NodeChanged]) -> None:
        for session in self._sessions if changed else ():
            session.post(session.on_nodes, changed)


class SharedKeeper:
    """One broker's session. It lives until it is ended, so it has no timeout."""

    is_shared = True
    where = "the keeper in memory"

    def __init__(self, loop: asyncio.AbstractEventLoop, tree: SharedTree) -> None:
        self.request_durations = Histogram()
        self._loop = loop
        self._tree = tree
        self._listener: KeeperListener
        self._is_closed = False

    @property
    def heard_s(self) -> float:
        return time.monotonic()  # it is always there

    async def load(self, listener: KeeperListener) -> list[NodeChanged]:
        self._listener = listener
        return self._tree.join(self)

    def write(self, operations: Iterable[Operation], done: OnOutcome) -> None:
        self._tree.write(self, tuple(operations), done)

    def confirm(self, done: Callable[[], None]) -> None:
        self._tree.confirm(self, done)

    def owns(self, path: str) -> bool:
        return self._tree.owner_of(path) is self

    async def close(self) -> None:
        self._is_closed = True
        self._tree.leave(self)

    def abandon(self, after_s: float) -> None:
        """The broker crashed; its session ends after `after_s`."""
        self._is_closed = True
        self._tree.mute(self)
        timer = threading.Timer(after_s, self._tree.leave, (self,))
        timer.daemon = True
        timer.start()

    def post(self, what: Callable[..., object], *arguments: object) -> None:
        """Call it in the loop of this session, from any thread; not at all if the loop is closed."""
        if not self._is_closed:
            with contextlib.suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(what, *arguments)

    def on_nodes(self, changed: list[NodeChanged]) -> None:
        if not self._is_closed:
            self._listener.on_nodes(changed)

    def on_expired(self) -> None:
        if not self._is_closed:
            self._listener.on_session(Session.EXPIRED)
