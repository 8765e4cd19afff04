"""One client's connection: bytes in, frames to the broker, answers out.

Rules: one request is in flight per connection. While its answer is parked, or while the client does not
read fast enough, nothing more is read from it, so order, back-pressure and a bound on memory come at once.
Who sends very much at once is served in turns with the others (`connection_turns`).
Whatever is wrong with the bytes costs this connection and nobody else's.
"""

import asyncio
import logging
import socket
import struct
from typing import Protocol, cast

from ottla.api.call import CloseConnection, Silence
from ottla.api.dispatch import on_request
from ottla.base.files import Buffer
from ottla.base.log_fields import fields
from ottla.broker.listeners import Listener
from ottla.broker.request_meter import RequestMeter
from ottla.shell.admission import is_local
from ottla.shell.connection_counts import Cause
from ottla.shell.core import Core
from ottla.wire.frame import Splitter
from ottla.wire.header import UnknownApiError, decode_request_header
from ottla.wire.primitives import OverLimitError, ProtocolError

log = logging.getLogger(__name__)

WRITE_HIGH_WATER_BYTES = 64 * 1024
GUEST_BYTES_MAX = 512 * 1024  # as Kafka allows before authentication
PROOF_KEYS = {struct.pack(">h", key) for key in (17, 36)}  # SaslHandshake, SaslAuthenticate


class ConnectionHost(Protocol):
    """All connections together, as one of them sees them."""

    def admit(self, connection: "Connection") -> str | None: ...
    def forget(self, connection: "Connection") -> None: ...
    def on_held(self, connection: "Connection", now_ms: int) -> None: ...
    def on_unsent(self, now_ms: int) -> None: ...
    def on_authenticated(self, connection: "Connection") -> None: ...
    def say_closed(self, peer: str, reason: str, now_ms: int) -> None: ...
    def say_refused(self, peer: str, reason: str, now_ms: int) -> None: ...


