"""Ports on loopback for the servers that tests start."""

import secrets
import socket

PORTS = range(10_000, 32_000)  # below those that the kernel gives to connections


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now, and that only somebody who names them can take before we do."""
    sockets: list[socket.socket] = []
    try:
        while len(sockets) < count:
            one = socket.socket()
            sockets.append(one)
            try:
                one.bind(("127.0.0.1", secrets.choice(PORTS)))
            except OSError:
                sockets.pop().close()
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
