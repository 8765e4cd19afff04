"""A partition on this broker: its log, who leads it, how far it is safe to read.

Rules: everything that moves the high watermark lives here or, where there are followers, in `leader`; it
never goes back while an epoch lasts. With this broker as the only replica, what the log calls safe is
committed. A follower's is that of its leader, as far as its own log goes.

A broker leads while the state names it, and names the epoch in which this broker is registered now: after a
restart it waits for the controller, which knows whether its log can be trusted (design note 003). A state
that gives epoch 0 or none comes from a keeper that does not tell incarnations apart.

A follower cuts its log only where its leader's epochs say that they part, never at its high watermark
(KIP-101, KIP-279).

Every input answers with what follows from it, as effects: whoever gives it must carry them out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.log.epochs import NO_EPOCH
from ottla.log.log import Appended, Log
from ottla.log.validation import Checked, Judge
from ottla.records.check import Budget
from ottla.records.control import Marker
from ottla.replication import leader as leaders
from ottla.replication.leader import ANY_EPOCH, LEASE_MS, UNKNOWN, HighWatermarkAdvanced, Leader, ProposeIsr
from ottla.replication.traffic import TopicTraffic

LAG_MS_MAX = 30_000


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """Who leads, or in which epoch, is another than before."""


Effect: TypeAlias = leaders.Effect | LeaderChanged
Effects: TypeAlias = tuple[Effect, ...]


@dataclass(slots=True, kw_only=True)
class Partition:
    topic_partition: TopicPartition
    topic_id: bytes
    log: Log
    broker_id: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    high_watermark: int
    replicas: tuple[int, ...] = ()
    partition_epoch: int = -1
    is_leader: bool = False
    promises: dict[int, int] = field(default_factory=dict)  # leaders before; until when each may count on us
    seen: object = None  # the state as it was last given, so that the same one need not be given again
    replication: Leader | None = None  # where this broker leads and there are followers
    traffic: TopicTraffic = field(default_factory=TopicTraffic)  # of all partitions of its topic

    # -- who leads --------------------------------------------------------------------------------

    def on_state(
        self,
        *,
        leader: int,
        leader_epoch: int,
        isr: tuple[int, ...],
        replicas: tuple[int, ...] = (),
        partition_epoch: int = 0,
        isr_epochs: Sequence[int] = (),
        elr: Sequence[int] = (),
        broker_epoch: int = 0,
        lag_ms_max: int = LAG_MS_MAX,
        now_ms: int = 0,
    ) -> Effects:
        """The controller says who leads. A new epoch begins at the end of the log, also before its first
        write."""
        if (leader_epoch, partition_epoch) < (self.leader_epoch, self.partition_epoch):
            return ()  # an older state than the one we have
        epochs = dict(zip(isr, isr_epochs, strict=False))
        own_epoch = epochs.get(self.broker_id) if epochs else 0
        is_leader = leader == self.broker_id and own_epoch in {0, broker_epoch}
        changed = (leader, leader_epoch, is_leader) != (self.leader, self.leader_epoch, self.is_leader)
        if is_leader and changed:
            self.log.assign_epoch(leader_epoch)
        is_newer = leader_epoch > self.leader_epoch or partition_epoch > self.partition_epoch
        self.leader, self.leader_epoch, self.isr, self.is_leader = leader, leader_epoch, isr, is_leader
        self.replicas, self.partition_epoch = replicas, partition_epoch
        effects: Effects = (LeaderChanged(),) if changed else ()
        if changed or not is_leader:
            effects += self._end_replication()
        if not is_leader:
            return effects
        members = {member: epochs.get(member, ANY_EPOCH) for member in isr}
        if self.replication is None:
            if len(replicas) > 1 or self._is_promised_to_others(now_ms):
                self._begin_replication(members, bool(elr), lag_ms_max, now_ms)
        elif is_newer:
            effects += self._follow(
                self.replication.on_state(members, replicas, partition_epoch, now_ms, has_eligible=bool(elr))
            )
        elif replicas != self.replication.replicas:
            self.replication.on_replicas(replicas, now_ms)
        return effects

    def _begin_replication(
        self, isr: dict[int, int], has_eligible: bool, lag_ms_max: int, now_ms: int
    ) -> None:
        self.replication = Leader(
            broker_id=self.broker_id,
            replicas=self.replicas,
            isr=isr,
            partition_epoch=self.partition_epoch,
            epoch_start=self.log.epochs.latest_start,
            log_end=self.log.log_end_offset,
            safe_end=self.log.safe_end,
            high_watermark=self.high_watermark,
            isr_min=self.log.config.min_insync_replicas,
            has_eligible=has_eligible,
            is_held=now_ms < self.promised_until_ms,
            lag_ms_max=lag_ms_max,
            now_ms=now_ms,
        )

    def _end_replication(self) -> Effects:
        ended, self.replication = self.replication, None
        return () if ended is None else ended.settle()

    def on_removed(self) -> Effects:
        """It is not here any more: this broker neither leads nor follows it."""
        self.is_leader = False
        return self._end_replication()

    def on_config(self) -> Effects:
        """The log has a new config."""
        if self.replication is not None:
            self.replication.isr_min = self.log.config.min_insync_replicas
        return self.advance()

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuse a caller who knows another epoch than ours (KIP-320)."""
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Refuse what only the leader may answer, and a caller who knows another epoch."""
        self.check_epoch(current_leader_epoch)
        if not self.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # -- writing, as leader -----------------------------------------------------------------------

    def append(
        self,
        records: memoryview | Checked,
        *,
        acks: int,
        now_ms: int,
        wall_ms: int,
        produce_version: int,
        budget: Budget | None = None,
        judge: Judge | None = None,
    ) -> tuple[Appended, Effects]:
        """A producer's batch; one that was written before is not written again. (A transaction's first batch
        is to be verified before it comes here.)"""
        self._check_writable(acks)
        appended = self.log.append(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            wall_ms=wall_ms,
            produce_version=produce_version,
            budget=budget,
            judge=judge,
        )
        return appended, () if appended.duplicate else self.advance()

    def append_internal(self, records: memoryview, now_ms: int, wall_ms: int) -> tuple[Appended, Effects]:
        """A batch of this broker's own making: what a coordinator stores."""
        self._check_writable(-1)
        appended = self.log.append(
            records, leader_epoch=self.leader_epoch, now_ms=now_ms, wall_ms=wall_ms, internal=True
        )
        return appended, self.advance()

    def append_marker(self, marker: Marker, now_ms: int, wall_ms: int) -> tuple[Appended, Effects]:
        """The end of a transaction; one that was written before is not written again."""
        self._check_writable(-1)
        appended = self.log.append_marker(
            marker, leader_epoch=self.leader_epoch, now_ms=now_ms, wall_ms=wall_ms
        )
        return appended, () if appended.duplicate else self.advance()

    def _check_writable(self, acks: int) -> None:
        if not self.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == -1 and self.is_under_min_isr:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.isr)} replicas of {self.topic_partition} are in sync, "
                f"min.insync.replicas asks for {self.log.config.min_insync_replicas}.",
            )

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        """Of a partition with fewer replicas than min.insync.replicas, all must be in sync (since Kafka 3.7,
        KIP-966)."""
        in_sync = len(self.isr)
        return in_sync < self.log.config.min_insync_replicas and in_sync < len(self.replicas)

    def advance(self) -> Effects:
        """The log has grown, or more of it is safe: move the high watermark as far as the in-sync replicas
        allow."""
        if self.replication is not None:
            return self._follow(self.replication.on_append(self.log.log_end_offset, self.log.safe_end))
        if not self.is_leader:
            return ()
        safe = self.log.safe_end
        if safe <= self.high_watermark:
            return ()
        self.high_watermark = safe
        return (HighWatermarkAdvanced(safe),)

    def is_acknowledged(self, end_offset: int, acks: int) -> bool:
        """Is everything before `end_offset` as safe as `acks` asks?"""
        return (self.high_watermark if acks == -1 else self.log.safe_end) >= end_offset

    def _follow(self, effects: leaders.Effects) -> Effects:
        """Let the high watermark follow that of `replication`."""
        for effect in effects:
            if isinstance(effect, HighWatermarkAdvanced):
                self.high_watermark = effect.offset
        return effects

    def on_follower_fetch(
        self,
        follower_id: int,
        offset: int,
        *,
        log_start: int,
        broker_epoch: int,
        now_ms: int,
        vouched_ms: int = UNKNOWN,
    ) -> Effects:
        """A follower of this epoch holds everything before `offset`."""
        assert self.replication is not None, "only a leader with followers is fetched from"
        return self._follow(
            self.replication.on_fetch(
                follower_id, offset, log_start=log_start, broker_epoch=broker_epoch, now_ms=now_ms,
                vouched_ms=vouched_ms,
            )
        )  # fmt: skip

    def on_tick(self, now_ms: int) -> Effects:
        """Followers may be late by now."""
        return () if self.replication is None else self.replication.on_tick(now_ms)

    @property
    def promised_until_ms(self) -> int:
        return max(self.promises.values(), default=0)

    def _is_promised_to_others(self, now_ms: int) -> bool:
        return any(
            now_ms < until_ms for leader, until_ms in self.promises.items() if leader != self.broker_id
        )

    def end_promises(self) -> Effects:
        """What this broker promised as a follower is kept."""
        self.promises.clear()
        return () if self.replication is None else self._follow(self.replication.on_released())

    def on_refused(self, proposal: ProposeIsr, now_ms: int) -> Effects:
        """What this leader proposed is not written and never will be."""
        return () if self.replication is None else self._follow(self.replication.on_refused(proposal, now_ms))

    # -- following --------------------------------------------------------------------------------

    def on_fetched(self, records: memoryview, high_watermark: int, log_start: int, now_ms: int) -> Effects:
        """What the leader has after the end of this log, and how far it is committed there."""
        if records:
            self.log.append_batches(records, now_ms)
        effects: Effects = ()
        committed = min(high_watermark, self.log.log_end_offset)
        if committed > self.high_watermark:
            self.high_watermark, effects = committed, (HighWatermarkAdvanced(committed),)
        if log_start > self.log.log_start_offset:
            self.log.advance_log_start(min(log_start, self.high_watermark))
        return effects

    def on_diverged(self, epoch: int, end_offset: int, now_ms: int) -> None:
        """The leader has no more than `end_offset` of `epoch`, and nothing of what came after it here: cut
        off what it does not have. If this log does not know that epoch, the leader must be asked again."""
        log = self.log
        own_epoch, end = log.epochs.end_offset_for(epoch, log.log_end_offset)
        cut = end if own_epoch >= 0 else end_offset
        log.truncate_to(min(end, end_offset) if own_epoch == epoch else cut, now_ms)
        # A broker that led and wrote nothing has an epoch without a record, which no cut takes away.
        log.epochs.truncate_from_end(log.log_end_offset)
        self.high_watermark = min(self.high_watermark, log.log_end_offset)

    def restart_at(self, offset: int, now_ms: int) -> None:
        """Nothing of this log is of use any more: the leader begins later than it ends."""
        self.log.truncate_fully_and_start_at(offset, now_ms)
        self.high_watermark = offset

    # -- reading ----------------------------------------------------------------------------------

    def visible_end(self, read_committed: bool) -> int:
        """Where a consumer's view ends: the high watermark, or the last stable offset if that is lower."""
        if not read_committed:
            return self.high_watermark
        return self.last_stable_offset

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset(self.high_watermark)

    @property
    def is_settled(self) -> bool:
        """Has the high watermark reached what this leader began with? Before that, consumers may have seen
        more of an earlier leader (KIP-207)."""
        return self.replication is None or self.high_watermark >= self.replication.epoch_start

    def led_at(self, time_ms: int, now_ms: int) -> bool:
        """Has this broker surely led at that time, by what its followers say? Then nobody knows more of it
        than this leader (design note 007)."""
        if not self.is_leader:
            return False
        if self.replication is None:
            return True
        until_ms = self.replication.certain_until_ms
        return until_ms >= time_ms or until_ms + LEASE_MS >= now_ms

    @property
    def low_watermark(self) -> int:
        start = self.log.log_start_offset
        return start if self.replication is None else self.replication.low_watermark(start)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above `epoch`, and where it ended; (-1, -1) if this log knows of none."""
        return self.log.epochs.end_offset_for(epoch, self.log.log_end_offset)

    def delete_records(self, offset: int) -> int:
        """DeleteRecords: move the log start; -1 means all that is committed. Answers the new start."""
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} can be cut at 0 to {self.high_watermark}, not at {offset}.",
            )
        self.log.advance_log_start(target)
        return self.log.log_start_offset


@dataclass(frozen=True, slots=True)
class HighWatermarks(Mapping[TopicPartition, int]):
    """The high watermarks of all partitions, made only when somebody reads them."""

    partitions: Mapping[TopicPartition, Partition]

    def __getitem__(self, topic_partition: TopicPartition) -> int:
        return self.partitions[topic_partition].high_watermark

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self.partitions)

    def __len__(self) -> int:
        return len(self.partitions)
