"""A console with a port: uvicorn around the application, in this thread or in one of its own.

The socket is bound before anything is served, so that whoever starts a console knows at once where it is, or
why it cannot be there.
"""

import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import replace

import uvicorn

from ottla.base.addresses import Address
from ottla.base.command_error import CommandError
from ottla.console.app import console_app
from ottla.console.settings import ConsoleSettings

log = logging.getLogger(__name__)
STOP_S = 5
BACKLOG = 128


def bound(host: str, port: int) -> socket.socket:
    """A listening socket. CommandError: somebody else has the port, or the host is not ours."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise CommandError(f"the console cannot listen at {host}: {error.strerror or error}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise CommandError(
            f"the console cannot listen at {Address(host.strip('[]'), port)}: {error.strerror}; "
            "--port takes another"
        ) from None
    return listener


class ConsoleServer:
    """`serve` blocks until a signal or `stop`."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._listener = bound(settings.host, settings.port)
        self.settings = replace(settings, port=self._listener.getsockname()[1])
        config = uvicorn.Config(
            console_app(self.settings),
            access_log=False,
            log_config=None,
            lifespan="on",
            server_header=False,
            proxy_headers=bool(settings.origin),  # who comes through a proxy is not the proxy
            timeout_graceful_shutdown=STOP_S,
            ws="none",
        )
        self._server = uvicorn.Server(config)

    @property
    def url(self) -> str:
        host = self.settings.host.strip("[]")
        shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
        return self.settings.origin or f"http://{Address(shown, self.settings.port)}"

    @property
    def login_url(self) -> str:
        """With the token behind the #, which browsers keep to themselves."""
        return f"{self.url}/login#{self.settings.token}" if self.settings.token else self.url

    def serve(self, on_ready: Callable[[], None] = lambda: None) -> None:
        with self._listener:
            on_ready()
            self._server.run(sockets=[self._listener])

    def stop(self) -> None:
        self._server.should_exit = True


class ConsoleThread:
    """A console beside a test, in this process."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self.server = ConsoleServer(settings)
        self._thread = threading.Thread(target=self.server.serve, name="ottla-console", daemon=True)

    def __enter__(self) -> ConsoleServer:
        self._thread.start()
        return self.server

    def __exit__(self, *_: object) -> None:
        self.server.stop()
        self._thread.join(STOP_S * 4)
