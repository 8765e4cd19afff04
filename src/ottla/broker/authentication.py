"""Who authenticates on which connection, on listeners with SASL, and how far they are.

Rules: nothing is known of a connection but its steps, and that is gone with it. Whoever fails hears one
sentence whatever the reason; the reason is logged, one line a second at most.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ottla.base.config import load
from ottla.base.log_fields import fields
from ottla.broker.access import Access
from ottla.broker.effects import Effect
from ottla.broker.listeners import Listener, settings_of
from ottla.broker.ports import Random
from ottla.broker.token_keys import TokenKeys
from ottla.controller.image import Configs, Image
from ottla.controller.user_nodes import Entity
from ottla.security.credentials import (
    ITERATIONS,
    MECHANISMS,
    CredentialError,
    ScramCredential,
    ScramMechanism,
    credential_of,
)
from ottla.security.key_sets import KeySet
from ottla.security.principals import Principal
from ottla.security.sasl import oauthbearer, plain
from ottla.security.sasl.exchange import NONCE_BYTES, Mechanism, ServerExchange, Stage, Step
from ottla.security.sasl.plain import Plain
from ottla.security.sasl.scram import Scram
from ottla.security.sasl.settings import jaas_options, of_mechanism
from ottla.security.sasl_config import SaslConfig

log = logging.getLogger(__name__)

SAY_MS = 1_000
NO_CONFIGS = Configs({}, -1)
NOBODYS = {
    mechanism: credential_of(mechanism, bytes(26), b"nobody", ITERATIONS).text()
    for mechanism in ScramMechanism
}


class Authentication:
    def __init__(
        self,
        properties: Mapping[str, str],
        image: Image,
        access: Access,
        random: Random,
        put: Callable[[Effect], None],
    ) -> None:
        self.config = load(SaslConfig, properties)
        self._properties = properties
        self._image = image
        self._access = access
        self._random = random
        self._own_secret = random.randbytes(NONCE_BYTES)
        self._offers: dict[str, tuple[dict[str, Mechanism], dict[str, int]]] = {}  # by listener
        self._exchanges: dict[int, ServerExchange] = {}
        self._said_ms = 0
        self.succeeded: Counter[str] = Counter()  # by listener
        self.failed: Counter[str] = Counter()
        self._token_keys = TokenKeys(put)

    def open(self, listeners: Iterable[Listener]) -> Sequence[KeySet]:
        """At a start: the keys of tokens that have to be read before anybody can authenticate."""
        for listener in listeners:
            if listener.has_sasl:
                self._offer(listener.name)
        return self._token_keys.key_sets

    def on_tick(self, now_ms: int) -> None:
        self._token_keys.pump(now_ms)

    def exchange(self, connection: int) -> ServerExchange:
        exchange = self._exchanges.get(connection)
        if exchange is None:
            exchange = ServerExchange(*self._offer(self._access.session(connection).listener))
            self._exchanges[connection] = exchange
        return exchange

    def find(self, connection: int) -> ServerExchange | None:
        """None: it is on a listener without SASL, or has said nothing yet."""
        return self._exchanges.get(connection)

    def forget(self, connection: int) -> None:
        self._exchanges.pop(connection, None)

    def handshake(self, exchange: ServerExchange, mechanism: str, *, is_bare: bool) -> bool:
        return exchange.handshake(mechanism, self._random.randbytes(NONCE_BYTES), is_bare=is_bare)

    def authenticate(self, connection: int, token: bytes, now_ms: int, wall_ms: int) -> Step:
        """AuthenticationError: it is not who it says."""
        step = self._exchanges[connection].authenticate(token, wall_ms)
        if step.principal is not None:
            expires_ms = None if step.lifetime_ms is None else now_ms + step.lifetime_ms
            self._admit(connection, step.principal, expires_ms)
        return step

    def admit_broker(self, connection: int, exchange: ServerExchange) -> None:
        """It has proved to be a broker's. If it has authenticated before, it stays who it is."""
        exchange.stage = Stage.COMPLETE
        session = self._access.session(connection)
        if not session.is_authenticated:
            self._admit(connection, session.principal, None)

    def _admit(self, connection: int, principal: Principal, expires_ms: int | None) -> None:
        session = self._access.session(connection)
        self.succeeded[session.listener] += not session.is_authenticated
        self._access.begin(
            connection, replace(session, principal=principal, is_authenticated=True, expires_ms=expires_ms)
        )

    def fail(self, connection: int) -> None:
        """Its connection ends, and is good for nothing more until then."""
        self.failed[self._access.session(connection).listener] += 1
        exchange = self._exchanges.get(connection)
        if exchange is not None:
            exchange.stage = Stage.FAILED

    def complain(self, who: str, reason: object, now_ms: int) -> None:
        if now_ms - self._said_ms >= SAY_MS:
            self._said_ms = now_ms
            log.warning("%s did not authenticate: %s", who, reason, extra=fields(reason=str(reason)))

    # -- what a listener offers --

    def _offer(self, listener: str) -> tuple[dict[str, Mechanism], dict[str, int]]:
        offer = self._offers.get(listener)
        if offer is None:
            settings = settings_of(self._properties, listener)
            names = load(SaslConfig, settings).enabled_mechanisms
            configs = {name: of_mechanism(settings, name) for name in names}
            mechanisms = {
                name: self._mechanism(name, settings, jaas_options(config, listener, name))
                for name, config in configs.items()
            }
            lifetimes = {name: config.reauthentication_ms_max for name, config in configs.items()}
            offer = self._offers[listener] = mechanisms, lifetimes
        return offer

    def _mechanism(self, name: str, settings: Mapping[str, str], login: Mapping[str, str]) -> Mechanism:
        """By the settings of a listener, and the options of its JAAS line for this mechanism."""
        if name == plain.NAME:
            return Plain(plain.users_of(login))
        if name == oauthbearer.NAME:
            return self._token_keys.mechanism(settings, login)
        scram = MECHANISMS[name]
        return Scram(scram, lambda user: self._credential(user, scram), self._secret)

    def _secret(self) -> bytes:
        """What salts for users that do not exist are made from: the same on all brokers of a cluster."""
        return self._image.peer_secret or self._own_secret

    def _credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """Something is read also if there is none, as that takes time."""
        configs = self._image.entity_configs.get(Entity(user), NO_CONFIGS)
        text = configs.values.get(mechanism.title)
        try:
            credential = ScramCredential.parse(text or NOBODYS[mechanism], mechanism)
            return credential if text else None
        except CredentialError as error:
            log.warning("the %s credential of user %r cannot be read: %s", mechanism.title, user, error)
            return None
