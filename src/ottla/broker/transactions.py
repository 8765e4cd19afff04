"""The transaction coordinator on this broker: which transactional ids are ours, and the topic of them.

An id belongs to the partition of `__transaction_state` that it hashes to, and whoever leads that partition
coordinates it. The shard is loaded when leadership comes, in slices, and dropped when it goes; the next
leader sends the markers that are still to be written.

Ends that are committed are kept until `pump`, which runs on a tick and after every input, behind its answers:
they may arise in the middle of a write to the very partition that the completion would be written to, and who
has ended a transaction need not wait for its markers.
"""

import logging
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TRANSACTIONS_TOPIC, TopicPartition
from ottla.broker.internal_partitions import InternalTopic, report_failure, report_left_out, shard_of_key
from ottla.broker.journal import AppendBatch, PartitionJournal
from ottla.broker.producer_ids import ProducerIds
from ottla.controller.image import Image
from ottla.controller.topics import NewTopic
from ottla.coordinator.runtime import Runtime
from ottla.log.chores import OnChore
from ottla.replication.partition import Partition
from ottla.txn.config import TransactionConfig
from ottla.txn.markers import EndedTransaction
from ottla.txn.memory import room_bytes
from ottla.txn.shard import TransactionShard

log = logging.getLogger(__name__)

COMMIT_TIMEOUT_MS: Final = 30_000
_FULL_PART: Final = 256
_ROOMY_PART: Final = 16

OnWritten = Callable[[int, EndedTransaction, Collection[TopicPartition], int], None]


@dataclass(frozen=True, slots=True)
class Completed:
    """The key under which those wait who can do nothing before a transaction is complete."""

    transactional_id: str


class Markers(Protocol):
    """Brings the ends of transactions to the leaders of their partitions (`transaction_markers`)."""

    committed: int
    aborted: int

    def outstanding(self) -> int: ...
    def delayed(self) -> int: ...
    def add(self, shard: int, transaction: EndedTransaction, now_ms: int) -> None: ...
    def drop(self, shard: int) -> None: ...
    def pump(self, now_ms: int) -> None: ...
    def next_ms(self) -> int | None: ...


