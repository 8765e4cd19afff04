"""The group coordinator on this broker: which groups are ours, and the topic that stores them.

A group belongs to the partition of `__consumer_offsets` that its id hashes to, and whoever leads that
partition coordinates it. The shard is loaded when leadership comes, in slices, and dropped when it goes.
"""

import logging
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import OFFSETS_TOPIC, TopicPartition
from ottla.broker.group_activity import GroupActivity
from ottla.broker.internal_partitions import InternalTopic, report_failure, report_left_out, shard_of_key
from ottla.broker.journal import AppendBatch, AppendMarker, PartitionJournal
from ottla.controller.image import Image
from ottla.controller.topics import NewTopic
from ottla.coordinator.runtime import Runtime
from ottla.coordinator.turn import Answer
from ottla.group.config import GroupConfig
from ottla.group.group import Group
from ottla.group.memory import Use, room_bytes
from ottla.group.shard import GroupShard
from ottla.log.chores import OnChore
from ottla.records.compression import Codec
from ottla.records.control import Marker
from ottla.replication.partition import Partition

log = logging.getLogger(__name__)

_FULL_PART: Final = 256
_ROOMY_PART: Final = 16
_FULL: Final = {
    Use.MEMBERS: "new members of groups are refused, GROUP_MAX_SIZE_REACHED: groups take all of their memory",
    Use.COMMITS_OF_MEMBERS: "new offsets of groups are refused, INVALID_COMMIT_OFFSET_SIZE: stored ones take "
    "three quarters of the memory for groups",
    Use.OTHER_COMMITS: "new offsets of groups without members are refused, INVALID_COMMIT_OFFSET_SIZE: "
    "stored ones take half of the memory for groups",
}
# Why there is no coordinator here, as the sender of a marker should hear it.
_ENDS: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


@dataclass(frozen=True, slots=True)
class ImageTopics:
    """The image as groups see it."""

    image: Image

    @property
    def revision(self) -> int:
        return self.image.revision

    def names(self) -> Collection[str]:
        return self.image.topics

    def id_of(self, name: str) -> bytes | None:
        topic = self.image.topics.get(name)
        return topic.id if topic else None

    def name_of(self, topic_id: bytes) -> str | None:
        return self.image.topic_names.get(topic_id)

    def partition_count(self, name: str) -> int:
        topic = self.image.topics.get(name)
        return len(topic.assignment) if topic else 0

    def racks(self, name: str) -> dict[int, set[str]]:
        topic, brokers = self.image.topics.get(name), self.image.brokers
        if topic is None or not any(broker.rack for broker in brokers.values()):
            return {}
        by_partition = {
            index: {rack for broker in replicas if broker in brokers and (rack := brokers[broker].rack)}
            for index, replicas in topic.assignment.items()
        }
        return {index: racks for index, racks in by_partition.items() if racks}


