"""Reads all metrics of a broker on its own loop, in small steps, so that nobody waits for it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from ottla.base.metrics import Family, Source
from ottla.shell.metrics.text import Text
from ottla.shell.stalls import SCRAPE, Stalls

STEP_US = 2_000
PAUSE_S = 0.001  # in which clients are served


class Reader:
    def __init__(self, sources: Sequence[Source], now_ms: Callable[[], int], stalls: Stalls) -> None:
        self._sources = sources
        self._now_ms = now_ms
        self._stalls = stalls

    async def text(self) -> str:
        """All metrics, as Prometheus reads them."""
        return "".join([piece async for piece in self.pieces()])

    async def pieces(self, *, is_open_metrics: bool = False) -> AsyncIterator[str]:
        """The same, a few lines at a time. What is done with one counts as part of its step."""
        elapsed_us = self._stalls.elapsed_us
        begun_us = elapsed_us()
        for piece in Text(is_open_metrics=is_open_metrics).pieces(self._families()):
            yield piece
            spent_us = elapsed_us() - begun_us
            if spent_us >= STEP_US:
                if spent_us > self._stalls.limit_us:
                    self._stalls.note(SCRAPE, spent_us)
                await asyncio.sleep(PAUSE_S)
                begun_us = elapsed_us()

    def _families(self) -> Iterator[Family]:
        for source in self._sources:
            yield from source.read(self._now_ms())
