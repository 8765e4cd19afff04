"""Endpoints: the addresses that clients and other brokers are told."""

import os
import socket
from collections.abc import Mapping

from ottla.base.addresses import Address
from ottla.broker.listeners import ANYWHERE, Listener, Listeners
from ottla.shell.lock import StartError


def cannot_listen(wanted: Listener, error: OSError) -> StartError:
    where = Address(wanted.host, wanted.port)
    return StartError(f"cannot listen on {where}: {why(error)}; choose another with --listen")


def why(error: OSError) -> str:
    """In a few words. That a name has no address has a number of another kind."""
    number = error.errno or 0
    return os.strerror(number) if number > 0 else error.strerror or str(error)


def advertised_endpoints(listeners: Listeners, ports: Mapping[str, int]) -> dict[str, Address]:
    """What others are told, by the name of the listener: as configured, else where we listen; a wildcard is
    no address to call. `ports` are those that each listener got."""
    endpoints = {}
    for listener in listeners.advertised or listeners.bound:
        host = _own_name() if listener.host in ANYWHERE else listener.host
        port = ports[listener.name] if not (listeners.advertised and listener.port) else listener.port
        endpoints[listener.name] = Address(host, port)
    return endpoints


def _own_name() -> str:
    """This machine's name, if it leads anywhere."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "127.0.0.1"
    return name
