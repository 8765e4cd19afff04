"""HTTP of one broker, from its start to its end."""

from collections.abc import AsyncIterator

from ottla.base.addresses import Address
from ottla.shell.clients import Clients
from ottla.shell.core import Core
from ottla.shell.http.listener import HttpListener
from ottla.shell.http.pages import Pages
from ottla.shell.http.scrapes import Scrapes
from ottla.shell.keeper_session import KeeperSession
from ottla.shell.metrics.reader import Reader
from ottla.shell.metrics.sources import sources_of


class HttpService:
    def __init__(self, core: Core, clients: Clients) -> None:
        self.session: KeeperSession | None = None  # None: it has said nothing yet
        self._core = core
        self._clients = clients
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
        reader = Reader(sources_of(self._core, self._clients), self._core.now_ms, self._core.stalls)
        return reader.pieces(is_open_metrics=is_open_metrics)

    def _keeper(self) -> str:
        if self.session is None:
            return "unknown"
        return "away" if self.session.is_suspended else "connected"
