"""How two brokers prove to each other that both are of one cluster: that each knows the cluster's secret,
which is in the keeper and never on the wire (design note 009).

    initiator -> acceptor   opening: who asks, who is asked, a nonce
    acceptor -> initiator   a nonce of its own, and its code
    initiator -> acceptor   its code

A code is HMAC-SHA-256, under the secret, of the role of who computes it, the opening, and the acceptor's
nonce. So a code is good for one connection (both nonces are new), for these two brokers, and for one side:
what an acceptor was brought to compute is nothing that an initiator could send.

The messages travel in Kafka's own SaslHandshake and SaslAuthenticate. The initiator sends the handshake and
the opening at once, and its code together with its first requests: one round trip more than without.
"""

import hmac
import struct
from dataclasses import dataclass, field
from typing import Any

from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

MECHANISM = "OTTLA-HMAC-SHA-256"
NONCE_BYTES = 32
_OPENING = struct.Struct(f">ii{NONCE_BYTES}s")
_INITIATOR, _ACCEPTOR = b"ottla initiator", b"ottla acceptor"


class HandshakeError(Exception):
    """The other side did not prove that it is the broker it should be."""


def _code(secret: bytes, role: bytes, opening: bytes, nonce: bytes) -> bytes:
    if not secret:
        raise HandshakeError("this broker knows no secret of its cluster")
    return hmac.digest(secret, role + opening + nonce, "sha256")


@dataclass(slots=True)
class Initiator:
    """The broker that connects. `nonce` must never have been used before."""

    secret: bytes = field(repr=False)
    own_id: int
    peer_id: int
    nonce: bytes
    is_proven: bool = False  # the acceptor is who it should be, and nothing is left to be sent

    @property
    def _opening(self) -> bytes:
        return _OPENING.pack(self.own_id, self.peer_id, self.nonce)

    def first(self) -> list[Any]:
        """What to send at once."""
        return [SaslHandshakeRequest(mechanism=MECHANISM), SaslAuthenticateRequest(auth_bytes=self._opening)]

    def on_answer(self, answer: Any) -> list[Any]:
        """What to send after this answer. Once `is_proven`, requests may follow without waiting for more."""
        if answer.error_code:
            raise HandshakeError(f"the handshake is refused, error {answer.error_code}")
        if self.is_proven or not isinstance(answer, SaslAuthenticateResponse):
            return []
        nonce, code = answer.auth_bytes[:NONCE_BYTES], answer.auth_bytes[NONCE_BYTES:]
        if not hmac.compare_digest(code, _code(self.secret, _ACCEPTOR, self._opening, nonce)):
            raise HandshakeError("who answers does not know the secret of this cluster")
        self.is_proven = True
        own = _code(self.secret, _INITIATOR, self._opening, nonce)
        return [SaslAuthenticateRequest(auth_bytes=own)]


@dataclass(slots=True)
class Acceptor:
    """The broker that is connected to, on one connection. `nonce` must never have been used before."""

    secret: bytes = field(repr=False)
    own_id: int
    nonce: bytes
    opening: bytes = b""

    def challenge(self, opening: bytes) -> bytes:
        """The answer to the opening."""
        if len(opening) != _OPENING.size or _OPENING.unpack(opening)[1] != self.own_id:
            raise HandshakeError(f"the opening is not for broker {self.own_id}")
        self.opening = bytes(opening)
        return self.nonce + _code(self.secret, _ACCEPTOR, self.opening, self.nonce)

    def verify(self, code: bytes) -> int:
        """The id of the broker that has proved itself."""
        if not hmac.compare_digest(code, _code(self.secret, _INITIATOR, self.opening, self.nonce)):
            raise HandshakeError("the code is wrong")
        return int(_OPENING.unpack(self.opening)[0])
