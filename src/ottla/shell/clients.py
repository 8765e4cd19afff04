"""The clients of a broker: where it listens, who is connected, and what they may hold.

`admission` says who may connect, `arrivals` how fast, `budgets` whose memory is too much, `connection` is
each of them.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ottla.base.addresses import Address
from ottla.broker import effects
from ottla.broker.access import DEFAULT_LISTENER, Session
from ottla.broker.listeners import PLAINTEXT, SSL, Listener
from ottla.security.principals import ANONYMOUS, Principal
from ottla.shell import descriptors
from ottla.shell.admission import Admission
from ottla.shell.budgets import Budgets
from ottla.shell.connection import Connection
from ottla.shell.connection_counts import Cause
from ottla.shell.core import Carriers, Core
from ottla.shell.endpoints import advertised_endpoints, cannot_listen, start_listening
from ottla.shell.unauthenticated import Unauthenticated

if TYPE_CHECKING:
    from ottla.shell.arrivals import Arrivals
    from ottla.shell.handshakes import Handshakes

log = logging.getLogger(__name__)

SWEEP_MS = 5_000
BACKLOG = 4_096  # as many as Linux lets wait; who finds no room there comes again after a second


class Clients:
    def __init__(self, core: Core, scratch: bytearray) -> None:
        self.connections: dict[int, Connection] = {}
        self.counts = core.connection_counts
        self.unauthenticated = Unauthenticated()
        broker = core.broker
        self.admission = Admission(broker.settings, broker.identities, broker.listeners, self._resolve)
        self.budgets = Budgets(broker.settings, broker.identities, broker.allowance, self.connections)
        self.listeners = broker.listeners
        self.endpoints: dict[str, Address] = {}  # what others are told
        self._core = core
        self._scratch = scratch
        self._connections_made = 0
        self._swept_ms = 0
        self._servers: list[asyncio.Server] = []
        self.handshakes = self._handshakes()
        self.on_held, self.on_unsent = self.budgets.on_held, self.budgets.on_unsent
        self.say_closed, self.say_refused = self.budgets.closings.say, self.admission.refusals.say

    def _handshakes(self) -> "Handshakes | None":
        """ConfigError: a listener with TLS cannot be served as it is set up."""
        if not any(listener.has_tls for listener in self.listeners.bound):
            return None
        from ottla.shell.handshakes import Handshakes  # many brokers have no TLS

        return Handshakes(self._core, self._connect, self._is_too_fast)

    def tls_to_peers(self) -> ssl.SSLContext | None:
        """For connections to other brokers; None where these are in plain text."""
        return self.handshakes.contexts.client if self.handshakes is not None else None

    # -- listening --

    async def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take the ports; nobody can connect to them yet."""
        self.admission.descriptors_max = descriptors.connections_max()
        ports = {}
        try:
            for listener in self.listeners.bound:
                ports[listener.name] = await self._bind(loop, listener)
            self.endpoints = advertised_endpoints(self.listeners, ports)
        except BaseException:
            self.stop_listening()
            raise

    async def _bind(self, loop: asyncio.AbstractEventLoop, listener: Listener) -> int:
        try:
            server = await loop.create_server(
                partial(self._arrive, listener), listener.host, listener.port, backlog=BACKLOG,
                start_serving=False,
            )  # fmt: skip
        except OSError as error:
            raise cannot_listen(Address(listener.host, listener.port), error, "--listen") from None
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def serve(self) -> None:
        for server, listener in zip(self._servers, self.listeners.bound, strict=True):
            try:
                await start_listening(server)
            except OSError as error:
                raise cannot_listen(Address(listener.host, listener.port), error, "--listen") from None

    def stop_listening(self) -> None:
        for server in self._servers:
            server.close()

    # -- connections --

    def _arrive(self, listener: Listener) -> asyncio.BaseProtocol:
        if self.handshakes is not None and listener.has_tls:
            return self.handshakes.begin(listener)
        return self._connect(listener)

    def _connect(self, listener: Listener) -> Connection:
        self._connections_made += 1
        return Connection(self._core, self, self._connections_made, self._scratch, listener)

    def admit(self, connection: Connection) -> str | None:
        """Take the connection in; or the reason why not."""
        refusal = self._admit(connection)
        (self.counts.made if refusal is None else self.counts.refused)[connection.listener.name] += 1
        return refusal

    def _admit(self, connection: Connection) -> str | None:
        if self._core.is_stopping:  # it was accepted before, and nobody would close it
            return "the broker stops"
        principal = ANONYMOUS
        if self.handshakes is not None and connection.listener.protocol == SSL:
            try:
                principal = self.handshakes.principal(connection)
            except ValueError as error:  # NoMatchError
                return str(error)
        refusal = self.admission.admit(connection)
        broker = self._core.broker
        if refusal is None and (broker.settings.limits_arrivals or broker.quotas.limits_addresses):
            refusal = self._arrivals.come(connection)
            if refusal is not None:
                self.admission.forget(connection.number)
        if refusal is None:
            self.connections[connection.number] = connection
            self._begin(connection, principal)
        return refusal

    def _is_too_fast(self, peer: str) -> bool:
        return self._core.broker.quotas.limits_addresses and self._arrivals.is_too_fast(peer)

    @cached_property
    def _arrivals(self) -> "Arrivals":
        from ottla.shell.arrivals import ArrivalRates, Arrivals  # most take in whoever comes

        broker = self._core.broker
        rates = ArrivalRates(broker.settings, broker.quotas, broker.listeners)
        return Arrivals(rates, self._core.now_ms, self.admission.forget)

    def _resolve(self, host: str, told: Callable[[list[str]], None]) -> None:
        """Look up the addresses of a host (max.connections.per.ip.overrides)."""
        loop = asyncio.get_running_loop()

        def looked_up(lookup: asyncio.Future[list[Any]]) -> None:
            if lookup.cancelled():
                return
            if error := lookup.exception():
                log.warning("max.connections.per.ip.overrides: %s has no address: %s", host, error)
            else:
                told([str(answer[4][0]) for answer in lookup.result()])

        asyncio.ensure_future(loop.getaddrinfo(host, None)).add_done_callback(looked_up)

    def _begin(self, connection: Connection, principal: Principal) -> None:
        """What is known from the first on. Of the usual kind nothing has to be said."""
        number, listener, broker = connection.number, connection.listener, self._core.broker
        if (listener.name, listener.protocol) != (DEFAULT_LISTENER, PLAINTEXT):
            session = Session(listener.name, principal, is_authenticated=not listener.has_sasl)
            broker.access.begin(number, session)
        if listener.has_sasl:
            self.unauthenticated.add(connection, broker.authentication.config, self._core.now_ms())

    def on_authenticated(self, connection: Connection) -> None:
        self.unauthenticated.remove(connection)

    def forget(self, connection: Connection) -> None:
        if self.connections.pop(connection.number, None) is None:
            return
        self.counts.closed[connection.listener.name, connection.cause] += 1
        self.admission.forget(connection.number)
        self.unauthenticated.remove(connection)
        self.budgets.forget(connection)
        self._core.broker.on_closed(connection.number)

    def close_all(self, reason: str, *, gently: bool = False) -> None:
        for connection in list(self.connections.values()):
            connection.close(reason, gently=gently, cause=Cause.STOP)

    # -- effects --

    def carriers(self) -> Carriers:
        return {effects.Reply: self._reply, effects.Close: self._close}

    def _reply(self, effect: effects.Reply) -> None:
        self._core.broker.allowance.unsent_bytes -= effect.unsent_bytes
        connection = self.connections.get(effect.connection)
        if connection is not None:
            connection.reply(effect.chunks, effect.mute_ms)

    def _close(self, effect: effects.Close) -> None:
        connection = self.connections.get(effect.connection)
        if connection is not None:
            cause = Cause.SENT_AWAY if effect.after_answers else Cause.REQUEST
            reason = f"{effect.reason} ({effect.sender})" if effect.sender else effect.reason
            connection.close(reason, gently=effect.after_answers, over_limit=effect.over_limit, cause=cause)

    # -- time --

    def on_tick(self, now_ms: int) -> None:
        if self.handshakes is not None:
            self.handshakes.on_tick(now_ms)
        if self.unauthenticated:
            self.unauthenticated.sweep(self._core.broker.authentication.config, now_ms)
        if now_ms - self._swept_ms >= SWEEP_MS:
            self._swept_ms = now_ms
            self._sweep(now_ms)

    def _sweep(self, now_ms: int) -> None:
        """Close what has been idle too long, or whose client is gone while its answer is parked, which no
        read would tell; give back memory that quiet connections hold."""
        parked = {
            connection.fd: connection
            for connection in self.connections.values()
            if connection.is_parked and connection.fd >= 0
        }
        for fd in descriptors.hung_up(parked):
            if not self._core.broker.waiting.outlives_client(parked[fd].number):
                parked[fd].close("the client hung up", cause=Cause.CLIENT)
        for connection in list(self.connections.values()):
            idle_ms = now_ms - connection.active_ms
            if idle_ms > self._core.config.connections_idle_ms_max and not connection.is_parked:
                connection.close("idle (connections.max.idle.ms)", cause=Cause.IDLE)
            elif idle_ms > SWEEP_MS and connection.is_guest:
                connection.refuse(connection.guest_because)
            elif idle_ms > SWEEP_MS:
                connection.release_memory()
                self.budgets.on_held(connection, now_ms)
        self.budgets.sweep(now_ms)
        self.admission.refusals.sweep(now_ms)
