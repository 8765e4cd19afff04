"""How fast connections may come (KIP-612).

Over max.connection.creation.rate, of the broker or of a listener, those who come wait in a line, and nothing
is read from them until it is their turn: to them it is as if they had not been accepted yet. The listener
that brokers alone use counts for no rate but its own.

Over connection_creation_rate, the quota of an address, a connection is closed, after as long as the address
would have had to wait: who is refused at once would be back at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from ottla.broker.listeners import Listener, Listeners
from ottla.broker.quotas import Quotas
from ottla.broker.settings import Settings
from ottla.security.quotas import Rate, Window

LINE_MAX = 1_024  # as many as wait to be accepted elsewhere
SENT_AWAY_MAX = 1_024  # that are about to be closed; more are closed at once
ALL = ""  # the listeners together


class Arrival(Protocol):
    """A connection, as far as it matters here."""

    number: int
    listener: Listener
    peer: str

    def hold(self) -> None: ...
    def go_on(self) -> None: ...
    def refuse(self, reason: str) -> None: ...


class ArrivalRates:
    """How fast they come, and for how long the next has to wait."""

    def __init__(self, settings: Settings, quotas: Quotas, listeners: Listeners) -> None:
        self._settings = settings
        self._quotas = quotas
        self._listeners = listeners
        self._rates: dict[str, Rate] = {}

    def wait_ms(self, listener: str, now_ms: int) -> int:
        """Count a connection; for how long its listener takes in nobody."""
        return max(self._count(rate, 1, now_ms) for rate in self._rates_of(listener))

    def wait_of_address_ms(self, peer: str, listener: str, now_ms: int) -> int:
        """Count a connection of an address. If it is too fast, it counts nowhere."""
        rate = self._quotas.connections_of(peer.removeprefix("::ffff:"), now_ms)
        if rate is None:
            return 0
        wait_ms = self._count(rate, 1, now_ms)
        if wait_ms:
            for counted in (rate, *self._rates_of(listener)):
                counted.record(-1, now_ms)
        return wait_ms

    def is_too_fast(self, peer: str, now_ms: int) -> bool:
        """Would the next connection of an address be too fast? Nothing is counted."""
        rate = self._quotas.connections_of(peer.removeprefix("::ffff:"), now_ms)
        if rate is None:
            return False
        is_above = self._count(rate, 1, now_ms) > 0
        rate.record(-1, now_ms)
        return is_above

    def _count(self, rate: Rate, amount: int, now_ms: int) -> int:
        rate.record(amount, now_ms)
        return min(rate.throttle_ms(now_ms), rate.window.sample_ms)

    def _rates_of(self, listener: str) -> list[Rate]:
        names = [listener] if self._listeners.is_only_for_brokers(listener) else [ALL, listener]
        return [self._rate(name) for name in names]

    def _rate(self, name: str) -> Rate:
        rate = self._rates.get(name)
        if rate is None:
            config = self._settings.config
            window = Window(config.quota_samples, config.quota_sample_s * 1_000)
            rate = self._rates[name] = Rate(window, 0.0)
        rate.limit = self._limit(name)
        return rate

    def _limit(self, name: str) -> int:
        config = self._settings.listener_config(name) if name else self._settings.config
        return config.connection_creation_rate_max


class Arrivals:
    """`uncount` is told the number of a connection that is about to be closed, and counts for no limit."""

    def __init__(
        self, rates: ArrivalRates, now_ms: Callable[[], int], uncount: Callable[[int], None]
    ) -> None:
        self._rates = rates
        self._now_ms = now_ms
        self._uncount = uncount
        self._lines: dict[str, deque[Arrival]] = {}
        self._leaving = 0

    def is_too_fast(self, peer: str) -> bool:
        """Before a handshake of TLS, which costs more than all else: would it be in vain?"""
        return self._rates.is_too_fast(peer, self._now_ms())

    def come(self, connection: Arrival) -> str | None:
        """Let it be served, now or later. Why not, if too many wait."""
        line = self._lines.setdefault(connection.listener.name, deque())
        if len(line) >= LINE_MAX:
            return f"{len(line)} connections wait already (max.connection.creation.rate)"
        line.append(connection)
        if len(line) == 1 and self._take_in(line):
            return None
        connection.hold()
        return None

    def _take_in(self, line: deque[Arrival]) -> bool:
        """Is it the turn of whoever is first? If not, it is later."""
        wait_ms = self._rates.wait_ms(line[0].listener.name, self._now_ms())
        if wait_ms:
            asyncio.get_running_loop().call_later(wait_ms / 1_000, self._go_on, line)
            return False
        return not self._send_away(line.popleft())

    def _go_on(self, line: deque[Arrival]) -> None:
        """The first has waited; those behind it come in as well, as long as none has to wait."""
        connection = line.popleft()
        if not self._send_away(connection):
            connection.go_on()
        while line:
            connection = line[0]
            if not self._take_in(line):
                if line and line[0] is connection:
                    return
            else:
                connection.go_on()

    def _send_away(self, connection: Arrival) -> bool:
        """Do too many come from its address? Then it is closed after a while."""
        wait_ms = self._rates.wait_of_address_ms(connection.peer, connection.listener.name, self._now_ms())
        if not wait_ms:
            return False
        self._uncount(connection.number)
        if self._leaving >= SENT_AWAY_MAX:
            wait_ms = 0
        self._leaving += 1
        asyncio.get_running_loop().call_later(wait_ms / 1_000, self._close, connection)
        return True

    def _close(self, connection: Arrival) -> None:
        self._leaving -= 1
        connection.refuse(
            f"too many connections a second come from {connection.peer} (connection_creation_rate)"
        )
