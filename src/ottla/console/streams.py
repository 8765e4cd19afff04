"""Answers that go on: a blocking generator, read in worker threads, and closed when the browser has left or
its session is over.

    return event_stream(visit.session, tail(visit.cluster, topic))

Each item is one event of text/event-stream: a name and what `json.dumps` takes. A generator should yield at
least every few seconds (`("idle", None)` will do): only between two items is it seen that nobody listens.
"""

import json
from collections.abc import AsyncIterator, Generator
from typing import Any
from urllib.parse import quote

import anyio
from anyio.to_thread import run_sync
from starlette.responses import StreamingResponse

from ottla.base.command_error import CommandError
from ottla.console.sessions import Session

STREAMS_MAX = 32  # at a time; they have threads of their own, beside those of pages
_END: Any = object()
_limiters: dict[str, anyio.CapacityLimiter] = {}


def event_stream(session: Session, events: Generator[tuple[str, Any], None, None]) -> StreamingResponse:
    def encoded() -> Generator[bytes, None, None]:
        try:
            for name, value in events:
                if session.is_ended:
                    yield _event("problem", "You are logged out.")
                    return
                yield _event(name, value)
        finally:
            events.close()

    return StreamingResponse(_pulled(encoded()), media_type="text/event-stream")


def _event(name: str, value: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value)}\n\n".encode()


def file_stream(
    session: Session, chunks: Generator[bytes, None, None], media_type: str, name: str
) -> StreamingResponse:
    """A download. One whose session ends breaks off, so that nobody takes it for whole."""

    def allowed() -> Generator[bytes, None, None]:
        try:
            for chunk in chunks:
                if session.is_ended:
                    raise CommandError("the session of who downloads is over")
                yield chunk
        finally:
            chunks.close()

    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    return StreamingResponse(_pulled(allowed()), media_type=media_type, headers=headers)


async def _pulled(chunks: Generator[bytes, None, None]) -> AsyncIterator[bytes]:
    limiter = _limiters.setdefault("streams", anyio.CapacityLimiter(STREAMS_MAX))
    try:
        while (chunk := await run_sync(next, chunks, _END, limiter=limiter)) is not _END:
            yield chunk
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(chunks.close, limiter=limiter)
