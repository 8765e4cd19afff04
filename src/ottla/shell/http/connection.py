"""One HTTP connection: bytes in, one request at a time, its answer out.

h11 reads requests and writes answers; what it does not decide is decided here, strictly. A request has no
body, and nothing is sent behind it before it is answered: what looks otherwise is answered, if it can be, and
the connection is closed, so that nothing can be smuggled in behind a request. A header has a largest size,
and everything has a time by which it must be over (`due_s`), which the listener watches.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple, Protocol, TypeAlias, cast

import h11

log = logging.getLogger(__name__)

HEADER_BYTES_MAX = 16 * 1024
REQUEST_S = 10.0  # from the first byte of a request to its last
IDLE_S = 120.0  # between requests; Prometheus asks once a minute or more often
SEND_S = 30.0
METHODS = (b"GET", b"HEAD")
VERSIONS = (b"1.0", b"1.1")
NO_BODY = (b"", b"0")


class Answer(NamedTuple):
    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Asked(NamedTuple):
    """All of a request that is looked at."""

    path: str
    accept: str
    accept_encoding: str


Answering: TypeAlias = Answer | Awaitable[Answer]


class Host(Protocol):
    """All connections together, as one of them sees them."""

    def admit(self, connection: "HttpConnection") -> bool: ...
    def forget(self, connection: "HttpConnection") -> None: ...
    def when_due(self, answer: Callable[[], None]) -> None:
        """Call back now, or a little later if there are many requests."""

    def answer(self, asked: Asked) -> Answering: ...


def text_answer(status: int, text: str, *headers: tuple[str, str]) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", f"{text}\n".encode(), headers)


class HttpConnection(asyncio.Protocol):
    def __init__(self, host: Host, now_s: Callable[[], float]) -> None:
        self.peer = ""
        self.is_answering = False
        self._host = host
        self._now_s = now_s
        self.due_s = now_s() + REQUEST_S
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES_MAX)
        self._request: h11.Request | None = None
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Future[None] | None = None
        self._is_idle = False
        self._is_over = False  # its last answer is sent, or on its way

    # -- of the transport --

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if peer else ""
        self._transport.set_write_buffer_limits(high=HEADER_BYTES_MAX, low=0)
        if not self._host.admit(self):
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._host.forget(self)

    def data_received(self, data: bytes) -> None:
        if self._is_idle:
            self._is_idle, self.due_s = False, self._now_s() + REQUEST_S
        if not self._is_over:
            self._http.receive_data(data)
            self._read()

    def eof_received(self) -> bool:
        """Who has sent everything still gets its answer."""
        if not self._is_over:
            self._http.receive_data(b"")
            self._read()
        return True

    def resume_writing(self) -> None:
        """All of the answer is on its way."""
        if not self.is_answering:
            self.due_s = self._now_s() + IDLE_S

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def close(self) -> None:
        """At once."""
        if self._transport is not None:
            self._transport.abort()

    # -- requests --

    def _read(self) -> None:
        """Until a request is complete, or there is no more of it."""
        while self._transport is not None and not self.is_answering and not self._is_over:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                self._send(text_answer(error.error_status_hint, f"This is not HTTP: {error}"), is_last=True)
                return
            if isinstance(event, h11.Request):
                self._request = event
                if _has_body(event):  # the rest of it is not waited for
                    self._send(self._refusal(event) or text_answer(413, "A request has no body here."))
            elif isinstance(event, h11.EndOfMessage):
                self._begin_answer()
            elif isinstance(event, h11.ConnectionClosed):
                self._transport.close()
                return
            else:  # it needs more data
                return

    def _begin_answer(self) -> None:
        assert self._transport is not None
        self.is_answering = True
        self._transport.pause_reading()
        self._host.when_due(self._answer)

    def _answer(self) -> None:
        with self._alone():
            if self._transport is None or self._request is None:
                return
            answer = self._answer_to(self._request)
            if isinstance(answer, Answer):
                self._send(answer)
            else:
                self._task = asyncio.ensure_future(self._await(answer))

    async def _await(self, answer: Awaitable[Answer]) -> None:
        with self._alone():
            self._send(await answer)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """A bug costs this connection: a broker does not stop because it cannot be looked at."""
        try:
            yield
        except Exception:
            log.exception("bug: a page cannot be shown")
            self.close()

    @staticmethod
    def _refusal(request: h11.Request) -> Answer | None:
        if request.http_version not in VERSIONS:
            return text_answer(505, "Only HTTP/1.0 and HTTP/1.1 are spoken here.")
        if request.method in METHODS:
            return None
        return text_answer(405, "Only GET and HEAD are answered.", ("Allow", "GET, HEAD"))

    def _answer_to(self, request: h11.Request) -> Answering:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        headers = dict(request.headers)
        asked = Asked(
            request.target.decode("ascii").partition("?")[0],
            headers.get(b"accept", b"").decode("latin-1"),
            headers.get(b"accept-encoding", b"").decode("latin-1"),
        )
        return self._host.answer(asked)

    def _send(self, answer: Answer, *, is_last: bool = False) -> None:
        transport, http, request = self._transport, self._http, self._request
        if transport is None:
            return
        is_last = is_last or _has_body(request) or bool(http.trailing_data[0])
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            ("Date", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            *answer.headers,
        ]
        if is_last:
            headers.append(("Connection", "close"))
        body = b"" if request is not None and request.method == b"HEAD" else answer.body
        chunks = [
            http.send(h11.Response(status_code=answer.status, headers=headers)),
            http.send(h11.Data(data=body)),
            http.send(h11.EndOfMessage()),
        ]
        transport.writelines([chunk for chunk in chunks if chunk])
        self.due_s = self._now_s() + (SEND_S if self.unsent_bytes else IDLE_S)
        self.is_answering, self._request = False, None
        if is_last or not (http.our_state is http.their_state is h11.DONE):
            self._is_over = True
            transport.close()  # once it is sent
            self.due_s = min(self.due_s, self._now_s() + SEND_S)
            return
        http.start_next_cycle()
        self._is_idle = True
        transport.resume_reading()
        self._read()  # it may have closed its side meanwhile


def _has_body(request: h11.Request | None) -> bool:
    """Does it say so? h11 has found the end of it, and others may find another."""
    if request is None:
        return True
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value not in NO_BODY)
        for name, value in request.headers
    )
