"""SASL on a connection: SaslHandshake, then as many SaslAuthenticate as the mechanism takes."""

import secrets
from typing import Any, Protocol, TypeVar

from ottla.base.errors import ErrorCode
from ottla.client.errors import ClientError, code_of
from ottla.client.security.sasl_settings import SaslSettings
from ottla.client.security.tokens import Tokens
from ottla.security.sasl.client import Credentials, client_exchange
from ottla.security.sasl.exchange import NONCE_BYTES, AuthenticationError
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

R = TypeVar("R")


class Call(Protocol):
    """One request to the broker, and its answer."""

    def __call__(self, request: Any, response: type[R], /) -> R: ...


class Authentication:
    """Of one client, for all its connections."""

    def __init__(self, sasl: SaslSettings) -> None:
        self._sasl = sasl
        self._tokens = Tokens(sasl.tokens) if sasl.tokens is not None else None

    def run(self, call: Call) -> int:
        """How long the broker accepts it, in ms; 0 is for ever. ClientError: it does not."""
        mechanism = self._sasl.mechanism
        answer = call(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
        if answer.error_code:
            raise ClientError(_refused(mechanism, answer), code_of(answer.error_code))
        try:
            exchange = client_exchange(mechanism, self._credentials(), secrets.token_bytes(NONCE_BYTES))
        except ValueError as error:
            raise ClientError(str(error)) from None
        token: bytes | None = exchange.first()
        lifetime_ms = 0
        while token is not None:
            said = call(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
            if said.error_code:
                raise ClientError(self._denied(said), code_of(said.error_code))
            lifetime_ms = said.session_lifetime_ms
            try:
                token = exchange.on_reply(bytes(said.auth_bytes))
            except AuthenticationError as error:
                raise ClientError(
                    f"SASL {mechanism}: who answers is not a broker that knows {self._who()}: {error}"
                ) from None
        return lifetime_ms

    def _credentials(self) -> Credentials:
        if self._tokens is None:
            return Credentials(self._sasl.username, self._sasl.password)
        extensions = dict(self._tokens.settings.extensions)
        return Credentials(token=self._tokens.token().text, extensions=extensions)

    def _who(self) -> str:
        return "this token" if self._tokens is not None else f"user {self._sasl.username!r}"

    def _denied(self, said: SaslAuthenticateResponse) -> str:
        reason = f" ({said.error_message})" if said.error_message else ""
        check = "the token, its audience and its issuer" if self._tokens is not None else "user and password"
        return (
            f"the broker does not accept {self._who()} by SASL {self._sasl.mechanism}{reason}; check {check}"
        )


def _refused(mechanism: str, answer: SaslHandshakeResponse) -> str:
    match answer.error_code:
        case ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(answer.mechanisms) or "none"
            return f"the broker does not offer SASL {mechanism} here; it offers {offered}: see sasl.mechanism"
        case ErrorCode.ILLEGAL_SASL_STATE:
            return "the broker expects no SASL on this port; is security.protocol PLAINTEXT or SSL there?"
        case code:
            return f"the broker refuses SASL {mechanism}: {code_of(code).name}"
