"""The life of a broker with its sockets, threads and timers, from its start to its end.

`start`: lock, HTTP, keeper, logs, listener, registration. `stop`: leadership handed over, no new requests,
what is parked is dropped, logs closed cleanly, session ended, lock released. What happens in between is in
`core`, which `clients`, `keeper_session`, `peers` and `chores` tell what they hear, and for which they carry
out effects.

Rule: only a broker that was told to stop says that it stopped cleanly. After a halt, and after a start that
failed over the traces of a crash, files are closed and nothing is written: the next start must recover.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ottla.base.addresses import Address
from ottla.base.config import ConfigError
from ottla.base.files import OsFiles
from ottla.base.ids import uuid_text
from ottla.base.log_fields import UNLIMITED, fields
from ottla.broker.access import DEFAULT_LISTENER
from ottla.broker.broker import Broker
from ottla.broker.config import ALONE, BrokerConfig
from ottla.broker.effects import TakeOffline
from ottla.broker.metrics_config import HTTP_LISTENER, http_address
from ottla.broker.security import check_security
from ottla.controller.image import NodeError
from ottla.controller.keeper import NodeChanged
from ottla.shell import directories
from ottla.shell.chores import Chores
from ottla.shell.clients import Clients
from ottla.shell.core import Core
from ottla.shell.keeper_session import KeeperMaker, KeeperSession, keeper_maker
from ottla.shell.key_reader import KeyReader
from ottla.shell.lock import DirectoryLock, StartError, check_cluster, damaged_keeper
from ottla.shell.peers import BrokerHost, Peers
from ottla.shell.stopwatch import Stopwatch
from ottla.shell.worker import run_in_thread

if TYPE_CHECKING:
    from ottla.shell.http.service import HttpService

log = logging.getLogger(__name__)

SCRATCH_BYTES = 256 * 1024
CLOSING_ROUNDS = 5  # of the loop, until it has closed the sockets that were aborted
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
        self.core = Core(self.broker, on_halt)
        self._scratch = bytearray(SCRATCH_BYTES)
        self.clients = Clients(self.core, self._scratch)
        self._make_keeper = keeper or keeper_maker(self.config, properties, durable=durable_keeper)
        self._locks = [DirectoryLock(directory) for directory in self.config.log_dirs]
        self._is_hurried = False
        self.starting = self.stopping = Stopwatch()
        self.http_address: Address | None = None
        self._http: HttpService | None = None

    @property
    def config(self) -> BrokerConfig:
        return self.broker.config

    @property
    def address(self) -> Address:
        """What clients are told who come in by the first listener."""
        return next(iter(self.clients.endpoints.values()))

    @property
    def addresses(self) -> str:
        """All of them, for people: with names, unless there is only the usual one."""
        endpoints = self.clients.endpoints
        if list(endpoints) == [DEFAULT_LISTENER]:
            return str(self.address)
        return ", ".join(f"{name}://{address}" for name, address in endpoints.items())

    async def metrics(self) -> str:
        """As Prometheus reads them."""
        from ottla.shell.metrics.reader import Reader  # many brokers are never asked
        from ottla.shell.metrics.sources import sources_of

        return await Reader(sources_of(self.core), self.core.now_ms, self.core.stalls).text()

    # -- start --

    async def start(self) -> None:
        """Everything that can be wrong with a start is a StartError, and leaves nothing behind."""
        self.starting = Stopwatch()
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self.core.on_bug)
        async with contextlib.AsyncExitStack() as undo:
            for lock in self._locks:
                undo.callback(lock.release)
            directories.take(self._locks, self.broker.store, holds_keeper=self._holds_keeper)
            if self._holds_keeper:
                directories.check_alone(self.broker.store)
            await self._open(undo)
            undo.pop_all()
        self.core.tick()

    async def _open(self, undo: contextlib.AsyncExitStack) -> None:
        """What most often goes wrong comes first, and what changes the logs last."""
        await self.clients.bind(self._loop)
        undo.callback(self.clients.stop_listening)
        await self._listen_http(undo)
        keeper = self._make_keeper(self._loop)
        lock = next(lock for lock in self._locks if lock.is_held)
        self._session = KeeperSession(self.core, keeper, self.clients.endpoints, lock)
        try:
            await self._enter(undo)
            await self.clients.serve()
        except BaseException:
            await keeper.close()
            raise

    async def _listen_http(self, undo: contextlib.AsyncExitStack) -> None:
        """Before anything takes long, so that whoever asks can see how far it has come."""
        address = http_address(self.broker.settings.metrics_config.http_listener)
        if address is None:
            return
        if find_spec("h11") is None:
            raise StartError(f"--http ({HTTP_LISTENER}) needs h11: pip install 'ottla[metrics]'")
        from ottla.shell.http.service import HttpService  # many brokers are never asked

        self._http = HttpService(self.core)
        undo.callback(self._http.close)
        self.http_address = await self._http.listen(address)
        self.broker.settings.on_http_bound(str(self.http_address))

    async def _enter(self, undo: contextlib.AsyncExitStack) -> None:
        """Take up what the keeper and the disk hold, and register."""
        claims = directories.cluster_ids(self.broker.store, self.broker.id, holds_keeper=self._holds_keeper)
        self.starting.end("locks and listeners")
        nodes, keeper = await self._session.load(), self._session.keeper
        self.starting.end("keeper")
        if self._http is not None:
            self._http.session = self._session
        tree_id = directories.tree_cluster_id(nodes, keeper.where)
        if keeper.is_shared:
            directories.check_shared(self.broker.store, claims, keeper.where, tree_id)
        cluster_id = check_cluster(claims | {keeper.where: tree_id})
        await self._open_logs(nodes)
        self.starting.end("logs")
        undo.callback(lambda: self._close_logs(clean=self.broker.is_clean))
        self._chores = Chores(self.core, self._loop)
        undo.callback(self._chores.close)
        self._key_reader = KeyReader(self.core, self._loop)
        undo.callback(self._key_reader.close)
        self._peers = Peers(self._loop, BrokerHost(self.core, self._scratch, self.clients.tls_to_peers))
        undo.push_async_callback(self._peers.close)
        undo.callback(self.core.end)
        self.core.begin(
            self.clients, self._session, self._peers, self._chores, self._key_reader,
            on_tick=self.clients.on_tick, on_nodes=self._peers.check,
        )  # fmt: skip
        await self._read_keys()
        try:
            self.core.on_nodes(self._session.open())
            await self._session.register(cluster_id or uuid_text(self.broker.random.randbytes(16)), claims)
            directories.write_metas(
                self.broker.storage, self.broker.id, self.broker.image.cluster_id, shared=keeper.is_shared
            )
            self.core.carry_out()
            self.starting.end("registration")
        except OSError as error:
            raise StartError(f"cannot open the logs: {error}") from None
        if self.core.is_halted:
            raise StartError("the broker stopped while it started; its log says why")

    async def _read_keys(self) -> None:
        """Nobody can authenticate with a token before there are keys to check it with."""
        bound = self.broker.listeners.bound
        if any(listener.has_sasl for listener in bound):
            try:
                key_sets = self.broker.authentication.open(bound)
            except ConfigError as error:
                raise StartError(str(error)) from None
            await self._key_reader.load(key_sets)

    async def _open_logs(self, nodes: list[NodeChanged]) -> None:
        """Recovery may take minutes, in which the loop must turn. Nobody else looks at a broker that is not
        open, so a thread may own it until then."""
        broker, now_ms = self.broker, self.core.now_ms()
        try:
            repairs = await run_in_thread(
                lambda: broker.open(nodes, now_ms), "ottla-open", broker.store.progress.cancel
            )
        except asyncio.CancelledError:
            self._close_logs(clean=broker.readiness.is_open and broker.is_clean)
            raise
        except NodeError as error:
            raise damaged_keeper(self._session.keeper.where, error) from None
        except OSError as error:
            self._close_logs(clean=False)
            raise StartError(f"cannot open the logs: {error}") from None
        for line in repairs:
            log.warning("recovery: %s", line, extra=UNLIMITED)
        if self.core.is_halted:
            self._close_logs(clean=False)
            raise StartError("the broker stopped while it started; its log says why")

    # -- stop --

    async def stop(self, *, drain: bool = True) -> None:
        """`drain`: let others lead first, where there are others."""
        self.stopping = Stopwatch()
        self.broker.readiness.is_stopping = True
        if drain and not self.core.is_halted and self._session.keeper.is_shared:
            await self._drain()
            self.stopping.end("leadership")
        self._stop_serving()
        await asyncio.sleep(0)
        self.clients.close_all("the broker stops")
        await self._end(clean=not self.core.is_halted)
        await self._session.keeper.close()
        self._release_locks()
        self.stopping.end("keeper")

    async def kill(self) -> None:
        """End as a crash does, as far as that is possible in a process that goes on: nothing is handed over,
        nothing is written. The session is left to the keeper."""
        self.core.is_halted = True
        self._stop_serving()
        self.clients.close_all("the broker is killed")
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
        self.broker.begin_stop(self.core.now_ms())
        self.core.carry_out()
        began = self._loop.time()
        while not (self.broker.departure.is_drained or self._is_hurried or self.core.is_halted):
            if self._session.is_suspended or self._loop.time() > began + limit_s:
                log.warning("the broker stops, and still leads partitions that others could lead")
                return
            await asyncio.sleep(DRAIN_S)
        if self.broker.departure.is_drained:
            took_s = self._loop.time() - began
            log.info(
                "leadership is handed over, after %.2f s", took_s, extra=fields(took_ms=round(took_s * 1000))
            )

    def _stop_serving(self) -> None:
        self.core.is_stopping = True
        self.clients.stop_listening()
        self.core.end()
        self.clients.close_all("the broker stops", gently=True)

    async def _end(self, *, clean: bool) -> None:
        await self._peers.close()
        if self.clients.handshakes is not None:
            await self.clients.handshakes.close()
        self._chores.close()
        self._key_reader.close()
        self.core.end()
        if self._http is not None:
            self._http.close()
        for _ in range(CLOSING_ROUNDS):
            await asyncio.sleep(0)
        self.stopping.end("connections")
        self._close_logs(clean=clean)
        self.stopping.end("logs")

    def _release_locks(self) -> None:
        for lock in self._locks:
            lock.release()

    def _close_logs(self, *, clean: bool) -> None:
        try:
            self.broker.close(self.core.now_ms(), clean=clean)
        except OSError as error:
            log.error("the logs could not be closed cleanly: %s", error)
        for effect in self.broker.outbox.effects:
            if isinstance(effect, TakeOffline):
                log.error(
                    "%s could not be closed cleanly: %s", effect.directory, effect.reason,
                    extra=fields(directory=effect.directory, reason=effect.reason),
                )  # fmt: skip
