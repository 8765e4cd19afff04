"""Reads all metrics of a broker on its own loop, in small steps, so that nobody waits for it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from ottla.base.metrics import Family, Source
from ottla.shell.core import Core
from ottla.shell.metrics.sources import sources_of
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
        stalls, elapsed_us = self._stalls, self._stalls.elapsed_us
        begun_us = step_us = elapsed_us()
        for piece in Text(is_open_metrics=is_open_metrics).pieces(self._families()):
            made_us = elapsed_us() - begun_us
            if made_us > stalls.limit_us:
                stalls.note(SCRAPE, made_us)
            yield piece
            begun_us = elapsed_us()
            if begun_us - step_us >= STEP_US:
                await asyncio.sleep(PAUSE_S)
                begun_us = step_us = elapsed_us()

    def _families(self) -> Iterator[Family]:
        for source in self._sources:
            yield from source.read(self._now_ms())


def reader_of(core: Core) -> Reader:
    """Of all metrics there are, for one reading."""
    return Reader(sources_of(core), core.now_ms, core.stalls)
