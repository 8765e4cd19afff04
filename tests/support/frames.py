"""Requests and answers as bytes, without the length before them: the way any client makes and reads them."""

from functools import cache
from importlib import import_module
from typing import Any

from ottla.wire.codec import decode, encode
from ottla.wire.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    response_is_flexible,
)


def encode_request(
    request: Any, version: int, correlation_id: int, client_id: str | None = "a client"
) -> bytes:
    header = RequestHeader(request.API_KEY, version, correlation_id, client_id)
    return encode_request_header(header) + encode(request, version)


def decode_answer(request: type[Any], version: int, frame: memoryview) -> tuple[int, Any]:
    """The correlation id, and what was answered to such a request."""
    correlation_id, at = decode_response_header(frame, response_is_flexible(request.API_KEY, version))
    return correlation_id, decode(response_class(request), version, frame, at)


@cache
def response_class(request: type) -> type[Any]:
    response: type[Any] = getattr(
        import_module(request.__module__), request.__name__.removesuffix("Request") + "Response"
    )
    return response
