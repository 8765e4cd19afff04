"""TLS handshakes of clients: each has a deadline, there is a limit to how many are unfinished, and whatever
becomes of one is no other's business.

A connection is taken over before its first byte is read, and given to the loop again, with TLS this time and
the newest context. Over the limit, the handshake that has lasted longest makes room for the next.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import cast

from ottla.broker.listeners import Listener
from ottla.security.distinguished_names import owner_of
from ottla.security.principal_rules import mapped_name
from ottla.security.principals import ANONYMOUS, USER, Principal
from ottla.shell import descriptors
from ottla.shell.connection import Connection
from ottla.shell.core import Core
from ottla.shell.notices import Notices
from ottla.shell.tls_contexts import TlsContexts

SHARE = 4  # one in so many of the descriptors that connections may take
SHUTDOWN_S = 5.0  # that a client has to answer the end of TLS


class Handshakes:
    """`connect` makes the connection that begins with a handshake which succeeds. An address that
    `is_too_fast` gets none."""

    def __init__(
        self,
        core: Core,
        connect: Callable[[Listener], Connection],
        is_too_fast: Callable[[str], bool] = lambda _peer: False,
    ) -> None:
        self.contexts = TlsContexts(core.broker)
        self.failures = Notices("failed to begin TLS")
        self._core = core
        self._counts = core.connection_counts
        self._config = core.broker.authentication.config
        self._connect = connect
        self._is_too_fast = is_too_fast
        self._unfinished: dict[asyncio.Task[None], None] = {}  # the oldest first
        limit, available = self._config.unauthenticated_max, descriptors.connections_max()
        self._unfinished_max = limit if available is None else min(limit, max(available // SHARE, 1))

    def begin(self, listener: Listener) -> asyncio.Protocol:
        return UnreadConnection(self, listener)

    def take_over(self, transport: asyncio.Transport, listener: Listener) -> None:
        """The loop closes its descriptor, and ours goes on."""
        peer = transport.get_extra_info("peername")
        if peer and self._is_too_fast(str(peer[0])):
            transport.abort()
            self._counts.refused[listener.name] += 1
            self._say(peer, "too many connections a second come from there (connection_creation_rate)")
            return
        try:
            channel = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
            channel.setblocking(False)
        except OSError as error:
            self._say(peer, f"{error} (ulimit -n)")
            return
        finally:
            transport.abort()
        if len(self._unfinished) >= self._unfinished_max:
            oldest = next(iter(self._unfinished))
            del self._unfinished[oldest]
            oldest.cancel(f"another came in, and {self._unfinished_max} are unfinished")
        task = asyncio.get_running_loop().create_task(self._shake(channel, listener, peer))
        self._unfinished[task] = None
        task.add_done_callback(partial(self._end, channel))

    def _end(self, channel: socket.socket, task: "asyncio.Task[None]") -> None:
        self._unfinished.pop(task, None)
        if task.cancelled():  # before it began; after that, the descriptor is the loop's to close
            channel.close()

    async def _shake(self, channel: socket.socket, listener: Listener, peer: tuple[str, int] | None) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._connect(listener),
                channel,
                ssl=self.contexts.of(listener.name).server,
                ssl_handshake_timeout=self._config.authentication_ms_max / 1000,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except ssl.SSLError as error:
            self._counts.failed_handshakes[listener.name] += 1
            self._say(peer, (error.reason or str(error)).replace("_", " ").lower())
        except OSError as error:
            self._say(peer, str(error) or "the client hung up")
        except asyncio.CancelledError as reason:
            if not self._core.is_ending:
                self._say(peer, str(reason))

    def principal(self, connection: Connection) -> Principal:
        """Who a client is by its certificate. NoMatchError: nobody."""
        certificate = connection.certificate
        if certificate is None:
            return ANONYMOUS
        rules = self.contexts.of(connection.listener.name).config.mapping_rules
        return Principal(USER, mapped_name(rules, owner_of(certificate)))

    def _say(self, peer: tuple[str, int] | None, reason: str) -> None:
        self.failures.say(str(peer[0]) if peer else "unknown", reason, self._core.now_ms())

    def on_tick(self, now_ms: int) -> None:
        self.failures.sweep(now_ms)
        self.contexts.on_tick(now_ms)

    async def close(self) -> None:
        self.contexts.close()
        unfinished = list(self._unfinished)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)


class UnreadConnection(asyncio.Protocol):
    """A connection of which nothing was read."""

    def __init__(self, handshakes: Handshakes, listener: Listener) -> None:
        self._handshakes = handshakes
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._handshakes.take_over(cast(asyncio.Transport, transport), self._listener)
