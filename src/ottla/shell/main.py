"""The life of a broker process: start, serve, stop.

SIGTERM and SIGINT are a clean stop, also of a broker that has not started yet; a second one does not wait for
others to take over. A broker that cannot go on by itself stops too, and says why.

The process is the broker's own here, so its limit of open files is raised; an embedded broker leaves it.
"""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable
from typing import Any

from ottla.base.log_fields import fields
from ottla.shell.descriptors import raise_limit
from ottla.shell.garbage_collection import spare_survivors
from ottla.shell.server import Server
from ottla.shell.stall_watcher import StallWatcher
from ottla.shell.systemd import Systemd

log = logging.getLogger(__name__)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(properties: dict[str, str], on_ready: Callable[[Server], None]) -> str | None:
    """Serve until told to stop. Answers why it stopped by itself, None after a clean stop; StartError if it
    could not start."""
    raise_limit()
    spare_survivors()
    watcher = StallWatcher()
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(_serve(properties, on_ready, watcher))
    finally:
        watcher.close()


async def _serve(
    properties: dict[str, str], on_ready: Callable[[Server], None], watcher: StallWatcher
) -> str | None:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[str | None] = loop.create_future()

    def end(reason: str | None) -> None:
        if ended.done():
            server.hurry()
        else:
            ended.set_result(reason)

    systemd = Systemd(os.environ)
    systemd.on_begun()
    server = Server(properties, on_halt=end)
    server.core.stalls.watch(watcher)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, None)
    starting = asyncio.ensure_future(server.start())
    either: list[asyncio.Future[Any]] = [starting, ended]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done() and ended.result() is None:
        starting.cancel()  # it may wait for ZooKeeper, and nobody knows how long
    try:
        await starting
    except asyncio.CancelledError:
        return None
    gc.freeze()  # modules, and what was there on the disk: all of it stays
    on_ready(server)
    systemd.on_ready(f"serving at {server.addresses}")
    reason = await ended
    log.info("broker %d stops", server.config.node_id)
    systemd.on_stopping()
    await server.stop()
    watch = server.stopping
    log.info(
        "broker %d has stopped in %d ms: %s", server.config.node_id, watch.took_ms, watch,
        extra=fields(took_ms=watch.took_ms, steps_ms=watch.steps_ms),
    )  # fmt: skip
    return reason
