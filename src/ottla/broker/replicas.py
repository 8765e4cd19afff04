"""The replicas on this broker in their roles: those that follow fetch from their leaders, those that lead
watch over their followers.

Rules: for every leader there is one `Fetcher`, and at most one fetch under way. A leader that is not
registered is not asked. What is under way when roles change is not called back: its answer finds another
epoch, and is dropped.

A follower's fetch waits at its leader, and cannot name what the leader leads only since then. So when this
broker begins to lead, it lets go of its followers' fetches, and for a moment lets them wait only briefly: the
followers may hear of it a little later. It does the same when somebody waits for what only their next fetch
can tell: that they still follow this leader (`hurry`).

A follower that begins to lead keeps its promise to the leader before (`replication/leader`, rule 8): its high
watermark rests until the promise is over, or until that leader shows that it knows of its replacement: it
fetches in the new epoch, it has lost the replica with its directory, or it had said that it would stop, and
is gone (`Server` does not serve on when it loses the keeper while it stops).
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.base.ids import TopicPartition
from ottla.replication.leader import PROMISE_MS
from ottla.replication.partition import Partition
from ottla.replication.throttle import Throttle

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.replication.follower import Fetcher, Limits
    from ottla.wire.messages.fetch import FetchRequest
    from ottla.wire.messages.list_offsets import ListOffsetsRequest

HURRY_MS = 1_000
HURRIED_WAIT_MS = 25


@dataclass(frozen=True, slots=True)
class Follows:
    """The key under which fetches of a follower wait. There is one for all it follows, since that may be
    thousands of partitions: `Replicas.grown` says which one it is woken for."""

    follower: int


@dataclass(slots=True)
class Replicas:
    broker: "Broker"
    fetchers: "dict[int, Fetcher]" = field(default_factory=dict)
    leaders: dict[TopicPartition, int] = field(default_factory=dict)  # of what is followed here
    led: dict[TopicPartition, Partition] = field(default_factory=dict)  # with followers elsewhere
    leader_throttle: Throttle = field(default_factory=Throttle)
    follower_throttle: Throttle = field(default_factory=Throttle)
    held: dict[TopicPartition, Partition] = field(default_factory=dict)  # those that keep a promise
    grown: TopicPartition | None = None  # what a follower is woken for; None: there is more to follow
    _stopping: set[int] = field(default_factory=set)
    _shrinks_ms: int = 0
    _hurried_ms: dict[int, int] = field(default_factory=dict)  # until when a follower's fetches wait briefly

    # -- roles ------------------------------------------------------------------------------------

    def on_state(self, partition: Partition, now_ms: int, *, changed: bool) -> None:
        """A partition has other replicas, or (`changed`) a new leader or epoch."""
        id = partition.id
        if partition.replication is not None:
            self.led[id] = partition
        else:
            self.led.pop(id, None)
        self._hold_or_release(partition, None, now_ms)
        if not changed:
            return
        if partition.replication is not None:
            self.hurry(partition, now_ms)
        leader = partition.leader if partition.leader not in {-1, self.broker.id} else None
        before = self.leaders.pop(id, None)
        if before is not None and before != leader:
            self.fetchers[before].drop(id)
        if leader is None:
            return
        self.leaders[id] = leader
        self._fetcher(leader).follow(partition)

    def hurry(self, partition: Partition, now_ms: int) -> None:
        """Let the followers of a partition fetch again, and for a moment often, unless they do already."""
        for follower in partition.replication.followers if partition.replication else ():
            if now_ms < self._hurried_ms.get(follower, 0) - HURRIED_WAIT_MS:
                continue
            self._hurried_ms[follower] = now_ms + HURRY_MS
            self.grown = None
            self.broker.waiting.wake(Follows(follower), now_ms)

    # -- promises to earlier leaders --

    def promise(self, partition: Partition) -> None:
        """Before this replica changes its role: the leader it has followed may count on it a while longer."""
        before = self.leaders.get(partition.id)
        vouched_ms = self.fetchers[before].vouched_ms if before is not None else None
        if before is not None and vouched_ms is not None:
            partition.promises[before] = vouched_ms + PROMISE_MS

    def _hold_or_release(self, partition: Partition, leader: int | None, now_ms: int) -> None:
        """Hold what is promised, less what was promised to a `leader` that knows by now that it is none."""
        for promised in list(partition.promises):
            if promised == leader or partition.id in self.broker.image.offline.get(promised, ()):
                del partition.promises[promised]
        if partition.replication is None or not partition.replication.is_held:
            self.held.pop(partition.id, None)
        elif now_ms < partition.promised_until_ms:
            self.held[partition.id] = partition
        else:
            self.held.pop(partition.id, None)
            if partition.end_promises():
                self.broker.on_watermark(partition, now_ms)
            else:
                self.broker.waiting.wake(partition.id, now_ms)  # a coordinator's answers were held, too

    def on_brokers(self, now_ms: int) -> None:
        """A broker came, went, or lost a directory: one that was about to stop, and is gone, has stopped."""
        brokers = self.broker.image.brokers
        for stopped in (None, *(self._stopping - brokers.keys())):
            for partition in list(self.held.values()):
                self._hold_or_release(partition, stopped, now_ms)
        self._stopping = {broker.id for broker in brokers.values() if broker.is_stopping}

    def forget(self, id: TopicPartition) -> None:
        """A partition is no longer here."""
        self.led.pop(id, None)
        self.held.pop(id, None)
        leader = self.leaders.pop(id, None)
        if leader is not None:
            self.fetchers[leader].drop(id)

    def _fetcher(self, leader: int) -> "Fetcher":
        from ottla.replication.follower import Fetcher  # a broker that is alone has no use for it

        found = self.fetchers.get(leader)
        if found is None:
            found = self.fetchers[leader] = Fetcher(
                self.broker.id, leader, self._limits(), self._is_follower_throttled
            )
        return found

    def _limits(self) -> "Limits":
        from ottla.replication.follower import Limits

        config = self.broker.config
        return Limits(
            wait_ms_max=config.replica_fetch_wait_ms_max,
            bytes_min=config.replica_fetch_bytes_min,
            bytes_max=config.replica_fetch_response_bytes_max,
            partition_bytes_max=config.replica_fetch_bytes_max,
            backoff_ms=config.replica_fetch_backoff_ms,
        )

    # -- fetching ---------------------------------------------------------------------------------

    def pump(self, now_ms: int) -> None:
        """Send what is due, and let go of what was held for long enough."""
        for partition in list(self.held.values()):
            self._hold_or_release(partition, None, now_ms)
        broker = self.broker
        if broker.epoch < 0:
            return  # not registered: nobody would count what we have
        for leader in sorted(self.fetchers):
            if leader in broker.image.brokers:
                request = self.fetchers[leader].next_request(now_ms, broker.epoch)
                if request is not None:
                    self._send(leader, request)

    def _send(self, leader: int, request: "FetchRequest | ListOffsetsRequest") -> None:
        def on_answer(answer: Any, now_ms: int) -> None:
            self._on_answer(leader, request, answer, now_ms)

        self.broker.send(leader, "fetch", request, on_answer)

    def _on_answer(
        self, leader: int, request: "FetchRequest | ListOffsetsRequest", answer: Any, now_ms: int
    ) -> None:
        progress = self.fetchers[leader].on_answer(request, answer, now_ms)
        for partition in progress.moved:
            self.broker.on_watermark(partition, now_ms)
        for id, size in progress.bytes.items():
            if self._is_throttled_follower(self.broker.partitions[id]):
                self.follower_throttle.record(size, now_ms)
        for id, error in progress.failed.items():
            self.leaders.pop(id, None)
            self.broker.storage_error(error)
        self.broker.start_syncs(now_ms)
        self.pump(now_ms)

    def next_ms(self) -> int | None:
        if not self.fetchers and not self.held:
            return None
        brokers = self.broker.image.brokers
        due = [partition.promised_until_ms for partition in self.held.values()]
        if self.broker.epoch >= 0:
            fetchers = (fetcher for leader, fetcher in self.fetchers.items() if leader in brokers)
            due += (due_ms for fetcher in fetchers if (due_ms := fetcher.next_ms()) is not None)
        return min(due, default=None)

    # -- leading ----------------------------------------------------------------------------------

    def on_tick(self, now_ms: int) -> None:
        """Look for followers that are late, twice within the time they have."""
        if now_ms >= self._shrinks_ms and self.led:
            self._shrinks_ms = now_ms + max(self.broker.config.replica_lag_time_ms_max // 2, 1)
            for _, partition in sorted(self.led.items()):
                if partition.replication is not None and partition.replication.on_tick(now_ms):
                    self.broker.isr.note(partition)

    def wake(self, partition: Partition, now_ms: int) -> None:
        """Followers may find something in this partition, or no longer the leader."""
        for replica in partition.replicas:
            if replica != self.broker.id:
                self.grown = partition.id
                self.broker.waiting.wake(Follows(replica), now_ms)

    def wait_ms(self, follower: int, asked_ms: int, now_ms: int) -> int:
        """How long a follower's fetch may wait."""
        return min(asked_ms, HURRIED_WAIT_MS) if now_ms < self._hurried_ms.get(follower, 0) else asked_ms

    def on_follower_fetch(
        self,
        partition: Partition,
        follower: int,
        offset: int,
        log_start: int,
        broker_epoch: int,
        vouched_ms: int,
        now_ms: int,
    ) -> None:
        """A follower in the right epoch holds everything before `offset`. One whose incarnation we do not
        know yet tells us nothing until we do."""
        registered = self.broker.image.brokers.get(follower)
        if registered is None or registered.epoch != broker_epoch:
            return
        assert partition.replication is not None, "only a leader with followers is fetched from"
        start = partition.replication.followers[follower].log_start
        if partition.id in self.held:
            self._hold_or_release(partition, follower, now_ms)
        moved = partition.on_follower_fetch(
            follower, offset, log_start=log_start, broker_epoch=broker_epoch, now_ms=now_ms,
            vouched_ms=vouched_ms,
        )  # fmt: skip
        self.broker.proofs.on_follower_fetch(partition, now_ms)
        if moved or start != log_start:
            self.broker.on_watermark(partition, now_ms)  # or who waits for a deletion
        if partition.replication.pending is not None:
            self.broker.isr.note(partition)

    # -- throttles --------------------------------------------------------------------------------

    def _is_throttled_follower(self, partition: Partition) -> bool:
        listed = partition.log.config.follower_replication_throttled_replicas
        return (
            bool(listed)
            and self.broker.id not in partition.isr
            and is_listed(listed, partition, self.broker.id)
        )

    def _is_follower_throttled(self, partition: Partition, now_ms: int) -> bool:
        """Must this follower wait, because others like it have used up the rate?"""
        return self._is_throttled_follower(partition) and self.follower_throttle.is_exceeded(
            self.broker.config.follower_throttled_rate, now_ms
        )

    def is_throttled_leader(self, partition: Partition, follower: int) -> bool:
        listed = partition.log.config.leader_replication_throttled_replicas
        return bool(listed) and follower not in partition.isr and is_listed(listed, partition, self.broker.id)

    def is_leader_exceeded(self, now_ms: int) -> bool:
        return self.leader_throttle.is_exceeded(self.broker.config.leader_throttled_rate, now_ms)


def is_listed(listed: tuple[str, ...], partition: Partition, broker_id: int) -> bool:
    return listed == ("*",) or f"{partition.id.partition}:{broker_id}" in listed
