"""One socket to one broker: versions agreed on, requests out, answers in, in the order they were sent.

A connection fails by `OSError` (a timeout is one) or `ProtocolError`, and is worth nothing after that:
close it. What the broker cannot do at all is a `ClientError`.

ApiVersions is sent in version 3. A broker that does not know that version answers in version 0 and says so
(KIP-511).

Before the first request come TLS and SASL, if the client's settings say so. A broker may accept a SASL
exchange for a time only (KIP-368): when most of that is over, it is done again before the next request.
"""

import socket
import struct
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple, Self, TypeVar

from ottla.base.addresses import Address
from ottla.base.errors import ErrorCode
from ottla.base.files import Buffer
from ottla.client.errors import ClientError
from ottla.client.retry import ANSWER_S, CONNECT_S, Deadline
from ottla.client.security.handshakes import Handshakes
from ottla.wire.codec import decode, encode_chunks
from ottla.wire.frame import LENGTH
from ottla.wire.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    response_is_flexible,
)
from ottla.wire.messages import VERSIONS
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.primitives import ProtocolError

R = TypeVar("R")

ANSWER_BYTES_MAX = 1 << 30
API_VERSIONS = ApiVersionsRequest(client_software_name="ottla", client_software_version="0")
_CHUNKS_MAX = 1024  # of one call (Linux' IOV_MAX)
_ERROR = struct.Struct(">h")
_TLS_ALERT = 0x1503  # how an answer begins that is an alert of TLS
_TLS_RECORD_BYTES = 1 << 14
_SESSION_PART = 0.85  # of what a broker allows: then it is time to authenticate again

# After these versions a topic is an id, which this client does not keep; of transactions, those before V2
# (KIP-890), which every broker has: see `transactions`.
_LAST = {0: 11, 1: 12, 8: 9, 9: 9, 20: 5, 24: 3, 26: 4, 28: 4}
# Before version 4 a question about a topic creates it.
_FIRST = {3: 4}


class UnreachableError(TimeoutError):
    """Nobody has taken the connection, not even to be slow with it."""


class _Expected(NamedTuple):
    correlation_id: int
    api_key: int
    version: int
    response: type


