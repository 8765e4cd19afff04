"""Listeners as Kafka's keys name them: `NAME://HOST:PORT`, and which protocol a name stands for.

A name stands for what listener.security.protocol.map says, else for the protocol of that name. Those in
controller.listener.names are for KRaft's controllers: there are none here, and they are ignored.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from ottla.base.config import ConfigError
from ottla.broker.config import PROTOCOLS, BrokerConfig

PORT_MAX = 65_535
PLAINTEXT = PROTOCOLS[0]
_LISTENER = re.compile(
    r"(?:(?P<name>[A-Za-z0-9_.-]+)://)?(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[^:/\[\]]*)):(?P<port>\d+)\Z"
)


class Listener(NamedTuple):
    name: str
    protocol: str
    host: str
    port: int


def listening(config: BrokerConfig) -> list[Listener]:
    return _parsed("listeners", config.listeners, config)


def advertised(config: BrokerConfig) -> list[Listener]:
    return _parsed("advertised.listeners", config.advertised_listeners, config)


def settings_of(properties: Mapping[str, str], listener: str) -> dict[str, str]:
    """The properties as they hold for one listener: `listener.name.X.KEY` goes before KEY."""
    prefix = f"listener.name.{listener.lower()}."
    own = {
        name[len(prefix) :]: value for name, value in properties.items() if name.lower().startswith(prefix)
    }
    return {**properties, **own}


def _parsed(key: str, text: str, config: BrokerConfig) -> list[Listener]:
    parsed = [_listener(key, part.strip(), config) for part in text.split(",") if part.strip()]
    return [listener for listener in parsed if listener is not None]


def _listener(key: str, text: str, config: BrokerConfig) -> Listener | None:
    parts = _LISTENER.match(text)
    if not parts or int(parts["port"]) > PORT_MAX:
        raise ConfigError(f"{key}: {text!r} is not HOST:PORT or PLAINTEXT://HOST:PORT")
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
