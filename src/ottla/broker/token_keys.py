"""OAUTHBEARER of a broker's listeners: the mechanism, and the keys of its tokens, which are read from time to
time (`security/key_sets`). What checks tokens (`security/tokens`) is loaded when a listener has it."""

from collections.abc import Callable, Mapping

from ottla.base.config import ConfigError
from ottla.broker.effects import Effect, ReadKeys
from ottla.security.key_sets import KeySet
from ottla.security.oauth_config import OAuthConfig
from ottla.security.sasl.exchange import Mechanism
from ottla.security.sasl.oauthbearer import OAuthBearer


class TokenKeys:
    def __init__(self, put: Callable[[Effect], None]) -> None:
        self._put = put
        self.key_sets: list[KeySet] = []

    def mechanism(self, settings: Mapping[str, str], login: Mapping[str, str]) -> Mechanism:
        """By the settings of one listener and the options of its JAAS line, where Kafka has what is trusted
        at the address of the keys. ConfigError: they cannot check any token."""
        config = OAuthConfig.of_listener(settings)
        try:
            from ottla.security.tokens import Tokens
        except ImportError:
            raise ConfigError("OAUTHBEARER needs joserfc: pip install 'ottla[oauth]'") from None
        keys = KeySet(config, _trust_file(login))
        self.key_sets.append(keys)
        return OAuthBearer(Tokens(config, keys).check)

    def pump(self, now_ms: int) -> None:
        for keys in self.key_sets:
            if keys.is_due(now_ms):
                self._put(ReadKeys(keys))


def _trust_file(login: Mapping[str, str]) -> str:
    trust_file = login.get("ssl.truststore.location", "")
    if trust_file and login.get("ssl.truststore.type", "").upper() != "PEM":
        raise ConfigError(
            "oauthbearer.sasl.jaas.config: of ssl.truststore.location only PEM is read here; "
            'say so with ssl.truststore.type="PEM"'
        )
    return trust_file
