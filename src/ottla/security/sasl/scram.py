"""SCRAM on a broker (RFC 5802, RFC 7677), as Kafka has it: without channel binding, and without delegation
tokens.

A user that does not exist takes the same steps as one that does: there is a salt, always the same for that
name, and the attempt fails where one with a wrong password does.
"""

import hashlib
import hmac
from collections.abc import Callable

from ottla.security.credentials import ITERATIONS, ScramCredential, ScramMechanism, salt_of
from ottla.security.principals import USER, Principal
from ottla.security.sasl import scram_messages
from ottla.security.sasl.exchange import AuthenticationError, Step
from ottla.security.sasl.scram_messages import ClientFirst, MessageError

TOKEN_EXTENSION = "tokenauth"  # noqa: S105

CredentialOf = Callable[[str], ScramCredential | None]
SecretOf = Callable[[], bytes]


class Scram:
    """`credential_of` a user, None if there is none; `secret` is what salts are made up from."""

    def __init__(self, mechanism: ScramMechanism, credential_of: CredentialOf, secret: SecretOf) -> None:
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._secret = secret

    def begin(self, nonce: bytes) -> "ScramExchange":
        return ScramExchange(self._mechanism, self._lookup, scram_messages.nonce_of(nonce))

    def _lookup(self, user: str) -> tuple[ScramCredential, bool]:
        """What to go on with, and whether that can succeed. Both are looked for, whoever it is."""
        mechanism = self._mechanism
        seed = hmac.digest(self._secret(), f"{mechanism.title} {user}".encode(), "sha512")
        key = seed[: mechanism.digest_bytes]
        made_up = ScramCredential(salt_of(seed), key, key, ITERATIONS)
        stored = self._credential_of(user)
        return (made_up, False) if stored is None else (stored, True)


class ScramExchange:
    """`lookup` gives a credential for anybody, and whether it is one that was stored; `nonce` is the
    server's part."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        lookup: Callable[[str], tuple[ScramCredential, bool]],
        nonce: str,
    ) -> None:
        self._mechanism = mechanism
        self._lookup = lookup
        self._nonce = nonce
        self._client: ClientFirst | None = None
        self._server_first = ""

    def step(self, token: bytes, wall_ms: int) -> Step:  # noqa: ARG002 - credentials have no end
        try:
            if self._client is None:
                return self._first(scram_messages.client_first(token))
            return self._final(self._client, scram_messages.client_final(token))
        except MessageError as error:
            raise AuthenticationError(str(error)) from None

    def _first(self, client: ClientFirst) -> Step:
        if client.extensions.get(TOKEN_EXTENSION, "").lower() == "true":
            raise AuthenticationError("it wants to use a delegation token, and there are none")
        if client.authzid and client.authzid != client.user:  # CVE-2017-12610
            raise AuthenticationError(f"{client.user!r:.100} asks to be somebody else")
        self._client = client
        self._credential, self._is_stored = self._lookup(client.user)
        salt, iterations = scram_messages.base64(self._credential.salt), self._credential.iterations
        self._server_first = f"r={client.nonce}{self._nonce},s={salt},i={iterations}"
        return Step(self._server_first.encode())

    def _final(self, client: ClientFirst, final: scram_messages.ClientFinal) -> Step:
        mechanism, credential = self._mechanism, self._credential
        if not hmac.compare_digest(final.nonce, client.nonce + self._nonce):  # CVE-2024-56128
            raise AuthenticationError(
                "its final message has another nonce (a librdkafka before 2.6.1 does that)"
            )
        if final.header != client.header.encode():
            raise AuthenticationError("its final message has another channel binding")
        if len(final.proof) != mechanism.digest_bytes:
            raise AuthenticationError("its proof has the wrong length")
        signed = f"{client.bare},{self._server_first},{final.signed}"
        signature = scram_messages.signature(mechanism, credential.stored_key, signed)
        shown_key = hashlib.new(mechanism.digest, scram_messages.xor(signature, final.proof)).digest()
        is_right = hmac.compare_digest(shown_key, credential.stored_key)  # CVE-2021-38153
        own = scram_messages.signature(mechanism, credential.server_key, signed)
        if not is_right or not self._is_stored:
            raise AuthenticationError(f"there is no user {client.user!r:.100} with that password")
        return Step(f"v={scram_messages.base64(own)}".encode(), Principal(USER, client.user))
