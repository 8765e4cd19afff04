"""Where a schema registry is and how to log in there: confluent-kafka's settings out of client properties.

Properties of the registry are called `schema.registry.X`, as Java's clients call them; what is about logging
in may also come without that prefix. Nothing of how the cluster is reached goes to the registry unasked: its
TLS and its passwords are its own.
"""

from collections.abc import Mapping
from typing import Any

from ottla.client.errors import ClientError

PREFIX = "schema.registry."
BARE = ("basic.auth.", "bearer.auth.")
URL = "url"

TIMEOUT_S = 5.0
RETRIES = 1

_TEXTS = frozenset(
    [
        "url",
        "basic.auth.user.info",
        "proxy",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "bearer.auth.token",
        "bearer.auth.logical.cluster",
        "bearer.auth.identity.pool.id",
        "bearer.auth.credentials.source",
        "bearer.auth.issuer.endpoint.url",
        "bearer.auth.client.id",
        "bearer.auth.client.secret",
        "bearer.auth.scope",
    ]
)
_NUMBERS = frozenset(["timeout", "max.retries", "retries.wait.ms", "retries.max.wait.ms", "cache.capacity"])
# What Java's clients say, and what that is here.
_SYNONYMS = {
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.keystore.location": "ssl.certificate.location",
    "ssl.keystore.password": "ssl.key.password",
    "ssl.endpoint.identification.algorithm": "",
    "ssl.truststore.type": "",
    "ssl.keystore.type": "",
    "basic.auth.credentials.source": "",
}


def is_registry(name: str) -> bool:
    """Whether a property is about the registry, and nothing for a client of a cluster."""
    return name.startswith((PREFIX, *BARE))


def registry_url(properties: Mapping[str, str]) -> str | None:
    return properties.get(PREFIX + URL, "").strip() or None


def registry_settings(url: str | None, properties: Mapping[str, str]) -> dict[str, Any]:
    """`url` is over the one in the properties."""
    settings: dict[str, Any] = {"timeout": TIMEOUT_S, "max.retries": RETRIES}
    for name, value in properties.items():
        if is_registry(name):
            settings |= _setting(name, value.strip())
    settings |= {URL: url} if url else {}
    where = settings.get(URL)
    if not where:
        raise ClientError(f"no schema registry is named: give its URL, or set {PREFIX}{URL}")
    if not str(where).startswith(("http://", "https://", "mock://")):
        raise ClientError(f"a schema registry has a URL such as http://localhost:8081, not {where!r}")
    return settings


def _setting(given: str, value: str) -> dict[str, Any]:
    name = given.removeprefix(PREFIX)
    if name in ("ssl.truststore.location", "ssl.keystore.location") and value.endswith((".jks", ".p12")):
        raise ClientError(f"{given}: the registry's certificates are read from PEM files, not from {value}")
    name = _SYNONYMS.get(name, name)
    if not name:
        return {}
    if name in _NUMBERS:
        try:
            return {name: float(value) if name == "timeout" else int(value)}
        except ValueError:
            raise ClientError(f"{given} is a number, not {value!r}") from None
    if name not in _TEXTS:
        raise ClientError(f"{given} is not known; there are {', '.join(sorted(_TEXTS | _NUMBERS))}")
    return {name: value}
