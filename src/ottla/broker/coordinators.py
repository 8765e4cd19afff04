"""The coordinators on this broker, and the internal topics that store what they know.

Whoever leads a partition of such a topic coordinates what is stored in it. A coordinator is made when there
is such a partition here, or when somebody asks for it: many brokers never have a group.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.base.config import load
from ottla.base.ids import OFFSETS_TOPIC, TopicPartition
from ottla.broker.parked import Waiting
from ottla.controller.image import Image
from ottla.group.config import GroupConfig
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.groups import Groups
    from ottla.broker.journal import AppendBatch, AppendMarker


class Coordinators:
    """`append_batch` and `append_marker` append to a partition, at a time and a time of day; `wall_ms` tells
    the time of day."""

    def __init__(
        self,
        properties: dict[str, str],
        image: Image,
        waiting: Waiting,
        append_batch: "AppendBatch",
        append_marker: "AppendMarker",
        wall_ms: Callable[[int], int],
    ) -> None:
        self._properties = properties
        self._image = image
        self._waiting = waiting
        self._append_batch = append_batch
        self._append_marker = append_marker
        self._wall_ms = wall_ms
        self._groups: Groups | None = None

    @property
    def groups(self) -> "Groups":
        if self._groups is None:
            from ottla.broker.groups import Groups  # many brokers have no use for it

            config = load(GroupConfig, self._properties)
            self._groups = Groups(config, self._image, self._waiting.wake, self._wall_ms)
        return self._groups

    @property
    def is_loading(self) -> bool:
        """Is what is stored being read?"""
        return self._groups is not None and bool(self._groups.runtime.loading)

    # -- partitions of internal topics --

    def on_role(self, partition: Partition, now_ms: int) -> None:
        """This broker leads a partition, or not, by the latest state."""
        topic_partition = partition.topic_partition
        if topic_partition.topic != OFFSETS_TOPIC:
            return
        if partition.is_leader:
            self.groups.on_elected(partition, self._append_batch, self._append_marker, now_ms)
        else:
            self.groups.on_resigned(topic_partition)
        self._waiting.wake(topic_partition, now_ms)

    def on_removed(self, topic_partition: TopicPartition) -> None:
        if topic_partition.topic == OFFSETS_TOPIC:
            self.groups.on_resigned(topic_partition)

    def on_committed(self, partition: Partition, now_ms: int) -> None:
        """The high watermark of a partition has moved."""
        if self._groups is None:
            return
        topic, index = partition.topic_partition
        if topic == OFFSETS_TOPIC:
            self._groups.runtime.on_committed(index, partition.high_watermark, now_ms)

    # -- what else happens --

    def on_topic_deleted(self, topic: str, now_ms: int) -> None:
        if self._groups is not None:
            self._groups.on_topic_deleted(topic, now_ms)

    def on_group_config(self, group_id: str) -> None:
        if self._groups is not None:
            self._groups.on_group_config(group_id)

    def next_ms(self) -> int | None:
        return self._groups.runtime.next_ms if self._groups is not None else None

    def on_tick(self, now_ms: int) -> None:
        if self._groups is not None:
            self._groups.runtime.on_tick(now_ms)
