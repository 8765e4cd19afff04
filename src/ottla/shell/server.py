"""A broker with its sockets, threads and timers: feeds it inputs, carries out its effects.

The life of one: `start` (lock, keeper, logs, listener, registration), then events, then `stop` (no new
requests, what is parked is dropped, logs closed cleanly, lock released). Everything here runs on the loop's
thread.
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
from ottla.controller.keeper import NodeChanged, Operation, Outcome, Refused
from ottla.controller.registration import candidacy, founding, registration
from ottla.log.cleaning import CleanFailed, CleanOutcome, CleanTask
from ottla.log.durability import Sync
from ottla.log.log import Log
from ottla.shell.clock import Clock
from ottla.shell.connection import Connection
from ottla.shell.keeper_embedded import EmbeddedKeeper
from ottla.shell.listener import Address, advertised_address, listen_address
from ottla.shell.lock import DirectoryLock, StartError, read_cluster_id, write_meta
from ottla.shell.worker import Worker

if TYPE_CHECKING:
    from ottla.shell.cleaner import Cleaners

log = logging.getLogger(__name__)

SCRATCH_BYTES = 256 * 1024
TICK_S = 0.2
SWEEP_MS = 5_000
SYNC_THREADS = 4


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
        self._swept_ms = 0
        self._deadline: tuple[int, asyncio.TimerHandle] | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._listener: asyncio.Server | None = None
        self._cleaners: Cleaners | None = None

    @property
    def config(self) -> BrokerConfig:
        return self.broker.config

    def now_ms(self) -> int:
        return self._clock.now_ms()

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Everything that can be wrong with a start is a StartError, and leaves nothing behind."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._on_bug)
        with contextlib.ExitStack() as undo:
            for lock in self._locks:
                lock.take()
                undo.callback(lock.release)
            await self._open(undo)
            undo.pop_all()
        self._tick()

    async def _open(self, undo: contextlib.ExitStack) -> None:
        directory = self.config.log_dirs[0]
        known = [read_cluster_id(self.broker.files, one, self.broker.id) for one in self.config.log_dirs]
        self._keeper = EmbeddedKeeper(os.path.join(directory, "keeper.db"), durable=self._durable_keeper)
        undo.callback(self._keeper.close)
        try:
            repairs = self.broker.open(self._keeper.load(), self.now_ms())
        except OSError as error:
            raise StartError(f"cannot open the logs: {error}") from None
        for line in repairs:
            log.warning("recovery: %s", line)
        undo.callback(self._close_logs)
        wanted = listen_address(self.config)
        try:
            self._listener = await self._loop.create_server(
                self._connect, wanted.host, wanted.port, backlog=1024
            )
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise StartError(f"cannot listen on {wanted}: {reason}; choose another with --listen") from None
        undo.callback(self._listener.close)
        port = self._listener.sockets[0].getsockname()[1]
        self.address = advertised_address(self.config, Address(wanted.host, port))
        self._sync_worker = Worker(self._loop, "ottla-sync", SYNC_THREADS)
        self._keeper_worker = Worker(self._loop, "ottla-keeper", 1)
        cluster_id = next(filter(None, known), None) or uuid_text(self.broker.random.randbytes(16))
        self._register(cluster_id)
        for one in self.config.log_dirs:
            write_meta(self.broker.files, one, self.broker.id, self.broker.image.cluster_id)

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
        for timer in (self._ticker, self._deadline[1] if self._deadline else None):
            if timer is not None:
                timer.cancel()
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
        self._close_logs()
        self._keeper.close()
        for lock in self._locks:
            lock.release()

    def _close_logs(self) -> None:
        try:
            self.broker.close(self.now_ms())
        except OSError as error:
            log.error("the logs could not be closed cleanly: %s", error)

    # -- connections ------------------------------------------------------------------------------

    def _connect(self) -> Connection:
        self._connections_made += 1
        return Connection(self, self._connections_made)

    def admit(self, connection: Connection) -> str | None:
        """Take the connection in; or the reason why not."""
        if len(self.connections) >= self.config.connections_max:
            return f"there are {len(self.connections)} connections (max.connections)"
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
        """Keep count of what unfinished requests hold; the one that goes over the budget is closed."""
        held, before = connection.held_bytes, self._held.get(connection.number, 0)
        if held == before:
            return
        self._held[connection.number] = held
        self._held_total += held - before
        limit = self.config.queued_request_bytes_max
        if held > before and 0 < limit < self._held_total:
            connection.close(f"unfinished requests hold {self._held_total} bytes (queued.max.request.bytes)")

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
        if self._is_stopping:
            return  # the workers are gone, and closing the logs makes everything durable anyway
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
            case effects.SyncLog(synced, sync):
                self._sync_worker.submit(
                    lambda: _sync(sync),
                    lambda _result, error: self._on_synced(synced, sync, error),
                )
            case effects.CleanLog(cleaned, task):
                self._clean(cleaned, task)
            case effects.SyncFolder(synced, folder):
                self._sync_worker.submit(
                    folder.sync, lambda _result, error: self._on_folder_synced(synced, error)
                )
            case effects.Halt(reason):
                self._halt(reason)

    def _on_written(
        self, token: int, result: tuple[list[NodeChanged], Outcome] | None, error: BaseException | None
    ) -> None:
        if result is None:
            self._halt(f"the keeper failed: {error}")
            return
        changed, outcome = result
        try:
            self.broker.on_nodes(changed, self.now_ms())
            self.broker.on_written(token, outcome, self.now_ms())
        except OSError as error:
            self._halt(f"the log directory failed: {error}")
            return
        self.carry_out()

    def _on_synced(self, synced: Log, sync: Sync, error: BaseException | None) -> None:
        if error is not None:
            # A failed sync may have thrown away what it could not write: trying again would hide the loss.
            self._halt(f"cannot sync the log of {synced.topic_partition}: {error}")
            return
        self.broker.on_synced(synced, sync, self.now_ms())
        self.carry_out()

    def _clean(self, cleaned: Log, task: CleanTask) -> None:
        if self._cleaners is None:
            from ottla.shell.cleaner import Cleaners  # a broker that compacts nothing need not pay for it

            self._cleaners = Cleaners(self._loop)
        log.info("compaction of %s begins: %d bytes", task.name, sum(one.size for one in task.sources))
        self._cleaners.submit(task, lambda outcome: self._on_cleaned(cleaned, task, outcome))

    def _on_cleaned(self, cleaned: Log, task: CleanTask, outcome: CleanOutcome) -> None:
        if self._is_stopping:
            return
        if isinstance(outcome, CleanFailed):
            log.error("%s could not be compacted: %s", task.name, outcome.reason)
        else:
            stats = outcome.stats
            log.info(
                "compacted %s to offset %d: %d bytes became %d, %d records became %d",
                task.name, outcome.end_offset, stats.bytes_read, stats.bytes_written,
                stats.records_read, stats.records_written,
            )  # fmt: skip
        self._on_disk(lambda: self.broker.on_cleaned(cleaned, outcome, self.now_ms()))

    def _on_folder_synced(self, synced: Log, error: BaseException | None) -> None:
        if error is not None:
            self._halt(f"cannot sync the folder of {synced.topic_partition}: {error}")
        elif not self._is_stopping:
            self._on_disk(lambda: self.broker.on_folder_synced(synced, self.now_ms()))

    def _on_disk(self, event: Callable[[], None]) -> None:
        """Give the broker an event that makes it touch the disk."""
        try:
            event()
        except OSError as error:
            self._halt(f"the log directory failed: {error}")
            return
        self.carry_out()

    def _on_bug(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something failed that nobody planned for. On a connection it costs that connection, which the
        loop has closed; anywhere else the broker's state can no longer be trusted, and it stops."""
        log.error("bug: %s", context.get("message"), exc_info=context.get("exception"))
        if "transport" not in context and "protocol" not in context and "exception" in context:
            self._halt(f"bug: {context['exception']!r}")

    def _halt(self, reason: str) -> None:
        log.critical("the broker stops: %s", reason)
        self._on_halt(reason)

    # -- time -------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._ticker = self._loop.call_later(TICK_S, self._tick)
        now_ms = self.now_ms()
        try:
            self.broker.on_tick(now_ms, self._clock.wall_offset_ms())
        except OSError as error:
            self._halt(f"the log directory failed: {error}")
            return
        self.carry_out()
        if now_ms - self._swept_ms >= SWEEP_MS:
            self._swept_ms = now_ms
            self._sweep(now_ms)

    def _sweep(self, now_ms: int) -> None:
        """Close what has been idle too long; give back memory that quiet connections hold."""
        for connection in list(self.connections.values()):
            idle_ms = now_ms - connection.active_ms
            if idle_ms > self.config.connections_idle_ms_max and not connection.is_parked:
                connection.close("idle (connections.max.idle.ms)")
            elif idle_ms > SWEEP_MS:
                connection.release_memory()
                self.on_held(connection)

    def _schedule_deadline(self) -> None:
        """Wake up for the next parked answer that runs out of time."""
        due_ms = self.broker.next_deadline_ms()
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
        self.broker.on_deadline(self.now_ms())
        self.carry_out()


def _sync(sync: Sync) -> None:
    for file in sync.files:
        file.sync()