class Connection:
    """`send` and `receive` may run apart, any number of requests; `call` is one after the other."""

    def __init__(
        self, address: Address, client_id: str, deadline: Deadline, handshakes: Handshakes | None = None
    ) -> None:
        self.address = address
        self._client_id = client_id
        self._handshakes = handshakes or Handshakes()
        self._next_id = 0
        self._expected: deque[_Expected] = deque()
        self._arrived: deque[tuple[_Expected, memoryview]] = deque()  # before anybody asked for it
        self._versions: dict[int, tuple[int, int]] = {}
        self._authenticate_at_s = float("inf")
        self._is_accepted = False  # a request was answered that needs more than a connection
        try:
            self._socket = socket.create_connection(address, deadline.within(CONNECT_S))
        except TimeoutError:
            raise UnreachableError("timed out") from None
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = self._handshakes.wrapped(self._socket, address.host)
            self._negotiate(deadline)
            self._authenticate(deadline)
        except BaseException as error:
            self._socket.close()
            if isinstance(error, ClientError):
                raise ClientError(f"broker {address}: {error}", error.code) from error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    @property
    def in_flight(self) -> int:
        return len(self._arrived) + len(self._expected)

    def is_alive(self) -> bool:
        """Whether an idle connection is still there: the broker would have sent nothing but the end."""
        self._socket.settimeout(0)
        try:
            self._socket.recv(1)
        except BlockingIOError:
            return True
        except OSError as error:
            return self._handshakes.is_waiting(error)
        return False

    def call(self, request: Any, response: type[R], deadline: Deadline) -> R:
        self.send(request, response, deadline)
        return self.receive(response, deadline)

    def version_of(self, api_key: int, name: str) -> int:
        """The newest version that both sides have."""
        first, last = VERSIONS[api_key]
        first, last = max(first, _FIRST.get(api_key, first)), min(last, _LAST.get(api_key, last))
        low, high = self._versions.get(api_key, (0, -1))
        version = min(last, high)
        if version < max(first, low):
            theirs = f"has versions {low} to {high}" if high >= 0 else "does not have it"
            raise ClientError(
                f"{name} needs version {first} to {last}, and the broker at {self.address} {theirs}",
                ErrorCode.UNSUPPORTED_VERSION,
            )
        return version

    def send(self, request: Any, response: type, deadline: Deadline, *, answered: bool = True) -> None:
        """`answered=False` is for a request that the broker stays silent about: Produce with acks=0."""
        name = type(request).__name__.removesuffix("Request")
        if time.monotonic() >= self._authenticate_at_s:
            self._authenticate(deadline)
        self._send(request, self.version_of(request.API_KEY, name), response, deadline, answered)

    def receive(self, response: type[R], deadline: Deadline) -> R:
        expected, view = self._arrived.popleft() if self._arrived else self._receive(deadline)
        assert expected.response is response, f"{expected.response.__name__} comes first"
        flexible = response_is_flexible(expected.api_key, expected.version)
        correlation_id, at = decode_response_header(view, flexible)
        if correlation_id != expected.correlation_id:
            raise ProtocolError(f"answer {correlation_id} where {expected.correlation_id} was due")
        self._is_accepted = True
        return decode(response, expected.version, view, at)

    def _authenticate(self, deadline: Deadline) -> None:
        """What is still due comes first, and is kept for whoever has asked for it."""
        authentication = self._handshakes.authentication
        if authentication is None:
            return
        while self._expected:
            self._arrived.append(self._receive(deadline))
        arrived, self._arrived = self._arrived, deque()
        self._authenticate_at_s = float("inf")
        lifetime_ms = authentication.run(lambda request, response: self.call(request, response, deadline))
        if lifetime_ms > 0:
            self._authenticate_at_s = time.monotonic() + _SESSION_PART * lifetime_ms / 1000
        self._arrived = arrived

    def _negotiate(self, deadline: Deadline) -> None:
        self._send(API_VERSIONS, 3, ApiVersionsResponse, deadline)
        expected, view = self._receive(deadline)
        _, at = decode_response_header(view, flexible=False)
        if len(view) < at + _ERROR.size:
            raise ProtocolError("this is no answer of a broker")
        (error,) = _ERROR.unpack_from(view, at)
        version = expected.version
        if error == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
            self._send(ApiVersionsRequest(), version, ApiVersionsResponse, deadline)
            _, view = self._receive(deadline)
        response = decode(ApiVersionsResponse, version, view, at)
        if response.error_code:
            raise ProtocolError(f"ApiVersions was answered with error {response.error_code}")
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    def _send(
        self, request: Any, version: int, response: type, deadline: Deadline, answered: bool = True
    ) -> None:
        self._next_id += 1
        header = RequestHeader(request.API_KEY, version, self._next_id, self._client_id)
        chunks = [encode_request_header(header), *encode_chunks(request, version)]
        self._socket.settimeout(deadline.within(ANSWER_S))
        self._send_all([LENGTH.pack(sum(map(len, chunks))), *chunks])
        if answered:
            self._expected.append(_Expected(self._next_id, request.API_KEY, version, response))

    def _send_all(self, chunks: list[Buffer]) -> None:
        """In one call if the kernel takes so much, and without joining what may be megabytes."""
        if self._handshakes.security.tls is not None:
            for part in _joined(chunks):
                self._socket.sendall(part)
            return
        sent = self._socket.sendmsg(chunks[:_CHUNKS_MAX])
        for chunk in chunks:
            if sent < len(chunk):
                self._socket.sendall(memoryview(chunk)[sent:])
            sent = max(0, sent - len(chunk))

    def _receive(self, deadline: Deadline) -> tuple[_Expected, memoryview]:
        self._socket.settimeout(deadline.within(ANSWER_S))
        (size,) = LENGTH.unpack(self._exactly(LENGTH.size))
        if size >> 16 == _TLS_ALERT and not self._versions:
            raise ClientError("this port speaks TLS; set security.protocol to SSL or SASL_SSL")
        if not 0 < size <= ANSWER_BYTES_MAX:
            raise ProtocolError(f"this is no answer of a broker: it says it has {size} bytes")
        view = self._exactly(size)
        return self._expected.popleft(), view

    def _exactly(self, size: int) -> memoryview:
        view = memoryview(bytearray(size))
        at = 0
        while at < size:
            try:
                got = self._socket.recv_into(view[at:])
            except ConnectionResetError:
                got = 0
            except OSError as error:
                raise self._handshakes.explained(error) from error
            if not got:
                raise ConnectionError(f"the connection was closed before the answer came{self._hint()}")
            at += got
        return view

    def _hint(self) -> str:
        """What a broker closes a connection for that it did not like from the start."""
        if self._is_accepted:
            return ""
        security = self._handshakes.security
        if not self._versions and security.tls is None:
            return "; is it a port with TLS (security.protocol=SSL or SASL_SSL)?"
        if not self._versions and security.tls is not None and not security.tls.key:
            return "; does it want a certificate of the client (ssl.keystore.location)?"
        if self._versions and security.sasl is None:
            return "; is it a port with SASL (security.protocol=SASL_PLAINTEXT or SASL_SSL)?"
        return ""


def _joined(chunks: list[Buffer]) -> Iterator[Buffer]:
    """Small ones together, so that each does not become a record of TLS; large ones as they are."""
    held = bytearray()
    for chunk in chunks:
        if len(chunk) < _TLS_RECORD_BYTES:
            held += chunk
        if held and (len(chunk) >= _TLS_RECORD_BYTES or len(held) >= _TLS_RECORD_BYTES):
            yield held
            held = bytearray()
        if len(chunk) >= _TLS_RECORD_BYTES:
            yield chunk
    if held:
        yield held
