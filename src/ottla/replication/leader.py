"""The leader's side of replication: who has what, how far is safe, who is in sync.

Rules:

1. Everything that moves the ISR, and the high watermark of a partition with more than one replica, lives
   here. No I/O and no clock: time arrives as `now_ms`, work leaves as effects.
2. The high watermark is the smallest end over the *maximal* ISR: what is written, and what was proposed and
   may be written by now. A follower we asked to admit may count for the controller before we hear of it; one
   we asked to remove counts until we hear that it is gone. The leader's own end is what its log calls safe.
3. Only a fetch in this leader's epoch tells anything, and only if its log agrees with ours up to there (the
   caller has checked both). It counts in the ISR if it comes from the incarnation of the follower that is
   recorded there: one that restarted may have lost what the other had (KIP-903).
4. The high watermark rests while the ISR is smaller than min.insync.replicas, or all replicas if those are
   fewer (KIP-966): so nothing is committed that fewer replicas hold. It also rests while the state names
   eligible leader replicas: for the controller those hold all that is committed, whatever min.insync.replicas
   this broker has heard of.
5. A follower enters the ISR when it has reached the high watermark *and* the start of this epoch. Before that
   it may lack what an earlier leader committed.
6. One proposal at a time, conditional on the state it was decided on. Nothing but a newer state settles it,
   or the word that it was not and will not be written (KIP-497).
7. Whoever can be elected in this leader's place is in its maximal ISR, or eligible. A fetch that goes on in a
   session was sent after the answer before it, and so vouches that its sender still followed this leader
   when that answer was given. Once all others have vouched for a time, it is certain that this leader led
   until then (`certain_until_ms`), and what it says of that time is true (design note 007).
8. A follower that is elected keeps a promise: its high watermark rests (`is_held`) until PROMISE_MS after its
   last fetch from the leader before. So a leader that was vouched for less than LEASE_MS ago still leads.
   Until then nobody enters the ISR either: one that has promised nothing could be elected next.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ottla.base.errors import ApiError, ErrorCode

ANY_EPOCH = -1  # the state does not say in which incarnation a member was found in sync
UNKNOWN = -1
REFUSED_MS = 500  # a follower the controller refused is not proposed again before
PROMISE_MS = 1_000
LEASE_MS = 900  # less than the promise, for clocks that do not run at one speed
FOR_EVER_MS = 1 << 62


@dataclass(slots=True)  # not frozen: one is made with every append, and that takes twice as long
class HighWatermarkAdvanced:
    offset: int


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """Ask the controller for this ISR, each member with its broker epoch; it holds only for a partition that
    is still at this partition epoch."""

    isr: tuple[tuple[int, int], ...]
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class IsrSettled:
    """What was proposed is written, or never will be: the controller need not be asked any more."""


Effect: TypeAlias = HighWatermarkAdvanced | ProposeIsr | IsrSettled
Effects: TypeAlias = tuple[Effect, ...]  # of most inputs there are none, and no list is made to say so


@dataclass(slots=True)
class Follower:
    """What a follower's fetches in this epoch have told. `log_end` is -1 before the first; until `vouched_ms`
    it surely had no other leader."""

    log_end: int = UNKNOWN
    log_start: int = UNKNOWN
    broker_epoch: int = UNKNOWN
    caught_up_ms: int = 0
    fetched_ms: int = 0
    leader_end_at_fetch: int = 0
    refused_ms: int = UNKNOWN
    vouched_ms: int = UNKNOWN


@dataclass(slots=True, kw_only=True)
class Leader:
    broker_id: int
    replicas: tuple[int, ...]
    isr: dict[int, int]  # member -> broker epoch
    partition_epoch: int
    epoch_start: int
    log_end: int
    safe_end: int
    high_watermark: int
    isr_min: int
    lag_ms_max: int
    now_ms: int
    has_eligible: bool = False
    is_held: bool = False
    pending: dict[int, int] | None = None
    followers: dict[int, Follower] = field(init=False)

    def __post_init__(self) -> None:
        self.followers = {}
        self.on_replicas(self.replicas, self.now_ms)

    @property
    def isr_maximal(self) -> dict[int, int]:
        """What may be written; the epochs of what is known to be written come first."""
        return self.isr if self.pending is None else {**self.pending, **self.isr}

    # -- inputs -----------------------------------------------------------------------------------

    def on_append(self, log_end: int, safe_end: int) -> Effects:
        self.log_end, self.safe_end = log_end, safe_end
        return self._advance()

    def on_fetch(
        self,
        follower_id: int,
        offset: int,
        *,
        log_start: int,
        broker_epoch: int,
        now_ms: int,
        vouched_ms: int = UNKNOWN,
    ) -> Effects:
        """A follower asks for `offset`: it holds everything before it. It goes on from what it was answered
        at `vouched_ms`."""
        follower = self.followers.get(follower_id)
        if follower is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if broker_epoch < follower.broker_epoch:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH)
        if broker_epoch > follower.broker_epoch:
            follower.leader_end_at_fetch, follower.refused_ms = self.log_end + 1, UNKNOWN
            follower.vouched_ms = UNKNOWN
        if offset >= self.log_end:
            follower.caught_up_ms = now_ms
        elif offset >= follower.leader_end_at_fetch:
            follower.caught_up_ms = max(follower.caught_up_ms, follower.fetched_ms)
        follower.log_end, follower.log_start, follower.broker_epoch = offset, log_start, broker_epoch
        follower.fetched_ms = now_ms
        follower.vouched_ms = max(follower.vouched_ms, vouched_ms)
        follower.leader_end_at_fetch = self.log_end
        return self._maybe_expand(follower_id, now_ms) + self._advance()

    def on_tick(self, now_ms: int) -> Effects:
        """Propose to go on without those who have been behind for too long."""
        if self.pending is not None:
            return ()
        late = {member for member in self.isr if member in self.followers and self._is_late(member, now_ms)}
        if not late:
            return ()
        return self._propose({member: epoch for member, epoch in self.isr.items() if member not in late})

    def on_state(
        self,
        isr: Mapping[int, int],
        replicas: tuple[int, ...],
        partition_epoch: int,
        now_ms: int,
        *,
        has_eligible: bool = False,
    ) -> Effects:
        """A newer state of this leader's epoch is written. What was proposed on the old one is either in it
        or will never be."""
        assert partition_epoch > self.partition_epoch, "states only move on"
        self._pause_refused(isr, now_ms)
        self.isr, self.partition_epoch = dict(isr), partition_epoch
        self.has_eligible = has_eligible
        self.on_replicas(replicas, now_ms)
        return self.settle() + self._advance()

    def on_replicas(self, replicas: tuple[int, ...], now_ms: int) -> None:
        """A reassignment adds followers, or takes them away. A new one has as long to catch up as any."""
        self.replicas = replicas
        self.followers = {
            replica: self.followers.get(replica) or Follower(caught_up_ms=now_ms)
            for replica in replicas
            if replica != self.broker_id
        }

    def on_refused(self, proposal: ProposeIsr, now_ms: int) -> Effects:
        """The controller says that this proposal is not written and never will be."""
        if self.pending is None or proposal.partition_epoch != self.partition_epoch:
            return ()
        self._pause_refused(self.isr, now_ms)
        return self.settle() + self._advance()

    def settle(self) -> Effects:
        """Nothing is proposed any more."""
        if self.pending is None:
            return ()
        self.pending = None
        return (IsrSettled(),)

    def _pause_refused(self, isr: Mapping[int, int], now_ms: int) -> None:
        """Whoever was proposed and is not admitted is not proposed again at once."""
        for member in (self.pending or {}).keys() - isr.keys():
            if member in self.followers:
                self.followers[member].refused_ms = now_ms + REFUSED_MS

    def on_released(self) -> Effects:
        """What was promised to the leader before is kept."""
        self.is_held = False
        return self._advance()

    # -- what follows -----------------------------------------------------------------------------

    @property
    def certain_until_ms(self) -> int:
        """Until then nobody else can have led; -1 if that cannot be said."""
        if self.has_eligible:
            return UNKNOWN
        until_ms = FOR_EVER_MS
        for member, epoch in self.isr_maximal.items():
            if member == self.broker_id:
                continue
            follower = self.followers.get(member)
            if follower is None or (epoch != follower.broker_epoch and epoch != ANY_EPOCH):
                return UNKNOWN
            if follower.vouched_ms < until_ms:
                until_ms = follower.vouched_ms
        return until_ms

    def low_watermark(self, log_start: int) -> int:
        """Below this no replica in sync has anything any more."""
        starts = (self.followers[member].log_start for member in self.isr_maximal if member in self.followers)
        return min([log_start, *starts])

    def is_in_sync(self, follower_id: int) -> bool:
        return follower_id in self.isr

    def _maybe_expand(self, follower_id: int, now_ms: int) -> Effects:
        follower = self.followers[follower_id]
        if follower_id in self.isr or self.pending is not None or now_ms < follower.refused_ms:
            return ()
        if self.is_held:
            return ()
        if follower.log_end < max(self.high_watermark, self.epoch_start):
            return ()
        return self._propose({**self.isr, follower_id: follower.broker_epoch})

    def _propose(self, isr: dict[int, int]) -> Effects:
        self.pending = isr
        return (ProposeIsr(tuple(sorted(isr.items())), self.partition_epoch),)

    def _is_late(self, follower_id: int, now_ms: int) -> bool:
        follower = self.followers[follower_id]
        return follower.log_end < self.log_end and now_ms - follower.caught_up_ms > self.lag_ms_max

    def _advance(self) -> Effects:
        if self.is_held or self.has_eligible or len(self.isr) < min(self.isr_min, len(self.replicas)):
            return ()
        safe = self.safe_end
        for member, epoch in self.isr_maximal.items():
            if member == self.broker_id:
                continue
            follower = self.followers.get(member)
            if follower is None or epoch not in {ANY_EPOCH, follower.broker_epoch}:
                return ()
            safe = min(safe, follower.log_end)
        if safe <= self.high_watermark:
            return ()
        self.high_watermark = safe
        return (HighWatermarkAdvanced(safe),)