class Connection(asyncio.BufferedProtocol):
    def __init__(
        self, core: Core, clients: ConnectionHost, number: int, scratch: bytearray, listener: Listener
    ) -> None:
        self.number = number
        self.listener = listener
        self.peer = ""
        self.is_local = False
        self.guest_because = ""  # the limit over which it is, and may only prove to be a broker's
        self._host = ""
        self.active_ms = 0
        self.is_parked = False
        self.unsent_bytes = 0
        self.unsent_ms = 0  # when the client last read some of it
        self._queued_bytes = 0
        self._has_held = False  # memory for requests, when that was last told
        self._core = core
        self._clients = clients
        self._splitter = Splitter(core.config.socket_request_bytes_max, scratch)
        self._answer_to = on_request
        self.is_stranger = False  # it has to authenticate, and has not
        self._transport: asyncio.Transport | None = None
        self._is_writable = True
        self._is_reading = True
        self._is_waiting = False  # for its next turn, or for the end of a throttle
        self._unmute: asyncio.TimerHandle | None = None
        self._meter = RequestMeter(core.broker.requests.clock_ns)
        self.cause = Cause.CLIENT  # why it ended, when it does

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if peer else "unknown"
        self._host = f"/{self.peer}"
        own = transport.get_extra_info("sockname")
        self.is_local = is_local(self.peer, str(own[0]) if own else "")
        self.active_ms = self._core.now_ms()
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        self._tune(transport.get_extra_info("socket"))
        refusal = self._clients.admit(self)
        if refusal:
            self.refuse(refusal)
            return
        if self.listener.has_sasl:
            from ottla.api.gate import on_gated_request  # many brokers have no SASL

            self._answer_to, self.is_stranger = on_gated_request, True
        self._limit_frames()

    def _open_gate(self) -> None:
        """If it has authenticated: what it may send from now on, until it has to do so again."""
        session = self._core.broker.access.session(self.number)
        if session.is_authenticated:
            self.is_stranger = False
            self._limit_frames()
            if session.expires_ms is None:
                self._answer_to = on_request
            self._clients.on_authenticated(self)

    def _limit_frames(self) -> None:
        """Who has to prove something first may send less."""
        limits = [self._core.config.socket_request_bytes_max]
        if self.guest_because:
            limits.append(GUEST_BYTES_MAX)
        if self.is_stranger:
            limits.append(self._core.broker.authentication.config.receive_bytes_max)
        self._splitter.limit = min(limits)

    def _tune(self, channel: socket.socket) -> None:
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, size in (
            (socket.SO_SNDBUF, self._core.config.socket_send_buffer_bytes),
            (socket.SO_RCVBUF, self._core.config.socket_receive_buffer_bytes),
        ):
            if size >= 0:
                channel.setsockopt(socket.SOL_SOCKET, option, size)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        if self._unmute is not None:
            self._unmute.cancel()
        self._clients.forget(self)
        self.count_unsent(self.active_ms)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._splitter.buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self._splitter.received(nbytes)
        now_ns = self._meter.clock_ns()
        if not self.is_parked:
            self._meter.arrive(now_ns)
        self._serve(now_ns)
        self._core.carry_out_answers()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_writable = False
        self.count_unsent(self._core.now_ms())

    def resume_writing(self) -> None:
        self._is_writable = True
        self._meter.sent()
        self.count_unsent(self._core.now_ms())
        self._serve(self._meter.clock_ns())
        self._core.carry_out()

    def go_on(self) -> None:
        """It is its turn again, if it is still there."""
        self._meter.come_to_turn()
        self._go_on()

    def _go_on(self) -> None:
        self._is_waiting = False
        if self._transport is not None and not self._transport.is_closing():
            self._serve(self._meter.clock_ns())

    def count_unsent(self, now_ms: int) -> None:
        """Look how much of its answers has not been sent yet. One that is closed gently keeps it until it is
        read."""
        unsent_bytes = self._transport.get_write_buffer_size() if self._transport is not None else 0
        if unsent_bytes < self.unsent_bytes or not self.unsent_bytes:
            self.unsent_ms = now_ms
        self._core.broker.allowance.unsent_bytes += unsent_bytes - self.unsent_bytes
        self.unsent_bytes = unsent_bytes

    def reply(self, chunks: list[Buffer], mute_ms: int = 0) -> None:
        """The parked answer: send it, and go on with what the client has sent meanwhile; after `mute_ms` if
        it is over a quota."""
        self.is_parked = False
        self._queued_bytes = 0
        self._write(chunks)
        if mute_ms:
            self.mute(mute_ms)
        else:
            self._serve(self._meter.clock_ns())

    def mute(self, duration_ms: int) -> None:
        """Read nothing from it for a while."""
        if self._transport is None or self._transport.is_closing():
            return
        self.hold()
        self._unmute = asyncio.get_running_loop().call_later(duration_ms / 1_000, self._end_mute)

    def hold(self) -> None:
        """Read nothing from it until it goes on."""
        self._is_waiting = True
        self._set_reading(False)

    def _end_mute(self) -> None:
        self._unmute = None
        self._meter.arrive(self._meter.clock_ns())
        self._go_on()
        self._core.carry_out()

    @property
    def is_guest(self) -> bool:
        """It may only prove to be a broker's; once it has, it is no guest any more."""
        if self.guest_because and self._core.broker.identities.is_broker(self.number):
            self.guest_because = ""
            self._limit_frames()
        return bool(self.guest_because)

    @property
    def held_bytes(self) -> int:
        """Memory for requests that are not answered yet."""
        held = self._splitter.held + self._queued_bytes
        return held + self._core.broker.waiting.held_bytes(self.number) if self.is_parked else held

    @property
    def fd(self) -> int:
        """-1 once it is closed."""
        if self._transport is None or self._transport.is_closing():
            return -1
        channel: socket.socket = self._transport.get_extra_info("socket")
        return channel.fileno()

    @property
    def certificate(self) -> bytes | None:
        """Of its client, if it has shown one, and that was verified."""
        tls = self._transport.get_extra_info("ssl_object") if self._transport is not None else None
        return tls.getpeercert(binary_form=True) if tls is not None else None

    @property
    def is_closing(self) -> bool:
        return self._transport is not None and self._transport.is_closing()

    def release_memory(self) -> None:
        self._splitter.idle()

    def close(
        self, reason: str, *, gently: bool = False, over_limit: bool = False, cause: Cause = Cause.REQUEST
    ) -> None:
        """`gently`: after what is queued has been sent. `over_limit`: the operator should know."""
        if self._transport is None:
            return
        if self.cause is Cause.CLIENT:
            self.cause = Cause.LIMIT if over_limit else cause
        if over_limit:
            self._clients.say_closed(self.peer, reason, self._core.now_ms())
        else:
            log.debug(
                "connection from %s closed: %s", self.peer, reason,
                extra=fields(host=self.peer, listener=self.listener.name, reason=reason),
            )  # fmt: skip
        if gently:
            self._transport.close()
        else:
            self._transport.abort()

    def refuse(self, reason: str) -> None:
        """Close it, because of a limit on connections."""
        if self._transport is not None:
            self.cause = Cause.LIMIT
            self._clients.say_refused(self.peer, reason, self._core.now_ms())
            self._transport.abort()

    def _serve(self, begun_ns: int) -> None:
        """Answer the frames that are complete, as long as the answers can leave and it is its turn.
        `begun_ns` is now. When an answer leaves, the meter looks at the clock, and nobody else has to."""
        if self._is_waiting:
            return
        self.active_ms = now_ms = self._core.ms_at(begun_ns)
        turns, meter, served, frame, sent_ns = self._core.turns, self._meter, None, None, 0
        try:
            while not self.is_parked and self._is_writable and self._transport is not None:
                # Before the next frame: who has proved itself may send more.
                is_known = not self.is_stranger and not self.guest_because
                is_guest = not is_known and self._is_guest_still()
                frame = self._splitter.next()
                if frame is None:
                    break
                if served is not None and turns.is_over((sent_ns or meter.clock_ns()) - begun_ns):
                    self._splitter.put_back(frame)
                    self._is_waiting = True
                    turns.wait(self)
                    break
                if is_guest and bytes(frame[:2]) not in PROOF_KEYS:
                    self.refuse(self.guest_because)
                    return
                sent_ns = 0
                answer = self._answer_to(self._core.broker, self.number, frame, now_ms, self._host, meter)
                if not isinstance(answer, Silence):
                    self._write(answer)
                    sent_ns = meter.begun_ns if meter.counts is None else 0
                elif answer is Silence.NO_REPLY:
                    meter.sent()  # to nobody
                else:
                    self.is_parked = True
                    self._queued_bytes = len(frame) if answer is Silence.QUEUED else 0
                served = frame
                if is_known and self._splitter.is_empty:
                    break  # as after most requests
            self._splitter.keep()
            if self._queued_bytes:
                self._splitter.idle()  # what waits has a copy of its own
        except (ProtocolError, CloseConnection) as error:
            served = frame
            self.close(f"{error}{_sender(frame)}", over_limit=isinstance(error, OverLimitError))
            return
        finally:
            spent_ns = (sent_ns or meter.clock_ns()) - begun_ns
            turns.spent_ns += spent_ns
            if spent_ns // 1_000 > self._core.stalls.limit_us and served is not None:
                self._core.stalls.note_request(served, self.peer, spent_ns // 1_000)
        self._set_reading(self._is_writable and not self.is_parked and not self._is_waiting)
        self._tell_held(now_ms)

    def _is_guest_still(self) -> bool:
        """Of one that has to prove something: look whether it has."""
        if self.is_stranger:
            self._open_gate()
        return self.is_guest

    def _tell_held(self, now_ms: int) -> None:
        """Most hold nothing, and held nothing before."""
        has_held, self._has_held = self._has_held, self.is_parked or self._splitter.held > 0
        if has_held or self._has_held:
            self._clients.on_held(self, now_ms)

    def _write(self, chunks: list[Buffer]) -> None:
        if self._transport is None:
            return
        if len(chunks) == 1:
            self._transport.write(chunks[0])
        elif chunks:
            self._transport.writelines(chunks)
        if self._is_writable:
            self._meter.sent()
        else:
            self._meter.begin_sending()
            self._clients.on_unsent(self._core.now_ms())

    def _set_reading(self, wanted: bool) -> None:
        if wanted == self._is_reading or self._transport is None or self._transport.is_closing():
            return
        self._is_reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()


def _sender(frame: memoryview | None) -> str:
    """Whose request it was, as far as that can be read."""
    try:
        return "" if frame is None else f" ({decode_request_header(frame)[0].sender})"
    except UnknownApiError as unknown:
        return f" ({unknown.header.sender})"
    except ProtocolError:
        return ""
