"""How a broker logs in to another where their listener has SASL: first with the mechanism that is configured,
as every client does, then it proves that it is a broker, and which (`peer_handshake`).

Where no mechanism is configured, the proof alone is the login: it is a mechanism, too.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.base.config import ConfigError, load
from ottla.security.credentials import MECHANISMS
from ottla.security.peer_handshake import HandshakeError, Initiator
from ottla.security.sasl import plain
from ottla.security.sasl.client import ClientExchange, Credentials, client_exchange
from ottla.security.sasl.exchange import AuthenticationError
from ottla.security.sasl.settings import jaas_key, jaas_options, of_mechanism
from ottla.security.sasl_config import INTER_BROKER_KEY, SaslConfig
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

# All clients of a broker wait while it works for one of its peers, which has not proved to be one yet.
ITERATIONS_MAX = 100_000
PASSWORDS = (plain.NAME, *MECHANISMS)


class Login(NamedTuple):
    mechanism: str
    credentials: Credentials

    def begin(self, nonce: bytes, proof: Initiator) -> "PeerLogin":
        """On one connection. `nonce` must never have been used before."""
        exchange = client_exchange(self.mechanism, self.credentials, nonce, ITERATIONS_MAX)
        return PeerLogin(self.mechanism, exchange, proof)


def login_of(settings: Mapping[str, str], listener: str) -> Login | None:
    """From the settings of the listener between brokers. ConfigError: it says a mechanism, and not who."""
    if INTER_BROKER_KEY not in settings:
        return None
    mechanism = load(SaslConfig, settings).inter_broker_mechanism
    if mechanism not in PASSWORDS:
        raise ConfigError(f"{INTER_BROKER_KEY}: brokers log in with one of {', '.join(PASSWORDS)}")
    options = jaas_options(of_mechanism(settings, mechanism), listener, mechanism)
    if not options.get("username") or "password" not in options:
        where = jaas_key(listener, mechanism)
        raise ConfigError(f"{where}: it needs username and password, with which brokers log in to each other")
    return Login(mechanism, Credentials(options["username"], options["password"]))


class PeerLogin:
    """As `Initiator`, with the login before it."""

    def __init__(self, mechanism: str, exchange: ClientExchange, proof: Initiator) -> None:
        self._mechanism = mechanism
        self._exchange = exchange
        self._proof = proof
        self._is_logged_in = False

    @property
    def is_proven(self) -> bool:
        return self._proof.is_proven

    def first(self) -> list[Any]:
        return [
            SaslHandshakeRequest(mechanism=self._mechanism),
            SaslAuthenticateRequest(auth_bytes=self._exchange.first()),
        ]

    def on_answer(self, answer: Any) -> list[Any]:
        if self._is_logged_in:
            return self._proof.on_answer(answer)
        if answer.error_code:
            raise HandshakeError(f"the login with {self._mechanism} is refused, error {answer.error_code}")
        if not isinstance(answer, SaslAuthenticateResponse):
            return []
        try:
            token = self._exchange.on_reply(bytes(answer.auth_bytes))
        except AuthenticationError as error:
            raise HandshakeError(str(error)) from None
        if token is not None:
            return [SaslAuthenticateRequest(auth_bytes=token)]
        self._is_logged_in = True
        return self._proof.first()
