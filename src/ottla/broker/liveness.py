"""Signs of life of the other brokers, as this one sees them (design note 008).

Every registered broker is probed a few times a second, over a connection that stays. When that is lost, as
the kernel of a killed process sees to at once, the next probe does not wait for its turn.

    suspected     refused twice, some time apart, and not answered since: nobody listens where it should.
                  A broker that is stopped (SIGSTOP) or stalls, and a machine that is down, are silent and
                  never suspected: their sessions end in their own time.
    unreachable   refused or silent, twice at least, and no answer for some seconds. That is what is told to
                  others; nothing follows from it here.

Rules
- All of this is about one incarnation: a broker with another epoch is a stranger of whom nothing is known.
- Only an answer ends a suspicion, or somebody who knows better (`trust`). After either, the incarnation is
  not suspected again for a while: what comes and goes must not move leaders each time.
- One that is trusted is not suspected before it has answered.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.broker.effects import Probe, Sign
from ottla.controller.image import BrokerEndpoint

PROBE_MS = 300
PROBES_PER_S_MAX = 100  # with very many brokers each of them is asked less often
AT_ONCE_MS = 50  # a connection that is lost again and again is not made again faster than this
REFUSED_APART_MS = 200
UNREACHABLE_MS = 3_000
DOUBT_MS = 10_000  # how long a suspicion needs no second opinion
AGAIN_MS = 30_000  # the same incarnation is not suspected again before


@dataclass(slots=True)
class Peer:
    epoch: int
    since_ms: int  # when we first saw this incarnation
    due_ms: int
    answered_ms: int  # or since then
    asked_ms: int = 0
    is_asked: bool = False
    failures: int = 0  # probes since the last answer
    refused_ms: int | None = None  # the first refusal since the last answer
    suspected_ms: int | None = None
    calm_ms: int = 0  # not suspected before
    is_trusted: bool = False  # not suspected before it has answered


class Liveness:
    def __init__(self, own_id: int) -> None:
        self.peers: dict[int, Peer] = {}
        self.suspected: set[int] = set()
        self._own_id = own_id

    # -- inputs --

    def on_brokers(self, brokers: Mapping[int, BrokerEndpoint], now_ms: int) -> None:
        """The brokers that are registered now. While this broker is not among them, it probes none."""
        if self._own_id not in brokers:
            brokers = {}
        for broker_id in [
            broker_id
            for broker_id in self.peers
            if broker_id not in brokers or brokers[broker_id].epoch != self.peers[broker_id].epoch
        ]:
            del self.peers[broker_id]
            self.suspected.discard(broker_id)
        for broker_id, broker in brokers.items():
            if broker_id != self._own_id and broker_id not in self.peers:
                self.peers[broker_id] = Peer(broker.epoch, now_ms, now_ms, now_ms)

    def pump(self, now_ms: int) -> list[Probe]:
        """The probes that are due."""
        probes = []
        for broker_id, peer in sorted(self.peers.items()):
            if not peer.is_asked and now_ms >= peer.due_ms:
                peer.is_asked, peer.asked_ms = True, now_ms
                probes.append(Probe(broker_id, peer.epoch))
        return probes

    def next_ms(self) -> int | None:
        if not self.peers:
            return None
        return min([peer.due_ms for peer in self.peers.values() if not peer.is_asked], default=None)

    def on_probed(self, broker_id: int, epoch: int, sign: Sign, now_ms: int) -> bool:
        """A probe ended with this sign. Returns whether that changed which brokers are suspected."""
        peer = self.peers.get(broker_id)
        if peer is None or peer.epoch != epoch:
            return False
        was_asked, peer.is_asked = peer.is_asked, False
        peer.due_ms = now_ms + max(PROBE_MS, 1000 * len(self.peers) // PROBES_PER_S_MAX)
        if sign is Sign.LOST:
            if not peer.failures:
                peer.due_ms = max(now_ms, peer.asked_ms + AT_ONCE_MS)
            peer.failures += was_asked
            return False
        if sign is Sign.ANSWERED:
            return self._on_answer(broker_id, peer, now_ms)
        peer.failures += 1
        if sign is not Sign.REFUSED:
            return False
        if peer.refused_ms is None:
            peer.refused_ms, peer.due_ms = now_ms, now_ms + REFUSED_APART_MS
            return False
        is_sure = now_ms - peer.refused_ms >= REFUSED_APART_MS and now_ms >= peer.calm_ms
        if not is_sure or peer.is_trusted or broker_id in self.suspected:
            return False
        peer.suspected_ms = now_ms
        self.suspected.add(broker_id)
        return True

    def _on_answer(self, broker_id: int, peer: Peer, now_ms: int) -> bool:
        peer.answered_ms, peer.failures, peer.refused_ms, peer.is_trusted = now_ms, 0, None, False
        return self._unsuspect(broker_id, peer, now_ms)

    def trust(self, broker_id: int, now_ms: int) -> bool:
        """Other brokers reach it, so the trouble is our own. Returns whether it was suspected."""
        peer = self.peers[broker_id]
        peer.is_trusted = True
        return self._unsuspect(broker_id, peer, now_ms)

    def _unsuspect(self, broker_id: int, peer: Peer, now_ms: int) -> bool:
        if broker_id not in self.suspected:
            return False
        self.suspected.discard(broker_id)
        peer.suspected_ms, peer.calm_ms = None, now_ms + AGAIN_MS
        return True

    # -- what it comes to --

    def unreachable(self, now_ms: int) -> dict[int, int]:
        """The brokers that have not answered for UNREACHABLE_MS, with their epochs."""
        return {
            broker_id: peer.epoch
            for broker_id, peer in sorted(self.peers.items())
            if peer.failures > 1 and now_ms - peer.answered_ms >= UNREACHABLE_MS
        }

    def doubtful(self, now_ms: int) -> list[int]:
        """The brokers suspected for so long that others must have noticed by now, if they are gone."""
        return [
            broker_id
            for broker_id in sorted(self.suspected)
            if (since_ms := self.peers[broker_id].suspected_ms) is not None and now_ms - since_ms >= DOUBT_MS
        ]

    def is_witness(self, broker_id: int, now_ms: int) -> bool:
        """Whether this broker answers, and has been registered long enough to know whom it cannot reach."""
        peer = self.peers.get(broker_id)
        return peer is not None and not peer.failures and now_ms - peer.since_ms >= DOUBT_MS
