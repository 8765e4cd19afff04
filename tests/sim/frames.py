"""Requests and answers as bytes, the way any client makes and reads them."""

from functools import lru_cache
from importlib import import_module
from typing import Any

from tests.sim.world import ViolationError

from ottla.wire.codec import decode, encode
from ottla.wire.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    response_is_flexible,
)

BY_NAME = 12  # the last version of Produce and of Fetch that names topics


def encode_request(
    request: Any, client_id: str, version: int | None = None, correlation: int = 0
) -> tuple[bytes, int]:
    """A frame without its length, and the version it is in: the newest, unless told."""
    version = request.VERSIONS[1] if version is None else version
    header = RequestHeader(request.API_KEY, version, correlation, client_id)
    return encode_request_header(header) + encode(request, version), version


def decode_answer(request: type, version: int, frame: bytes, correlation: int = 0) -> Any:
    view = memoryview(frame)[4:]
    answered, at = decode_response_header(view, response_is_flexible(request.API_KEY, version))
    if answered != correlation:
        raise ViolationError(f"{request.__name__} {correlation} gets the answer to request {answered}")
    return decode(response_class(request), version, view, at)


@lru_cache(None)
def response_class(request: type) -> type[Any]:
    module = import_module(request.__module__)
    found: type[Any] = getattr(module, request.__name__.removesuffix("Request") + "Response")
    return found
