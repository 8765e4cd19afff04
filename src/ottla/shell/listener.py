"""Addresses: what to listen on, and what to tell clients."""

import re
import socket
from typing import NamedTuple

from ottla.broker.config import BrokerConfig
from ottla.shell.lock import StartError

_LISTENER = re.compile(
    r"(?:(?P<name>[A-Za-z0-9_]+)://)?(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[^:/\[\]]*)):(?P<port>\d+)\Z"
)
ANYWHERE = {"", "0.0.0.0", "::"}  # noqa: S104


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, key: str) -> Address:
    found = _LISTENER.match(text.strip())
    if not found or int(found["port"]) > 65_535:
        raise StartError(f"{key}: {text!r} is not HOST:PORT or PLAINTEXT://HOST:PORT")
    if (found["name"] or "PLAINTEXT").upper() != "PLAINTEXT":
        raise StartError(f"{key}: {found['name']} is not served yet; use PLAINTEXT")
    return Address(found["v6"] or found["host"], int(found["port"]))


def listen_address(config: BrokerConfig) -> Address:
    """KRaft's files name a listener for controllers, which there are none of here: it is passed over."""
    named = [text.strip() for text in config.listeners.split(",")]
    given = [text for text in named if not text.upper().startswith("CONTROLLER:")]
    if len(given) != 1:
        raise StartError(f"listeners: one listener is served, not {config.listeners!r}")
    return parse_address(given[0], "listeners")


def advertised_address(config: BrokerConfig, bound: Address) -> Address:
    """What clients are told: as configured, else where we listen; a wildcard is no address to call."""
    if config.advertised_listeners:
        given = parse_address(config.advertised_listeners, "advertised.listeners")
        if given.host in ANYWHERE:
            raise StartError("advertised.listeners: clients need a host they can reach, not a wildcard")
        return given if given.port else Address(given.host, bound.port)
    return Address(_own_name(), bound.port) if bound.host in ANYWHERE else bound


def _own_name() -> str:
    """This machine's name, if it leads anywhere."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "127.0.0.1"
    return name
