"""Requests to other brokers: a connection for each peer and channel, made when it is first needed.

Rules
- Every request is answered once, in the order of its channel: with what the peer said, or with None as soon
  as it is certain that nothing can come (nobody there, the connection lost, its time up, the peer another
  incarnation). Whether and when to try again is the core's business.
- A channel that failed is thrown away with all that was asked on it; the next request makes a new one.
- An answer's records are views of a shared buffer: the core takes what it wants of them at once.
- A connection begins with a handshake, in which both sides prove that they are the brokers they should be
  (design note 009). Nothing is asked of who did not; and what is said by who did not is no sign of life.
- It is to the peer's inter-broker listener, with TLS and a login before the handshake where that has them.
- After it the peer is asked for its versions, and every request is sent in the newest that both know: brokers
  of different releases share a cluster while it is upgraded.
- A probe has a connection of its own, which stays: its end is a sign, too (`Probes`).
"""

import asyncio
import errno
import logging
import re
import socket
import ssl
import sys
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from ottla.api.table import TABLE
from ottla.broker.effects import Probe, Send, Sign
from ottla.shell.core import Carriers, Core
from ottla.shell.keeper import Reminder
from ottla.wire.codec import decoder, encode_chunks
from ottla.wire.frame import LENGTH, Splitter
from ottla.wire.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    response_is_flexible,
)
from ottla.wire.primitives import ProtocolError

if TYPE_CHECKING:
    from ottla.security.peer_handshake import Initiator
    from ottla.security.peer_login import PeerLogin

log = logging.getLogger(__name__)

CONNECT_S = 3.0
PROBE_S = 2.0
UNANSWERED_MAX = 256
ANSWER_BYTES_MAX = 256 << 20
UNSENT_BYTES_MAX = 16 << 20
NOBODY = -1  # the token of what is asked before anything else
API_VERSIONS = 18


class PeerEndpoint(NamedTuple):
    """Another broker, in one of its incarnations."""

    id: int
    host: str
    port: int
    epoch: int


class Host(Protocol):
    """Who asks, as a channel sees it."""

    scratch: bytearray

    def client_id(self) -> str: ...
    def endpoint(self, peer: int) -> PeerEndpoint | None: ...
    def tls(self) -> ssl.SSLContext | None: ...
    def timeout_s(self) -> float: ...
    def handshake(self, peer: int) -> "Initiator | PeerLogin": ...
    def on_peer_reply(self, token: int, answer: Any) -> None: ...
    def carry_out(self) -> None: ...


class Prober(Host, Protocol):
    def on_probed(self, peer: int, epoch: int, sign: Sign) -> None: ...


class BrokerHost:
    """The broker, who asks. What answers make it do is carried out by the caller, who may have more of
    them."""

    def __init__(
        self, core: Core, scratch: bytearray, tls: Callable[[], ssl.SSLContext | None] = lambda: None
    ) -> None:
        self.scratch = scratch
        self.tls = tls
        self.carry_out = core.carry_out
        self._core = core
        self._missing = Reminder()

    def client_id(self) -> str:
        return f"broker-{self._core.broker.id}"

    def endpoint(self, peer: int) -> PeerEndpoint | None:
        """Where it has the listener over which brokers talk to each other."""
        broker = self._core.broker.image.brokers.get(peer)
        listener = self._core.broker.listeners.inter_broker
        if broker is None:
            return None
        if listener not in broker.endpoints:
            self._missing.say(
                f"broker {peer} has no listener {listener}; all brokers need one inter.broker.listener.name"
            )
            return None
        return PeerEndpoint(peer, *broker.endpoints[listener], broker.epoch)

    def handshake(self, peer: int) -> "Initiator | PeerLogin":
        return self._core.broker.identities.initiate(peer)

    def timeout_s(self) -> float:
        return self._core.config.replica_socket_timeout_ms / 1000

    def on_peer_reply(self, token: int, answer: Any) -> None:
        self._input(
            lambda: self._core.broker.outbox.on_peer_reply(token, answer, self._core.now_ms()), "peer answers"
        )

    def on_probed(self, peer: int, epoch: int, sign: Sign) -> None:
        self._input(
            lambda: self._core.broker.on_probed(peer, epoch, sign, self._core.now_ms()), "peer probes"
        )

    def _input(self, event: Callable[[], None], cause: str) -> None:
        if not self._core.is_ending:
            self._core.input(event, cause, is_repeated=True)


