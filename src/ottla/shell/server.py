"""A broker with its sockets, threads and timers: feeds it inputs, carries out its effects.

The life of one: `start` (lock, keeper, logs, listener, registration), then events, then `stop` (leadership
handed over, no new requests, what is parked is dropped, logs closed cleanly, session ended, lock released).
Everything here runs on the loop's thread. `keeping` has the traffic with the keeper, `peers` that with other
brokers.

Rule: only a broker that was told to stop says that it stopped cleanly. After a halt, and after a start that
failed over the traces of a crash, files are closed and nothing is written: the next start must recover.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.base.files import OsFiles
from ottla.base.ids import uuid_text
from ottla.broker import effects
from ottla.broker.broker import Broker
from ottla.broker.config import ALONE, BrokerConfig
from ottla.broker.effects import is_shortage
from ottla.broker.parked import ROUND
from ottla.broker.security import check_security
from ottla.broker.slices import SHARE_US
from ottla.controller.image import BrokerEndpoint, NodeError
from ottla.controller.keeper import NodeChanged
from ottla.log.directories import LogDirectoryError
from ottla.log.validation import ITEMS_AT_ONCE
from ottla.shell import descriptors, directories
from ottla.shell.admission import Admission
from ottla.shell.budgets import Budgets
from ottla.shell.chores import Chores
from ottla.shell.clock import Clock
from ottla.shell.collector import Collector
from ottla.shell.connection import Connection
from ottla.shell.keeping import KeeperMaker, Keeping, keeper_maker
from ottla.shell.listener import Address, advertised_address, cannot_listen, listen_address
from ottla.shell.lock import DirectoryLock, StartError, check_cluster, damaged_keeper
from ottla.shell.peers import Peers
from ottla.shell.turns import Turns

if TYPE_CHECKING:
    from ottla.security.peer_handshake import Initiator

log = logging.getLogger(__name__)

SCRATCH_BYTES = 256 * 1024
TICK_S = 0.2
SWEEP_MS = 5_000
CLOSING_ROUNDS = 5  # of the loop, until it has closed the sockets that were aborted
SHORTAGE_S = 1.0  # how long to wait for a file descriptor
DRAIN_S = 0.05


class Server:
    """One broker, serving. `on_halt` is called once if it cannot go on. `keeper` stands in for the one that
    the properties ask for."""

    def __init__(
        self,
        properties: dict[str, str],
        *,
        on_halt: Callable[[str], None],
        durable_keeper: bool = True,
        keeper: KeeperMaker | None = None,
    ) -> None:
        check_security(properties)
        self._holds_keeper = keeper is None and not properties.get("zookeeper.connect", "").strip()
        given = ALONE | properties if self._holds_keeper else properties
        self.broker = Broker(OsFiles(), random.SystemRandom(), given)
        self.scratch = bytearray(SCRATCH_BYTES)
        self.address = Address("", 0)
        self.connections: dict[int, Connection] = {}
        self.admission = Admission()
        self.budgets = Budgets(self.broker, self.connections)
        self._on_halt = on_halt
        self._make_keeper = keeper or keeper_maker(self, durable=durable_keeper)
        self._clock = Clock()
        self.broker.slices.elapsed_us = self._clock.elapsed_us
        self.turns = Turns(self._clock.elapsed_us)
        self._collector = Collector()
        self._locks = [DirectoryLock(directory) for directory in self.config.log_dirs]
        self._connections_made = 0
        self._is_carrying = False
        self._is_round_over = False
        self.is_stopping = False
        self.is_halted = False
        self._is_hurried = False
        self._swept_ms = 0
        self._shortage_ms = 0
        self._deadline: tuple[int, asyncio.TimerHandle] | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._listener: asyncio.Server | None = None

    @property
    def config(self) -> BrokerConfig:
        return self.broker.config

    @property
    def is_ending(self) -> bool:
        return self.is_stopping or self.is_halted

    def now_ms(self) -> int:
        return self._clock.now_ms()

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Everything that can be wrong with a start is a StartError, and leaves nothing behind."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._on_bug)
        self.admission.descriptors_max = descriptors.connections_max()
        async with contextlib.AsyncExitStack() as undo:
            for lock in self._locks:
                undo.callback(lock.release)
            directories.take(self._locks, self.broker.store, holds_keeper=self._holds_keeper)
            if self._holds_keeper:
                directories.check_alone(self.broker.store)
            await self._open(undo)
            undo.pop_all()
        self._tick()

    async def _open(self, undo: contextlib.AsyncExitStack) -> None:
        """What most often goes wrong comes first, and what changes the logs last."""
        listener = await self._bind()
        undo.callback(listener.close)
        keeper = self._make_keeper(self._loop)
        self._keeping = Keeping(self, keeper)
        try:
            await self._enter(undo)
            await self._listen(listener)
        except BaseException:
            await keeper.close()
            raise

    async def _listen(self, listener: asyncio.Server) -> None:
        try:
            await listener.start_serving()
        except OSError as error:
            raise cannot_listen(listen_address(self.config), error) from None
        self._listener = listener

    async def _enter(self, undo: contextlib.AsyncExitStack) -> None:
        """Take up what the keeper and the disk hold, and register."""
        claims = directories.cluster_ids(self.broker, holds_keeper=self._holds_keeper)
        nodes, keeper = await self._keeping.load(), self._keeping.keeper
        tree_id = directories.tree_cluster_id(nodes, keeper.where)
        if keeper.is_shared:
            directories.check_shared(self.broker.store, claims, keeper.where, tree_id)
        cluster_id = check_cluster(claims | {keeper.where: tree_id})
        self._open_logs(nodes)
        undo.callback(lambda: self._close_logs(clean=self.broker.is_clean))
        self._chores = Chores(self, self._loop)
        undo.callback(self._chores.close)
        self._peers = Peers(self._loop, self)
        undo.push_async_callback(self._peers.close)
        undo.callback(self._cancel_timers)
        try:
            self.on_nodes(self._keeping.open())
            await self._keeping.register(cluster_id or uuid_text(self.broker.random.randbytes(16)), claims)
            directories.write_metas(self.broker, shared=keeper.is_shared)
            self.carry_out()
        except OSError as error:
            raise StartError(f"cannot open the logs: {error}") from None
        if self.is_halted:
            raise StartError("the broker stopped while it started; its log says why")

    async def _bind(self) -> asyncio.Server:
        """Take the port; nobody can connect to it yet."""
        wanted = listen_address(self.config)
        try:
            listener = await self._loop.create_server(
                self._connect, wanted.host, wanted.port, backlog=1024, start_serving=False
            )
        except OSError as error:
            raise cannot_listen(wanted, error) from None
        try:
            port = listener.sockets[0].getsockname()[1]
            self.address = advertised_address(self.config, Address(wanted.host, port))
        except StartError:
            listener.close()
            raise
        return listener

    def _open_logs(self, nodes: list[NodeChanged]) -> None:
        try:
            repairs = self.broker.open(nodes, self.now_ms())
        except NodeError as error:
            raise damaged_keeper(self._keeping.keeper.where, error) from None
        except OSError as error:
            self._close_logs(clean=False)
            raise StartError(f"cannot open the logs: {error}") from None
        for line in repairs:
            log.warning("recovery: %s", line)

    async def stop(self, *, drain: bool = True) -> None:
        """`drain`: let others lead first, where there are others."""
        if drain and not self.is_halted and self._keeping.keeper.is_shared:
            await self._drain()
        self._stop_serving()
        await asyncio.sleep(0)
        for connection in list(self.connections.values()):
            connection.close("the broker stops")
        await self._end(clean=not self.is_halted)
        await self._keeping.keeper.close()
        self._release_locks()

    async def kill(self) -> None:
        """End as a crash does, as far as that is possible in a process that goes on: nothing is handed over,
        nothing is written. The session is left to the keeper."""
        self.is_halted = True
        self._stop_serving()
        for connection in list(self.connections.values()):
            connection.close("the broker is killed")
        await self._end(clean=False)
        self._release_locks()

    def hurry(self) -> None:
        """Stop without waiting for others to lead."""
        self._is_hurried = True

    async def _drain(self) -> None:
        config = self.config
        wait_s = config.controlled_shutdown_retry_backoff_ms / 1000
        limit_s = wait_s * (1 + config.controlled_shutdown_retries_max)
        if not config.controlled_shutdown_enable:
            return
        self.broker.controlling.begin_stop(self.now_ms())
        self.carry_out()
        began = self._loop.time()
        while not (self.broker.controlling.is_drained or self._is_hurried or self.is_halted):
            if self._keeping.is_suspended or self._loop.time() > began + limit_s:
                log.warning("the broker stops, and still leads partitions that others could lead")
                return
            await asyncio.sleep(DRAIN_S)
        if self.broker.controlling.is_drained:
            log.info("leadership is handed over, after %.2f s", self._loop.time() - began)

    def _stop_serving(self) -> None:
        self.is_stopping = True
        if self._listener is not None:
            self._listener.close()
        self._cancel_timers()
        for connection in list(self.connections.values()):
            connection.close("the broker stops", gently=True)

    async def _end(self, *, clean: bool) -> None:
        await self._peers.close()
        self._chores.close()
        self._collector.pause(False)
        for _ in range(CLOSING_ROUNDS):
            await asyncio.sleep(0)
        self._close_logs(clean=clean)

    def _release_locks(self) -> None:
        for lock in self._locks:
            lock.release()

    def _cancel_timers(self) -> None:
        for timer in (self._ticker, self._deadline[1] if self._deadline else None):
            if timer is not None:
                timer.cancel()

    def _close_logs(self, *, clean: bool) -> None:
        try:
            self.broker.close(self.now_ms(), clean=clean)
        except OSError as error:
            log.error("the logs could not be closed cleanly: %s", error)
        for effect in self.broker.effects:
            if isinstance(effect, effects.TakeOffline):
                log.error("%s could not be closed cleanly: %s", effect.directory, effect.reason)

    @property
    def lock(self) -> DirectoryLock:
        """The lock of the first directory that is there."""
        return next(lock for lock in self._locks if lock.is_held)

    # -- connections ------------------------------------------------------------------------------

    def _connect(self) -> Connection:
        self._connections_made += 1
        return Connection(self, self._connections_made)

    def admit(self, connection: Connection) -> str | None:
        """Take the connection in; or the reason why not."""
        if self.is_stopping:  # it was accepted before, and nobody would close it
            return "the broker stops"
        refusal = self.admission.admit(connection, self.config, self.broker.identities)
        if refusal is None:
            self.connections[connection.number] = connection
        return refusal

    def forget(self, connection: Connection) -> None:
        if self.connections.pop(connection.number, None) is None:
            return
        self.admission.forget(connection.number)
        self.budgets.forget(connection)
        self.broker.on_closed(connection.number)

    # -- effects ----------------------------------------------------------------------------------

    def carry_out(self) -> None:
        """Do what the broker asked for. Carrying out may ask for more; the outermost call sees to it all."""
        if self._is_carrying:
            return
        self._is_carrying = True
        try:
            while self.broker.effects:
                asked, self.broker.effects = self.broker.effects, []
                for effect in asked:
                    self._carry_out(effect)
        finally:
            self._is_carrying = False
        self._collector.pause(self.broker.is_loading, is_busy=self.broker.slices.is_large)
        self._schedule_deadline()
        broker = self.broker
        is_spent = (
            broker.items_left < ITEMS_AT_ONCE
            or broker.read_left <= 0
            or broker.slices.spent_us > SHARE_US // 2
            or ROUND in broker.waiting.by_key
            or bool(self.turns)
        )
        if is_spent and not self._is_round_over:
            self._is_round_over = True
            self._loop.call_soon(self._begin_round)

    def _begin_round(self) -> None:
        self._is_round_over = False
        if not self.is_ending:
            self.on_disk(lambda: self.broker.begin_round(self.now_ms()))
            self.turns.begin_round()
            self.carry_out()

    def _carry_out(self, effect: effects.Effect) -> None:
        if self.is_ending:
            return  # the workers are gone, and closing the logs makes everything durable, if anything can
        match effect:
            case effects.Reply(number, chunks, counted_bytes):
                self.broker.unsent_bytes -= counted_bytes
                connection = self.connections.get(number)
                if connection is not None:
                    connection.reply(chunks)
            case effects.Close(number, reason, after_answers, over_limit):
                connection = self.connections.get(number)
                if connection is not None:
                    connection.close(reason, gently=after_answers, over_limit=over_limit)
            case effects.WriteNodes(token, operations):
                self._keeping.write(token, operations)
            case effects.ConfirmTree(asked_ms):
                self._keeping.confirm(asked_ms)
            case effects.Send():
                self._peers.send(effect)
            case effects.Probe():
                self._peers.probe(effect)
            case effects.TakeOffline(directory, reason):
                self.broker.on_directory_failed(directory, reason, self.now_ms())
            case effects.Halt(reason):
                self.halt(reason)
            case _:
                self._chores.carry_out(effect)

    def on_nodes(self, nodes: list[NodeChanged]) -> None:
        self.broker.on_nodes(nodes, self.now_ms())
        self._peers.check()
        self.carry_out()

    def attempt(self, event: Callable[[], None]) -> OSError | None:
        """Let something happen that can happen again; a lack of descriptors is answered."""
        try:
            event()
        except OSError as failure:
            if is_shortage(failure):
                return failure
            if isinstance(failure, LogDirectoryError) and failure.directory in self.broker.store.disks:
                self.broker.on_directory_failed(failure.directory, str(failure), self.now_ms())
                self.carry_out()
                return None if self.is_halted or not self.broker.store.disks else self.attempt(event)
            self.halt(f"the log directory failed: {failure}")
        return None

    # -- other brokers, for `peers` --

    def client_id(self) -> str:
        return f"broker-{self.broker.id}"

    def endpoint(self, peer: int) -> BrokerEndpoint | None:
        return self.broker.image.brokers.get(peer)

    def handshake(self, peer: int) -> "Initiator":
        return self.broker.identities.initiate(peer)

    def timeout_s(self) -> float:
        return self.config.replica_socket_timeout_ms / 1000

    def on_peer_reply(self, token: int, answer: Any) -> None:
        """Its effects are carried out by the caller, who may have more answers."""
        if not self.is_ending:
            self.on_disk(lambda: self.broker.on_peer_reply(token, answer, self.now_ms()), is_repeated=True)

    def on_probed(self, peer: int, epoch: int, sign: effects.Sign) -> None:
        if not self.is_ending:
            self.on_disk(lambda: self.broker.on_probed(peer, epoch, sign, self.now_ms()), is_repeated=True)

    def on_shortage(self, error: BaseException | None, again: Callable[[], None]) -> None:
        now_ms = self.now_ms()
        if now_ms - self._shortage_ms >= SWEEP_MS:  # there may be thousands of them
            self._shortage_ms = now_ms
            log.error("%s; trying again every %.0f s (ulimit -n)", error, SHORTAGE_S)
        self._loop.call_later(SHORTAGE_S, lambda: None if self.is_ending else again())

    def on_disk(self, event: Callable[[], None], *, is_repeated: bool = False) -> None:
        """Give the broker an event that makes it touch the disk. One that is repeated, or that a
        client repeats, may fail for a lack of descriptors."""
        try:
            event()
        except OSError as error:
            if isinstance(error, LogDirectoryError):
                self.broker.storage_error(error)
            elif is_repeated and is_shortage(error):
                log.error("%s (ulimit -n)", error)
            else:
                self.halt(f"the log directory failed: {error}")
                return
        self.carry_out()

    def _on_bug(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something failed that nobody planned for. On a connection it costs that connection, which the
        loop has closed; anywhere else the broker's state can no longer be trusted, and it stops."""
        if is_shortage(context.get("exception")):
            log.error("%s: %s (ulimit -n)", context.get("message"), context["exception"])
            return
        log.error("bug: %s", context.get("message"), exc_info=context.get("exception"))
        if "transport" not in context and "protocol" not in context and "exception" in context:
            self.halt(f"bug: {context['exception']!r}")

    def halt(self, reason: str) -> None:
        self.is_halted = True
        log.critical("the broker stops: %s", reason)
        self._on_halt(reason)

    # -- time -------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self.is_halted:
            return
        self._ticker = self._loop.call_later(TICK_S, self._tick)
        now_ms = self.now_ms()
        self.on_disk(lambda: self.broker.on_tick(now_ms, self._clock.wall_offset_ms()), is_repeated=True)
        if now_ms - self._swept_ms >= SWEEP_MS:
            self._swept_ms = now_ms
            self._sweep(now_ms)

    def _sweep(self, now_ms: int) -> None:
        """Close what has been idle too long, or whose client is gone while its answer is parked, which no
        read would tell; give back memory that quiet connections hold."""
        parked = {one.fd: one for one in self.connections.values() if one.is_parked and one.fd >= 0}
        for fd in descriptors.hung_up(parked):
            if not self.broker.waiting.outlives_client(parked[fd].number):
                parked[fd].close("the client hung up")
        for connection in list(self.connections.values()):
            idle_ms = now_ms - connection.active_ms
            if idle_ms > self.config.connections_idle_ms_max and not connection.is_parked:
                connection.close("idle (connections.max.idle.ms)")
            elif idle_ms > SWEEP_MS and connection.is_guest:
                connection.refuse(connection.guest_because)
            elif idle_ms > SWEEP_MS:
                connection.release_memory()
                self.budgets.on_held(connection, now_ms)
        self.budgets.sweep(now_ms)
        self.admission.refusals.sweep(now_ms)

    def _schedule_deadline(self) -> None:
        """Wake up for the next parked answer that runs out of time, and for the next sync."""
        due_ms, sync_ms = self.broker.next_deadline_ms(), self.broker.store.next_sync_ms
        if due_ms is None or (sync_ms is not None and sync_ms < due_ms):
            due_ms = sync_ms
        if self._deadline is not None:
            if due_ms is not None and due_ms >= self._deadline[0]:
                return
            self._deadline[1].cancel()
            self._deadline = None
        if due_ms is not None:
            delay_s = max(due_ms - self.now_ms(), 0) / 1000
            self._deadline = (due_ms, self._loop.call_later(delay_s, self._on_deadline))

    def _on_deadline(self) -> None:
        self._deadline = None
        if not self.is_halted:
            self.on_disk(self._pass_deadline, is_repeated=True)

    def _pass_deadline(self) -> None:
        now_ms = self.now_ms()
        self.broker.on_deadline(now_ms)
        self.broker.start_syncs(now_ms)
