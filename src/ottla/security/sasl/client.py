"""The client's side of SASL: what a client, or a broker that connects to another, sends.

    exchange = client_exchange("SCRAM-SHA-256", Credentials("alice", "secret"), nonce)
    token = exchange.first()
    while token is not None:
        token = exchange.on_reply(send(token))      # None: it is done

A client that learns SASL_AUTHENTICATION_FAILED instead of a reply ends there. AuthenticationError: who
answers is not who knows the password, or says what cannot be understood.
"""

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from ottla.security import credentials
from ottla.security.credentials import MECHANISMS, ScramMechanism
from ottla.security.sasl import scram_messages
from ottla.security.sasl.exchange import AuthenticationError
from ottla.security.sasl.scram_messages import MessageError

ITERATIONS_MAX = 1_000_000  # a second of work: a server that asks for more wants to waste it
_NO_CHANNEL_BINDING = "n,,"
_SEPARATOR = "\x01"
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x20-\x7e\t\r\n]+")


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and a password; or for OAUTHBEARER a `token`. `extensions` go with OAUTHBEARER (KIP-342)."""

    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


class ClientExchange(Protocol):
    """One attempt, on one connection."""

    def first(self) -> bytes: ...
    def on_reply(self, reply: bytes) -> bytes | None: ...


class PlainClient:
    def __init__(self, own: Credentials) -> None:
        self._own = own

    def first(self) -> bytes:
        return f"\0{self._own.username}\0{self._own.password}".encode()

    def on_reply(self, reply: bytes) -> None:
        """There is nothing that could be wrong with it."""


class ScramClient:
    def __init__(
        self, mechanism: ScramMechanism, own: Credentials, nonce: str, iterations_max: int = ITERATIONS_MAX
    ) -> None:
        self._mechanism = mechanism
        self._iterations_max = iterations_max
        self._own = own
        self._nonce = nonce
        self._expected = b""  # the server's signature

    @property
    def _bare(self) -> str:
        return f"n={scram_messages.escaped(self._own.username)},r={self._nonce}"

    def first(self) -> bytes:
        return (_NO_CHANNEL_BINDING + self._bare).encode()

    def on_reply(self, reply: bytes) -> bytes | None:
        try:
            if not self._expected:
                return self._final(scram_messages.server_first(reply))
            is_proven = hmac.compare_digest(scram_messages.server_signature(reply), self._expected)
        except MessageError as error:
            raise AuthenticationError(str(error)) from None
        if not is_proven:
            raise AuthenticationError("the server does not know the password: its signature is wrong")
        return None

    def _final(self, server: scram_messages.ServerFirst) -> bytes:
        if not server.nonce.startswith(self._nonce) or len(server.nonce) == len(self._nonce):
            raise AuthenticationError("the server's nonce does not go on from ours")
        if not credentials.ITERATIONS_MIN <= server.iterations <= self._iterations_max:
            raise AuthenticationError(f"the server asks for {server.iterations} iterations")
        mechanism = self._mechanism
        salted = _salted_password(mechanism, self._own.password, server.salt, server.iterations)
        binding = scram_messages.base64(_NO_CHANNEL_BINDING.encode())
        final = f"c={binding},r={server.nonce}"
        signed = f"{self._bare},{server.text},{final}"
        self._expected = scram_messages.signature(
            mechanism, credentials.server_key(mechanism, salted), signed
        )
        client_key = credentials.client_key(mechanism, salted)
        stored_key = scram_messages.digest(mechanism, client_key)
        proof = scram_messages.xor(client_key, scram_messages.signature(mechanism, stored_key, signed))
        return f"{final},p={scram_messages.base64(proof)}".encode()


@lru_cache(maxsize=8)
def _salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Whoever connects again need not work for it again: RFC 5802, section 4, says that it may be kept."""
    return credentials.salted_password(mechanism, password, salt, iterations)


class OAuthBearerClient:
    """RFC 7628. A server that refuses the token says why in a reply, and fails after the next message."""

    def __init__(self, own: Credentials) -> None:
        self._own = own
        for name, value in own.extensions.items():
            if name == "auth" or not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value):
                raise ValueError(f"the SASL extension {name!r} has a name or a value that is not allowed")

    def first(self) -> bytes:
        pairs = {"auth": f"Bearer {self._own.token}", **self._own.extensions}
        lines = [f"{name}={value}" for name, value in pairs.items()]
        return _SEPARATOR.join([_NO_CHANNEL_BINDING, *lines, "", ""]).encode()

    def on_reply(self, reply: bytes) -> bytes | None:
        return _SEPARATOR.encode() if reply else None


def client_exchange(
    mechanism: str, own: Credentials, nonce: bytes, iterations_max: int = ITERATIONS_MAX
) -> ClientExchange:
    """`nonce`: as many random bytes as a server's, used for nothing else. ValueError: there is no such
    mechanism."""
    if mechanism in MECHANISMS:
        return ScramClient(MECHANISMS[mechanism], own, scram_messages.nonce_of(nonce), iterations_max)
    if mechanism == "PLAIN":
        return PlainClient(own)
    if mechanism == "OAUTHBEARER":
        return OAuthBearerClient(own)
    names = ", ".join(["PLAIN", *MECHANISMS, "OAUTHBEARER"])
    raise ValueError(f"the SASL mechanism {mechanism!r:.100} is none of {names}")
