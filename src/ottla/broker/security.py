"""Settings that ask for security. There is none here yet, so a broker that is asked for it does not start: it
would be open to whoever reaches it, and its operator would think that it is not.

Empty values, `none`, `false` and 0 ask for nothing.
"""

import re
from collections.abc import Mapping

from ottla.base.config import ConfigError, load
from ottla.broker.config import BrokerConfig
from ottla.broker.listeners import PLAINTEXT, advertised, listening
from ottla.security.authorizer_config import AUTHORIZERS, AuthorizerConfig

KEYS = frozenset({
    "connections.max.reauth.ms", "delegation.token.master.key",
    "delegation.token.secret.key", "password.encoder.old.secret", "password.encoder.secret",
    "principal.builder.class", "security.providers", "zookeeper.set.acl",
})  # fmt: skip
PREFIXES = ("ssl.", "sasl.", "zookeeper.ssl.")
# With these, it is another value that asks for nothing.
OPEN = {"security.inter.broker.protocol": "plaintext"}
EVERYONE = "allow.everyone.if.no.acl.found"
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
    authorizer = load(AuthorizerConfig, properties)
    if not authorizer.class_name and (authorizer.super_users or properties.get(EVERYONE, "true") != "true"):
        raise ConfigError(
            f"super.users, {EVERYONE}: nobody would heed them, since everybody may do everything without "
            f"an authorizer; set authorizer.class.name={AUTHORIZERS[0]}, or remove them"
        )
    asking = [name for name, value in properties.items() if asks_for_security(name, value)]
    config = load(BrokerConfig, properties)
    for key, listeners in (("listeners", listening(config)), ("advertised.listeners", advertised(config))):
        if any(listener.protocol != PLAINTEXT for listener in listeners):
            asking.append(key)
    if asking:
        raise ConfigError(
            f"{', '.join(asking)}: TLS, SASL and access control are not there yet, and this broker would be "
            "open to everybody; to start it so, remove these settings and keep it in a trusted network"
        )
