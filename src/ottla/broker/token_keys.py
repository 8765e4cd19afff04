"""OAUTHBEARER of a broker's listeners: the mechanism, and the keys of its tokens, which are read from time to
time (`security/key_sets`). Loaded when a listener has it, and not before."""

from collections.abc import Callable, Mapping

from ottla.base.config import ConfigError
from ottla.broker.effects import Effect, ReadKeys
from ottla.security import jaas
from ottla.security.key_sets import KeySet
from ottla.security.oauth_config import PREFIX, OAuthConfig
from ottla.security.sasl.exchange import Mechanism
from ottla.security.sasl.oauthbearer import OAuthBearer

JAAS_KEY = "sasl.jaas.config"


class TokenKeys:
    def __init__(self, put: Callable[[Effect], None]) -> None:
        self._put = put
        self.key_sets: list[KeySet] = []

    def mechanism(self, settings: Mapping[str, str]) -> Mechanism:
        """By the settings of one listener. ConfigError: they cannot check any token."""
        config = OAuthConfig.of_listener(settings)
        try:
            from ottla.security.tokens import Tokens
        except ImportError:
            raise ConfigError("OAUTHBEARER needs joserfc: pip install 'ottla[oauth]'") from None
        keys = KeySet(config, _trust_file(settings))
        self.key_sets.append(keys)
        return OAuthBearer(Tokens(config, keys).check)

    def pump(self, now_ms: int) -> None:
        for keys in self.key_sets:
            if keys.is_due(now_ms):
                self._put(ReadKeys(keys))


def _trust_file(settings: Mapping[str, str]) -> str:
    """As in Kafka, what is trusted at the address of the keys is an option of the JAAS line."""
    line = settings.get(f"{PREFIX}{JAAS_KEY}", "").strip()
    if not line:
        return ""
    try:
        options = jaas.parse(line).options
    except jaas.JaasError as error:
        raise ConfigError(f"{PREFIX}{JAAS_KEY}: {error}") from None
    trust_file = options.get("ssl.truststore.location", "")
    if trust_file and options.get("ssl.truststore.type", "JKS").upper() != "PEM":
        raise ConfigError(
            f'{PREFIX}{JAAS_KEY}: ssl.truststore.location is read as PEM alone; add ssl.truststore.type="PEM"'
        )
    return trust_file
