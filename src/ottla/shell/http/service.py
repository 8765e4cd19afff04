"""HTTP of one broker, from its start to its end."""

from collections.abc import AsyncIterator

from ottla.base.addresses import Address
from ottla.shell.core import Core
from ottla.shell.http.listener import HttpListener
from ottla.shell.http.pages import Pages
from ottla.shell.http.scrapes import Scrapes
from ottla.shell.metrics.reader import reader_of


class HttpService:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._scrapes = Scrapes(self._pieces, lambda: self._listener.unsent_bytes)
        pages = Pages(core.broker.readiness, self._scrapes, self._keeper)
        self._listener = HttpListener(pages.answer)

    async def listen(self, address: Address) -> Address:
        """The address that it came to be."""
        return await self._listener.listen(address)

    def close(self) -> None:
        self._listener.close()
        self._scrapes.close()

    def _pieces(self, is_open_metrics: bool) -> AsyncIterator[str]:
        return reader_of(self._core).pieces(is_open_metrics=is_open_metrics)

    def _keeper(self) -> str:
        counts = self._core.keeper_counts
        if not counts.connects:
            return "unknown"
        return "connected" if counts.is_connected else "away"
