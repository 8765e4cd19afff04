"""What is set for SASL on a listener and for a mechanism, and whether a listener can be served so."""

from collections.abc import Mapping

from ottla.base.config import ConfigError, load, overlaid
from ottla.security.jaas import MODULES, JaasError, LoginModule, parse
from ottla.security.oauth_config import OAuthConfig
from ottla.security.sasl import oauthbearer, plain
from ottla.security.sasl_config import ENABLED_KEY, GSSAPI, INTER_BROKER_KEY, JAAS_KEY, SUPPORTED, SaslConfig


def of_mechanism(settings: Mapping[str, str], mechanism: str) -> SaslConfig:
    """The keys as they hold for one mechanism. `settings` are those of a listener."""
    # A JAAS line is always one mechanism's.
    rest = {name: value for name, value in settings.items() if name != JAAS_KEY}
    return load(SaslConfig, overlaid(rest, f"{mechanism.lower()}."))


def jaas_key(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{JAAS_KEY}"


def jaas_options(config: SaslConfig, listener: str, mechanism: str) -> Mapping[str, str]:
    """The options of its JAAS line; none if there is no line. ConfigError: it is not of this mechanism."""
    if not config.jaas.strip():
        return {}
    where = jaas_key(listener, mechanism)
    try:
        line = parse(config.jaas)
    except JaasError as error:
        raise ConfigError(f"{where}: {error}") from None
    if line.module is not MODULES[mechanism]:
        raise ConfigError(f"{where}: {mechanism} needs {MODULES[mechanism].value}")
    return line.options


def check_listener(settings: Mapping[str, str], listener: str, *, is_between_brokers: bool) -> None:
    """ConfigError: a listener with SASL cannot be served so."""
    config = load(SaslConfig, settings)
    remedy = f"set {ENABLED_KEY} to some of {', '.join(SUPPORTED)}"
    if not config.enabled_mechanisms:
        raise ConfigError(f"{ENABLED_KEY}: the listener {listener} has SASL and no mechanism; {remedy}")
    if GSSAPI in config.enabled_mechanisms:
        said = "" if ENABLED_KEY in settings else ", which is meant when nothing is said"
        raise ConfigError(f"{ENABLED_KEY}: {listener} has GSSAPI{said}, and it is not there; {remedy}")
    between = config.inter_broker_mechanism
    if is_between_brokers and INTER_BROKER_KEY in settings and between not in config.enabled_mechanisms:
        raise ConfigError(
            f"{INTER_BROKER_KEY}: {between!r} is not among the mechanisms of {listener}, over which brokers "
            f"talk to each other; add it to {ENABLED_KEY}, or choose another"
        )
    for mechanism in config.enabled_mechanisms:
        if mechanism not in SUPPORTED:
            raise ConfigError(f"{ENABLED_KEY}: {listener} has {mechanism!r}, which is not there; {remedy}")
        own = of_mechanism(settings, mechanism)
        options = jaas_options(own, listener, mechanism)
        if mechanism == oauthbearer.NAME:
            OAuthConfig.of_listener(settings)
        if mechanism == plain.NAME and not options:
            raise ConfigError(
                f"{jaas_key(listener, mechanism)}: PLAIN needs its users; set it to: "
                f'{LoginModule.PLAIN.value} required user_NAME="...";'
            )
