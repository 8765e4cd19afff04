"""Settings that ask for security. There is none here yet, so a broker that is asked for it does not start: it
would be open to whoever reaches it, and its operator would think that it is not.

Empty values, `none`, `false` and 0 ask for nothing.
"""

import re
from collections.abc import Mapping

from ottla.base.config import ConfigError, load
from ottla.broker.listeners import PLAINTEXT, listeners_of
from ottla.broker.zookeeper_config import ZooKeeperConfig, check_zookeeper

KEYS = frozenset({
    "authorizer.class.name", "connections.max.reauth.ms", "delegation.token.master.key",
    "delegation.token.secret.key", "password.encoder.old.secret", "password.encoder.secret",
    "principal.builder.class", "security.providers", "super.users",
    "zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable",
})  # fmt: skip
PREFIXES = ("ssl.", "sasl.")
# With these, it is another value that asks for nothing.
OPEN = {"allow.everyone.if.no.acl.found": "true"}
NOTHING = frozenset({"", "none", "false", "0"})
# One listener's own setting, perhaps for one SASL mechanism.
_OF_A_LISTENER = re.compile(r"listener\.name\.[^.]+\.(?:[^.]+\.(?=sasl\.))?")


def is_security_key(name: str) -> bool:
    key = _OF_A_LISTENER.sub("", name, count=1)
    return key in KEYS or key in OPEN or key.startswith(PREFIXES)


def asks_for_security(name: str, value: str) -> bool:
    if not is_security_key(name):
        return False
    given = value.strip().lower()
    return given != OPEN[name] if name in OPEN else given not in NOTHING


def check_security(properties: Mapping[str, str]) -> None:
    """Refuse properties that ask for security. The line has no values: there may be passwords among them."""
    check_zookeeper(load(ZooKeeperConfig, properties))
    asking = [name for name, value in properties.items() if asks_for_security(name, value)]
    if any(listener.protocol != PLAINTEXT for listener in listeners_of(properties).bound):
        asking.append("listeners")
    if asking:
        raise ConfigError(
            f"{', '.join(asking)}: TLS, SASL and access control are not there yet, and this broker would be "
            "open to everybody; to start it so, remove these settings and keep it in a trusted network"
        )
