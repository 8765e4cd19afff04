"""Settings that ask for security. What of it is not honoured ends the start: the broker would be open to
whoever reaches it, and its operator would think that it is not.

Empty values, `none`, `false` and 0 ask for nothing.
"""

import re
from collections.abc import Mapping

from ottla.base.config import ConfigError, load, rows
from ottla.broker.listeners import Listeners, listeners_of, settings_of
from ottla.broker.zookeeper_config import ZooKeeperConfig, check_zookeeper
from ottla.security.authorizer_config import AUTHORIZERS, AuthorizerConfig
from ottla.security.oauth_config import OAuthConfig
from ottla.security.sasl_config import JAAS_KEY, SaslConfig
from ottla.security.tls_config import TlsConfig

KEYS = frozenset({
    "delegation.token.master.key",
    "delegation.token.secret.key", "password.encoder.old.secret", "password.encoder.secret",
    "principal.builder.class", "security.providers", "ssl.engine.factory.class",
    "zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable",
})  # fmt: skip
PREFIXES = ("sasl.",)
EVERYONE = "allow.everyone.if.no.acl.found"
NOTHING = frozenset({"", "none", "false", "0"})
HONOURED = frozenset(row.name for config in (SaslConfig, OAuthConfig, TlsConfig) for row in rows(config))
# One listener's own setting, perhaps for one SASL mechanism.
_OF_A_LISTENER = re.compile(
    r"listener\.name\.(?P<listener>[^.]+)\.(?P<mechanism>[^.]+\.(?=sasl\.|connections\.max\.reauth\.ms\Z))?",
    re.IGNORECASE,
)


def is_honoured(name: str) -> bool:
    """Is it a setting of security that a start takes up, for all listeners, for one, or for a mechanism?"""
    return _OF_A_LISTENER.sub("", name, count=1) in HONOURED


def is_security_key(name: str) -> bool:
    """Is it a setting of security that nothing takes up?"""
    key = _OF_A_LISTENER.sub("", name, count=1)
    return key not in HONOURED and (key in KEYS or key.startswith(PREFIXES))


def asks_for_security(name: str, value: str) -> bool:
    return is_security_key(name) and value.strip().lower() not in NOTHING


def check_security(properties: Mapping[str, str]) -> None:
    """ConfigError: they ask for security that is not there, or that cannot be as they say. The line has no
    values: there may be passwords among them."""
    check_zookeeper(load(ZooKeeperConfig, properties))
    authorizer = load(AuthorizerConfig, properties)
    if not authorizer.class_name and (authorizer.super_users or properties.get(EVERYONE, "true") != "true"):
        raise ConfigError(
            f"super.users, {EVERYONE}: nobody would heed them, since everybody may do everything without "
            f"an authorizer; set authorizer.class.name={AUTHORIZERS[0]}, or remove them"
        )
    asking = [name for name, value in properties.items() if asks_for_security(name, value)]
    listeners = listeners_of(properties)
    if asking:
        raise ConfigError(
            f"{', '.join(asking)}: this kind of security is not there, and the broker would be less "
            f"protected than you think; to start it so, remove these settings{_meant(asking)}"
        )
    _check_sasl(properties, listeners)


def _meant(names: list[str]) -> str:
    import difflib  # late: hardly anybody pays for it

    near = [honoured for name in names for honoured in difflib.get_close_matches(name, HONOURED, 1, 0.9)]
    return f" (did you mean {' and '.join(near)}?)" if near else ""


def _check_sasl(properties: Mapping[str, str], listeners: Listeners) -> None:
    without = {listener.name for listener in listeners.bound if not listener.has_sasl}
    for name in properties:
        parts = _OF_A_LISTENER.match(name)
        if not name.endswith(JAAS_KEY):
            continue
        if not (parts and parts["mechanism"]):
            raise ConfigError(
                f"{name}: a JAAS line is one mechanism's; set it as listener.name.X.MECHANISM.{JAAS_KEY}"
            )
        if parts["listener"].upper() in without:
            raise ConfigError(
                f"{name}: this listener has no SASL, and would let in everybody; make it SASL_SSL in "
                "listener.security.protocol.map, or remove this setting"
            )
    for listener in listeners.bound:
        if listener.has_sasl:
            from ottla.security.sasl.settings import check_listener  # many brokers have no SASL

            is_between_brokers = listener.name == listeners.inter_broker
            settings = settings_of(properties, listener.name)
            check_listener(settings, listener.name, is_between_brokers=is_between_brokers)
