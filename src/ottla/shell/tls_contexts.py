"""The contexts of all listeners with TLS: made at the start, and again when settings or files change.

Rules: a context is never changed. New connections get the newest, and those that are there keep theirs. What
cannot be read is said, and what was good before stays. Files are looked at in a worker thread, every few
seconds.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Mapping
from typing import NamedTuple

from ottla.base.config import ConfigError
from ottla.base.log_fields import fields
from ottla.broker.broker import Broker
from ottla.broker.listeners import LISTENER_PREFIX, Listener, settings_of
from ottla.security.tls_config import DYNAMIC, TlsConfig, load_tls
from ottla.shell.tls import client_context, server_context

log = logging.getLogger(__name__)

LOOK_MS = 3_000

Stamp = tuple[int, int, int] | None  # of a file: when it changed, its size, which one it is


class ListenerTls(NamedTuple):
    """What was made of one listener's settings and files. `client` is for connections to other brokers."""

    config: TlsConfig
    stamps: tuple[Stamp, ...]
    server: ssl.SSLContext
    client: ssl.SSLContext | None


def make_tls(config: TlsConfig, *, is_between_brokers: bool) -> ListenerTls:
    """ConfigError: it cannot be made."""
    stamps = _stamps(config)  # before the files are read: what changes meanwhile is seen the next time
    return ListenerTls(
        config, stamps, server_context(config), client_context(config) if is_between_brokers else None
    )


def _stamps(config: TlsConfig) -> tuple[Stamp, ...]:
    return tuple(_stamp(path) for path in (config.keystore_location, config.truststore_location) if path)


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


class TlsContexts:
    def __init__(self, broker: Broker) -> None:
        """ConfigError: a listener cannot be served so."""
        self._broker = broker
        broker.settings.check_tls = self.check
        self._listeners = [listener for listener in broker.listeners.bound if listener.has_tls]
        self._by_listener = {
            listener.name: self._make(listener, self._settings(listener)) for listener in self._listeners
        }
        self._looked_ms = 0
        self._revision = -1
        self._looking: asyncio.Future[dict[str, ListenerTls | ConfigError]] | None = None
        self._said: dict[str, str] = {}

    def of(self, listener: str) -> ListenerTls:
        return self._by_listener[listener]

    @property
    def client(self) -> ssl.SSLContext | None:
        """For connections to other brokers; None where these are in plain text."""
        made = self._by_listener.get(self._broker.listeners.inter_broker)
        return made.client if made else None

    def check(self, configs: Mapping[str, str]) -> None:
        """ConfigError: with these configs of this broker, a listener could not be served."""
        for listener in self._listeners:
            if load_tls(self._settings(listener, configs)) != self._by_listener[listener.name].config:
                self._make(listener, self._settings(listener, configs))

    def _settings(self, listener: Listener, configs: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """Of those that are set while the broker runs, the listener's own count, as in Kafka, and of these
        the ones that may be: whoever may alter configs must not choose who a certificate stands for."""
        own, _everybodys, file = self._broker.settings.layers()
        prefix = f"{LISTENER_PREFIX}{listener.name.lower()}."
        dynamic = {
            name: value
            for name, value in (own if configs is None else configs).items()
            if name.lower().startswith(prefix) and name[len(prefix) :] in DYNAMIC
        }
        return settings_of(file | dynamic, listener.name)

    def _make(self, listener: Listener, settings: Mapping[str, str]) -> ListenerTls:
        try:
            return make_tls(load_tls(settings), is_between_brokers=self._is_between_brokers(listener))
        except ConfigError as error:
            raise ConfigError(f"listener {listener.name}: {error}") from None

    def _is_between_brokers(self, listener: Listener) -> bool:
        return listener.name == self._broker.listeners.inter_broker

    # -- changes --

    def on_tick(self, now_ms: int) -> None:
        revision = self._broker.image.revision
        if self._looking is not None or (now_ms - self._looked_ms < LOOK_MS and revision == self._revision):
            return
        self._looked_ms, self._revision = now_ms, revision
        settings = {listener: self._settings(listener) for listener in self._listeners}
        loop = asyncio.get_running_loop()
        self._looking = loop.run_in_executor(None, self._look, settings)
        self._looking.add_done_callback(self._take)

    def _look(self, settings: Mapping[Listener, Mapping[str, str]]) -> dict[str, ListenerTls | ConfigError]:
        """In a worker thread: what has changed."""
        changed: dict[str, ListenerTls | ConfigError] = {}
        for listener, given in settings.items():
            made = self._by_listener[listener.name]
            try:
                config = load_tls(given)
                if (config, _stamps(config)) != (made.config, made.stamps):
                    changed[listener.name] = self._make(listener, given)
            except ConfigError as error:
                changed[listener.name] = error
        return changed

    def _take(self, looked: "asyncio.Future[dict[str, ListenerTls | ConfigError]]") -> None:
        self._looking = None
        if looked.cancelled():
            return
        for name, result in looked.result().items():
            if isinstance(result, ListenerTls):
                self._by_listener[name] = result
                self._said.pop(name, None)
                log.info(
                    "listener %s: new connections get the certificates that were changed", name,
                    extra=fields(listener=name),
                )  # fmt: skip
            elif self._said.get(name) != str(result):
                self._said[name] = str(result)
                log.error(
                    "%s; listener %s goes on with what it had", result, name, extra=fields(listener=name)
                )

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
