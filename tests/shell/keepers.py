"""A keeper in a test: what it said, in order, and writes that can be waited for."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from ottla.controller.keeper import NodeChanged, Operation, Outcome
from ottla.shell.keeper import Keeper, Session

WITHIN_S = 20.0


class Watcher:
    """Listens to a keeper. `said` has everything in the order in which it came, outcomes included."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self.said: list[NodeChanged | Session | Outcome] = []
        self.failures: list[str] = []

    async def load(self) -> list[NodeChanged]:
        nodes = await self.keeper.load(self)
        self.said += nodes
        return nodes

    def on_nodes(self, nodes: list[NodeChanged]) -> None:
        assert nodes, "nothing is not worth a call"
        self.said += nodes

    def on_session(self, event: Session) -> None:
        self.said.append(event)

    def on_failure(self, reason: str) -> None:
        self.failures.append(reason)

    def ask(self, *operations: Operation) -> "asyncio.Future[Outcome]":
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def done(outcome: Outcome) -> None:
            self.said.append(outcome)
            future.set_result(outcome)

        self.keeper.write(operations, done)
        return future

    async def write(self, *operations: Operation) -> Outcome:
        return await asyncio.wait_for(self.ask(*operations), WITHIN_S)

    @property
    def nodes(self) -> list[NodeChanged]:
        return [one for one in self.said if isinstance(one, NodeChanged)]

    @property
    def tree(self) -> dict[str, bytes]:
        """What the nodes hold, by all that was said."""
        found: dict[str, bytes] = {}
        for node in self.nodes:
            if node.data is None:
                found.pop(node.path, None)
            else:
                found[node.path] = node.data
        return found

    async def until(self, condition: Callable[["Watcher"], Any], what: str = "") -> None:
        deadline = time.monotonic() + WITHIN_S
        while not condition(self):
            assert time.monotonic() < deadline, f"{what} did not come: {self.said}"
            await asyncio.sleep(0.005)
