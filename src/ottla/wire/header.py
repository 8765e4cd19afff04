"""Request and response headers, in both directions.

A request header is version 2 (with tagged fields) where the API's version is flexible, else version 1. Its
client id has a 16-bit length in both. A response header is version 1 where the API's version is flexible,
else version 0; the response to ApiVersions always has version 0, because a client sends that request before
it knows what the broker speaks (KIP-511).

The first four bytes, key and version, decide how the rest is read. Which versions are flexible is asked of
a table, `messages.FLEXIBLE_SINCE`; a key that is not in it is malformed input.
"""

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.wire.messages import FLEXIBLE_SINCE
from ottla.wire.primitives import ProtocolError, skip_tags

API_VERSIONS: Final = 18
TAGS_MAX: Final = 1_000

_KEY_AND_VERSION: Final = struct.Struct(">hh")
_REQUEST: Final = struct.Struct(">hhih")
_CORRELATION_ID: Final = struct.Struct(">i")
_CORRELATION_ID_AND_NO_TAGS: Final = struct.Struct(">ix")
_FRAME: Final = struct.Struct(">ii")
_FRAME_AND_NO_TAGS: Final = struct.Struct(">iix")

FlexibleSince = Mapping[int, int | None]


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None

    @property
    def sender(self) -> str:
        """For a line in a log."""
        return f"client {self.client_id or ''!r:.100}, correlation id {self.correlation_id}"


class UnknownApiError(ProtocolError):
    """There is no such API. `header` has what can be read of it nevertheless."""

    def __init__(self, header: RequestHeader) -> None:
        super().__init__(f"there is no API with key {header.api_key}")
        self.header = header


def request_is_flexible(api_key: int, api_version: int, since: FlexibleSince = FLEXIBLE_SINCE) -> bool:
    first = since[api_key]
    return first is not None and api_version >= first


def response_is_flexible(api_key: int, api_version: int, since: FlexibleSince = FLEXIBLE_SINCE) -> bool:
    return api_key != API_VERSIONS and request_is_flexible(api_key, api_version, since)


def decode_request_header(
    view: memoryview, since: FlexibleSince = FLEXIBLE_SINCE
) -> tuple[RequestHeader, int]:
    """The header of a frame and the position of the body after it."""
    try:
        api_key, api_version, correlation_id, size = _REQUEST.unpack_from(view)
        flexible_since = since[api_key]
        at = _REQUEST.size
        client_id = None
        if size >= 0:
            to = at + size
            if to > len(view):
                raise ProtocolError("the client id runs past the end")
            client_id = str(view[at:to], "utf-8")
            at = to
        if flexible_since is not None and api_version >= flexible_since:
            at = skip_tags(view, at, len(view), TAGS_MAX)[0] if view[at] else at + 1
    except (struct.error, KeyError, IndexError, UnicodeDecodeError) as error:
        if len(view) >= _KEY_AND_VERSION.size and _KEY_AND_VERSION.unpack_from(view)[0] not in since:
            raise UnknownApiError(_readable_header(view)) from None
        raise ProtocolError(f"request header: {error}") from error
    return tuple.__new__(RequestHeader, (api_key, api_version, correlation_id, client_id)), at


def _readable_header(view: memoryview) -> RequestHeader:
    """Of an API that is unknown: who asks stands at the same place in every version of a header."""
    if len(view) < _REQUEST.size:
        api_key, api_version = _KEY_AND_VERSION.unpack_from(view)
        return RequestHeader(api_key, api_version, -1, None)
    api_key, api_version, correlation_id, size = _REQUEST.unpack_from(view)
    client_id = str(view[_REQUEST.size : _REQUEST.size + max(size, 0)], "utf-8", "replace")
    return RequestHeader(api_key, api_version, correlation_id, client_id)


def encode_request_header(header: RequestHeader, since: FlexibleSince = FLEXIBLE_SINCE) -> bytes:
    client_id = None if header.client_id is None else header.client_id.encode()
    size = -1 if client_id is None else len(client_id)
    start = _REQUEST.pack(header.api_key, header.api_version, header.correlation_id, size)
    tags = b"\0" if request_is_flexible(header.api_key, header.api_version, since) else b""
    return start + (client_id or b"") + tags


def response_header(correlation_id: int, flexible: bool) -> bytes:
    """`flexible` as `response_is_flexible` says: never for ApiVersions."""
    return (_CORRELATION_ID_AND_NO_TAGS if flexible else _CORRELATION_ID).pack(correlation_id)


def response_start(correlation_id: int, body_bytes: int, flexible: bool) -> bytes:
    """The length of a frame and the header of the response in it, before a body of so many bytes."""
    if flexible:
        return _FRAME_AND_NO_TAGS.pack(_CORRELATION_ID_AND_NO_TAGS.size + body_bytes, correlation_id)
    return _FRAME.pack(_CORRELATION_ID.size + body_bytes, correlation_id)


def decode_response_header(view: memoryview, flexible: bool) -> tuple[int, int]:
    """The correlation id of a frame and the position of the body after it."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(view)
        at = _CORRELATION_ID.size
        return correlation_id, skip_tags(view, at, len(view), TAGS_MAX)[0] if flexible else at
    except (struct.error, IndexError) as error:
        raise ProtocolError(f"response header: {error}") from error
