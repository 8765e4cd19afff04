"""A client's security out of Kafka's client properties: what of TLS and SASL, or neither.

A value, to be compared, hashed and sent to other processes; what it needs of files is read where it is used.
Who has no security loads nothing of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.client.security.names import PROTOCOL, SASL, TLS, check_names, is_security

if TYPE_CHECKING:
    from ottla.client.security.sasl_settings import Provider, SaslSettings
    from ottla.client.security.tls_settings import TlsSettings

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    tls: "TlsSettings | None" = None
    sasl: "SaslSettings | None" = None

    @property
    def protocol(self) -> str:
        return ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")


NO_SECURITY = ClientSecurity()


def client_security(properties: Mapping[str, str], provider: "Provider | None" = None) -> ClientSecurity:
    """Out of all properties of a client; those that are not about security are not looked at.

    `provider` gives tokens for OAUTHBEARER. ClientError: a property is unknown, not supported, or contradicts
    another.
    """
    given = {name: value for name, value in properties.items() if is_security(name)}
    check_names(given)
    protocol = given.get(PROTOCOL, "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise ClientError(f"{PROTOCOL} is one of {', '.join(PROTOCOLS)}, not {protocol!r:.40}")
    has_tls, has_sasl = uses(protocol)
    if not has_tls:
        _refuse_unused(given, TLS, protocol, "SSL or SASL_SSL")
    if not has_sasl:
        _refuse_unused(given, SASL, protocol, "SASL_SSL or SASL_PLAINTEXT")
        if provider is not None:
            raise ClientError(f"a function for tokens is for SASL, and {PROTOCOL} is {protocol}")
    return ClientSecurity(_tls(given) if has_tls else None, _sasl(given, provider) if has_sasl else None)


def _tls(given: Mapping[str, str]) -> "TlsSettings":
    from ottla.client.security.tls_settings import tls_settings

    return tls_settings(given)


def _sasl(given: Mapping[str, str], provider: "Provider | None") -> "SaslSettings":
    from ottla.client.security.sasl_settings import sasl_settings

    return sasl_settings(given, provider)


def uses(protocol: str) -> tuple[bool, bool]:
    """Whether it has TLS, and whether it has SASL."""
    return protocol.endswith("SSL"), protocol.startswith("SASL_")


def _refuse_unused(given: Mapping[str, str], names: frozenset[str], protocol: str, others: str) -> None:
    for name in given:
        if name in names and given[name].strip():
            how = f"{PROTOCOL} is {protocol}" if PROTOCOL in given else f"{PROTOCOL} is not given (PLAINTEXT)"
            raise ClientError(f"{name} has no effect, because {how}: it takes {others}")