class Asked(NamedTuple):
    token: int
    correlation_id: int
    api_key: int
    version: int
    answer: type[Any]


class Peers:
    def __init__(self, loop: asyncio.AbstractEventLoop, host: Prober) -> None:
        self._loop = loop
        self._host = host
        self._channels: dict[tuple[int, str], Channel] = {}
        self._is_closed = False
        self.connecting: set[asyncio.Task[None]] = set()
        self._strangers: dict[int, Reminder] = {}
        self._probes = Probes(loop, host, self)
        self.probe = self._probes.probe

    def carriers(self) -> Carriers:
        return {Send: self.send, Probe: self.probe}

    def send(self, effect: Send) -> None:
        endpoint = self._host.endpoint(effect.peer)
        if endpoint is None or self._is_closed:
            self._loop.call_soon(self._answer_none, effect.token)
            return
        key = (effect.peer, effect.channel)
        channel = self._channels.get(key)
        if channel is not None and channel.endpoint != endpoint:
            channel.fail("the peer is another now")
            channel = None
        if channel is None:
            channel = Channel(self._loop, self._host, endpoint, self._forget, self)
            self._channels[key] = channel
        channel.send(effect)

    def check(self) -> None:
        """Give up on peers that are gone, or came back as another incarnation."""
        for (peer, _name), channel in list(self._channels.items()):
            if self._host.endpoint(peer) != channel.endpoint:
                channel.fail("the peer is gone")
        self._probes.check()

    async def close(self) -> None:
        """Waits until attempts to connect have ended too: the loop may end right after, and would leave their
        sockets open."""
        self._is_closed = True
        self._probes.close()
        for channel in list(self._channels.values()):
            channel.fail("the broker stops")
        await asyncio.gather(*self.connecting, return_exceptions=True)

    def on_stranger(self, endpoint: PeerEndpoint, error: Exception) -> None:
        """Whoever listens at a broker's address did not prove to be that broker."""
        reminder = self._strangers.setdefault(endpoint.id, Reminder())
        reminder.say(f"broker {endpoint.id} is not at {endpoint.host}:{endpoint.port}: {error}")

    def _forget(self, channel: "Channel") -> None:
        for key, candidate in list(self._channels.items()):
            if candidate is channel:
                del self._channels[key]

    def _answer_none(self, token: int) -> None:
        if not self._is_closed:
            self._host.on_peer_reply(token, None)
            self._host.carry_out()


