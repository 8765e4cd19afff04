"""Answers that go on: a blocking generator, read in worker threads, and closed when the browser has left.

    return event_stream(tail(visit.cluster, topic))

Each item is one event of text/event-stream: a name and what `json.dumps` takes. A generator should yield at
least every few seconds (`("idle", None)` will do): only between two items is it seen that nobody listens.
"""

import json
from collections.abc import AsyncIterator, Generator
from typing import Any

import anyio
from anyio.to_thread import run_sync
from starlette.responses import StreamingResponse

STREAMS_MAX = 32  # at a time; they have threads of their own, beside those of pages
_END: Any = object()
_limiters: dict[str, anyio.CapacityLimiter] = {}


def event_stream(events: Generator[tuple[str, Any], None, None]) -> StreamingResponse:
    def encoded() -> Generator[bytes, None, None]:
        try:
            for name, value in events:
                yield f"event: {name}\ndata: {json.dumps(value)}\n\n".encode()
        finally:
            events.close()

    return byte_stream(encoded(), "text/event-stream")


def byte_stream(
    chunks: Generator[bytes, None, None], media_type: str, headers: dict[str, str] | None = None
) -> StreamingResponse:
    """For downloads as well."""
    return StreamingResponse(_pulled(chunks), media_type=media_type, headers=headers)


async def _pulled(chunks: Generator[bytes, None, None]) -> AsyncIterator[bytes]:
    limiter = _limiters.setdefault("streams", anyio.CapacityLimiter(STREAMS_MAX))
    try:
        while (chunk := await run_sync(next, chunks, _END, limiter=limiter)) is not _END:
            yield chunk
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(chunks.close, limiter=limiter)
