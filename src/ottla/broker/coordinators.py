"""The coordinators on this broker, and the internal topics that store what they know.

Whoever leads a partition of such a topic coordinates what is stored in it. A coordinator is made when there
is such a partition here, or when somebody asks for it: many brokers never have a group, or a transaction.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.base.config import load
from ottla.base.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from ottla.broker.parked import Waiting
from ottla.broker.producer_ids import ProducerIds
from ottla.controller.image import Image
from ottla.controller.topics import NewTopic
from ottla.group.config import GroupConfig
from ottla.log.chores import OnChore
from ottla.replication.partition import Partition
from ottla.txn.config import TransactionConfig

if TYPE_CHECKING:
    from ottla.broker.groups import Groups
    from ottla.broker.journal import AppendBatch, AppendMarker
    from ottla.broker.transactions import Markers, OnWritten, Transactions


class Coordinators:
    """`append_batch` and `append_marker` append to a partition, at a time and a time of day; `wall_ms` tells
    the time of day; `new_markers` makes what sends the markers of transactions; `on_chore` has a worker read
    what is not in memory."""

    def __init__(
        self,
        properties: dict[str, str],
        image: Image,
        waiting: Waiting,
        append_batch: "AppendBatch",
        append_marker: "AppendMarker",
        wall_ms: Callable[[int], int],
        producer_ids: ProducerIds,
        new_markers: "Callable[[OnWritten], Markers]",
        on_chore: OnChore,
    ) -> None:
        self._properties = properties
        self._image = image
        self._waiting = waiting
        self._append_batch = append_batch
        self._append_marker = append_marker
        self._wall_ms = wall_ms
        self._producer_ids = producer_ids
        self._new_markers = new_markers
        self._on_chore = on_chore
        self._groups: Groups | None = None
        self._transactions: Transactions | None = None

    @property
    def groups(self) -> "Groups":
        if self._groups is None:
            from ottla.broker.groups import Groups  # many brokers have no use for it

            config = load(GroupConfig, self._properties)
            self._groups = Groups(config, self._image, self._waiting.wake, self._wall_ms, self._on_chore)
        return self._groups

    @property
    def groups_here(self) -> "Groups | None":
        """None if there has been no use for it."""
        return self._groups

    @property
    def group_ids(self) -> list[tuple[int, str]]:
        """Of all groups on this broker, with their shards."""
        shards = () if self._groups is None else self._groups.shards()
        return [(index, group_id) for index, shard in shards for group_id in shard.groups]

    @property
    def transactions(self) -> "Transactions":
        if self._transactions is None:
            from ottla.broker.transactions import Transactions  # likewise

            self._transactions = Transactions(
                load(TransactionConfig, self._properties), self._image, self._waiting.wake, self._wall_ms,
                self._producer_ids, self._new_markers, self._on_chore,
            )  # fmt: skip
        return self._transactions

    @property
    def transactions_here(self) -> "Transactions | None":
        """None where there never was a transaction."""
        return self._transactions

    @property
    def is_loading(self) -> bool:
        """Is what is stored being read?"""
        groups, transactions = self._groups, self._transactions
        return (groups is not None and bool(groups.runtime.loading)) or (
            transactions is not None and bool(transactions.runtime.loading)
        )

    @property
    def loading(self) -> dict[str, int]:
        """How many partitions of each internal topic are being read."""
        groups, transactions = self._groups, self._transactions
        return {
            OFFSETS_TOPIC: len(groups.runtime.loading) if groups is not None else 0,
            TRANSACTIONS_TOPIC: len(transactions.runtime.loading) if transactions is not None else 0,
        }

    def internal_topic(self, name: str) -> NewTopic | None:
        """What a coordinator's topic is created as."""
        if name == OFFSETS_TOPIC:
            return self.groups.offsets_topic()
        return self.transactions.state_topic() if name == TRANSACTIONS_TOPIC else None

    # -- partitions of internal topics --

    def on_role(self, partition: Partition, now_ms: int) -> None:
        """This broker leads a partition, or not, by the latest state."""
        topic_partition = partition.topic_partition
        if topic_partition.topic == OFFSETS_TOPIC:
            if partition.is_leader:
                self.groups.on_elected(partition, self._append_batch, self._append_marker, now_ms)
            else:
                self.groups.on_resigned(topic_partition)
        elif topic_partition.topic == TRANSACTIONS_TOPIC:
            if partition.is_leader:
                self.transactions.on_elected(partition, self._append_batch, now_ms)
            else:
                self.transactions.on_resigned(topic_partition)
        else:
            return
        self._waiting.wake(topic_partition, now_ms)

    def on_removed(self, topic_partition: TopicPartition) -> None:
        if topic_partition.topic == OFFSETS_TOPIC:
            self.groups.on_resigned(topic_partition)
        elif topic_partition.topic == TRANSACTIONS_TOPIC:
            self.transactions.on_resigned(topic_partition)

    def on_committed(self, partition: Partition, now_ms: int) -> None:
        """The high watermark of a partition has moved."""
        if self._groups is None and self._transactions is None:
            return
        topic, index = partition.topic_partition
        if topic == OFFSETS_TOPIC and self._groups is not None:
            self._groups.runtime.on_committed(index, partition.high_watermark, now_ms)
        elif topic == TRANSACTIONS_TOPIC and self._transactions is not None:
            self._transactions.runtime.on_committed(index, partition.high_watermark, now_ms)

    # -- what else happens --

    @property
    def has_ends(self) -> bool:
        """Have transactions ended, or are markers written, that `send_ends` has to do with?"""
        return self._transactions is not None and self._transactions.is_due

    def send_ends(self, now_ms: int) -> None:
        """What follows from an input once its answers are sent: the markers of transactions."""
        self.transactions.pump(now_ms)

    def on_topic_deleted(self, topic: str, now_ms: int) -> None:
        if self._groups is not None:
            self._groups.on_topic_deleted(topic, now_ms)

    def on_group_config(self, group_id: str) -> None:
        if self._groups is not None:
            self._groups.on_group_config(group_id)

    def next_ms(self) -> int | None:
        next_ms = self._groups.runtime.next_ms if self._groups is not None else None
        if self._transactions is None:
            return next_ms
        due_ms = self._transactions.next_ms()
        return due_ms if next_ms is None else next_ms if due_ms is None else min(next_ms, due_ms)

    def on_tick(self, now_ms: int) -> None:
        if self._groups is not None:
            self._groups.runtime.on_tick(now_ms)
        if self._transactions is not None:
            self._transactions.on_tick(now_ms)