class Groups:
    """`wake` wakes what is parked under an answer, or under a partition; `wall_ms` tells the time of day;
    `on_chore` has a worker read what is not in memory."""

    def __init__(
        self,
        config: GroupConfig,
        image: Image,
        wake: Callable[[Hashable, int], None],
        wall_ms: Callable[[int], int],
        on_chore: OnChore,
    ) -> None:
        self.config = config
        self.image = image
        self._topic = InternalTopic(OFFSETS_TOPIC, "consumer groups", "offsets.topic.replication.factor")
        self._full = set[Use]()  # for what it was said that there is no more memory
        self._topics = ImageTopics(image)
        self.activity = GroupActivity(self.group)
        self.runtime: Runtime[GroupShard] = Runtime(
            new_shard=self._new_shard,
            on_answered=wake,
            on_event=self.activity.on_event,
            on_reloaded=lambda index, now_ms: wake(TopicPartition(OFFSETS_TOPIC, index), now_ms),
            on_failed=partial(report_failure, OFFSETS_TOPIC, "groups"),
            on_left_out=partial(report_left_out, OFFSETS_TOPIC),
            wall_ms=wall_ms,
            on_chore=on_chore,
        )

    def _new_shard(self, index: int) -> GroupShard:
        self.activity.forget(index)
        return GroupShard(self.config, self._topics, self.image.group_config, self.room_bytes)

    def group(self, shard: int, group_id: str) -> Group | None:
        loaded = self.runtime.shards.get(shard)
        return loaded.shard.groups.get(group_id) if loaded is not None else None

    def newest_offsets(self, shard: int, group_id: str) -> Mapping[str, Mapping[int, object]]:
        """Of a group, by topic and partition; also what is about to be committed. Not to be kept."""
        loaded = self.runtime.shards.get(shard)
        return loaded.shard.offsets.newest(group_id) if loaded is not None else {}

    def committed_offsets(self, shard: int, group_id: str) -> Iterator[tuple[str, dict[int, int]]]:
        """What a group has committed, by topic and partition, in order, a topic at a time."""
        loaded = self.runtime.shards.get(shard)
        if loaded is None:
            return
        offsets = loaded.shard.offsets
        for topic in offsets.topics(group_id, loaded.journal.committed_offset):
            committed = offsets.of_topic(group_id, topic, loaded.journal.committed_offset)
            if committed:  # it may have gone by now
                yield topic, {index: entry.offset for index, entry in committed.items()}

    def on_elected(
        self,
        partition: Partition,
        append_batch: AppendBatch,
        append_marker: AppendMarker,
        now_ms: int,
    ) -> None:
        """This broker leads a partition of the topic: take up what is stored there. If some of that cannot be
        read, its groups have no coordinator: to go on without it would be to forget what was committed."""
        codec = Codec.from_id(self.config.offsets_compression_codec)
        journal = PartitionJournal(partition, append_batch, codec, append_marker)
        self.runtime.load(partition.topic_partition.partition, journal, partition.leader_epoch, now_ms)

    def on_resigned(self, topic_partition: TopicPartition) -> None:
        self.runtime.unload(topic_partition.partition)
        self.activity.forget(topic_partition.partition)

    def on_topic_deleted(self, topic: str, now_ms: int) -> None:
        """Its offsets go too; those that cannot be deleted now are left to expire."""
        self.runtime.execute_everywhere(now_ms, lambda shard, turn: shard.forget_topic(turn, topic))

    def on_group_config(self, group_id: str) -> None:
        loaded = self.runtime.shards.get(self.partition_of(group_id).partition)
        if loaded is not None:
            loaded.shard.on_group_config(group_id)

    def partition_of(self, group_id: str) -> TopicPartition:
        topic = self.image.topics.get(OFFSETS_TOPIC)
        count = len(topic.assignment) if topic else self.config.offsets_partitions
        return tuple.__new__(TopicPartition, (OFFSETS_TOPIC, shard_of_key(group_id, count)))

    def check_key(self, group_id: str) -> None:
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID, "A group needs an id.")

    @property
    def commit_timeout_ms(self) -> int:
        return self.config.commit_timeout_ms

    def end_transaction(self, index: int, marker: Marker, now_ms: int) -> Answer:
        """Write the end of a producer's transaction into a partition of the topic: what it has committed for
        groups of that partition counts, or is dropped. The answer is given, and may be sent once the marker
        is committed. COORDINATOR_LOAD_IN_PROGRESS while the partition is read, NOT_LEADER_OR_FOLLOWER where
        this broker does not lead it or cannot read it: whoever sends markers tries again after both."""
        answer = Answer()
        try:
            self.runtime.end_transaction(index, marker, now_ms, answer)
        except ApiError as error:
            raise ApiError(_ENDS.get(error.code, error.code), error.message) from None
        return answer

    def shard_of(self, group_id: str) -> GroupShard:
        return self.runtime.shard(self.partition_of(group_id).partition)

    def shards(self) -> Iterator[tuple[int, GroupShard]]:
        return ((index, loaded.shard) for index, loaded in sorted(self.runtime.shards.items()))

    def room_bytes(self, use: Use) -> int:
        """How much more memory groups may take on this broker; when it comes to an end, a line says so."""
        limit, held, stored = self.config.memory_bytes_max, 0, 0
        for part in (self.runtime.shards, self.runtime.loading):
            for loaded in part.values():
                held += loaded.shard.held_bytes
                stored += loaded.shard.stored_bytes
        room = room_bytes(use, limit, held, stored)
        if room < limit // _FULL_PART:
            if use not in self._full:
                self._full.add(use)
                log.warning(
                    "%s; delete groups that nobody needs (ottla groups delete), or raise "
                    "ottla.groups.max.bytes (%d)", _FULL[use], limit,
                )  # fmt: skip
        elif room > limit // _ROOMY_PART:
            self._full.discard(use)
        return room

    def offsets_topic(self) -> NewTopic:
        """What `__consumer_offsets` is created as."""
        return self._topic.new(
            len(self.image.brokers),
            self.config.offsets_partitions,
            self.config.offsets_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(self.config.offsets_segment_bytes),
            },
        )
