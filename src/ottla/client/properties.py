"""A cluster as a client's properties describe it: addresses, security, and the rest, which is for librdkafka.

Properties come in layers: an option, a file, the environment. What a layer says wins over those below, and a
`security.protocol` leaves out what lower ones say about TLS or SASL if it has none: that was for another
protocol.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ottla.client.registry_settings import is_registry
from ottla.client.security.names import PROTOCOL, is_security
from ottla.client.security.settings import NO_SECURITY, ClientSecurity, client_security, uses

if TYPE_CHECKING:
    from ottla.client.security.sasl_settings import Provider

SERVERS = "bootstrap.servers"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


@dataclass(frozen=True, slots=True)
class ClientProperties:
    bootstrap: str
    security: ClientSecurity = NO_SECURITY
    given: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # all of them

    @classmethod
    def of(cls, where: "Where") -> "ClientProperties":
        return cls(where) if isinstance(where, str) else where

    @property
    def others(self) -> dict[str, str]:
        """Those that are neither an address nor about security, and not for a schema registry."""
        return {
            name: value
            for name, value in self.given
            if name != SERVERS and not is_security(name) and not is_registry(name)
        }

    @property
    def client_id(self) -> str | None:
        return self.others.get("client.id")


# The addresses of a cluster without security are enough of a description.
Where: TypeAlias = str | ClientProperties


def client_properties(
    properties: Mapping[str, str], default: str = "", provider: "Provider | None" = None
) -> ClientProperties:
    """`default` are the addresses if the properties have none. ClientError: one of them is wrong."""
    return ClientProperties(
        properties.get(SERVERS, "").strip() or default,
        client_security(properties, provider),
        tuple(sorted(properties.items())),
    )


def layered(*layers: Mapping[str, str]) -> dict[str, str]:
    """All of them, the first above the others."""
    properties: dict[str, str] = {}
    for layer in reversed(layers):
        if PROTOCOL in layer:
            has_tls, has_sasl = uses(layer[PROTOCOL].strip().upper())
            unused = [
                *(() if has_tls else ("ssl.", "enable.ssl.")),
                *(() if has_sasl else ("sasl.", "https.")),
            ]
            properties = {
                name: value for name, value in properties.items() if not name.startswith(tuple(unused))
            }
        properties |= layer
    return properties
