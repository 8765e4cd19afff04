"""The broker as the shell holds it: every input goes in here, and what the broker asks for is carried out.

Rules: everything happens on the loop's thread. Every input is followed by `carry_out`, which hands each
effect to the one that carries out its kind (`begin` is told who); carrying out may ask for more, and the
outermost call sees to it all. What one round of the loop may cost is limited: what is left over goes on in
the next.

An error of the disk costs its log directory, a lack of file descriptors the request at hand or a second's
delay; anything else that nobody planned for is a bug, after which the broker's state cannot be trusted: it
halts.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias, get_args

from ottla.base.files import is_shortage
from ottla.broker import effects
from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.broker.effects import Effect
from ottla.controller.image import NodeError
from ottla.controller.keeper import NodeChanged
from ottla.log.directories import LogDirectoryError
from ottla.shell.clock import Clock
from ottla.shell.connection_counts import ConnectionCounts
from ottla.shell.connection_turns import Turns
from ottla.shell.disk_room import DiskRoom
from ottla.shell.garbage_collection import Collector
from ottla.shell.keeper_counts import KeeperCounts
from ottla.shell.stalls import EFFECTS, KEEPER, UNKNOWN, Stalls
from ottla.shell.worker import WorkerTimes

log = logging.getLogger(__name__)

TICK_S = 0.2
SHORTAGE_S = 1.0  # how long to wait for a file descriptor
SHORTAGE_NOTICE_MS = 5_000

Carriers: TypeAlias = Mapping[type[Effect], Callable[[Any], None]]


class Carrier(Protocol):
    """Carries out effects."""

    def carriers(self) -> Carriers:
        """What carries out which kind."""


class Core:
    """`on_halt` is called once if the broker cannot go on."""

    def __init__(self, broker: Broker, on_halt: Callable[[str], None]) -> None:
        self.broker = broker
        self.is_stopping = False
        self.is_halted = False
        self.connection_counts = ConnectionCounts()
        self.keeper_counts = KeeperCounts()
        self._on_tick: Callable[[int], None] = lambda _now_ms: None
        self._on_nodes: Callable[[], None] = lambda: None
        self._on_halt = on_halt
        self._clock = Clock()
        self.now_ms, self.ms_at = self._clock.now_ms, self._clock.ms_at
        self.turns = Turns()
        self.stalls = Stalls(self._clock.elapsed_us)
        broker.slices.elapsed_us = broker.partitions.log_queue.elapsed_us = self._clock.elapsed_us
        self.disk_room = DiskRoom()
        self.worker_times: defaultdict[str, WorkerTimes] = defaultdict(WorkerTimes)
        broker.requests.clock_ns = time.monotonic_ns
        self._collector = Collector()
        self._carriers: dict[type[Effect], Callable[[Any], None]] = {}
        self._is_carrying = False
        self._is_round_over = False
        self._shortage_ms = 0
        self._deadline: tuple[int, asyncio.TimerHandle] | None = None
        self._ticker: asyncio.TimerHandle | None = None

    @property
    def config(self) -> BrokerConfig:
        return self.broker.config

    @property
    def is_ending(self) -> bool:
        return self.is_stopping or self.is_halted

    def begin(
        self,
        *carriers: Carrier,
        on_tick: Callable[[int], None] = lambda _now_ms: None,
        on_nodes: Callable[[], None] = lambda: None,
    ) -> None:
        """From now on effects are carried out. `on_tick` is told the time again and again, `on_nodes` when
        the broker has taken in changes of the keeper's tree."""
        self._on_tick, self._on_nodes = on_tick, on_nodes
        self._carriers = {effects.TakeOffline: self._take_offline, effects.Halt: self._halt}
        for carrier in carriers:
            self._carriers |= carrier.carriers()
        unknown = set(get_args(Effect)) - self._carriers.keys()
        assert not unknown, f"nobody carries out {unknown}"
        self.stalls.begin()

    def end(self) -> None:
        self._collector.pause(False)
        self.stalls.end()
        for timer in (self._ticker, self._deadline[1] if self._deadline else None):
            if timer is not None:
                timer.cancel()

    # -- effects --

    def carry_out(self) -> None:
        if self._is_carrying:
            return
        if self.broker.outbox.effects:
            begun_us = self.stalls.elapsed_us()
            self._carry()
            self._end_of(EFFECTS, begun_us)
        self.broker.outbox.is_stirred = False
        due_ms = self.broker.next_deadline_ms()
        if due_ms == 0 and self.broker.coordinators.has_ends and not self.is_ending:
            self._send_ends()
            due_ms = self.broker.next_deadline_ms()
        self._collector.pause(self.broker.coordinators.is_loading, is_busy=self.broker.slices.is_large)
        if due_ms is not None or self._deadline is not None:
            self._schedule_deadline(due_ms)
        self._end_round()

    def carry_out_answers(self) -> None:
        """As `carry_out`, after the requests of a connection: most leave nothing else behind, or answers to
        others who waited for them."""
        broker, outbox = self.broker, self.broker.outbox
        if (
            outbox.effects
            and not outbox.is_stirred
            and not self._is_carrying
            and _are_replies(outbox.effects)
        ):
            begun_us = self.stalls.elapsed_us()
            self._carry_once()  # what else comes of it is seen to below, as ever
            self._end_of(EFFECTS, begun_us)
        if outbox.is_stirred or outbox.effects or broker.store.next_sync_ms is not None:
            self.carry_out()
        else:
            self._end_round()

    def _end_round(self) -> None:
        """If too little is left of it, or somebody waits for the next."""
        if not self._is_round_over and (self.broker.allowance.is_round_spent or self.turns):
            self._is_round_over = True
            asyncio.get_running_loop().call_soon(self._begin_round)

    def _carry(self) -> None:
        while self.broker.outbox.effects:
            self._carry_once()

    def _carry_once(self) -> None:
        self._is_carrying = True
        try:
            for effect in self.broker.outbox.take():
                # Once the broker ends, the workers are gone, and closing the logs makes everything durable,
                # if anything can.
                if not self.is_ending:
                    self._carriers[type(effect)](effect)
        finally:
            self._is_carrying = False

    def _send_ends(self) -> None:
        """Answers come first: whoever has ended a transaction does not wait for its markers."""
        self._is_carrying = True
        try:
            self.input(
                lambda: self.broker.coordinators.send_ends(self.now_ms()),
                "ends of transactions",
                is_repeated=True,
            )
        finally:
            self._is_carrying = False
        self._carry()

    def _take_offline(self, effect: effects.TakeOffline) -> None:
        self.broker.on_directory_failed(effect.directory, effect.reason, self.now_ms())

    def _halt(self, effect: effects.Halt) -> None:
        self.halt(effect.reason)

    def halt(self, reason: str) -> None:
        self.is_halted = True
        log.critical("the broker stops: %s", reason)
        self._on_halt(reason)

    # -- rounds of the loop --

    def _begin_round(self) -> None:
        self._is_round_over = False
        if not self.is_ending:
            self.input(lambda: self.broker.allowance.begin_round(self.now_ms()), "round")
            self.turns.begin_round()
            self.carry_out()

    # -- inputs --

    def input(self, event: Callable[[], None], cause: str = UNKNOWN, *, is_repeated: bool = False) -> None:
        """Give the broker an event; `cause` is what it is called if everybody waits for it. One that is
        repeated, or that a client repeats, may fail for a lack of descriptors."""
        begun_us = self.stalls.elapsed_us()
        try:
            event()
        except OSError as error:
            self.stalls.enter("")
            if isinstance(error, LogDirectoryError):
                self.broker.storage.failed(error)
            elif is_repeated and is_shortage(error):
                log.error("%s (ulimit -n)", error)
            else:
                self.halt(f"the log directory failed: {error}")
                return
        self.carry_out()
        self._end_of(cause, begun_us)

    def _end_of(self, cause: str, begun_us: int) -> None:
        spent_us = self.stalls.elapsed_us() - begun_us
        if spent_us > self.stalls.limit_us:
            self.stalls.note(cause, spent_us)

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

    def on_shortage(self, error: BaseException | None, again: Callable[[], None]) -> None:
        """Something found no file descriptor: try it again a little later."""
        now_ms = self.now_ms()
        if now_ms - self._shortage_ms >= SHORTAGE_NOTICE_MS:  # there may be thousands of them
            self._shortage_ms = now_ms
            log.error("%s; trying again every %.0f s (ulimit -n)", error, SHORTAGE_S)
        asyncio.get_running_loop().call_later(SHORTAGE_S, lambda: None if self.is_ending else again())

    def on_nodes(self, nodes: list[NodeChanged]) -> None:
        """The keeper's tree has changed."""
        begun_us = self.stalls.elapsed_us()
        try:
            self.broker.on_nodes(nodes, self.now_ms())
        except NodeError as error:
            self.halt(f"{error}; {error.remedy}" if error.remedy else str(error))
            return
        self._on_nodes()
        self.carry_out()
        self._end_of(KEEPER, begun_us)

    def on_bug(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something failed that nobody planned for. On a connection it costs that connection, which the
        loop has closed; anywhere else the broker's state can no longer be trusted, and it stops."""
        if is_shortage(context.get("exception")):
            log.error("%s: %s (ulimit -n)", context.get("message"), context["exception"])
            return
        log.error("bug: %s", context.get("message"), exc_info=context.get("exception"))
        if "transport" not in context and "protocol" not in context and "exception" in context:
            self.halt(f"bug: {context['exception']!r}")

    # -- time --

    def tick(self) -> None:
        """Tell the broker the time, from now on and again and again."""
        if self.is_halted:
            return
        self._ticker = asyncio.get_running_loop().call_later(TICK_S, self.tick)
        self.stalls.on_tick(self.broker.settings.metrics_config.stall_ms, TICK_S)
        now_ms, enter = self.now_ms(), self.stalls.enter
        self.input(
            lambda: self.broker.on_tick(now_ms, self._clock.wall_offset_ms(), enter), "tick", is_repeated=True
        )
        enter("connections")
        self._on_tick(now_ms)
        enter("")

    def _schedule_deadline(self, due_ms: int | None) -> None:
        """Wake up for the next parked answer that runs out of time, and for the next sync."""
        if self._deadline is not None:
            if due_ms is not None and due_ms >= self._deadline[0]:
                return
            self._deadline[1].cancel()
            self._deadline = None
        if due_ms is not None:
            delay_s = max(due_ms - self.now_ms(), 0) / 1000
            self._deadline = (due_ms, asyncio.get_running_loop().call_later(delay_s, self._on_deadline))

    def _on_deadline(self) -> None:
        self._deadline = None
        if not self.is_halted:
            self.input(
                lambda: self.broker.on_deadline(self.now_ms(), self.stalls.enter),
                "deadline",
                is_repeated=True,
            )


def _are_replies(asked: list[Effect]) -> bool:
    """Of a broker that asks for nothing else, nothing is due earlier than before."""
    return {*map(type, asked)} == {effects.Reply}
