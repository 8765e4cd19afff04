"""Listeners as Kafka's keys name them: `NAME://HOST:PORT`, and which protocol a name stands for.

A name stands for what listener.security.protocol.map says, else for the protocol of that name. Those in
controller.listener.names are for KRaft's controllers: there are none here, and they are ignored.

Clients are told the advertised address of the listener that they came in by. Brokers talk to each other over
one of them, `inter_broker`: the one in inter.broker.listener.name, else the one that is called like
security.inter.broker.protocol. Unlike in Kafka, where neither is given and there is a single listener, that
is the one.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.base.config import ConfigError, load, overlaid
from ottla.broker.config import PROTOCOLS, BrokerConfig

PORT_MAX = 65_535
LISTENER_PREFIX = "listener.name."
PLAINTEXT, SSL = PROTOCOLS[:2]
ANYWHERE = {"", "0.0.0.0", "::"}  # noqa: S104
_LISTENER = re.compile(
    r"(?:(?P<name>[A-Za-z0-9_.-]+)://)?(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[^:/\[\]]*)):(?P<port>\d+)\Z"
)
PROTOCOL_KEY, NAME_KEY = "security.inter.broker.protocol", "inter.broker.listener.name"


class Listener(NamedTuple):
    name: str
    protocol: str
    host: str
    port: int

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")


class Listeners(NamedTuple):
    """`advertised` is empty where nothing is said of it: then all are, as they are bound."""

    bound: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    inter_broker: str

    @property
    def names(self) -> list[str]:
        """Of those that others are told of."""
        return [listener.name for listener in self.advertised or self.bound]

    def is_only_for_brokers(self, name: str) -> bool:
        """Is this theirs, and is there another for clients?"""
        return name == self.inter_broker and len(self.bound) > 1

    @property
    def between_brokers(self) -> Listener:
        return next(listener for listener in self.bound if listener.name == self.inter_broker)


def listeners_of(properties: Mapping[str, str]) -> Listeners:
    """ConfigError: no broker can listen so."""
    config = load(BrokerConfig, properties)
    bound = _parsed("listeners", config.listeners, config)
    advertised = _parsed("advertised.listeners", config.advertised_listeners, config)
    if not bound:
        raise ConfigError(f"listeners: there is no listener for clients in {config.listeners!r}")
    _check_names("listeners", bound)
    _check_ports(bound)
    _check_names("advertised.listeners", advertised)
    names = [listener.name for listener in bound]
    for listener in advertised:
        if listener.name not in names:
            raise ConfigError(
                f"advertised.listeners: {listener.name} is not one of listeners, which has {', '.join(names)}"
            )
        if listener.host in ANYWHERE:
            raise ConfigError("advertised.listeners: clients need a host they can reach, not a wildcard")
    listeners = Listeners(bound, advertised, "")
    return listeners._replace(inter_broker=_inter_broker(properties, config, listeners.names))


def _inter_broker(properties: Mapping[str, str], config: BrokerConfig, names: list[str]) -> str:
    named, protocol = config.inter_broker_listener_name.upper(), config.inter_broker_protocol.upper()
    if named and PROTOCOL_KEY in properties:
        raise ConfigError(f"{NAME_KEY}: it and {PROTOCOL_KEY} say the same thing; leave out one of them")
    if not named and PROTOCOL_KEY not in properties and len(names) == 1:
        return names[0]
    wanted = named or protocol
    if wanted not in names:
        key = PROTOCOL_KEY if PROTOCOL_KEY in properties else NAME_KEY
        raise ConfigError(
            f"{key}: brokers cannot talk to each other over {wanted}; it has to be one of the listeners that "
            f"are advertised: {', '.join(names)}"
        )
    return wanted


def listeners_named(properties: Mapping[str, str]) -> set[str]:
    """The listeners that have settings of their own, in lower case."""
    return {name.split(".")[2].lower() for name in properties if name.lower().startswith(LISTENER_PREFIX)}


def settings_of(properties: Mapping[str, str], listener: str) -> dict[str, str]:
    """The properties as they hold for one listener: `listener.name.X.KEY` goes before KEY."""
    return overlaid(properties, f"{LISTENER_PREFIX}{listener.lower()}.")


def _check_names(key: str, listeners: Iterable[Listener]) -> None:
    name, count = (Counter(listener.name for listener in listeners).most_common(1) or [("", 0)])[0]
    if count > 1:
        raise ConfigError(
            f"{key}: {name} is there {count} times; each listener needs a name of its own, which "
            "listener.security.protocol.map gives a protocol"
        )


def _check_ports(listeners: Iterable[Listener]) -> None:
    """A port may be taken twice by an IPv4 and an IPv6 address. The system chooses different ones for 0."""
    hosts: dict[int, list[str]] = {}
    for listener in listeners:
        if listener.port:
            hosts.setdefault(listener.port, []).append(listener.host)
    for port, sharing in hosts.items():
        families = {6 if ":" in host else 4 if host.replace(".", "").isdecimal() else 0 for host in sharing}
        if len(sharing) > 1 and (len(sharing) > 2 or families != {4, 6}):
            raise ConfigError(
                f"listeners: {len(sharing)} listeners have port {port}; each needs a port of its own, unless "
                "one has an IPv4 address and the other an IPv6 address"
            )


def _parsed(key: str, text: str, config: BrokerConfig) -> tuple[Listener, ...]:
    parsed = [_listener(key, part.strip(), config) for part in text.split(",") if part.strip()]
    return tuple(listener for listener in parsed if listener is not None)


def _listener(key: str, text: str, config: BrokerConfig) -> Listener | None:
    parts = _LISTENER.match(text)
    if not parts or int(parts["port"]) > PORT_MAX:
        raise ConfigError(f"{key}: {text!r} is not HOST:PORT or NAME://HOST:PORT")
    name = (parts["name"] or PLAINTEXT).upper()
    if name in {controllers.upper() for controllers in config.controller_listener_names}:
        return None
    mapped = dict(pair.upper().split(":", 1) for pair in config.listener_protocols)
    protocol = mapped.get(name, name)
    if protocol not in PROTOCOLS:
        raise ConfigError(
            f"{key}: no protocol is known for {name}; map it in listener.security.protocol.map, "
            "or name it in controller.listener.names if it is for controllers"
        )
    return Listener(name, protocol, parts["v6"] or parts["host"], int(parts["port"]))
