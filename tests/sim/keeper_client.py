"""A broker's way to the keeper, as a shell has it: a session, watches, writes, and the loss of each.

Everything between the two takes time and can be lost. Answers and changes come to the broker in the order in
which the keeper sent them. A change is sent as the node is when it is read, a while after it changed: so
changes in between are left out, and those of different nodes are seen in any order, a parent before its
children; a change of `/cluster/deletions` alone is seen after all that was changed before it, as the port of
the keeper says. A write whose answer was lost is `Unknown`, after a look at all nodes; one that was asked for
while there was no connection waits for the next, and is refused if that is a new session.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from tests.sim.keeper import SimKeeper
from tests.sim.world import World

from ottla.controller.keeper import NodeChanged, Operation, Outcome, Refused, Unknown
from ottla.controller.znodes import DELETIONS

KEEPER = -9  # its place in the network
RECONNECT_MS = 150

OnOutcome = Callable[[list[NodeChanged], Outcome], None]
Identity = tuple[int, int]  # version and created: the same node with the same data


class Owner(Protocol):
    """The process that talks to the keeper."""

    def input(self, action: Callable[[], None]) -> None: ...
    def on_nodes(self, nodes: list[NodeChanged]) -> None: ...
    def on_session(self) -> None: ...


class Links(Protocol):
    def passes(self, source: object, target: object) -> bool: ...
    def delay_ms(self) -> int: ...


class KeeperClient:
    forgets_writes = True  # those that an earlier session did not get through; a planted bug keeps them

    def __init__(self, world: World, keeper: SimKeeper, links: Links, owner: Owner, place: int) -> None:
        self.world, self.keeper, self.links = world, keeper, links
        self.owner, self.place = owner, place
        self.session = 0
        self.is_connected = False
        self.is_closed = False
        self.late_ms = 0  # so much later may changes be told, in a session that lives
        self._delivered: dict[str, Identity] = {}
        self._sent: dict[str, Identity] = {}
        self._dirty: set[str] = set()
        self._is_flushing = False
        self._up_ms = self._down_ms = 0
        self._lost: list[OnOutcome] = []
        self._waiting: list[tuple[tuple[Operation, ...], OnOutcome]] = []
        self._connection = 0
        self._announced = 0  # the session that the broker knows of

    # The session

    def connect(self) -> None:
        """Try until there is a connection: with the session there was, or with a new one."""
        if self.is_closed or self.is_connected:
            return
        if not self._reaches() or not self._answers():
            self._later(RECONNECT_MS, self.connect)
            return
        self._connection += 1
        self.is_connected = True
        self._up_ms = self._down_ms = 0
        if not self.keeper.is_alive(self.session):
            self.session = self.keeper.open_session()
        self.keeper.hear(self.session)
        self.keeper.watchers[self] = self._on_changed
        self._sent, self._dirty, self._is_flushing = dict(self._delivered), set(), False
        changes = self._read(sorted(self.keeper.nodes.keys() | self._delivered.keys()))
        self._to_broker(lambda: self._on_connected(changes))
        self._later(self.keeper.session_ms // 3, self._ping, self._connection)

    def _on_connected(self, changes: list[NodeChanged]) -> None:
        is_new, self._announced = self._announced != self.session, self.session
        self._seen(changes)
        self.owner.on_nodes(changes)
        lost, self._lost = self._lost, []
        for on_outcome in lost:
            on_outcome([], Unknown("the connection to the keeper was lost"))
        waiting, self._waiting = self._waiting, []
        if is_new:
            self.owner.on_session()
        for operations, on_outcome in waiting:
            if is_new and self.forgets_writes:
                on_outcome([], Refused("", "the session has expired"))
            else:
                self.write(operations, on_outcome)

    def close(self, *, is_polite: bool) -> None:
        """A process that stops ends its session; of one that was killed the keeper hears no more."""
        self.is_closed, self.is_connected = True, False
        self.keeper.watchers.pop(self, None)
        if is_polite and self._reaches():
            session = self.session
            self.world.after(self.links.delay_ms(), lambda: self.keeper.close_session(session))

    def _ping(self) -> None:
        self._ask(lambda: None, lambda: None, self._disconnect)
        self._later(self.keeper.session_ms // 3, self._ping, self._connection)

    def _disconnect(self) -> None:
        if not self.is_connected:
            return
        self.is_connected = False
        self.keeper.watchers.pop(self, None)
        self._later(RECONNECT_MS, self.connect)

    def knows(self, path: str) -> bool:
        return path in self._delivered

    # Writes

    def write(self, operations: tuple[Operation, ...], on_outcome: OnOutcome) -> None:
        outcome: list[Outcome] = []
        changes: list[NodeChanged] = []

        def at_keeper() -> None:
            outcome.append(self.keeper.write(operations, self.session))
            paths = {operation.path for operation in operations}
            changes.extend(self._read(sorted(path for path in self._touched(paths))))

        def answered() -> None:
            self._seen(changes)
            on_outcome(changes, outcome[0])

        if not self.is_connected:
            self._waiting.append((operations, on_outcome))
        else:
            self._ask(at_keeper, answered, lambda: self._lose(on_outcome))

    def _lose(self, on_outcome: OnOutcome) -> None:
        self._lost.append(on_outcome)
        if self.is_connected:
            self._disconnect()

    def _touched(self, paths: set[str]) -> Iterable[str]:
        known = self.keeper.nodes.keys() | self._sent.keys()
        return [one for one in known if any(one == path or one.startswith(path + "/") for path in paths)]

    def confirm(self, confirmed: Callable[[], None]) -> None:
        """Tell once everything that is written by now has been told; nothing if the connection is lost."""
        changes: list[NodeChanged] = []

        def at_keeper() -> None:
            changes.extend(self._read(sorted(self.keeper.nodes.keys() | self._sent.keys())))

        def answered() -> None:
            self._deliver(changes)
            confirmed()

        if self.is_connected:
            self._ask(at_keeper, answered, self._disconnect)

    # Changes

    def _on_changed(self, paths: Iterable[str]) -> None:
        self._dirty |= set(paths)
        if not self._is_flushing:
            self._is_flushing = True
            late_ms = self.world.draw(0, self.late_ms) if self.late_ms else 0
            self._later(self.links.delay_ms() + late_ms, self._flush, self._connection)

    def _flush(self) -> None:
        self._is_flushing = False
        if not self._reaches() or not self._answers() or not self.keeper.is_alive(self.session):
            self._disconnect()
            return
        paths = sorted(self._dirty)
        self._dirty = set()
        if len(paths) > 1 and self.world.chance(0.3):
            late = {path for path in paths if self.world.chance(0.5)}
            late = {path for path in paths if any((path + "/").startswith(one + "/") for one in late)}
            paths = [path for path in paths if path not in late]
            if late:
                self._on_changed(late)
        changes = self._read(paths)
        if changes:
            self._to_broker(lambda: self._deliver(changes))

    def _deliver(self, changes: list[NodeChanged]) -> None:
        self._seen(changes)
        self.owner.on_nodes(changes)

    def _read(self, paths: Iterable[str]) -> list[NodeChanged]:
        """What differs from what this broker was last told of these nodes."""
        changes, paths = [], set(paths)
        if DELETIONS in paths:
            paths |= self.keeper.nodes.keys() | self._sent.keys()
        for path in sorted(paths):
            node, sent = self.keeper.nodes.get(path), self._sent.get(path)
            if node is None:
                if sent is not None:
                    del self._sent[path]
                    changes.append(NodeChanged(path, None, sent[0]))
            elif (node.version, node.created) != sent:
                self._sent[path] = (node.version, node.created)
                changes.append(NodeChanged(path, node.data, node.version, node.created))
        return changes

    def _seen(self, changes: list[NodeChanged]) -> None:
        for change in changes:
            if change.data is None:
                self._delivered.pop(change.path, None)
            else:
                self._delivered[change.path] = (change.version, change.created)

    # The way there and back

    def _reaches(self) -> bool:
        return self.keeper.is_up and self.links.passes(self.place, KEEPER)

    def _answers(self) -> bool:
        return self.keeper.is_up and self.links.passes(KEEPER, self.place)

    def _ask(
        self, at_keeper: Callable[[], None], answered: Callable[[], None], lost: Callable[[], None]
    ) -> None:
        """A request to the keeper: `at_keeper` happens there, then `answered` here; or `lost` here."""
        connection = self._connection

        def arrive() -> None:
            if not self.is_connected or connection != self._connection or self.is_closed:
                self._fail(lost)
            elif not self._reaches() or not self.keeper.is_alive(self.session):
                self._disconnect()
                self._fail(lost)
            else:
                self.keeper.hear(self.session)
                at_keeper()
                if self._answers():
                    self._to_broker(answered, lost)
                else:
                    self._disconnect()
                    self._fail(lost)

        self._up_ms = max(self._up_ms, self.world.now_ms + self.links.delay_ms())
        self.world.at(self._up_ms, arrive)

    def _fail(self, lost: Callable[[], None]) -> None:
        if not self.is_closed:
            self.owner.input(lost)

    def _to_broker(self, action: Callable[[], None], lost: Callable[[], None] | None = None) -> None:
        self._down_ms = max(self._down_ms, self.world.now_ms + self.links.delay_ms())
        connection = self._connection

        def arrive() -> None:
            if self.is_closed:
                return
            if connection == self._connection and self.is_connected:
                self.owner.input(action)
            elif lost is not None:
                self.owner.input(lost)

        self.world.at(self._down_ms, arrive)

    def _later(self, delay_ms: int, action: Callable[[], None], connection: int | None = None) -> None:
        def due() -> None:
            if not self.is_closed and (connection is None or connection == self._connection):
                self.owner.input(action)

        self.world.after(delay_ms, due)