class Probes:
    """The connections that probes go over, one for each peer; to these it is the host."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: Prober, peers: Peers) -> None:
        self.scratch, self.client_id, self.endpoint = host.scratch, host.client_id, host.endpoint
        self.tls = host.tls
        self.handshake, self.carry_out = host.handshake, host.carry_out
        self._loop = loop
        self._host = host
        self._peers = peers
        self._channels: dict[int, Channel] = {}
        self._is_closed = False

    def probe(self, effect: Probe) -> None:
        peer, endpoint = effect.peer, self.endpoint(effect.peer)
        self.check()
        if endpoint is None or endpoint.epoch != effect.epoch or self._is_closed:
            self._loop.call_soon(self._tell, peer, effect.epoch, Sign.SILENT)
            return
        channel = self._channels.get(peer)
        if channel is None:
            channel = Channel(self._loop, self, endpoint, self._on_end, self._peers)
            self._channels[peer] = channel
        from ottla.wire.messages.api_versions import ApiVersionsRequest  # who is alone probes nobody

        request = ApiVersionsRequest(client_software_name="ottla", client_software_version="0")
        channel.send(Send(peer, "probe", peer, request))

    def check(self) -> None:
        """Give up on peers that are gone, or came back as another incarnation."""
        for peer, channel in list(self._channels.items()):
            if self.endpoint(peer) != channel.endpoint:
                channel.fail("the peer is gone")

    def close(self) -> None:
        self._is_closed = True
        for channel in list(self._channels.values()):
            channel.fail("the broker stops")

    def timeout_s(self) -> float:
        return PROBE_S

    def on_peer_reply(self, peer: int, answer: Any) -> None:
        if answer is not None:
            self._host.on_probed(peer, self._channels[peer].endpoint.epoch, Sign.ANSWERED)

    def _on_end(self, channel: "Channel") -> None:
        peer = channel.endpoint.id
        self._channels.pop(peer, None)
        if not self._is_closed:
            self._host.on_probed(peer, channel.endpoint.epoch, channel.sign)

    def _tell(self, peer: int, epoch: int, sign: Sign) -> None:
        if not self._is_closed:
            self._host.on_probed(peer, epoch, sign)
            self._host.carry_out()


def _is_refusal(error: OSError) -> bool:
    """A name may stand for several addresses; then the error is made of those of all of them."""
    codes = re.findall(r"\[Errno (\d+)\]", str(error))
    return isinstance(error, ConnectionRefusedError) or (
        bool(codes) and all(int(code) == errno.ECONNREFUSED for code in codes)
    )


class Channel(asyncio.BufferedProtocol):
    """One connection to a peer, and what was asked on it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        host: Host,
        endpoint: PeerEndpoint,
        on_end: Callable[["Channel"], None],
        peers: Peers,
    ) -> None:
        self.endpoint = endpoint
        self.sign = Sign.SILENT  # how it ended
        self._loop = loop
        self._host = host
        self._on_end = on_end
        self._splitter = Splitter(ANSWER_BYTES_MAX, host.scratch)
        self._peers = peers
        self._handshake = host.handshake(endpoint.id)
        self._greeted: deque[Asked] = deque()  # the handshake and the versions, ahead of all else
        self._asked: deque[Asked] = deque()
        self._unsent: list[Send] = []  # until the peer has proved who it is, and said what it knows
        self._versions: dict[int, int] = {}  # by API, the newest that both know
        self._correlation_id = 0
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False
        self.connecting = loop.create_task(self._connect())
        peers.connecting.add(self.connecting)
        self.connecting.add_done_callback(peers.connecting.discard)

    # -- asking --

    def send(self, effect: Send) -> None:
        if len(self._asked) + len(self._unsent) >= UNANSWERED_MAX:
            self._loop.call_soon(self.fail, "too much is unanswered")
        if self._versions:
            self._ask(effect)
        else:
            self._unsent.append(effect)
        if self._timer is None:
            self._timer = self._loop.call_later(self._host.timeout_s(), self._on_late, self._correlation_id)

    def _ask(self, effect: Send) -> None:
        version = self._versions.get(type(effect.request).API_KEY)
        if version is None:
            self._unsent.append(effect)  # to be answered with None
            title = type(effect.request).__name__
            self._loop.call_soon(self.fail, f"there is no version of {title} that both brokers know")
        else:
            self._write(self._frame(self._asked, effect.token, effect.request, version))

    def _frame(self, asked: deque[Asked], token: int, request: Any, version: int) -> bytes:
        """The request as bytes; `asked` remembers what its answer will be."""
        kind = type(request)
        self._correlation_id = number = (self._correlation_id + 1) & 0x7FFFFFFF
        answer = getattr(sys.modules[kind.__module__], kind.__name__.removesuffix("Request") + "Response")
        asked.append(Asked(token, number, kind.API_KEY, version, answer))
        header = encode_request_header(RequestHeader(kind.API_KEY, version, number, self._host.client_id()))
        body = b"".join([header, *encode_chunks(request, version)])
        return LENGTH.pack(len(body)) + body

    def _greet(self, requests: list[Any]) -> None:
        for request in requests:
            version = TABLE[request.API_KEY].versions[1]
            self._write(self._frame(self._greeted, NOBODY, request, version))

    def _write(self, frame: bytes) -> None:
        assert self._transport is not None
        self._transport.write(frame)
        if self._transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            self._loop.call_soon(self.fail, "the peer does not read")

    def _on_late(self, number: int) -> None:
        """The request that was the oldest when this timer was set had all the time that there is."""
        self._timer = None
        if self._unsent or (self._asked and self._asked[0].correlation_id <= number):
            self.fail("no answer in time")
        elif self._asked:
            oldest = self._asked[0].correlation_id
            self._timer = self._loop.call_later(self._host.timeout_s(), self._on_late, oldest)

    # -- the connection --

    async def _connect(self) -> None:
        reason, sign = "no answer", Sign.SILENT
        try:
            async with asyncio.timeout(CONNECT_S):
                # With TLS, the host is what the peer's certificate is compared with.
                await self._loop.create_connection(
                    lambda: self, self.endpoint.host, self.endpoint.port, ssl=self._host.tls()
                )
            return
        except TimeoutError:
            reason = f"no connection within {CONNECT_S:.0f} s"
        except OSError as error:
            reason, sign = str(error), Sign.REFUSED if _is_refusal(error) else sign
            if isinstance(error, ssl.SSLError):
                self._peers.on_stranger(self.endpoint, error)
        self.fail(reason, sign)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._is_over:
            cast(asyncio.Transport, transport).abort()
            return
        self._transport = cast(asyncio.Transport, transport)
        channel: socket.socket = transport.get_extra_info("socket")
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._greet(self._handshake.first())

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(str(exc) if exc else "the peer closed the connection", Sign.LOST)

    def eof_received(self) -> bool:
        return False

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._splitter.buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self._splitter.received(nbytes)
        try:
            while not self._is_over:
                frame = self._splitter.next()
                if frame is None:
                    break
                self._on_frame(frame)
            self._splitter.keep()
        except ProtocolError as error:
            self.fail(str(error))
        self._host.carry_out()

    def _on_frame(self, frame: memoryview) -> None:
        waiting = self._greeted or self._asked
        if not waiting:
            raise ProtocolError("an answer that nobody asked for")
        asked = waiting.popleft()
        try:
            number, at = decode_response_header(frame, response_is_flexible(asked.api_key, asked.version))
            if number != asked.correlation_id:
                raise ProtocolError(f"the answer to request {number}, not {asked.correlation_id}")
            answer = decoder(asked.answer, asked.version)(frame, at)
        except ProtocolError:
            waiting.appendleft(asked)
            raise
        if asked.token != NOBODY:
            self._host.on_peer_reply(asked.token, answer)
        elif asked.api_key == API_VERSIONS:
            self._on_versions(answer)
        else:
            self._on_greeted(answer)

    def _on_greeted(self, answer: Any) -> None:
        from ottla.security.peer_handshake import HandshakeError  # who is alone asks nobody
        from ottla.shell.peer_versions import QUESTION, QUESTION_VERSION

        was_proven = self._handshake.is_proven
        try:
            self._greet(self._handshake.on_answer(answer))
        except HandshakeError as error:
            self._peers.on_stranger(self.endpoint, error)
            self.fail(str(error))
            return
        if self._handshake.is_proven and not was_proven:
            self._write(self._frame(self._greeted, NOBODY, QUESTION, QUESTION_VERSION))

    def _on_versions(self, answer: Any) -> None:
        from ottla.shell.peer_versions import common_versions

        self._versions = common_versions(answer.api_keys)
        unsent, self._unsent = self._unsent, []
        for effect in unsent:
            self._ask(effect)

    def fail(self, reason: str, sign: Sign = Sign.SILENT) -> None:
        """It is over: nothing will be answered any more."""
        if self._is_over:
            return
        self._is_over, self.sign = True, sign
        self._on_end(self)
        if self._timer is not None:
            self._timer.cancel()
        if self.connecting is not asyncio.current_task(self._loop):
            self.connecting.cancel()
        if self._transport is not None:
            self._transport.abort()
        log.debug("connection to broker %d ended: %s", self.endpoint.id, reason)
        tokens = [asked.token for asked in self._asked] + [effect.token for effect in self._unsent]
        self._asked.clear()
        self._unsent.clear()
        for token in tokens:
            self._host.on_peer_reply(token, None)
        self._host.carry_out()
