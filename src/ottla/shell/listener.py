"""Addresses: what to listen on, and what to tell clients."""

import os
import socket
from typing import NamedTuple

from ottla.base.config import ConfigError
from ottla.broker.config import BrokerConfig
from ottla.broker.listeners import Listener, advertised, listening
from ottla.shell.lock import StartError

ANYWHERE = {"", "0.0.0.0", "::"}  # noqa: S104


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def listen_address(config: BrokerConfig) -> Address:
    listener = _listener(config)
    return Address(listener.host, listener.port)


def cannot_listen(wanted: Address, error: OSError) -> StartError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return StartError(f"cannot listen on {wanted}: {reason}; choose another with --listen")


def _listener(config: BrokerConfig) -> Listener:
    try:
        listeners = listening(config)
    except ConfigError as error:
        raise StartError(str(error)) from None
    if len(listeners) != 1:
        raise StartError(f"listeners: one listener is served, not {config.listeners!r}")
    return listeners[0]


def advertised_address(config: BrokerConfig, bound: Address) -> Address:
    """What clients are told: as configured, else where we listen; a wildcard is no address to call."""
    told = _advertised(config)
    if told is None:
        return Address(_own_name(), bound.port) if bound.host in ANYWHERE else bound
    if told.host in ANYWHERE:
        raise StartError("advertised.listeners: clients need a host they can reach, not a wildcard")
    return Address(told.host, told.port or bound.port)


def _advertised(config: BrokerConfig) -> Listener | None:
    try:
        listeners = advertised(config)
    except ConfigError as error:
        raise StartError(str(error)) from None
    if len(listeners) > 1:
        listeners = [listener for listener in listeners if listener.name == _listener(config).name]
        if len(listeners) != 1:
            raise StartError(
                f"advertised.listeners: one listener is served, not {config.advertised_listeners!r}"
            )
    return listeners[0] if listeners else None


def _own_name() -> str:
    """This machine's name, if it leads anywhere."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "127.0.0.1"
    return name
