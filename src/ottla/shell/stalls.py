"""What kept everybody waiting: a broker is one loop, and while that does one thing nobody else is served.

Whatever runs for longer than `ottla.stall.threshold.ms` is a stall: it is counted by its cause, and a log
line says what ran. Causes are few: the API of a request, a part of the tick, what came back from a worker, a
peer or the keeper, ... What is not measured by itself shows as lateness of the tick, as `UNKNOWN`; since a
tick comes every 200 ms, such a stall is noticed for certain only if it is longer by that.

Who measures looks at the clock when it begins and when it ends, and calls `note` if that was long. What was
noted inside of something else does not count again there.
"""

import gc
import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, Protocol

from ottla.api.table import TABLE
from ottla.base.log_fields import fields
from ottla.base.metrics import Histogram
from ottla.wire.header import RequestHeader, decode_request_header
from ottla.wire.primitives import ProtocolError

log = logging.getLogger(__name__)

EFFECTS: Final = "answers and other effects"
GARBAGE: Final = "garbage collection"
KEEPER: Final = "keeper changes"
SCRAPE: Final = "scrape"
UNKNOWN: Final = "unknown"
CAUSES: Final = (
    *(api.title for api in TABLE.values()),
    # parts of the tick, most of which are also done whenever they are due
    "waiting requests", "long requests", "coordinators", "replication", "new logs", "controller", "retention",
    "quotas", "compaction and moves", "syncs", "connections", "tick", "deadline", "round",
    # what came back
    "ends of transactions", "job results", "sync results", "compaction results", "copy results",
    "chore results",
    "peer answers", "peer probes",
    EFFECTS, GARBAGE, KEEPER, SCRAPE, UNKNOWN,
)  # fmt: skip

NEVER_US: Final = 1 << 62
REMEMBERED: Final = 32  # stalls, one inside of the other or since the last tick


class Watcher(Protocol):
    """Looks at the loop's thread from outside when a tick is late."""

    def expect(self, within_s: float) -> None:
        """The next tick comes within this time; 0: there is none."""

    def take(self) -> str:
        """Where the thread was when the tick was late, since this was last asked for."""


class NoWatcher:
    """In a process that is not ours alone."""

    def expect(self, within_s: float) -> None:
        pass

    def take(self) -> str:
        return ""


class Stalls:
    """On the loop's thread; a garbage collection may be noted on another one, and the loop waits for it."""

    def __init__(self, elapsed_us: Callable[[], int]) -> None:
        self.elapsed_us = elapsed_us
        self.limit_us = NEVER_US  # until the first tick: nobody is served while the broker starts
        self.counts = Counter(dict.fromkeys(CAUSES, 0))  # from the first on, or the first would not be seen
        self.total_us = self.counts.copy()
        self.lag = Histogram()
        # In a process that is not ours alone, others keep the loop waiting, and that is their affair.
        self._level = logging.INFO
        self._watcher: Watcher = NoWatcher()
        self._recent: deque[tuple[int, int]] = deque(maxlen=REMEMBERED)  # from when to when
        self._due_us = NEVER_US
        self._cpu_ns = 0
        self._part, self._part_us = "", 0
        self._collection_us = 0

    def watch(self, watcher: Watcher) -> None:
        """In a process that is the broker's own."""
        self._watcher, self._level = watcher, logging.WARNING

    def begin(self) -> None:
        gc.callbacks.append(self._on_collection)

    def end(self) -> None:
        self.limit_us = self._due_us = NEVER_US
        self._watcher.expect(0)
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)

    # -- what ran --

    def note(self, cause: str, spent_us: int, what: str = "", request: RequestHeader | None = None) -> None:
        """Something has just ended that took longer than `limit_us`."""
        now_us = self.elapsed_us()
        own_us = spent_us - self._noted_us(now_us - spent_us, now_us)
        if own_us <= self.limit_us:
            return
        self._recent.append((now_us - spent_us, now_us))
        self.counts[cause] += 1
        self.total_us[cause] += own_us
        where = self._watcher.take()
        log.log(
            self._level,
            "everybody had to wait %d ms for %s%s",
            own_us // 1000,
            what or cause,
            f", which was in {where}" if where else "",
            extra=fields(
                reason=cause,
                took_ms=own_us // 1000,
                client=request.client_id if request else None,
                correlation=request.correlation_id if request else None,
            ),
        )

    def note_request(self, frame: memoryview, peer: str, spent_us: int) -> None:
        """The request was the last of those that were answered in this time; all before it had a share that
        is much less than a stall."""
        try:
            header = decode_request_header(frame)[0]
        except ProtocolError:
            self.note(UNKNOWN, spent_us, f"a malformed request of {len(frame)} bytes from {peer}")
            return
        api = TABLE.get(header.api_key)
        cause = api.title if api is not None else UNKNOWN
        what = f"{cause} of {len(frame)} bytes from {header.client_id!r} at {peer}"
        self.note(cause, spent_us, what, header)

    def enter(self, part: str) -> None:
        """The broker says which part of its work begins; an empty one: none."""
        now_us = self.elapsed_us()
        if now_us - self._part_us > self.limit_us and self._part:
            self.note(self._part, now_us - self._part_us)
        self._part, self._part_us = part, now_us

    def _noted_us(self, begun_us: int, end_us: int) -> int:
        """How much of this time is noted already."""
        noted_us = 0
        for stall_begun_us, stall_end_us in sorted(self._recent):
            begun_us = max(begun_us, stall_begun_us)
            if begun_us < min(stall_end_us, end_us):
                noted_us += min(stall_end_us, end_us) - begun_us
                begun_us = stall_end_us
        return noted_us

    def _on_collection(self, phase: str, collection: dict[str, int]) -> None:
        if collection["generation"] < 2:
            return
        now_us = self.elapsed_us()
        if phase == "start":
            self._collection_us = now_us
        elif now_us - self._collection_us > self.limit_us:
            self.note(GARBAGE, now_us - self._collection_us)

    # -- the tick --

    def on_tick(self, limit_ms: int, within_s: float) -> None:
        """A tick begins, and the next is to come after `within_s`."""
        now_us, cpu_ns = self.elapsed_us(), time.thread_time_ns()
        late_us = max(now_us - self._due_us, 0)
        if self._due_us != NEVER_US:
            self.lag.observe(late_us)
        if late_us > self.limit_us:
            self._note_late(late_us, (cpu_ns - self._cpu_ns) // 1_000_000)
        self._due_us, self._cpu_ns = now_us + int(within_s * 1e6), cpu_ns
        self.limit_us = limit_ms * 1000
        self._watcher.expect(within_s + limit_ms / 1000)

    def _note_late(self, late_us: int, cpu_ms: int) -> None:
        what = (
            "something that is not measured, or many things together:"
            f" {cpu_ms} ms of processor time were used since the last tick"
        )
        self.note(UNKNOWN, late_us, what)
