"""Reads all metrics of a broker on its own loop, in small steps, so that nobody waits for it."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence

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
        pieces, begun_s = [], time.monotonic()
        for piece in Text().pieces(self._families()):
            pieces.append(piece)
            if time.monotonic() - begun_s >= STEP_S:
                await asyncio.sleep(PAUSE_S)
                begun_s = time.monotonic()
        return "".join(pieces)

    def _families(self) -> Iterator[Family]:
        for source in self._sources:
            yield from source.read(self._now_ms())
