"""Which connections have proved to be another broker's, and whose (design note 009).

Rule: what only brokers may ask is answered on such a connection alone, and only in the name of the broker
that it was proved for. Who was refused once cannot prove anything on that connection any more. A broker that
knows no secret, because it is alone, takes nobody for a broker.
"""

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.broker.ports import Random
from ottla.controller.image import Image

if TYPE_CHECKING:
    from ottla.security.peer_handshake import Acceptor, Initiator
    from ottla.security.peer_login import Login, PeerLogin

log = logging.getLogger(__name__)

SAY_MS = 1_000  # one line in so long, however many there are


class Identities:
    def __init__(self, broker_id: int, image: Image, random: Random, login: "Login | None" = None) -> None:
        self._broker_id = broker_id
        self._image = image
        self._random = random
        self._login = login  # to other brokers, before any proof
        self._proven: dict[int, int] = {}  # connection -> broker
        self._begun: dict[int, Acceptor] = {}
        self._impostors: set[int] = set()  # connections that were refused
        self._said_ms = 0

    @property
    def has_peers(self) -> bool:
        """Is this broker one of a cluster?"""
        return bool(self._image.peer_secret)

    def initiate(self, peer: int) -> "Initiator | PeerLogin":
        """How this broker logs in to another and proves itself, on one connection."""
        from ottla.security.peer_handshake import NONCE_BYTES, Initiator

        secret, nonce = self._image.peer_secret, self._random.randbytes(NONCE_BYTES)
        proof = Initiator(secret, self._broker_id, peer, nonce)
        return self._login.begin(self._random.randbytes(NONCE_BYTES), proof) if self._login else proof

    def begin(self, connection: int, mechanism: str) -> bool:
        """Somebody wants to prove that it is a broker. Not twice on one connection."""
        tried = (self._proven, self._begun, self._impostors)
        if not self.has_peers or any(connection in connections for connections in tried):
            return False
        from ottla.security import peer_handshake  # a broker that is alone has no use for it

        if mechanism != peer_handshake.MECHANISM:
            return False
        secret, nonce = self._image.peer_secret, self._random.randbytes(peer_handshake.NONCE_BYTES)
        self._begun[connection] = peer_handshake.Acceptor(secret, self._broker_id, nonce)
        return True

    def has_begun(self, connection: int) -> bool:
        """Is it about to prove that it is a broker?"""
        return connection in self._begun

    def go_on(self, connection: int, message: bytes) -> bytes:
        """The answer to what it says, after it has begun. HandshakeError: it is no broker."""
        acceptor = self._begun.pop(connection)
        if not acceptor.opening:
            answer = acceptor.challenge(message)
            self._begun[connection] = acceptor
            return answer
        self.admit(connection, acceptor.verify(message))
        return b""

    def admit(self, connection: int, broker: int) -> None:
        self._proven[connection] = broker

    @property
    def connections(self) -> Collection[int]:
        """Those that have proved to be brokers'."""
        return self._proven.keys()

    def is_broker(self, connection: int) -> bool:
        return connection in self._proven

    def may_act_as(self, connection: int, broker: int) -> bool:
        """Is this connection that broker's?"""
        return self._proven.get(connection) == broker

    def refuse(self, connection: int, sentence: str, now_ms: int) -> None:
        """It is none, and says so; once for a connection, and not too often for all of them."""
        if connection not in self._impostors and now_ms - self._said_ms >= SAY_MS:
            self._said_ms = now_ms
            log.warning("%s", sentence)
        self._impostors.add(connection)

    def forget(self, connection: int) -> None:
        self._proven.pop(connection, None)
        self._begun.pop(connection, None)
        self._impostors.discard(connection)
