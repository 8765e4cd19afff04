"""Who may connect: the limits on connections, and what is kept for those who must come in whatever they say.
How fast they may come says `arrivals`.

The listener that brokers alone use, where there are others for clients, counts for no limit but its own.
Brokers that have proved to be some (design note 009) count for no limit. Over a limit two kinds still come
in, each on a few connections beyond it, of which the one that was quiet longest makes room for the next:

- the machine itself, so that an operator there can always undo a limit that was set too low;
- where there is a cluster, a guest from anywhere, who may prove to be a broker and may do nothing else.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

from ottla.broker.config import BrokerConfig, overrides_of
from ottla.broker.identities import Identities
from ottla.broker.listeners import Listener, Listeners
from ottla.broker.settings import Settings
from ottla.shell.notices import Notices

LOCALS_MAX = 8
GUESTS_MAX = 32
SPARE_MAX = LOCALS_MAX + GUESTS_MAX


class Visitor(Protocol):
    """A connection, as far as it matters here."""

    number: int
    listener: Listener
    peer: str
    is_local: bool
    active_ms: int
    guest_because: str

    def refuse(self, reason: str) -> None: ...


def is_local(peer: str, own: str) -> bool:
    """Is this an address of the machine itself? `own` is the address that it connected to."""
    plain = peer.removeprefix("::ffff:")
    return peer == own or plain.startswith("127.") or plain == "::1"


class Overrides:
    """What max.connections.per.ip.overrides says, by address. Hosts are looked up by `resolve`, which calls
    back with their addresses; until then they are as others."""

    def __init__(self, resolve: Callable[[str, Callable[[list[str]], None]], None]) -> None:
        self._resolve = resolve
        self._text = ""
        self._counts: dict[str, int] = {}

    def get(self, text: str, address: str, default: int) -> int:
        if text != self._text:
            from ottla.security.quotas import address_text  # few have such

            self._text, self._counts = text, {}
            for host, count in overrides_of(text).items():
                own = address_text(host)
                if own is not None:
                    self._counts[own] = count
                else:
                    self._resolve(host, partial(self._resolved, self._counts, count))
        return self._counts.get(address.removeprefix("::ffff:"), default) if text else default

    @staticmethod
    def _resolved(counts: dict[str, int], count: int, addresses: list[str]) -> None:
        counts.update(dict.fromkeys(addresses, count))


class Admission:
    def __init__(
        self,
        settings: Settings,
        identities: Identities,
        listeners: Listeners,
        resolve: Callable[[str, Callable[[list[str]], None]], None],
    ) -> None:
        self.descriptors_max: int | None = None
        self._settings = settings
        self._identities = identities
        self._listeners = listeners
        self._overrides = Overrides(resolve)
        self._ordinary: dict[int, Visitor] = {}
        self._locals: dict[int, Visitor] = {}
        self._guests: dict[int, Visitor] = {}
        self._per_ip: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self.refusals = Notices("refused")

    def admit(self, visitor: Visitor) -> str | None:
        """Take it in, or say why not."""
        reason = self._full(visitor)
        if reason:
            for proven in self._identities.connections:
                self.forget(proven)
            reason = self._full(visitor)
        if not reason:
            self._ordinary[visitor.number] = visitor
            self._per_ip[visitor.peer] += 1
            self._per_listener[visitor.listener.name] += 1
        elif visitor.is_local:
            self._make_room(self._locals, LOCALS_MAX, reason)
            self._locals[visitor.number] = visitor
        elif self._identities.has_peers:
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
            self._per_listener[visitor.listener.name] -= 1

    def _full(self, visitor: Visitor) -> str:
        """The limit that is reached; '' if none is."""
        config, listener, count = self._settings.config, visitor.listener.name, len(self._ordinary)
        if count >= config.connections_max and not self._listeners.is_only_for_brokers(listener):
            return f"there are {count} connections (max.connections)"
        of_listener = self._per_listener[listener]
        if of_listener >= self._settings.listener_config(listener).connections_max:
            return f"listener {listener} has {of_listener} connections (its max.connections)"
        if self.descriptors_max is not None and count >= max(self.descriptors_max - SPARE_MAX, 1):
            return f"there are {count} connections, and the logs need files too (ulimit -n)"
        return self._full_for_address(visitor.peer, config)

    def _full_for_address(self, peer: str, config: BrokerConfig) -> str:
        count, usual = self._per_ip[peer], config.connections_per_ip_max
        limit = self._overrides.get(config.connections_per_ip_overrides, peer, usual)
        if count < limit:
            return ""
        key = "max.connections.per.ip" if limit == usual else "max.connections.per.ip.overrides"
        return f"{peer} has {count} ({key})"

    def _make_room(self, spare: dict[int, Visitor], limit: int, reason: str) -> None:
        if len(spare) >= limit:
            quietest = min(spare.values(), key=lambda visitor: visitor.active_ms)
            self.forget(quietest.number)
            quietest.refuse(f"{reason}, and another came in on one of the {limit} beyond that")
