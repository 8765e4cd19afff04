"""The partitions on this broker: what happens to them, and what follows from that.

Rules: whatever happens to a partition (a batch, a fetch of a follower, a sync, a state, the time) goes in
through `Replicas`, and the effects that come out are carried out there, in `_carry_out`, and nowhere else:

    HighWatermarkAdvanced   coordinators hear of it, and whoever waits for the partition is woken
    ProposeIsr, IsrSettled  the controller is asked for another ISR, or need not be any more (`isr`)
    LeaderChanged           the replica follows its leader, or its followers are let go to find it

A follower's fetch waits at its leader, and cannot name what the leader leads only since then. So when this
broker begins to lead, it lets go of its followers' fetches, and for a moment lets them wait only briefly: the
followers may hear of it a little later. It does the same when somebody waits for what only their next fetch
can tell: that they still follow this leader (`hurry`).

A follower that begins to lead keeps its promise to the leader before (`replication/leader`, rule 8): its high
watermark rests until the promise is over, or until that leader shows that it knows of its replacement: it
fetches in the new epoch, it has lost the replica with its directory, or it had said that it would stop, and
is gone (`Server` does not serve on when it loses the keeper while it stops).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.base.errors import ApiError
from ottla.base.ids import TopicPartition
from ottla.broker.event_digest import EventDigest
from ottla.broker.fetchers import Fetchers
from ottla.broker.isr import IsrChanges
from ottla.broker.late_followers import LateFollowers
from ottla.broker.leadership_proofs import Proofs
from ottla.broker.parked import Waiting
from ottla.broker.ports import Disks, RoleListener
from ottla.broker.replica_counts import ReplicaCounts
from ottla.broker.traffic import Traffic
from ottla.controller.image import Image, PartitionState
from ottla.log.directories import LogDirectoryError
from ottla.log.log import Appended
from ottla.log.validation import Checked, Judge
from ottla.records.check import Budget
from ottla.records.control import MARKER_BYTES, Marker
from ottla.replication.leader import HighWatermarkAdvanced, IsrSettled, ProposeIsr
from ottla.replication.partition import Effects, LeaderChanged, Partition

if TYPE_CHECKING:
    from ottla.replication.follower import Progress

log = logging.getLogger(__name__)

HURRY_MS = 1_000
HURRIED_WAIT_MS = 25


@dataclass(frozen=True, slots=True)
class Follows:
    """The key under which fetches of a follower wait. There is one for all it follows, since that may be
    thousands of partitions: who wakes it says which of them it is about, or, if there are others to follow
    now, nothing."""

    follower: int


@dataclass(slots=True)
class Followers:
    """The brokers that fetch from this one, as far as their fetches wait here."""

    broker_id: int
    waiting: Waiting
    woken: int = 0  # how often any of them was
    _hurried_ms: dict[int, int] = field(default_factory=dict)  # until when a follower's fetches wait briefly

    def wake(self, partition: Partition, now_ms: int) -> None:
        """Followers may find something in this partition, or no longer the leader."""
        self.woken += 1
        for replica in partition.replicas:
            if replica != self.broker_id:
                self.waiting.wake(Follows(replica), now_ms, about=partition.topic_partition)

    def hurry(self, partition: Partition, now_ms: int) -> None:
        """Let the followers of a partition fetch again, and for a moment often, unless they do already."""
        for follower in partition.replication.followers if partition.replication else ():
            if now_ms < self._hurried_ms.get(follower, 0) - HURRIED_WAIT_MS:
                continue
            self._hurried_ms[follower] = now_ms + HURRY_MS
            self.waiting.wake(Follows(follower), now_ms)

    def wait_ms(self, follower: int, asked_ms: int, now_ms: int) -> int:
        """How long a follower's fetch may wait."""
        return min(asked_ms, HURRIED_WAIT_MS) if now_ms < self._hurried_ms.get(follower, 0) else asked_ms


