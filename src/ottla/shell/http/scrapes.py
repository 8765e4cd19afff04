"""/metrics: read once for all who ask at the same time, and never twice at once.

Who asks while metrics are being read waits for the next time: an answer shows nothing that was so before it
was asked for. After each time there is a rest several times as long, so that nobody who asks again and again
takes more than a share of the loop.
"""

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from ottla.shell.http.connection import Answer, Asked, text_answer

log = logging.getLogger(__name__)

REST = 3  # times as long as it took
PIECE_BYTES = 32 * 1024  # compressed at once, which takes less than a millisecond
UNSENT_BYTES_MAX = 32 << 20
BODY_BYTES_MAX = 64 << 20
GZIP = 16 + zlib.MAX_WBITS
FAST = 1
PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Form(NamedTuple):
    """How metrics are wanted."""

    is_open_metrics: bool
    is_gzip: bool


def form_of(asked: Asked) -> Form:
    """OpenMetrics for whoever accepts it, before all else, as prometheus-client has it."""
    types = {kind.partition(";")[0].strip().lower() for kind in asked.accept.split(",")}
    encodings = {encoding.partition(";")[0].strip().lower() for encoding in asked.accept_encoding.split(",")}
    return Form("application/openmetrics-text" in types, "gzip" in encodings)


class TooLargeError(Exception):
    def __str__(self) -> str:
        return (
            f"metrics of more than {BODY_BYTES_MAX >> 20} MiB are not shown; have fewer of them with"
            " ottla.metrics.partitions.enable=false, or with less for ottla.metrics.groups.max"
        )


class Scrapes:
    """`pieces` reads all metrics, in OpenMetrics or not; `unsent_bytes` are those of earlier answers."""

    def __init__(self, pieces: Callable[[bool], AsyncIterator[str]], unsent_bytes: Callable[[], int]) -> None:
        self._pieces = pieces
        self._unsent_bytes = unsent_bytes
        self._asked: dict[Form, asyncio.Future[Answer]] = {}
        self._task: asyncio.Task[None] | None = None
        self._rested_s = 0.0

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        for waiting in self._asked.values():
            waiting.cancel()

    async def answer(self, asked: Asked) -> Answer:
        if self._unsent_bytes() > UNSENT_BYTES_MAX:
            return text_answer(503, "Others have not read their metrics yet.", ("Retry-After", "1"))
        waiting = self._asked.setdefault(form_of(asked), asyncio.get_running_loop().create_future())
        if self._task is None:
            self._task = asyncio.ensure_future(self._read_all())
        return await asyncio.shield(waiting)

    async def _read_all(self) -> None:
        """Until nobody asks any more."""
        loop = asyncio.get_running_loop()
        while self._asked:
            await asyncio.sleep(self._rested_s - loop.time())
            form = next(iter(self._asked))
            waiting, begun_s = self._asked.pop(form), loop.time()
            answer = await self._read(form)
            if not waiting.done():
                waiting.set_result(answer)
            self._rested_s = loop.time() + REST * (loop.time() - begun_s)
        self._task = None

    async def _read(self, form: Form) -> Answer:
        content_type = OPEN_METRICS if form.is_open_metrics else PLAIN
        try:
            body = await self._body(form)
        except TooLargeError as error:
            log.warning("/metrics: %s", error)
            return text_answer(500, str(error))
        except Exception:  # a broker does not stop because it cannot be looked at
            log.exception("bug: metrics cannot be read")
            return text_answer(500, "Metrics cannot be read; the broker's log says why.")
        return Answer(200, content_type, body, (("Content-Encoding", "gzip"),) if form.is_gzip else ())

    async def _body(self, form: Form) -> bytes:
        deflate = zlib.compressobj(FAST, wbits=GZIP) if form.is_gzip else None
        chunks: list[bytes] = []
        pieces: list[str] = []
        size = total = 0
        async for piece in self._pieces(form.is_open_metrics):
            pieces.append(piece)
            size += len(piece)
            if size >= PIECE_BYTES:
                chunks.append(_packed(pieces, deflate))
                total += len(chunks[-1])
                pieces, size = [], 0
            if total > BODY_BYTES_MAX:
                raise TooLargeError
        chunks.append(_packed(pieces, deflate))
        if deflate is not None:
            chunks.append(deflate.flush())
        return b"".join(chunks)


def _packed(pieces: list[str], deflate: "zlib._Compress | None") -> bytes:
    chunk = "".join(pieces).encode(errors="backslashreplace")
    return chunk if deflate is None else deflate.compress(chunk)
