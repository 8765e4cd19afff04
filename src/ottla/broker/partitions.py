"""The partitions that are here: they come, change and go as the image says.

A partition that should be here is opened, or its log is made when its turn comes (`log_queue`). One that
is lost with its directory is not made anew elsewhere: it is gone until the next start, requests for it are
answered KAFKA_STORAGE_ERROR, and what is parked on it is woken to hear that.
"""

import logging
from collections.abc import ItemsView, Iterator, Mapping, ValuesView

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.log_fields import fields
from ottla.broker.config_copies import ConfigCopies
from ottla.broker.coordinators import Coordinators
from ottla.broker.log_queue import LogQueue
from ottla.broker.parked import Waiting
from ottla.broker.replicas import Followers, Replicas
from ottla.broker.settings import Settings
from ottla.broker.storage import Storage
from ottla.broker.traffic import Traffic
from ottla.controller.image import Image, PartitionState, Topic
from ottla.log.directories import LogDirectoryError
from ottla.log.durability import Sync
from ottla.log.log import Log
from ottla.replication.leader import PROMISE_MS
from ottla.replication.partition import Partition

log = logging.getLogger(__name__)


class Partitions(Mapping[TopicPartition, Partition]):
    def __init__(
        self,
        settings: Settings,
        image: Image,
        storage: Storage,
        waiting: Waiting,
        replicas: Replicas,
        followers: Followers,
        coordinators: Coordinators,
        copies: ConfigCopies,
        traffic: Traffic,
    ) -> None:
        self.opened_ms = 0  # when the broker was
        self._here: dict[TopicPartition, Partition] = {}
        self._settings = settings
        self._image = image
        self._storage = storage
        self._store = storage.store
        self._waiting = waiting
        self._replicas = replicas
        self._followers = followers
        self._coordinators = coordinators
        self._copies = copies
        self._traffic = traffic
        self.log_queue = LogQueue(image, storage.store, self.follow, waiting.wake)

    def __getitem__(self, topic_partition: TopicPartition) -> Partition:
        return self._here[topic_partition]

    def __contains__(self, topic_partition: object) -> bool:
        return topic_partition in self._here

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._here)

    def __len__(self) -> int:
        return len(self._here)

    def items(self) -> ItemsView[TopicPartition, Partition]:
        return self._here.items()  # several times as quick as what a Mapping makes of the above

    def values(self) -> ValuesView[Partition]:
        return self._here.values()

    def get(self, topic_partition: TopicPartition) -> Partition | None:  # type: ignore[override]
        return self._here.get(topic_partition)

    def find(self, topic: str, index: int) -> Partition:
        """The partition if this broker holds it, else the error that tells a client where it stands."""
        topic_partition = tuple.__new__(TopicPartition, (topic, index))  # in half the time of its class
        partition = self._here.get(topic_partition)
        if partition is not None:
            return partition
        image_topic = self._image.topics.get(topic)
        if image_topic is None or index not in image_topic.assignment:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if topic_partition in self._store.lost:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def last_stable_offset(self, of: Log) -> int:
        partition = self._here.get(of.topic_partition)
        return of.log_start_offset if partition is None else partition.last_stable_offset

    # -- as the image says --

    def follow_topic(self, name: str, now_ms: int) -> None:
        topic = self._image.topics.get(name)
        if topic is not None:
            for index in sorted(topic.states):
                self.follow(topic, index, now_ms)

    def follow(self, topic: Topic, index: int, now_ms: int) -> None:
        """Open, change or drop a partition, as the image says."""
        topic_partition, replicas = TopicPartition(topic.name, index), topic.assignment.get(index)
        partition = self._here.get(topic_partition)
        if partition is not None and partition.topic_id != topic.id:
            self._drop(partition, now_ms)  # of a deleted topic of this name
            partition = None
        if replicas is None or self._settings.broker_id not in replicas:
            if replicas is not None:
                self._store.lost.pop(topic_partition, None)
                if partition is not None:
                    self._drop(partition, now_ms)
            return
        epoch = self._image.epoch_of(self._settings.broker_id)
        seen = (topic.states[index], replicas, epoch)
        if partition is not None and partition.seen == seen:
            return  # of thousands in a node, few have changed
        if topic_partition in self._store.lost or not self.log_queue.may_open(topic_partition, now_ms):
            return
        try:
            partition = self._here.get(topic_partition) or self._open(topic_partition, topic.id, now_ms)
            state = PartitionState(replicas, *topic.states[index])
            self._replicas.on_state(partition, state, epoch, now_ms)
            partition.seen = seen  # not before: it may have failed, and is repeated then
        except LogDirectoryError as error:
            self._storage.failed(error)
            self._store.lost.setdefault(topic_partition, error.directory)

    def _open(self, topic_partition: TopicPartition, topic_id: bytes, now_ms: int) -> Partition:
        """A partition comes to this broker: its log is opened, or made."""
        store, broker_id, promises = self._store, self._settings.broker_id, dict[int, int]()
        partition_log, no_configs = store.get(topic_partition), self._copies.has_none(topic_partition.topic)
        if partition_log is None:
            config = self._settings.topic_log_config(topic_partition.topic)
            partition_log = store.create(topic_partition, topic_id, config, now_ms, no_configs=no_configs)
            self._copies.on_created(partition_log)
        else:
            promises[broker_id] = self.opened_ms + PROMISE_MS  # whatever the process before may have promised
            if store.topic_id(topic_partition) is None:
                store.set_topic_id(topic_partition, topic_id, no_configs=no_configs)
            self._copies.note(topic_partition)
        if partition_log.safe_end < partition_log.log_end_offset:
            # What a crash left was seen by consumers before; the watermark must not go back.
            partition_log.flush()
        watermark = store.high_watermarks.get(topic_partition, 0)
        partition = self._here[topic_partition] = Partition(
            topic_partition=topic_partition, topic_id=topic_id, log=partition_log, broker_id=broker_id,
            leader=-1, leader_epoch=-1, isr=(), promises=promises,
            high_watermark=max(watermark, partition_log.log_start_offset),
            traffic=self._traffic.enter(topic_partition.topic),
        )  # fmt: skip
        return partition

    def _release(self, partition: Partition, now_ms: int) -> None:
        """It is not here any more: nobody leads or follows it on this broker."""
        del self._here[partition.topic_partition]
        self._traffic.leave(partition.topic_partition.topic)
        self._replicas.on_removed(partition, now_ms)
        self._coordinators.on_removed(partition.topic_partition)

    def _drop(self, partition: Partition, now_ms: int) -> None:
        """It was deleted, or its replicas are elsewhere now: its log goes."""
        self._release(partition, now_ms)
        self.log_queue.delete(partition.topic_partition, now_ms)
        self._waiting.wake(partition.topic_partition, now_ms)
        self._followers.wake(partition, now_ms)

    def drop_topic(self, name: str, now_ms: int) -> None:
        lost, unfit = self._store.lost, self._store.unfit
        for topic_partition in [gone for gone in lost if gone.topic == name and gone not in unfit]:
            del lost[topic_partition]
        for partition in [
            partition for partition in self.values() if partition.topic_partition.topic == name
        ]:
            self._drop(partition, now_ms)
        self._coordinators.on_topic_deleted(name, now_ms)

    def configure(self, topic: str | None, now_ms: int) -> None:
        """Other configs count, for one topic or for all."""
        named = list(self._here) if topic is None else self._image.partitions_of(topic)
        for partition in [self._here[here] for here in named if here in self._here]:
            topic_partition = partition.topic_partition
            partition.log.on_config(self._settings.topic_log_config(topic_partition.topic), now_ms)
            if topic is not None:
                self._copies.note(topic_partition)
            self._replicas.on_config(partition, now_ms)
        if topic is None and self._traffic.relabel():
            for partition in self._here.values():
                partition.traffic = self._traffic.of(partition.topic_partition.topic)

    # -- what happens to logs --

    def on_synced(self, synced: Log, sync: Sync, now_ms: int, took_us: int = 0) -> None:
        self._storage.flush_times.observe(took_us)
        synced.on_synced(sync, now_ms)
        partition = self._here.get(synced.topic_partition)
        if partition is not None and partition.log is synced:
            self._replicas.on_synced(partition, now_ms)
        self._storage.start_syncs(now_ms)
        self._replicas.pump(now_ms)  # a follower asks for more once it has synced what it got

    def on_moved(self, moved: Log, now_ms: int) -> None:
        """A log was copied to another directory, and is this one now."""
        partition = self._here.get(moved.topic_partition)
        if partition is not None:
            partition.log = moved
            self._copies.note(moved.topic_partition)
        self._storage.start_syncs(now_ms)

    def on_directory_failed(self, directory: str, reason: str, now_ms: int) -> None:
        """Release the partitions that were in a failed directory."""
        lost = [topic_partition for topic_partition, home in self._store.lost.items() if home == directory]
        log.error(
            "%s is offline, with %d partitions, until the next start: %s", directory, len(lost), reason,
            extra=fields(directory=directory, partitions=len(lost), reason=reason),
        )  # fmt: skip
        gone = [partition for lost_one in lost if (partition := self._here.get(lost_one)) is not None]
        for partition in gone:
            self._release(partition, now_ms)
        for topic_partition in lost:
            self._waiting.wake(topic_partition, now_ms)
        for partition in gone:
            self._followers.wake(partition, now_ms)
        self._replicas.pump(now_ms)