@dataclass(slots=True, kw_only=True)
class Replicas:
    image: Image
    waiting: Waiting
    followers: Followers
    fetchers: Fetchers
    isr: IsrChanges
    proofs: Proofs
    coordinators: RoleListener
    disks: Disks
    traffic: Traffic
    lag_ms_max: Callable[[], int]  # replica.lag.time.max.ms
    counts: ReplicaCounts
    digest: EventDigest
    led: dict[TopicPartition, Partition] = field(default_factory=dict)  # with followers elsewhere
    held: dict[TopicPartition, Partition] = field(default_factory=dict)  # those that keep a promise
    _stopping: set[int] = field(default_factory=set)
    _late_ms: int = 0  # when followers that are late are looked for again

    def _carry_out(self, partition: Partition, effects: Effects, now_ms: int) -> None:
        """What follows from an input to a partition."""
        for effect in effects:
            match effect:
                case HighWatermarkAdvanced():
                    self.coordinators.on_committed(partition, now_ms)
                    self.waiting.wake(partition.topic_partition, now_ms)
                case ProposeIsr():
                    self.isr.propose(partition, effect)
                case IsrSettled():
                    self.isr.settle(partition.topic_partition)
                case LeaderChanged():
                    self.followers.hurry(partition, now_ms)
                    self.fetchers.follow_leader(partition)

    # -- records ----------------------------------------------------------------------------------

    def append(
        self,
        partition: Partition,
        records: memoryview | Checked,
        *,
        acks: int,
        now_ms: int,
        wall_ms: int,
        produce_version: int,
        budget: Budget | None = None,
        judge: Judge | None = None,
    ) -> Appended:
        """A producer's batch, with all that follows from it. One that is not in its log is refused with an
        ApiError."""
        try:
            appended, effects = partition.append(
                records, acks=acks, now_ms=now_ms, wall_ms=wall_ms, produce_version=produce_version,
                budget=budget, judge=judge,
            )  # fmt: skip
        except OSError as error:
            raise ApiError(self.disks.failed(error)) from None
        if not appended.duplicate:
            self._on_appended(partition, effects, now_ms)
        return appended

    def append_internal(
        self, partition: Partition, records: memoryview, now_ms: int, wall_ms: int
    ) -> Appended:
        """A batch of a coordinator of this broker's own, as `append`."""
        try:
            appended, effects = partition.append_internal(records, now_ms, wall_ms)
        except LogDirectoryError as error:
            raise ApiError(self.disks.failed(error)) from None
        _count_written(partition, appended, len(records))
        self._on_appended(partition, effects, now_ms)
        return appended

    def append_marker(self, partition: Partition, marker: Marker, now_ms: int, wall_ms: int) -> Appended:
        """The end of a transaction, as `append`."""
        try:
            appended, effects = partition.append_marker(marker, now_ms, wall_ms)
        except OSError as error:
            raise ApiError(self.disks.failed(error)) from None
        if not appended.duplicate:
            _count_written(partition, appended, MARKER_BYTES)
            self._on_appended(partition, effects, now_ms)
        return appended

    def _on_appended(self, partition: Partition, effects: Effects, now_ms: int) -> None:
        self._carry_out(partition, effects, now_ms)
        if partition.replication is not None:
            self.followers.wake(partition, now_ms)
        self.disks.start_syncs(now_ms)

    def on_synced(self, partition: Partition, now_ms: int) -> None:
        """More of a log is durable."""
        effects = partition.advance()
        self._carry_out(partition, effects, now_ms)
        if not effects:
            self.waiting.wake(partition.topic_partition, now_ms)  # acks=1 does not wait for the watermark

    def on_fetched(self, progress: "Progress", now_ms: int) -> None:
        """A leader has answered a fetch of this broker's followers."""
        for partition, effects in progress.effects:
            self._carry_out(partition, effects, now_ms)
        self.traffic.replication_bytes_in += sum(progress.bytes.values())
        for error in progress.failed.values():
            self.disks.failed(error)
        self.disks.start_syncs(now_ms)
        self.pump(now_ms)

    # -- followers --------------------------------------------------------------------------------

    def on_follower_fetch(
        self,
        partition: Partition,
        follower: int,
        offset: int,
        *,
        log_start: int,
        broker_epoch: int,
        vouched_ms: int,
        now_ms: int,
    ) -> None:
        """A follower in the right epoch holds everything before `offset`. One whose incarnation we do not
        know yet tells us nothing until we do."""
        registered = self.image.brokers.get(follower)
        if registered is None or registered.epoch != broker_epoch:
            return
        assert partition.replication is not None, "only a leader with followers is fetched from"
        start = partition.replication.followers[follower].log_start
        if partition.topic_partition in self.held:
            self._hold_or_release(partition, follower, now_ms)
        effects = partition.on_follower_fetch(
            follower, offset, log_start=log_start, broker_epoch=broker_epoch, now_ms=now_ms,
            vouched_ms=vouched_ms,
        )  # fmt: skip
        self.proofs.on_follower_fetch(partition, now_ms)
        self._carry_out(partition, effects, now_ms)
        if start != log_start:
            self.waiting.wake(partition.topic_partition, now_ms)  # who waits for a deletion

    def on_tick(self, now_ms: int) -> None:
        """Look for followers that are late, twice within the time they have."""
        if now_ms >= self._late_ms and self.led:
            self._late_ms = now_ms + max(self.lag_ms_max() // 2, 1)
            late = LateFollowers()
            for _, partition in sorted(self.led.items()):
                effects = partition.on_tick(now_ms)
                if effects:
                    late.add(partition, effects, now_ms)
                    self._carry_out(partition, effects, now_ms)
            late.say(self.lag_ms_max())

    def on_refused(self, partition: Partition, proposal: ProposeIsr, now_ms: int) -> None:
        """The controller says that what was proposed is not written and never will be."""
        self._carry_out(partition, partition.on_refused(proposal, now_ms), now_ms)

    # -- roles ------------------------------------------------------------------------------------

    def on_state(self, partition: Partition, state: PartitionState, broker_epoch: int, now_ms: int) -> None:
        """The keeper has a state of a partition: who leads it, and who is in sync."""
        self.fetchers.promise(partition)
        before = _role(partition)
        effects = partition.on_state(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            replicas=state.replicas,
            partition_epoch=state.partition_epoch,
            isr_epochs=state.isr_epochs,
            elr=state.elr,
            broker_epoch=broker_epoch,
            lag_ms_max=self.lag_ms_max(),
            now_ms=now_ms,
        )
        effects += partition.advance()
        if partition.replication is not None:
            self.led[partition.topic_partition] = partition
        else:
            self.led.pop(partition.topic_partition, None)
        self._hold_or_release(partition, None, now_ms)
        self._carry_out(partition, effects, now_ms)
        self.coordinators.on_role(partition, now_ms)
        if _role(partition) != before:
            leader, leader_epoch, was_leader, isr = before
            if partition.is_leader and leader_epoch >= 0:  # else this broker knows of no ISR before
                self.counts.on_isr(isr, partition.isr)
            self._say_role(partition, leader, leader_epoch, was_leader)
            self.waiting.wake(partition.topic_partition, now_ms)
            self.followers.wake(partition, now_ms)

    def _say_role(self, partition: Partition, leader: int, leader_epoch: int, was_leader: bool) -> None:
        """What it means here that somebody else leads than before, or in another epoch."""
        name, leads = partition.topic_partition, partition.leader
        if partition.is_leader and (not was_leader or partition.leader_epoch != leader_epoch):
            self.digest.add(log, logging.INFO, "%s: this broker leads now", name, leader=leads)
        elif leads == partition.broker_id or (leads == leader and not was_leader):
            return  # as before, or once the controller has confirmed it
        elif leads >= 0:
            template = "%s: this broker follows broker %d now"
            self.digest.add(log, logging.INFO, template, name, leads, leader=leads)
        else:
            self.digest.add(log, logging.INFO, "%s: nobody leads now", name, leader=leads)

    def on_config(self, partition: Partition, now_ms: int) -> None:
        """The log of a partition has another config."""
        self._carry_out(partition, partition.on_config(), now_ms)

    def on_removed(self, partition: Partition, now_ms: int) -> None:
        """A partition is no longer here."""
        self.led.pop(partition.topic_partition, None)
        self.held.pop(partition.topic_partition, None)
        self.fetchers.forget(partition.topic_partition)
        self._carry_out(partition, partition.on_removed(), now_ms)
        self.digest.add(log, logging.INFO, "%s: no longer on this broker", partition.topic_partition)

    # -- promises to earlier leaders --------------------------------------------------------------

    def _hold_or_release(self, partition: Partition, leader: int | None, now_ms: int) -> None:
        """Hold what is promised, less what was promised to a `leader` that knows by now that it is none."""
        topic_partition = partition.topic_partition
        for promised in list(partition.promises):
            if promised == leader or topic_partition in self.image.offline.get(promised, ()):
                del partition.promises[promised]
        if partition.replication is None or not partition.replication.is_held:
            self.held.pop(topic_partition, None)
        elif now_ms < partition.promised_until_ms:
            self.held[topic_partition] = partition
        else:
            self.held.pop(topic_partition, None)
            effects = partition.end_promises()
            self._carry_out(partition, effects, now_ms)
            if not effects:
                self.waiting.wake(topic_partition, now_ms)  # a coordinator's answers were held, too

    def on_brokers(self, now_ms: int) -> None:
        """A broker came, went, or lost a directory: one that was about to stop, and is gone, has stopped."""
        brokers = self.image.brokers
        for stopped in (None, *(self._stopping - brokers.keys())):
            for partition in list(self.held.values()):
                self._hold_or_release(partition, stopped, now_ms)
        self._stopping = {broker.id for broker in brokers.values() if broker.is_stopping}

    # -- time -------------------------------------------------------------------------------------

    def pump(self, now_ms: int) -> None:
        """Let go of what was held for long enough, and fetch what is due."""
        for partition in list(self.held.values()):
            self._hold_or_release(partition, None, now_ms)
        self.fetchers.pump(now_ms)

    def next_ms(self) -> int | None:
        fetch_ms = self.fetchers.next_ms()
        if not self.held:
            return fetch_ms
        promised_ms = min(partition.promised_until_ms for partition in self.held.values())
        return promised_ms if fetch_ms is None else min(promised_ms, fetch_ms)


def _count_written(partition: Partition, appended: Appended, size: int) -> None:
    """A batch of this broker's own. Those of producers are counted where they come in."""
    traffic = partition.traffic
    traffic.produce_requests += 1
    traffic.messages_in += appended.last_offset - appended.base_offset + 1
    traffic.bytes_in += size


def _role(partition: Partition) -> tuple[int, int, bool, tuple[int, ...]]:
    return partition.leader, partition.leader_epoch, partition.is_leader, partition.isr
