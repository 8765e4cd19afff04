"""Who may connect: the limits on connections, and what is kept for those who must come in whatever they say.

Brokers that have proved to be some (design note 009) count for no limit. Over a limit two kinds still come
in, each on a few connections beyond it, of which the one that was quiet longest makes room for the next:

- the machine itself, so that an operator there can always undo a limit that was set too low;
- where there is a cluster, a guest from anywhere, who may prove to be a broker and may do nothing else.
"""

from collections import Counter
from typing import Protocol

from ottla.broker.config import BrokerConfig
from ottla.broker.identities import Identities
from ottla.shell.notices import Notices

LOCALS_MAX = 8
GUESTS_MAX = 32
SPARE_MAX = LOCALS_MAX + GUESTS_MAX


class Visitor(Protocol):
    """A connection, as far as it matters here."""

    number: int
    peer: str
    is_local: bool
    active_ms: int
    guest_because: str

    def refuse(self, reason: str) -> None: ...


def is_local(peer: str, own: str) -> bool:
    """Is this an address of the machine itself? `own` is the address that it connected to."""
    plain = peer.removeprefix("::ffff:")
    return peer == own or plain.startswith("127.") or plain == "::1"


class Admission:
    def __init__(self) -> None:
        self.descriptors_max: int | None = None
        self._ordinary: dict[int, Visitor] = {}
        self._locals: dict[int, Visitor] = {}
        self._guests: dict[int, Visitor] = {}
        self._per_ip: Counter[str] = Counter()
        self.refusals = Notices("refused")

    def admit(self, visitor: Visitor, config: BrokerConfig, identities: Identities) -> str | None:
        """Take it in, or say why not."""
        reason = self._full(visitor.peer, config)
        if reason:
            for proven in identities.connections:
                self.forget(proven)
            reason = self._full(visitor.peer, config)
        if not reason:
            self._ordinary[visitor.number] = visitor
            self._per_ip[visitor.peer] += 1
        elif visitor.is_local:
            self._make_room(self._locals, LOCALS_MAX, reason)
            self._locals[visitor.number] = visitor
        elif identities.has_peers:
            self._make_room(self._guests, GUESTS_MAX, reason)
            self._guests[visitor.number] = visitor
            visitor.guest_because = reason
        else:
            return reason
        return None

    def forget(self, number: int) -> None:
        self._locals.pop(number, None)
        self._guests.pop(number, None)
        visitor = self._ordinary.pop(number, None)
        if visitor is not None:
            self._per_ip[visitor.peer] -= 1
            if not self._per_ip[visitor.peer]:
                del self._per_ip[visitor.peer]

    def _full(self, peer: str, config: BrokerConfig) -> str:
        """The limit that is reached; '' if none is."""
        count = len(self._ordinary)
        if count >= config.connections_max:
            return f"there are {count} connections (max.connections)"
        if self.descriptors_max is not None and count >= max(self.descriptors_max - SPARE_MAX, 1):
            return f"there are {count} connections, and the logs need files too (ulimit -n)"
        if self._per_ip[peer] >= config.connections_per_ip_max:
            return f"{peer} has {self._per_ip[peer]} (max.connections.per.ip)"
        return ""

    def _make_room(self, spare: dict[int, Visitor], limit: int, reason: str) -> None:
        if len(spare) >= limit:
            quietest = min(spare.values(), key=lambda visitor: visitor.active_ms)
            self.forget(quietest.number)
            quietest.refuse(f"{reason}, and another came in on one of the {limit} beyond that")