class Transactions:
    """`wake` wakes what is parked under an answer, or under a partition; `wall_ms` tells the time of day;
    `new_markers` makes what sends markers, and calls back; `on_chore` has a worker read what is not in
    memory."""

    commit_timeout_ms = COMMIT_TIMEOUT_MS

    def __init__(
        self,
        config: TransactionConfig,
        image: Image,
        wake: Callable[[Hashable, int], None],
        wall_ms: Callable[[int], int],
        producer_ids: ProducerIds,
        new_markers: Callable[[OnWritten], Markers],
        on_chore: OnChore,
    ) -> None:
        self.config = config
        self.image = image
        self._wake = wake
        self._producer_ids = producer_ids
        self._topic = InternalTopic(
            TRANSACTIONS_TOPIC, "transactions", "transaction.state.log.replication.factor"
        )
        self._is_full = False  # and it was said
        self._ended: list[tuple[int, EndedTransaction]] = []
        self._is_pumping = False
        self.markers = new_markers(self._on_written)
        self.runtime: Runtime[TransactionShard] = Runtime(
            new_shard=self._new_shard,
            on_answered=wake,
            on_reloaded=self._on_reloaded,
            on_failed=partial(report_failure, TRANSACTIONS_TOPIC, "transactional ids"),
            on_left_out=partial(report_left_out, TRANSACTIONS_TOPIC),
            wall_ms=wall_ms,
            on_chore=on_chore,
        )

    def _new_shard(self, index: int) -> TransactionShard:
        return TransactionShard(
            self.config,
            level=lambda: self.image.transaction_version,
            take_producer_id=self._producer_ids.take,
            send_markers=lambda ended: self._ended.append((index, ended)),
            coordinator_epoch=lambda: self.runtime.shards[index].leader_epoch,
            room_bytes=self.room_bytes,
        )

    # -- partitions of the topic --

    def on_elected(self, partition: Partition, append_batch: AppendBatch, now_ms: int) -> None:
        """This broker leads a partition of the topic: take up what is stored there. If some of that cannot be
        read, its ids have no coordinator: to go on without it could commit what was aborted."""
        index = partition.topic_partition.partition
        loaded = self.runtime.shards.get(index)
        if loaded is None or loaded.leader_epoch < partition.leader_epoch:
            self._drop(index)
        self._producer_ids.fetch_ahead()
        self.runtime.load(index, PartitionJournal(partition, append_batch), partition.leader_epoch, now_ms)

    def on_resigned(self, topic_partition: TopicPartition) -> None:
        self.runtime.unload(topic_partition.partition)
        self._drop(topic_partition.partition)

    def _on_reloaded(self, index: int, now_ms: int) -> None:
        self._drop(index)
        self._wake(TopicPartition(TRANSACTIONS_TOPIC, index), now_ms)

    def _drop(self, index: int) -> None:
        self._ended = [(shard, ended) for shard, ended in self._ended if shard != index]
        self.markers.drop(index)

    def partition_of(self, transactional_id: str) -> TopicPartition:
        topic = self.image.topics.get(TRANSACTIONS_TOPIC)
        count = len(topic.assignment) if topic else self.config.state_partitions
        return TopicPartition(TRANSACTIONS_TOPIC, shard_of_key(transactional_id, count))

    # -- operations --

    def check_key(self, transactional_id: str) -> None:
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "A transactional id is not empty.")

    def shard_of(self, transactional_id: str) -> TransactionShard:
        return self.runtime.shard(self.partition_of(transactional_id).partition)

    def is_completing(self, transactional_id: str) -> bool:
        """Is the end of a transaction decided, and are its markers still on their way?"""
        loaded = self.runtime.shards.get(self.partition_of(transactional_id).partition)
        transaction = None if loaded is None else loaded.shard.transactions.get(transactional_id)
        return transaction is not None and transaction.is_prepared

    def shards(self) -> Iterator[tuple[int, TransactionShard]]:
        return ((index, loaded.shard) for index, loaded in sorted(self.runtime.shards.items()))

    # -- markers --

    def pump(self, now_ms: int) -> None:
        """Send what has ended; what comes of it may be the end of others, which wait for the next round."""
        if self._is_pumping:
            return
        self._is_pumping = True
        try:
            ended, self._ended = self._ended, []
            for index, transaction in ended:
                self.markers.add(index, transaction, now_ms)
            self.markers.pump(now_ms)
        finally:
            self._is_pumping = False

    def _on_written(
        self, index: int, ended: EndedTransaction, partitions: Collection[TopicPartition], now_ms: int
    ) -> None:
        """Where the completion cannot be stored now, its shard tries that until it can, or is gone."""
        try:
            self.runtime.execute(
                index, now_ms, lambda shard, turn: shard.on_markers_written(turn, ended, partitions)
            )
        except ApiError:
            with suppress(ApiError):
                self.runtime.execute(
                    index, now_ms, lambda shard, turn: shard.complete_later(turn, ended.transactional_id)
                )
        else:
            self._wake(Completed(ended.transactional_id), now_ms)

    # -- time --

    @property
    def is_due(self) -> bool:
        """Has `pump` something to do?"""
        return bool(self._ended) or self.markers.next_ms() == 0

    def next_ms(self) -> int | None:
        if self._ended:
            return 0
        due = [due_ms for due_ms in (self.runtime.next_ms, self.markers.next_ms()) if due_ms is not None]
        return min(due, default=None)

    def on_tick(self, now_ms: int) -> None:
        self.runtime.on_tick(now_ms)
        self.pump(now_ms)

    # -- memory --

    def room_bytes(self, is_new: bool) -> int:
        """How much more memory ids may take on this broker; when it comes to an end, a line says so."""
        limit = self.config.memory_bytes_max
        # Lists, as that is asked with every transaction and there may be 50 shards.
        held = sum([loaded.shard.held_bytes for loaded in self.runtime.shards.values()])
        held += sum([loading.shard.held_bytes for loading in self.runtime.loading.values()])
        room = room_bytes(limit, held, is_new=is_new)
        if room < limit // _FULL_PART and is_new:
            if not self._is_full:
                self._is_full = True
                log.warning(
                    "new transactional ids are refused, POLICY_VIOLATION: those that there are take three "
                    "quarters of their memory; let them expire sooner (transactional.id.expiration.ms), or "
                    "raise ottla.transactions.max.bytes (%d)", limit,
                )  # fmt: skip
        elif room > limit // _ROOMY_PART:
            self._is_full = False
        return room

    # -- the topic itself --

    def state_topic(self) -> NewTopic:
        """What `__transaction_state` is created as."""
        return self._topic.new(
            len(self.image.brokers),
            self.config.state_partitions,
            self.config.state_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(self.config.state_isr_min),
                "segment.bytes": str(self.config.state_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
