"""Reads all metrics of a broker on its own loop, in small steps, so that nobody waits for it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from ottla.base.metrics import Family, Source
from ottla.shell.metrics.text import Text

STEP_S = 0.002
PAUSE_S = 0.001  # in which clients are served


class Reader:
    def __init__(self, sources: Sequence[Source], now_ms: Callable[[], int]) -> None:
        self._sources = sources
        self._now_ms = now_ms

    async def text(self) -> str:
        """All metrics, as Prometheus reads them."""
        return "".join([piece async for piece in self.pieces()])

    async def pieces(self, *, is_open_metrics: bool = False) -> AsyncIterator[str]:
        """The same, a few lines at a time. What is done with one counts as part of its step."""
        begun_s = time.monotonic()
        for piece in Text(is_open_metrics=is_open_metrics).pieces(self._families()):
            yield piece
            if time.monotonic() - begun_s >= STEP_S:
                await asyncio.sleep(PAUSE_S)
                begun_s = time.monotonic()

    def _families(self) -> Iterator[Family]:
        for source in self._sources:
            yield from source.read(self._now_ms())
