"""The keeper: one linearizable tree with sessions, ephemeral nodes and an order of writes.

`SimKeeper` is the ensemble, seen from outside as one. It ends sessions it has not heard of for too long, by
the world's clock, and tells whoever watches which paths changed. What lies between it and a broker (delays,
lost answers, watches that come late) is in `keeper_client`.
"""

from collections.abc import Callable, Iterable

from tests.sim.world import World

from ottla.controller.keeper import NodeChanged, Operation, Outcome
from ottla.controller.tree import Node, Tree

NOBODY = 0


Watcher = Callable[[Iterable[str]], None]
Observer = Callable[[int, Iterable[str]], None]


class SimKeeper:
    def __init__(self, world: World, session_ms: int) -> None:
        self.world = world
        self.session_ms = session_ms
        self._tree = Tree()
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
        self._tell(self._tree.end(session), NOBODY)

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

    # Nodes

    @property
    def nodes(self) -> dict[str, Node]:
        return self._tree.nodes

    def write(self, operations: Iterable[Operation], session: int) -> Outcome:
        changed, outcome = self._tree.write(operations, session)
        self._tell(changed, session)
        return outcome

    def _tell(self, changed: list[NodeChanged], session: int) -> None:
        if not changed:
            return
        paths = [node.path for node in changed]
        for observe in self.observers:
            observe(session, paths)
        for watch in list(self.watchers.values()):
            watch(paths)
