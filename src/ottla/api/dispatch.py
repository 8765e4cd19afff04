"""From a frame to an answer: header, row of the table, decoder, handler, encoder.

Rules: malformed bytes, unknown keys and unknown versions are a `ProtocolError`, and the connection is
closed without an answer; only ApiVersions is answered whatever its version. A disk that fails under a
request takes its log directory offline, and costs the connection of whoever cannot be told otherwise. A
handler that fails in a way nobody planned is a bug: it is logged with the request that caused it, and costs
that connection, not the broker.
"""

import logging
import struct
from collections.abc import Callable
from typing import Any

from ottla.api.call import Call, CloseConnection, LastAnswer, Silence
from ottla.api.table import TABLE, Api
from ottla.base.errors import ErrorCode
from ottla.base.files import Buffer
from ottla.broker.broker import Broker
from ottla.broker.effects import Close, Reply
from ottla.broker.parked import Parked
from ottla.wire.codec import decoder, encoder
from ottla.wire.header import (
    API_VERSIONS,
    RequestHeader,
    decode_request_header,
    response_header,
    response_is_flexible,
)
from ottla.wire.primitives import ProtocolError

log = logging.getLogger(__name__)

PRODUCE = 0
CACHED_ANSWERS_MAX = 256
CACHED_REQUEST_BYTES_MAX = 4_096
REQUEST_BYTES_MAX = 16 * 1024 * 1024
_LENGTH = struct.Struct(">i")
_loaded: dict[int, tuple[type[Any], Callable[..., Any]]] = {}


def on_request(
    broker: Broker, connection: int, frame: memoryview, now_ms: int, client_host: str = ""
) -> list[Buffer] | Silence:
    """The answer to one frame, ready to be sent. ProtocolError or CloseConnection: close the connection."""
    header, at = decode_request_header(frame)
    api = TABLE.get(header.api_key)
    if api is None:
        raise ProtocolError(f"API {header.api_key} is not served")
    if len(frame) > REQUEST_BYTES_MAX and api.key != PRODUCE:
        # Small items cost many times their bytes as objects; only record batches stay bytes.
        raise ProtocolError(f"{api.title} with {len(frame)} bytes, more than {REQUEST_BYTES_MAX}")
    low, high = api.versions
    if not low <= header.api_version <= high:
        return _refuse_version(api, header)
    cache_key = None
    if api.cached and not broker.proofs.is_awaited and len(frame) - at <= CACHED_REQUEST_BYTES_MAX:
        cache_key = (header.api_key, header.api_version, bytes(frame[at:]))
        known = broker.answers.get(cache_key)
        if known is not None:
            return _framed(header, [known])
    loaded = _loaded.get(header.api_key)
    if loaded is None:
        loaded = _loaded[header.api_key] = api.load()
    request_class, handler = loaded
    request: Any = decoder(request_class, header.api_version)(frame, at)
    call = Call(broker, now_ms, header.api_version, header.client_id or "", client_host, connection)
    answer = _handle(api, handler, call, request)
    if isinstance(answer, LastAnswer):
        broker.effects.append(Close(connection, answer.reason, after_answers=True))
        answer = answer.response
    if answer is None:
        return Silence.NO_REPLY
    if isinstance(answer, Parked):
        _park(broker, api, header, connection, answer)
        return Silence.PARKED
    chunks = _encoded(api, header, answer)
    if cache_key is not None:
        if len(broker.answers) >= CACHED_ANSWERS_MAX:
            broker.answers.clear()
        broker.answers[cache_key] = b"".join(chunks)
    return _framed(header, chunks)


def _handle(api: Api, handler: Callable[..., Any], call: Call, request: Any) -> Any:
    try:
        return handler(call, request)
    except CloseConnection:
        raise
    except OSError as error:
        call.broker.storage_error(error)
        raise CloseConnection(f"{api.title} failed on the disk: {error}") from error
    except Exception as bug:
        log.exception("bug: %s v%d from client %r failed", api.title, call.version, call.client_id)
        raise CloseConnection(f"{api.title} failed") from bug


def _refuse_version(api: Api, header: RequestHeader) -> list[Buffer]:
    if api.key != API_VERSIONS:
        raise ProtocolError(f"{api.title} has no version {header.api_version}")
    from ottla.api.api_versions import served
    from ottla.wire.messages.api_versions import ApiVersionsResponse

    answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=served())
    return _framed(header, encoder(ApiVersionsResponse, 0)(answer))


def _park(broker: Broker, api: Api, header: RequestHeader, connection: int, parked: Parked) -> None:
    """Let an answer wait. What it is answered with in the end may have to wait for something else."""

    def reply(late: Any) -> None:
        if isinstance(late, Parked):
            _park(broker, api, header, connection, late)
        elif isinstance(late, LastAnswer):
            broker.effects.append(_late(api, header, connection, late.response))
            broker.effects.append(Close(connection, late.reason, after_answers=True))
        elif late is Silence.NO_REPLY:
            broker.effects.append(Reply(connection, []))
        elif isinstance(late, CloseConnection):
            broker.effects.append(Close(connection, str(late)))
        else:
            broker.effects.append(_late(api, header, connection, late))

    parked.owner, parked.reply = connection, reply
    broker.waiting.park(parked)


def _late(api: Api, header: RequestHeader, connection: int, answer: Any) -> Reply | Close:
    try:
        return Reply(connection, _framed(header, _encoded(api, header, answer)))
    except CloseConnection as error:
        return Close(connection, str(error))


def _encoded(api: Api, header: RequestHeader, answer: Any) -> list[Buffer]:
    try:
        return encoder(type(answer), header.api_version)(answer)
    except (ValueError, TypeError, AttributeError, struct.error) as bug:
        log.exception("bug: the answer to %s v%d cannot be encoded", api.title, header.api_version)
        raise CloseConnection(f"{api.title} failed") from bug


def _framed(header: RequestHeader, chunks: list[Buffer]) -> list[Buffer]:
    flexible = response_is_flexible(header.api_key, header.api_version)
    start = response_header(header.correlation_id, flexible)
    size = len(start) + sum(map(len, chunks))
    head = b"".join((_LENGTH.pack(size), start, chunks[0]))
    return [head, *chunks[1:]]
