"""Endpoints: where a broker listens, and the addresses that clients and other brokers are told."""

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Mapping

from ottla.base.addresses import Address
from ottla.broker.listeners import ANYWHERE, Listeners
from ottla.shell.lock import StartError


def cannot_listen(address: Address, error: OSError, option: str) -> StartError:
    is_of_name = isinstance(error, socket.gaierror)  # its numbers are others
    reason = error.strerror if is_of_name else os.strerror(error.errno) if error.errno else str(error)
    return StartError(f"cannot listen on {address}: {reason}; choose another with {option}")


async def start_listening(server: asyncio.Server) -> None:
    """Two may bind a port, and one of them can listen: the other hears nothing of it from uvloop."""
    with contextlib.ExitStack() as closing:
        bound = [socket.socket(fileno=os.dup(there.fileno())) for there in server.sockets]
        for there in bound:
            closing.enter_context(there)
        await server.start_serving()
        if not all(there.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) for there in bound):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


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
