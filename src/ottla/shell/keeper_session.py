"""A broker and its keeper: what the tree says goes in, writes go out, and the broker's own node stays there.

Rules
- What comes from the keeper is given to the broker in order, an outcome after the changes before it. If one
  finds no file descriptor it is given again, and the rest waits behind it.
- A broker's node of another session is not shown to it: it would take that incarnation for its own.
- At a start, an earlier incarnation may still be in the tree. If it is of the last process on the same disk,
  that one is gone, and its nodes are taken away. Else its session is waited for, as long as that can last.
  While the keeper is away no session ends, and when it is back all begin anew: only time in which it is
  there counts.
- A session that expired is followed by another registration. The broker has not stopped meanwhile, so its
  logs are what they were, and it says so; and which of them it has lost to failed directories.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from ottla.base.addresses import Address
from ottla.base.config import load
from ottla.broker import effects
from ottla.broker.adoption import adopted_topics, elections
from ottla.broker.config import BrokerConfig
from ottla.broker.zookeeper_config import ZooKeeperConfig
from ottla.controller import znodes
from ottla.controller.features import agreed
from ottla.controller.keeper import NodeChanged, Operation, Outcome, Unknown, Written
from ottla.controller.registration import candidacy, founding, registration, succession
from ottla.log.folders import KEEPER_DB
from ottla.shell.core import Carriers, Core
from ottla.shell.keeper import Keeper, Reminder, Session
from ottla.shell.keeper_local import LocalKeeper
from ottla.shell.lock import DirectoryLock, StartError, check_cluster
from ottla.shell.stalls import KEEPER

log = logging.getLogger(__name__)

LINGER_S = 3.0  # how much longer than its timeout an old session may stay
AGAIN_S = 0.5
ROUND_S = 0.1
SECRET_BYTES = 32
SHARE_US = 10_000  # of a round of the loop
KeeperMaker = Callable[[asyncio.AbstractEventLoop], Keeper]


class KeeperSession:
    """Listens to the keeper for one broker, that is reached at `endpoints` and holds `lock`."""

    def __init__(
        self, core: Core, keeper: Keeper, endpoints: Mapping[str, Address], lock: DirectoryLock
    ) -> None:
        self.keeper = keeper
        self.is_suspended = False
        self._core = core
        self._counts = core.keeper_counts
        self._counts.keeper = keeper
        self._endpoints = endpoints
        self._protocols = {
            listener.name: listener.protocol
            for listener in core.broker.listeners.bound
            if listener.name in endpoints
        }
        self._lock = lock
        self._own_path = znodes.BROKERS + str(core.broker.id)
        self._others: bytes | None = None  # what another session has in our node
        self._early: list[NodeChanged] = []
        self._is_open = False
        self._is_busy = False
        self._inbox: deque[Callable[[], None]] = deque()
        self._spent_us = 0  # in this round of the loop, by what the keeper said
        self._clean_since: int | None = None  # None: never registered yet
        self._incarnation = ""
        self._changed = asyncio.Event()
        self._expiries = 0

    # -- start --

    async def load(self) -> list[NodeChanged]:
        """The tree, once an earlier incarnation of this broker is out of it."""
        nodes = await self.keeper.load(self)
        self._counts.on_connected()
        self._look_for_others(nodes)
        if self._others is not None:
            await self._succeed(nodes)
        if self._others is not None:
            await self._outwait()
        early, self._early = self._early, []
        return self._visible([*nodes, *early])

    async def _succeed(self, nodes: list[NodeChanged]) -> None:
        """The directory's lock is ours: whoever registered with the word in it does not run any more."""
        word = self._lock.incarnation()
        if word and znodes.parse(self._others or b"{}").get("incarnation") == word:
            log.info("%s is left from the last process of this broker; taken away", self._own_path)
            await self._write(succession(self._core.broker.id, nodes))

    async def _outwait(self) -> None:
        """Rounds are counted and not the time, which goes on while this process itself is stalled."""
        limit_s = self._core.config.zookeeper_session_timeout_ms / 1000 + LINGER_S
        log.warning("%s is there from an earlier session; waiting for that to end", self._own_path)
        waited_s, reminder = 0.0, Reminder()
        while self._others is not None:
            if waited_s >= limit_s:
                raise self._taken()
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), ROUND_S)
            waited_s += ROUND_S
            if self.is_suspended:
                waited_s = 0.0
                reminder.say(f"{self.keeper.where} is away; waiting for it, then for the session to end")

    def _taken(self) -> StartError:
        endpoints = znodes.parse_endpoints(znodes.parse(self._others)) if self._others else {}
        return StartError(
            f"broker id {self._core.broker.id} is registered already by "
            f"{next(iter(endpoints.values()), 'another')}; give this one another --id"
        )

    def open(self) -> list[NodeChanged]:
        """From now on the broker sees what happens; this came while it was opened."""
        self._is_open = True
        early, self._early = self._early, []
        return self._visible(early)

    async def register(self, cluster_id: str, claims: dict[str, str | None]) -> None:
        """Found the cluster if nobody has, and enter it. Several brokers may try that at once."""
        if self.keeper.is_shared:
            self._incarnation = self._core.broker.random.randbytes(16).hex()
            self._lock.write_incarnation(self._incarnation)
        while True:
            expiries = self._expiries
            outcome = await self._write(self._registration(cluster_id))
            if isinstance(outcome, Written) or self.keeper.owns(self._own_path):
                break
            if isinstance(outcome, Unknown) or self._expiries != expiries:
                continue
            image = self._core.broker.image
            if outcome.path == znodes.CLUSTER_ID and image.cluster_id:
                check_cluster({**claims, self.keeper.where: image.cluster_id})
            elif outcome.path == znodes.FEATURES or (
                outcome.path == znodes.PEER_SECRET and image.peer_secret
            ):
                continue  # somebody was quicker, and we know it now, or soon
            elif outcome.path == self._own_path and self._others is not None:
                await self._outwait()  # of a session that expired meanwhile, or somebody was quicker
            else:
                raise StartError(f"cannot register broker {self._core.broker.id}: {outcome.reason}")
        self._remember()

    def _registration(self, cluster_id: str) -> list[Operation]:
        broker = self._core.broker
        rack = self._core.config.rack or None
        entry = [
            *founding(broker.image, cluster_id, self._new_secret()),
            *registration(
                broker.id, self._endpoints, rack, protocols=self._protocols,
                is_clean=broker.is_clean, lost=broker.store.lost if self.keeper.is_shared else (),
                incarnation=self._incarnation,
            ),
        ]  # fmt: skip
        if self.keeper.is_shared and broker.image.cluster_id:
            return entry
        # Whoever founds a cluster brings along the topics that it has; in a cluster, the controller elects.
        image = broker.image
        founded = [
            *entry,
            *candidacy(image, broker.id),
            *adopted_topics(broker.adoption, broker.id, image, broker.store, broker.random),
        ]
        if self.keeper.is_shared or broker.is_clean:
            return founded
        return [*founded, *elections(broker.id, image)]

    def _new_secret(self) -> bytes:
        """By which the brokers of a cluster know each other; nothing for a broker that is alone."""
        return self._core.broker.random.randbytes(SECRET_BYTES) if self.keeper.is_shared else b""

    async def _write(self, operations: list[Operation]) -> Outcome:
        written: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._ask(operations, lambda outcome: self._take(lambda: written.set_result(outcome)))
        return await written

    def _ask(self, operations: Iterable[Operation], done: Callable[[Outcome], None]) -> None:
        begun_ns = time.monotonic_ns()

        def counted(outcome: Outcome) -> None:
            self._counts.on_written(outcome, (time.monotonic_ns() - begun_ns) // 1000)
            done(outcome)

        self.keeper.write(operations, counted)

    def _remember(self) -> None:
        me = self._core.broker.image.brokers.get(self._core.broker.id)
        if me is not None:
            self._clean_since = me.clean_since

    # -- writes --

    def carriers(self) -> Carriers:
        return {effects.WriteNodes: self._carry_write, effects.ConfirmTree: self._confirm}

    def _carry_write(self, effect: effects.WriteNodes) -> None:
        broker, now_ms = self._core.broker, self._core.now_ms

        def written(outcome: Outcome) -> None:
            self._take(
                lambda: self._core.input(
                    lambda: broker.outbox.on_written(effect.token, outcome, now_ms()),
                    KEEPER,
                    is_repeated=True,
                )
            )

        self._ask(effect.operations, written)

    def _confirm(self, effect: effects.ConfirmTree) -> None:
        broker, now_ms = self._core.broker, self._core.now_ms

        def confirmed() -> None:
            broker.proofs.on_confirmed(effect.asked_ms, now_ms())
            self._core.carry_out()

        # What was written before is seen before; but in a keeper of our own nobody else writes.
        self.keeper.confirm((lambda: self._take(confirmed)) if self.keeper.is_shared else confirmed)

    # -- what the keeper says --

    def on_nodes(self, nodes: list[NodeChanged]) -> None:
        self._look_for_others(nodes)
        if not self._is_open:
            self._early += nodes
            return
        visible = self._visible(nodes)
        if visible:
            self._take(lambda: self._core.on_nodes(visible))

    def _look_for_others(self, nodes: list[NodeChanged]) -> None:
        for node in nodes:
            if node.path == self._own_path:
                self._others = None if self.keeper.owns(node.path) else node.data
                self._changed.set()

    def _visible(self, nodes: list[NodeChanged]) -> list[NodeChanged]:
        is_ours = self._others is None
        return [node for node in nodes if is_ours or node.path != self._own_path or node.data is None]

    def on_session(self, event: Session) -> None:
        self.is_suspended = event is Session.SUSPENDED
        self._counts.on_session(event)
        self._expiries += event is Session.EXPIRED
        if event is Session.EXPIRED and self._is_open:
            self._take(self._register_again)

    def on_failure(self, reason: str) -> None:
        self._core.halt(reason)

    def _register_again(self) -> None:
        core, path = self._core, self._own_path
        if core.is_ending or self.keeper.owns(path):
            return
        operations = [
            *agreed(core.broker.image),
            *registration(
                core.broker.id, self._endpoints, core.config.rack or None, protocols=self._protocols,
                is_clean=core.broker.is_clean or self._clean_since is not None,
                clean_since=self._clean_since or 0,
                lost=core.broker.store.lost,
                incarnation=self._incarnation,
            ),
        ]  # fmt: skip

        def written(outcome: Outcome) -> None:
            if isinstance(outcome, Written) or self.keeper.owns(path):
                self._remember()
                log.warning("broker %d is registered again", core.broker.id)
            elif not core.is_ending:
                log.warning("broker %d is not registered yet: %s", core.broker.id, outcome.reason)
                asyncio.get_running_loop().call_later(AGAIN_S, self._register_again)

        self._ask(operations, lambda outcome: self._take(lambda: written(outcome)))

    # -- order --

    def _take(self, event: Callable[[], None]) -> None:
        self._inbox.append(event)
        if not self._is_busy:
            self._drain()

    def _drain(self) -> None:
        """In order, and a few in a round: clients are served between the thousand topics of one request."""
        self._is_busy = True
        begun_us = self._core.stalls.elapsed_us() - self._spent_us
        while self._inbox and not self._core.is_ending:  # the logs are closed then, or will be
            if self._spent_us > SHARE_US:
                asyncio.get_running_loop().call_soon(self._begin_round)
                return
            shortage = self._core.attempt(self._inbox[0])
            if shortage is not None:
                # To apply a change twice is to apply it once, so what could not be opened gets its turn.
                self._core.on_shortage(shortage, self._drain)
                return
            self._inbox.popleft()
            self._spent_us = self._core.stalls.elapsed_us() - begun_us
        self._is_busy = False

    def _begin_round(self) -> None:
        self._spent_us = 0
        self._drain()


def keeper_maker(config: BrokerConfig, properties: Mapping[str, str], *, durable: bool) -> KeeperMaker:
    """The keeper that the configuration asks for: ZooKeeper, or one of the broker's own."""
    if not config.zookeeper_connect:
        path = os.path.join(config.log_dirs[0], KEEPER_DB)
        return lambda loop: LocalKeeper(loop, path, durable=durable)

    def make(loop: asyncio.AbstractEventLoop) -> Keeper:
        # Late: a broker of its own need not pay for kazoo.
        from ottla.shell.keeper_zookeeper import ZooKeeperKeeper
        from ottla.shell.zookeeper_access import zookeeper_access

        access = zookeeper_access(load(ZooKeeperConfig, properties))
        return ZooKeeperKeeper(loop, config.zookeeper_connect, config.zookeeper_session_timeout_ms, access)

    return make
