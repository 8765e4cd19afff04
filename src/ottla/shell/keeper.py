"""The port to a keeper, as the shell sees it; `controller/keeper` has the words of it.

Three stand behind it: `keeper_local` (one broker, SQLite), `keeper_shared` (the brokers of one process, in
memory) and `keeper_zookeeper`. Everything here is called on the loop's thread and calls back on it.

A keeper's promises:
- `load` gives the whole tree, parents before children; what changes after it arrives by `on_nodes`, the
  changes of one node in order and none older than what was given before.
- A write's outcome comes after the changes it made. Writes happen in the order they were asked for.
- What is written while the keeper cannot be reached waits until it can. When the session is found to have
  expired, what waited is refused: it was decided by another incarnation.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Protocol

from ottla.base.metrics import Histogram
from ottla.controller.keeper import NodeChanged, Operation, Outcome

log = logging.getLogger(__name__)

REMIND_S = 60.0


class Reminder:
    """What somebody waits for: said at once, and then once a minute."""

    def __init__(self) -> None:
        self._due_s = 0.0

    def say(self, text: str) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._due_s:
            log.warning("%s", text)
            self._due_s = now_s + REMIND_S


class Session(Enum):
    """What happened to the broker's session with its keeper."""

    SUSPENDED = "the keeper cannot be reached; the session may go on"
    RESUMED = "the keeper is back, and the session with its ephemeral nodes is what it was"
    EXPIRED = "there is a new session, and the ephemeral nodes of the old one are gone"


class KeeperListener(Protocol):
    def on_nodes(self, nodes: list[NodeChanged]) -> None: ...

    def on_session(self, event: Session) -> None: ...

    def on_failure(self, reason: str) -> None:
        """This keeper cannot go on."""


OnOutcome = Callable[[Outcome], None]


class Keeper(Protocol):
    @property
    def where(self) -> str:
        """Its name, in a sentence."""

    @property
    def is_shared(self) -> bool:
        """Whether other brokers may be there: then there is a session that can expire."""

    @property
    def heard_s(self) -> float | None:
        """When it was last heard, by `time.monotonic`; None: never."""

    @property
    def request_durations(self) -> Histogram:
        """Of requests over a network; one in this process has none."""

    async def load(self, listener: KeeperListener) -> list[NodeChanged]:
        """If nobody answers, this waits for as long as it takes, and says so."""

    def write(self, operations: Iterable[Operation], done: OnOutcome) -> None: ...

    def confirm(self, done: Callable[[], None]) -> None:
        """Call back once all that was written by anybody before this call has been told. If the keeper cannot
        be reached, or is lost meanwhile, nothing is called."""

    def owns(self, path: str) -> bool:
        """Whether an ephemeral node is there and belongs to this session."""

    async def close(self) -> None:
        """End the session, so that its ephemeral nodes go at once."""
