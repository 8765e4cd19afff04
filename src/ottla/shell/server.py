"""A broker with its sockets, threads and timers: feeds it inputs, carries out its effects.

The life of one: `start` (lock, keeper, logs, listener, registration), then events, then `stop` (no new
requests, what is parked is dropped, logs closed cleanly, lock released). Everything here runs on the loop's
thread.

Rule: only a broker that was told to stop says that it stopped cleanly. After a halt, and after a start that
failed over the traces of a crash, files are closed and nothing is written: the next start must recover.
"""

import asyncio
import contextlib
import logging
import os
import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.base.files import OsFiles
from ottla.base.ids import uuid_text
from ottla.broker import effects
from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.broker.effects import is_shortage
from ottla.controller import znodes
from ottla.controller.keeper import NodeChanged, Operation, Outcome, Refused
from ottla.controller.registration import candidacy, founding, registration
from ottla.log.cleaning import CleanOutcome, CleanTask
from ottla.log.directories import LogDirectoryError
from ottla.log.durability import Sync
from ottla.log.log import Log
from ottla.log.moving import Move
from ottla.shell import descriptors, directories
from ottla.shell.clock import Clock
from ottla.shell.connection import Connection
from ottla.shell.keeper_embedded import EmbeddedKeeper
from ottla.shell.listener import Address, advertised_address, listen_address
from ottla.shell.lock import DirectoryLock, StartError, check_cluster
from ottla.shell.worker import Worker

if TYPE_CHECKING:
    from ottla.shell.cleaner import Cleaners

log = logging.getLogger(__name__)

SCRATCH_BYTES = 256 * 1024
TICK_S = 0.2
SWEEP_MS = 5_000
SYNC_THREADS = 4
SHORTAGE_S = 1.0  # how long to wait for a file descriptor


