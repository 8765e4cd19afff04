"""A broker inside another program: its own thread, its own loop, a free port, and storage that goes away.

`start` returns once clients can connect, and raises in the caller's thread whatever kept the broker from
it. `stop` takes a bounded time, may be called twice and from anywhere, and is called at the exit of the
program if nobody did.

Not obvious: the thread is a daemon. Python joins all others before it runs exit handlers, and would wait
for ever.
"""

import asyncio
import atexit
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Container, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Self

from ottla.shell.keeper_session import KeeperMaker
from ottla.shell.lock import StartError
from ottla.shell.main import new_event_loop
from ottla.shell.server import Server

log = logging.getLogger(__name__)

START_S = 30.0
METRICS_S = 30.0
STOP_S = 60.0  # a broker with many partitions syncs them all

# What is thrown away soon need not be kept in large files, nor on disk after its deletion; and a group in a
# test has its members at once.
TEMPORARY = {
    "log.segment.bytes": str(64 << 20),
    "log.segment.delete.delay.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
}

_ARGUMENTS = {
    "with --listen": "with port=",
    "another --data directory": "another folder, data=",
    "another --id": 'another id, config={"node.id": ...}',
}


class EmbeddedBroker:
    """A real broker. With `data` it keeps its records there; without, in a folder that is removed by
    `stop`. With `keeper` it is one of a cluster."""

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        data: str | os.PathLike[str] | None = None,
        port: int = 0,
        host: str = "127.0.0.1",
        keeper: KeeperMaker | None = None,
    ) -> None:
        self.config = dict(config or {})
        self.failure: str | None = None
        self._kept = None if data is None else os.fspath(data)
        self._data = self._kept or ""
        self._listen = f"PLAINTEXT://[{host}]:{port}" if ":" in host else f"PLAINTEXT://{host}:{port}"
        self._keeper = keeper
        self._is_killed = False
        self._drain = True
        self._server: Server | None = None
        self._address = ""
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None

    @property
    def bootstrap_servers(self) -> str:
        """What a client takes as `bootstrap.servers`."""
        if not self._address:
            raise RuntimeError("the broker is not running: call start(), or use it in a with statement")
        return self._address

    @property
    def http_address(self) -> str:
        """Where /metrics and /health/ready are, as HOST:PORT; empty unless `ottla.http.listener` is set."""
        server = self._server
        return str(server.http_address or "") if server is not None else ""

    @property
    def data(self) -> str:
        """The folder of the logs; empty if it is a temporary one that does not exist now."""
        return self._data

    @property
    def is_running(self) -> bool:
        return bool(self._address) and self.failure is None

    def metrics(self) -> dict[str, float]:
        """What /metrics would show now: `metrics()['kafka_server_replicamanager_partitioncount']`; labels are
        part of a name as Prometheus writes it, as in `...messagesin_total{topic="orders"}`."""
        server, loop = self._server, self._loop
        if server is None or loop is None:
            raise RuntimeError("the broker is not running: call start(), or use it in a with statement")
        from ottla.shell.metrics.text import by_series  # many brokers are never asked

        return by_series(asyncio.run_coroutine_threadsafe(server.metrics(), loop).result(METRICS_S))

    def start(self) -> Self:
        if self._thread is not None:
            raise RuntimeError("the broker was started already")
        self._data = self._kept or tempfile.mkdtemp(prefix="ottla-")
        self._prepare(self._data)
        self.failure, self._is_killed, self._drain = None, False, True
        started: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="ottla-broker", daemon=True)
        atexit.register(self.stop)
        self._thread.start()
        try:
            self._address = started.result(START_S)
        except FutureTimeoutError:
            self.stop()
            raise StartError(f"the broker did not start within {START_S:.0f} s; its log says why") from None
        except StartError as error:
            self.stop()
            raise StartError(_in_python(str(error))) from None
        except BaseException:
            self.stop()
            raise
        return self

    def _prepare(self, data: str) -> None:
        """For those that want something in the folder before the broker looks at it."""

    def stop(self) -> None:
        thread, self._thread, self._address = self._thread, None, ""
        if thread is None:
            return
        atexit.unregister(self.stop)
        loop, ended = self._loop, self._ended
        if loop is not None and ended is not None and thread.is_alive():
            try:
                loop.call_soon_threadsafe(ended.set)
            except RuntimeError:
                log.debug("the loop has ended by itself")
        thread.join(STOP_S)
        is_stuck = thread.is_alive()
        if is_stuck:
            log.error(
                "the broker did not stop within %.0f s; its thread and %s are left behind", STOP_S, self._data
            )
        self._loop = self._ended = None
        if self._kept is None and not is_stuck:
            shutil.rmtree(self._data, ignore_errors=True)
            self._data = ""

    def stop_at_once(self) -> None:
        """A clean stop that hands nothing over to other brokers."""
        self._drain = False
        self.stop()

    def kill(self) -> None:
        """End as a crash does: nothing is handed over, nothing more is written."""
        self._is_killed = True
        self.stop()

    def knows(self, brokers: Container[int], count: int) -> bool:
        """Does this broker see so many brokers, all of these, and a controller?"""
        image = self._server.broker.image if self._server is not None else None
        if image is None:
            return False
        there = list(image.brokers)
        return (
            len(there) == count
            and all(broker_id in brokers for broker_id in there)
            and image.controller_id in there
        )

    def __repr__(self) -> str:
        name = type(self).__name__
        if not self.is_running:
            return f"<{name}, failed: {self.failure}>" if self.failure else f"<{name}, not running>"
        return f"<{name} at {self._address}, data in {self._data}>"

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- in the broker's thread --

    def _run(self, started: "Future[str]") -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve(started))
        except BaseException as error:  # it belongs to whoever called start
            if started.done():
                log.exception("the broker failed")
                self.failure = str(error)
            else:
                started.set_exception(error)

    async def _serve(self, started: "Future[str]") -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        properties = {"listeners": self._listen, "log.dirs": self._data}
        if self._kept is None:
            properties |= TEMPORARY
        server = Server(
            properties | self.config,
            on_halt=self._on_halt,
            durable_keeper=self._kept is not None,
            keeper=self._keeper,
        )
        threading.current_thread().name = f"ottla-broker-{server.config.node_id}"  # whose log lines these are
        starting = asyncio.ensure_future(server.start())
        ending = asyncio.ensure_future(self._ended.wait())
        await asyncio.wait([starting, ending], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done() and self.failure is None:  # whoever waited for it has given up
            starting.cancel()
            await asyncio.wait([starting])
            return
        await starting
        self._server = server
        started.set_result(str(server.address))
        await ending
        self._server = None
        if self._is_killed:
            await server.kill()
        else:
            await server.stop(drain=self._drain)

    def _on_halt(self, reason: str) -> None:
        self.failure = reason
        if self._ended is not None:
            self._ended.set()


def _in_python(message: str) -> str:
    """What a command names its options by, a program does by arguments."""
    for option, argument in _ARGUMENTS.items():
        message = message.replace(option, argument)
    return message
