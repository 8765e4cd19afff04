"""A bare HTTP client for tests of what a broker shows over HTTP: it sends whatever it is told to."""

import http.client
import json
import socket
from dataclasses import dataclass
from typing import Any

WITHIN_S = 30.0


@dataclass(frozen=True)
class Page:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def get(address: str, path: str, method: str = "GET", **headers: str) -> Page:
    """A well-formed request on a connection of its own. The address is HOST:PORT."""
    connection = http.client.HTTPConnection(address, timeout=WITHIN_S)
    try:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=given)
        response = connection.getresponse()
        return Page(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


def answers(address: str, sent: bytes, *, closes: bool = False) -> bytes:
    """Everything that is answered to these bytes, until the other side closes. `closes`: ours goes first."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=WITHIN_S) as channel:
        channel.sendall(sent)
        if closes:
            channel.shutdown(socket.SHUT_WR)
        return _read_all(channel)


def _read_all(channel: socket.socket) -> bytes:
    pieces = []
    try:
        while piece := channel.recv(65_536):
            pieces.append(piece)
    except ConnectionResetError:  # it was closed with something of ours unread
        pass
    return b"".join(pieces)
