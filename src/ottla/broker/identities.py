"""Which connections have proved to be another broker's, and whose (design note 009).

Rule: what only brokers may ask is answered on such a connection alone, and only in the name of the broker
that it was proved for. A broker that knows no secret, because it is alone, takes nobody for a broker.
"""

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.security.peer_handshake import Acceptor, Initiator

log = logging.getLogger(__name__)


class Identities:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._proven: dict[int, int] = {}  # connection -> broker
        self._begun: dict[int, Acceptor] = {}
        self._refused: set[int] = set()  # connections of which that was said

    @property
    def has_peers(self) -> bool:
        """Is this broker one of a cluster?"""
        return bool(self._broker.image.peer_secret)

    def initiate(self, peer: int) -> "Initiator":
        """How this broker proves itself to another, on one connection."""
        from ottla.security.peer_handshake import NONCE_BYTES, Initiator

        secret, nonce = self._broker.image.peer_secret, self._broker.random.randbytes(NONCE_BYTES)
        return Initiator(secret, self._broker.id, peer, nonce)

    def begin(self, connection: int, mechanism: str) -> bool:
        """Somebody wants to prove that it is a broker. Not twice on one connection."""
        secret = self._broker.image.peer_secret
        if not secret or connection in self._proven or connection in self._begun:
            return False
        from ottla.security import peer_handshake  # a broker that is alone has no use for it

        if mechanism != peer_handshake.MECHANISM:
            return False
        nonce = self._broker.random.randbytes(peer_handshake.NONCE_BYTES)
        self._begun[connection] = peer_handshake.Acceptor(secret, self._broker.id, nonce)
        return True

    def go_on(self, connection: int, message: bytes) -> bytes | None:
        """The answer to what it says, None if it has not begun. HandshakeError: it is no broker."""
        acceptor = self._begun.pop(connection, None)
        if acceptor is None:
            return None
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

    def may_act_as(self, connection: int, broker: int, what: str, host: str) -> bool:
        """Is this connection that broker's? It is said once if it is not."""
        proven = self._proven.get(connection)
        if proven == broker:
            return True
        if connection not in self._refused:
            self._refused.add(connection)
            who = "no broker" if proven is None else f"broker {proven}"
            log.warning(
                "%s from %s in the name of broker %d is refused: the connection is proved to be of %s",
                what, host.removeprefix("/") or "somewhere", broker, who,
            )  # fmt: skip
        return False

    def forget(self, connection: int) -> None:
        self._proven.pop(connection, None)
        self._begun.pop(connection, None)
        self._refused.discard(connection)
