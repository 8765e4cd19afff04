"""Requests that no client library sends: one connection, one request, one answer."""

import socket
import struct
import sys
from typing import Any

from ottla.wire.codec import decode, encode
from ottla.wire.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    response_is_flexible,
)


def ask(address: str, request: Any, within_s: float = 30.0) -> Any:
    kind = type(request)
    version = kind.VERSIONS[1]
    host, _, port = address.rpartition(":")
    frame = encode_request_header(RequestHeader(kind.API_KEY, version, 1, "tests")) + encode(request, version)
    with socket.create_connection((host, int(port)), within_s) as channel:
        channel.settimeout(within_s)
        channel.sendall(struct.pack(">i", len(frame)) + frame)
        said = _read(channel, struct.unpack(">i", _read(channel, 4))[0])
    _, at = decode_response_header(memoryview(said), response_is_flexible(kind.API_KEY, version))
    answer = getattr(sys.modules[kind.__module__], kind.__name__.removesuffix("Request") + "Response")
    return decode(answer, version, memoryview(said), at)


def _read(channel: socket.socket, count: int) -> bytes:
    said = b""
    while len(said) < count:
        piece = channel.recv(count - len(said))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        said += piece
    return said
