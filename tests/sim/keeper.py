"""The keeper: one linearizable tree with sessions, ephemeral nodes and an order of writes.

`SimKeeper` is the ensemble, seen from outside as one. It ends sessions it has not heard of for too long, by
the world's clock, and tells whoever watches which paths changed. What lies between it and a broker (delays,
lost answers, watches that come late) is in `keeper_client`.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.sim.world import World

from ottla.controller.keeper import ANY, Check, Create, Delete, Operation, Outcome, Put, Refused, Written

NOBODY = 0


class Znode(NamedTuple):
    data: bytes
    version: int
    created: int
    owner: int = NOBODY


Nodes = dict[str, Znode]
Watcher = Callable[[Iterable[str]], None]
Observer = Callable[[int, Iterable[str]], None]


class SimKeeper:
    def __init__(self, world: World, session_ms: int) -> None:
        self.world = world
        self.session_ms = session_ms
        self.nodes: Nodes = {}
        self.order = 0
        self.is_up = True
        self.watchers: dict[object, Watcher] = {}
        self.observers: list[Observer] = []
        self._heard_ms: dict[int, int] = {}
        self._sessions = 0

    # Sessions

    def open_session(self) -> int:
        self._sessions += 1
        session = self._sessions
        self._heard_ms[session] = self.world.now_ms
        self._watch_session(session)
        return session

    def is_alive(self, session: int) -> bool:
        return session in self._heard_ms

    def hear(self, session: int) -> None:
        self._heard_ms[session] = self.world.now_ms

    def close_session(self, session: int, why: str = "closed") -> None:
        if self._heard_ms.pop(session, None) is None:
            return
        self.world.note("keeper: session", session, why)
        gone = sorted(path for path, node in self.nodes.items() if node.owner == session)
        self._commit({path: node for path, node in self.nodes.items() if node.owner != session}, gone, NOBODY)

    def _watch_session(self, session: int) -> None:
        heard_ms = self._heard_ms.get(session)
        if heard_ms is None:
            return
        due_ms = heard_ms + self.session_ms
        if self.is_up and due_ms <= self.world.now_ms:
            self.close_session(session, "expired")
            return
        self.world.at(max(due_ms, self.world.now_ms + 50), lambda: self._watch_session(session))

    def stop(self) -> None:
        self.world.note("keeper: down")
        self.is_up = False

    def resume(self) -> None:
        """An ensemble that has a leader again gives every session its whole time anew."""
        self.world.note("keeper: up")
        self.is_up = True
        self._heard_ms = dict.fromkeys(self._heard_ms, self.world.now_ms)

    # Writes

    def write(self, operations: Iterable[Operation], session: int) -> Outcome:
        nodes, order = dict(self.nodes), self.order + 1
        changed: list[str] = []
        for operation in operations:
            refusal = _refusal(nodes, operation)
            if refusal is not None:
                return Refused(operation.path, refusal)
            changed += _apply(nodes, operation, order, session)
        self._commit(nodes, changed, session)
        return Written()

    def _commit(self, nodes: Nodes, changed: list[str], session: int) -> None:
        if not changed:
            return
        self.order += 1
        self.nodes = nodes
        for observe in self.observers:
            observe(session, changed)
        for watch in list(self.watchers.values()):
            watch(changed)


def _refusal(nodes: Nodes, operation: Operation) -> str | None:
    path = operation.path
    if isinstance(operation, Create):
        return f"{path} is there already" if path in nodes else None
    if path not in nodes:
        return f"{path} is not there"
    version = nodes[path].version
    if operation.version in {ANY, version}:
        return None
    return f"{path} is at version {version}, not {operation.version}"


def _apply(nodes: Nodes, operation: Operation, order: int, session: int) -> list[str]:
    match operation:
        case Create(path, data, ephemeral):
            nodes[path] = Znode(data, 0, order, session if ephemeral else NOBODY)
            return [path]
        case Put(path, data):
            known = nodes[path]
            nodes[path] = known._replace(data=data, version=known.version + 1)
            return [path]
        case Delete(path):
            below = sorted((p for p in nodes if p == path or p.startswith(path + "/")), reverse=True)
            for one in below:
                del nodes[one]
            return below
        case Check():
            return []
