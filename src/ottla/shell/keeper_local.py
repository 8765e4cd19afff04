"""The embedded keeper behind the port: its SQLite file is written in a thread of its own."""

import asyncio
import time
from collections.abc import Callable, Iterable

from ottla.base.metrics import Histogram
from ottla.controller.keeper import NodeChanged, Operation, Outcome
from ottla.shell.keeper import KeeperListener, OnOutcome
from ottla.shell.keeper_embedded import EmbeddedKeeper
from ottla.shell.worker import Worker


class LocalKeeper:
    is_shared = False

    def __init__(self, loop: asyncio.AbstractEventLoop, path: str, *, durable: bool = True) -> None:
        self.where = path
        self.request_durations = Histogram()
        self._keeper = EmbeddedKeeper(path, durable=durable)
        self._worker = Worker(loop, "keeper", 1)

    @property
    def heard_s(self) -> float:
        return time.monotonic()  # it is always there

    async def load(self, listener: KeeperListener) -> list[NodeChanged]:
        self._listener = listener
        return self._keeper.load()

    def write(self, operations: Iterable[Operation], done: OnOutcome) -> None:
        asked = tuple(operations)

        def written(result: tuple[list[NodeChanged], Outcome] | None, error: BaseException | None) -> None:
            if result is None:
                self._listener.on_failure(f"the keeper failed: {error}")
                return
            if result[0]:
                self._listener.on_nodes(result[0])
            done(result[1])

        self._worker.submit(lambda: self._keeper.write(asked), written)

    def confirm(self, done: Callable[[], None]) -> None:
        """Nobody else writes here."""
        done()

    def owns(self, path: str) -> bool:  # noqa: ARG002
        return True  # there is no other session

    async def close(self) -> None:
        self._worker.close()
        self._keeper.close()