class Server:
    """One broker, serving. `on_halt` is called once if it cannot go on."""

    def __init__(
        self, properties: dict[str, str], *, on_halt: Callable[[str], None], durable_keeper: bool = True
    ) -> None:
        self.broker = Broker(OsFiles(), random.SystemRandom(), properties)
        self.scratch = bytearray(SCRATCH_BYTES)
        self.address = Address("", 0)
        self.connections: dict[int, Connection] = {}
        self._per_ip: Counter[str] = Counter()
        self._held: dict[int, int] = {}
        self._held_total = 0
        self._on_halt = on_halt
        self._durable_keeper = durable_keeper
        self._clock = Clock()
        self._locks = [DirectoryLock(directory) for directory in self.config.log_dirs]
        self._connections_made = 0
        self._is_carrying = False
        self._is_stopping = False
        self._is_halted = False
        self._descriptors_max: int | None = None
        self._swept_ms = 0
        self._shortage_ms = 0
        self._deadline: tuple[int, asyncio.TimerHandle] | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._listener: asyncio.Server | None = None
        self._cleaners: Cleaners | None = None

    @property
    def config(self) -> BrokerConfig:
        return self.broker.config

    @property
    def _is_ending(self) -> bool:
        return self._is_stopping or self._is_halted

    def now_ms(self) -> int:
        return self._clock.now_ms()

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Everything that can be wrong with a start is a StartError, and leaves nothing behind."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._on_bug)
        self._descriptors_max = descriptors.connections_max()
        with contextlib.ExitStack() as undo:
            for lock in self._locks:
                undo.callback(lock.release)
            directories.take(self._locks, self.broker.store)
            await self._open(undo)
            undo.pop_all()
        self._tick()

    async def _open(self, undo: contextlib.ExitStack) -> None:
        """What most often goes wrong comes first, and what changes the logs last."""
        listener = await self._bind()
        undo.callback(listener.close)
        keeper_path = os.path.join(self.config.log_dirs[0], "keeper.db")
        self._keeper = EmbeddedKeeper(keeper_path, durable=self._durable_keeper)
        undo.callback(self._keeper.close)
        nodes = self._keeper.load()
        claims = directories.cluster_ids(self.broker.store, self.broker.id)
        for node in nodes:
            if node.path == znodes.CLUSTER_ID and node.data:
                claims[keeper_path] = znodes.parse(node.data)["id"]
        cluster_id = check_cluster(claims)
        self._open_logs(nodes)
        undo.callback(lambda: self._close_logs(clean=self.broker.is_clean))
        self._sync_worker = Worker(self._loop, "ottla-sync", SYNC_THREADS)
        undo.callback(self._sync_worker.close)
        self._keeper_worker = Worker(self._loop, "ottla-keeper", 1)
        undo.callback(self._keeper_worker.close)
        undo.callback(self._cancel_timers)
        try:
            self._register(cluster_id or uuid_text(self.broker.random.randbytes(16)))
            directories.write_metas(self.broker)
            self.carry_out()
        except OSError as error:
            raise StartError(f"cannot open the logs: {error}") from None
        try:
            await listener.start_serving()
        except OSError as error:
            raise _cannot_listen(listen_address(self.config), error) from None
        self._listener = listener

    async def _bind(self) -> asyncio.Server:
        """Take the port; nobody can connect to it yet."""
        wanted = listen_address(self.config)
        try:
            listener = await self._loop.create_server(
                self._connect, wanted.host, wanted.port, backlog=1024, start_serving=False
            )
        except OSError as error:
            raise _cannot_listen(wanted, error) from None
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
        except OSError as error:
            self._close_logs(clean=False)
            raise StartError(f"cannot open the logs: {error}") from None
        for line in repairs:
            log.warning("recovery: %s", line)

    def _register(self, cluster_id: str) -> None:
        image, rack = self.broker.image, self.config.rack or None
        operations: list[Operation] = [
            *founding(image, cluster_id),
            *registration(self.broker.id, self.address.host, self.address.port, rack),
            *candidacy(image, self.broker.id),
            *self.broker.adopted_topics(),
            *self.broker.elections(),
        ]
        changed, outcome = self._keeper.write(operations)
        if isinstance(outcome, Refused):
            raise StartError(f"cannot register broker {self.broker.id}: {outcome.reason}")
        self.broker.on_nodes(changed, self.now_ms())
        self.carry_out()

    async def stop(self) -> None:
        self._is_stopping = True
        if self._listener is not None:
            self._listener.close()
        self._cancel_timers()
        for connection in list(self.connections.values()):
            connection.close_gently()
        await asyncio.sleep(0)
        for connection in list(self.connections.values()):
            connection.close("the broker stops")
        if self._cleaners is not None:
            self._cleaners.close()
        self._keeper_worker.close()
        self._sync_worker.close()
        await asyncio.sleep(0)
        self._close_logs(clean=not self._is_halted)
        self._keeper.close()
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

    # -- connections ------------------------------------------------------------------------------

    def _connect(self) -> Connection:
        self._connections_made += 1
        return Connection(self, self._connections_made)

    def admit(self, connection: Connection) -> str | None:
        """Take the connection in; or the reason why not."""
        if len(self.connections) >= self.config.connections_max:
            return f"there are {len(self.connections)} connections (max.connections)"
        if self._descriptors_max is not None and len(self.connections) >= self._descriptors_max:
            return f"there are {len(self.connections)} connections, and the logs need files too (ulimit -n)"
        if self._per_ip[connection.peer] >= self.config.connections_per_ip_max:
            return f"{connection.peer} has {self._per_ip[connection.peer]} (max.connections.per.ip)"
        self.connections[connection.number] = connection
        self._per_ip[connection.peer] += 1
        return None

    def forget(self, connection: Connection) -> None:
        if self.connections.pop(connection.number, None) is None:
            return
        self._per_ip[connection.peer] -= 1
        if not self._per_ip[connection.peer]:
            del self._per_ip[connection.peer]
        self._held_total -= self._held.pop(connection.number, 0)
        self.broker.waiting.drop(connection.number)

    def on_held(self, connection: Connection) -> None:
        """Keep count of what unfinished requests hold; over the budget, whoever holds most is closed."""
        held, before = connection.held_bytes, self._held.get(connection.number, 0)
        if held == before:
            return
        self._held[connection.number] = held
        self._held_total += held - before
        limit = self.config.queued_request_bytes_max
        while held > before and 0 < limit < self._held_total:
            greatest = max(self._held, key=self._held.__getitem__)
            reason = f"unfinished requests hold {self._held_total} bytes (queued.max.request.bytes)"
            self._held_total -= self._held.pop(greatest)
            self.connections[greatest].close(reason)

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
        self._schedule_deadline()

    def _carry_out(self, effect: effects.Effect) -> None:
        if self._is_ending:
            return  # the workers are gone, and closing the logs makes everything durable, if anything can
        match effect:
            case effects.Reply(number, chunks):
                connection = self.connections.get(number)
                if connection is not None:
                    connection.reply(chunks)
            case effects.Close(number, reason):
                connection = self.connections.get(number)
                if connection is not None:
                    connection.close(reason)
            case effects.WriteNodes(token, operations):
                self._keeper_worker.submit(
                    lambda: self._keeper.write(operations),
                    lambda result, error: self._on_written(token, result, error),
                )
            case effects.TakeOffline(directory, reason):
                self.broker.on_directory_failed(directory, reason, self.now_ms())
            case effects.Halt(reason):
                self._halt(reason)
            case _:
                self._work(effect)

    def _work(self, effect: effects.Effect) -> None:
        """What workers do with the files of logs."""
        match effect:
            case effects.SyncLog(synced, sync):
                self._sync(
                    lambda: _sync(sync),
                    lambda error: self._on_synced(synced, sync, error),
                )
            case effects.CleanLog(cleaned, task):
                self._clean(cleaned, task)
            case effects.SyncFolder(synced, folder):
                self._sync(folder.sync, lambda error: self._on_folder_synced(synced, error))
            case effects.CopyLog(move, part):
                self._sync(part.run, lambda error: self._on_copied(move, error))

    def _on_written(
        self, token: int, result: tuple[list[NodeChanged], Outcome] | None, error: BaseException | None
    ) -> None:
        if self._is_halted:
            return
        if result is None:
            self._halt(f"the keeper failed: {error}")
            return
        changed, outcome = result
        try:
            self.broker.on_nodes(changed, self.now_ms())
        except OSError as failure:
            if is_shortage(failure):
                # To apply a change twice is to apply it once, so what could not be opened gets its turn.
                self._on_shortage(failure, lambda: self._on_written(token, result, None))
            elif isinstance(failure, LogDirectoryError) and failure.directory in self.broker.store.disks:
                self.broker.storage_error(failure)
                self.carry_out()
                self._on_written(token, result, None)
            else:
                self._halt(f"the log directory failed: {failure}")
            return
        self._on_disk(lambda: self.broker.on_written(token, outcome, self.now_ms()), is_repeated=True)

    def _sync(self, job: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Run `job` in a worker until it has found the descriptors it needs."""

        def finished(_result: object, error: BaseException | None) -> None:
            if is_shortage(error):
                self._on_shortage(error, lambda: self._sync(job, done))
            else:
                done(error)

        self._sync_worker.submit(job, finished)

    def _on_shortage(self, error: BaseException | None, again: Callable[[], None]) -> None:
        now_ms = self.now_ms()
        if now_ms - self._shortage_ms >= SWEEP_MS:  # there may be thousands of them
            self._shortage_ms = now_ms
            log.error("%s; trying again every %.0f s (ulimit -n)", error, SHORTAGE_S)
        self._loop.call_later(SHORTAGE_S, lambda: None if self._is_ending else again())

    def _on_synced(self, synced: Log, sync: Sync, error: BaseException | None) -> None:
        if isinstance(error, LogDirectoryError):
            self.broker.on_sync_failed(synced, error)
            self.carry_out()
            return
        if error is not None:
            self._halt(f"cannot sync the log of {synced.topic_partition}: {error}")
            return
        self._on_disk(lambda: self.broker.on_synced(synced, sync, self.now_ms()), is_repeated=True)

    def _clean(self, cleaned: Log, task: CleanTask) -> None:
        if self._cleaners is None:
            from ottla.shell.cleaner import Cleaners  # a broker that compacts nothing need not pay for it

            self._cleaners = Cleaners(self._loop)
        log.info("compaction of %s begins: %d bytes", task.name, sum(one.size for one in task.sources))
        self._cleaners.submit(task, lambda outcome: self._on_cleaned(cleaned, outcome))

    def _on_cleaned(self, cleaned: Log, outcome: CleanOutcome) -> None:
        if self._is_stopping:
            return
        self._on_disk(lambda: self.broker.on_cleaned(cleaned, outcome, self.now_ms()))

    def _on_folder_synced(self, synced: Log, error: BaseException | None) -> None:
        if isinstance(error, LogDirectoryError):
            self.broker.storage_error(error)
            self.carry_out()
        elif error is not None:
            self._halt(f"cannot sync the folder of {synced.topic_partition}: {error}")
        elif not self._is_stopping:
            self._on_disk(lambda: self.broker.on_folder_synced(synced, self.now_ms()))

    def _on_copied(self, move: Move, error: BaseException | None) -> None:
        if not self._is_stopping:
            self._on_disk(lambda: self.broker.on_copied(move, error, self.now_ms()))

    def _on_disk(self, event: Callable[[], None], *, is_repeated: bool = False) -> None:
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
                self._halt(f"the log directory failed: {error}")
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
            self._halt(f"bug: {context['exception']!r}")

    def _halt(self, reason: str) -> None:
        self._is_halted = True
        log.critical("the broker stops: %s", reason)
        self._on_halt(reason)

    # -- time -------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._is_halted:
            return
        self._ticker = self._loop.call_later(TICK_S, self._tick)
        now_ms = self.now_ms()
        self._on_disk(lambda: self.broker.on_tick(now_ms, self._clock.wall_offset_ms()), is_repeated=True)
        if now_ms - self._swept_ms >= SWEEP_MS:
            self._swept_ms = now_ms
            self._sweep(now_ms)

    def _sweep(self, now_ms: int) -> None:
        """Close what has been idle too long, or whose client is gone while its answer is parked, which no
        read would tell; give back memory that quiet connections hold."""
        parked = {one.fd: one for one in self.connections.values() if one.is_parked and one.fd >= 0}
        for fd in descriptors.hung_up(parked):
            parked[fd].close("the client hung up")
        for connection in list(self.connections.values()):
            idle_ms = now_ms - connection.active_ms
            if idle_ms > self.config.connections_idle_ms_max and not connection.is_parked:
                connection.close("idle (connections.max.idle.ms)")
            elif idle_ms > SWEEP_MS:
                connection.release_memory()
                self.on_held(connection)

    def _schedule_deadline(self) -> None:
        """Wake up for the next parked answer that runs out of time, and for the next sync."""
        known = (self.broker.next_deadline_ms(), self.broker.store.next_sync_ms)
        due_ms = min((one for one in known if one is not None), default=None)
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
        if not self._is_halted:
            self._on_disk(self._pass_deadline, is_repeated=True)

    def _pass_deadline(self) -> None:
        now_ms = self.now_ms()
        self.broker.on_deadline(now_ms)
        self.broker.start_syncs(now_ms)


def _cannot_listen(wanted: Address, error: OSError) -> StartError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return StartError(f"cannot listen on {wanted}: {reason}; choose another with --listen")


def _sync(sync: Sync) -> None:
    for file in sync.files:
        file.sync()
