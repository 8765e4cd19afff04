"""The state behind one partition of `__consumer_offsets`: its groups and their committed offsets.

Which kind of group answers which request:

    request                 no group            classic                    consumer

    JoinGroup               made, for a member  its own                    replaced if empty, else
                            without an id                                  its classic members'
                                                                           (KIP-848 migration)
    SyncGroup, Heartbeat,   UNKNOWN_MEMBER_ID   its own                    its classic members'
    LeaveGroup
    ConsumerGroupHeartbeat  made, for epoch 0   for epoch 0: replaced if   its own
                                                empty, converted if it
                                                may be, else refused
    OffsetCommit,           made, without a     checked by the group       checked by the group
    TxnOffsetCommit         generation

Offsets without members make a group too: Empty, classic, without a protocol. A group that is empty and has no
offsets is forgotten when expiry next looks.

What groups hold in memory is counted (`memory`), for all shards of a broker together: what would go over the
limit is refused, GROUP_MAX_SIZE_REACHED to whoever joins, INVALID_COMMIT_OFFSET_SIZE to whoever commits. Some
of it is for members alone, so that whatever was committed, they come in.
"""

import sys
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.turn import Answer, StoredEnd, StoredRecord, TimerKey, Turn
from ottla.group.classic.group import ClassicGroup
from ottla.group.commits import Commit
from ottla.group.config import GroupConfig, config_of_group
from ottla.group.consumer.group import ConsumerGroup, is_leaving
from ottla.group.consumer.member import JOIN_EPOCH
from ottla.group.deleted_topics import DeletedTopics
from ottla.group.events import OffsetsCommitted, OffsetsDeleted
from ottla.group.expiry import Expiry, forget
from ottla.group.group import Caller, Group
from ottla.group.memory import (
    GROUP_BYTES,
    MEMBER_BYTES,
    Use,
    check_member,
    heartbeat_bytes,
    join_bytes,
)
from ottla.group.offsets import Offsets
from ottla.group.records import (
    ConsumerGroupMetadata,
    Entry,
    GroupMetadata,
    OffsetCommit,
    OffsetCommitValue,
    parse,
    store,
    store_offset,
)
from ottla.group.topics import Topics
from ottla.wire.messages import consumer_group_describe, describe_groups
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.wire.messages.sync_group import SyncGroupRequest

CONSUMER_COMMITS_SINCE = 9
ONE_COMMITTED = OffsetsCommitted(1)

K = TypeVar("K", ClassicGroup, ConsumerGroup)


class Listed(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    type: str


class GroupShard:
    """`values_of` gives the config values that a group has of its own; `room_bytes` how much more memory all
    groups of this broker may take for something."""

    def __init__(
        self,
        config: GroupConfig,
        topics: Topics,
        values_of: Callable[[str], Mapping[str, str]] = lambda _group_id: {},
        room_bytes: Callable[[Use], int] = lambda _: sys.maxsize,
    ) -> None:
        self.config = config
        self.topics = topics
        self.values_of = values_of
        self.room_bytes = room_bytes
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self._sizes: dict[str, int] = {}
        self._groups_bytes = 0
        self._expiry = Expiry(self.groups, self.offsets, config.offsets_retention_check_interval_ms)
        self._deleted_topics = DeletedTopics(self.offsets)

    @property
    def held_bytes(self) -> int:
        """About what all of it takes in memory."""
        return self._groups_bytes + self.offsets.held_bytes

    @property
    def stored_bytes(self) -> int:
        """That part of it which stays when all members are gone: offsets, and their groups."""
        return self.offsets.held_bytes + self.offsets.groups_bytes

    def _measure(self, group_id: str) -> None:
        """A group has changed, come or gone."""
        group = self.groups.get(group_id)
        size = group.held_bytes if group is not None else 0
        size_before = self._sizes.get(group_id, 0)
        if size != size_before:
            self._groups_bytes += size - size_before
            self._sizes[group_id] = size
            if group is None:
                del self._sizes[group_id]

    def _check_room(self, growth: int) -> None:
        if growth > 0 and growth > self.room_bytes(Use.MEMBERS):
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                "The groups of this broker take all the memory they may have.",
            )

    # What the runtime calls

    def replay(self, record: StoredRecord, offset: int, timestamp_ms: int) -> None:
        entry = parse(record)
        if type(entry) is OffsetCommit:
            group_id, topic, partition, value = entry
            self.offsets.replay(group_id, topic, partition, value, offset, record.producer_id)
            if value is not None and group_id not in self.groups:
                self.groups[group_id] = ClassicGroup(group_id, self.config, wall_ms=timestamp_ms)
                self._measure(group_id)
        elif entry is not None:
            self._replay(entry, timestamp_ms)
            self._measure(entry.group)

    def replay_end(self, end: StoredEnd) -> None:
        self.offsets.replay_end(*end)

    def _replay(self, entry: Entry, timestamp_ms: int) -> None:
        match entry:
            case GroupMetadata(group_id, value):
                if value is not None:
                    group = ClassicGroup.from_record(group_id, value, self.config, timestamp_ms)
                    self.groups[group_id] = group
                elif self._of_kind(ClassicGroup, group_id) is not None:
                    self._end(group_id, timestamp_ms)
            case _:
                self._replay_consumer(entry, timestamp_ms)

    def _replay_consumer(self, entry: Entry, timestamp_ms: int) -> None:
        group = self._of_kind(ConsumerGroup, entry.group)
        if group is None:
            if entry.value is None:
                return
            group = self.groups[entry.group] = self._new_consumer_group(entry.group)
        group.replay(entry)
        if isinstance(entry, ConsumerGroupMetadata) and entry.value is None:
            self._end(entry.group, timestamp_ms)

    def _end(self, group_id: str, timestamp_ms: int) -> None:
        """A group is gone. If its offsets are not, they still need one, or they would never expire: another
        kind of group has taken its place, which may have nothing stored yet."""
        if self.offsets.has_any(group_id):
            self.groups[group_id] = ClassicGroup(group_id, self.config, wall_ms=timestamp_ms)
        else:
            del self.groups[group_id]

    def on_committed(self, below: int) -> None:
        self.offsets.on_committed(below)

    def on_loaded(self, turn: Turn) -> None:
        for group in self.groups.values():
            group.on_loaded(turn)
        self._expiry.on_loaded(turn)

    def on_timer(self, turn: Turn, key: TimerKey) -> None:
        match key:
            case ("expire", *_):
                self._expiry.on_timer(turn, key)
            case ("forget", *_):
                self._deleted_topics.on_timer(turn)
            case (_, str(group_id), *_):
                group = self.groups.get(group_id)
                if group is not None:
                    self.groups[group_id] = group.on_timer(turn, key)
                self._measure(group_id)

    def _of_kind(self, kind: type[K], group_id: str) -> K | None:
        """The group, if there is one and it is of this kind: where a request or a record of one kind may meet
        a group of the other."""
        group = self.groups.get(group_id)
        return group if isinstance(group, kind) else None

    # Membership

    def join(self, turn: Turn, answer: Answer, request: JoinGroupRequest, caller: Caller) -> None:
        group = self.groups.get(request.group_id)
        if group is None and request.member_id:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        self._check_join(group, request, caller)
        if group is not None:
            self.groups[request.group_id] = group.join(turn, answer, request, caller)
        else:
            new = ClassicGroup(request.group_id, self.config, wall_ms=turn.wall_ms)
            new.join(turn, answer, request, caller)
            if not new.is_simple:  # else it was refused
                self.groups[request.group_id] = new
        self._measure(request.group_id)

    def _check_join(self, group: Group | None, request: JoinGroupRequest, caller: Caller) -> None:
        said = join_bytes(request)
        check_member(said, self.config.member_bytes_max)
        size = MEMBER_BYTES + said + len(caller.client_id) + len(caller.new_member_id)
        if group is None:
            self._check_room(size + GROUP_BYTES + len(request.group_id))
        else:
            self._check_room(size - group.member_bytes(request.member_id, request.group_instance_id))

    def sync(self, turn: Turn, answer: Answer, request: SyncGroupRequest) -> None:
        group = self._group_of_member(request.group_id)
        self._check_room(group.sync_growth(request))
        group.sync(turn, answer, request)
        self._measure(request.group_id)

    def heartbeat(self, turn: Turn, answer: Answer, request: HeartbeatRequest) -> None:
        self._group_of_member(request.group_id).heartbeat(turn, answer, request)

    def leave(self, turn: Turn, answer: Answer, request: LeaveGroupRequest, version: int) -> None:
        self._group_of_member(request.group_id).leave(turn, answer, request, version)
        self._measure(request.group_id)

    def consumer_heartbeat(
        self, turn: Turn, answer: Answer, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> None:
        if not is_leaving(request):
            self._check_heartbeat(self.groups.get(request.group_id), request)
        group = self._of_kind(ConsumerGroup, request.group_id)
        if group is not None:
            self.groups[request.group_id] = group.consumer_heartbeat(turn, answer, request, caller)
            self._measure(request.group_id)
        elif request.member_epoch == JOIN_EPOCH:
            self._make_consumer_group(turn, answer, request, caller)
        else:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no consumer group {request.group_id}.")

    def _make_consumer_group(
        self, turn: Turn, answer: Answer, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> None:
        """What is made here decides; the group itself comes by replay."""
        classic = self._of_kind(ClassicGroup, request.group_id)
        if classic is not None and classic.members:
            config = self._config_of(request.group_id)
            new = ConsumerGroup.from_classic(turn, classic, config, self.topics)
        else:
            new = self._new_consumer_group(request.group_id)
            if classic is not None:
                classic.delete(turn)
        new.consumer_heartbeat(turn, answer, request, caller)
        if classic is not None:
            turn.once_stored(lambda: classic.close(turn, ErrorCode.REBALANCE_IN_PROGRESS))

    def _check_heartbeat(self, group: Group | None, request: ConsumerGroupHeartbeatRequest) -> None:
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return
        size = heartbeat_bytes(request)
        check_member(size, self.config.member_bytes_max)
        if group is None:
            self._check_room(size + GROUP_BYTES + len(request.group_id))
        else:
            self._check_room(size - group.member_bytes(request.member_id, request.instance_id))

    def on_group_config(self, group_id: str) -> None:
        """A group's own values changed."""
        group = self.groups.get(group_id)
        if group is not None:
            group.on_config(self._config_of(group_id))

    def _new_consumer_group(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(group_id, self._config_of(group_id), self.topics)

    def _config_of(self, group_id: str) -> GroupConfig:
        return config_of_group(self.config, self.values_of(group_id))

    def _group_of_member(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    # Offsets

    def commit_offsets(self, turn: Turn, answer: Answer, commit: Commit, response: object) -> None:
        """Write what passed the checks; `response` holds the errors of what did not."""
        group = self.groups.get(commit.group_id)
        self._check_commit(group, commit)
        group_id = commit.group_id
        if commit.writer is not None:
            self._deleted_topics.check_transaction(commit)
            turn.writer = commit.writer
        else:
            if group is not None:
                group.on_commit(turn, commit.member_id)
            self._deleted_topics.before_commit(turn, commit)
        wall_ms = turn.wall_ms
        expire_ms = -1 if commit.retention_ms < 0 else wall_ms + commit.retention_ms
        for topic, partition, offset, leader_epoch, metadata in commit.offsets:
            value = OffsetCommitValue(
                offset=offset,
                leader_epoch=leader_epoch,
                metadata=metadata,
                commit_timestamp=wall_ms,
                expire_timestamp=expire_ms,
            )
            turn.records.append(store_offset(group_id, topic, partition, value))
        turn.tell(ONE_COMMITTED if len(commit.offsets) == 1 else OffsetsCommitted(len(commit.offsets)))
        turn.answer(answer, response)

    def _check_commit(self, group: Group | None, commit: Commit) -> None:
        """Of a transaction, every wrong generation or epoch is ILLEGAL_GENERATION."""
        is_transactional = commit.writer is not None
        if group is None and commit.epoch >= 0:
            is_modern = commit.version >= CONSUMER_COMMITS_SINCE and not is_transactional
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND if is_modern else ErrorCode.ILLEGAL_GENERATION)
        if group is not None:
            try:
                group.check_commit(commit)
            except ApiError as error:
                if is_transactional and error.code == ErrorCode.STALE_MEMBER_EPOCH:
                    raise ApiError(ErrorCode.ILLEGAL_GENERATION, error.message) from None
                raise
        self._check_commit_room(group, commit)

    def _check_commit_room(self, group: Group | None, commit: Commit) -> None:
        """What takes no more memory than is taken already is always stored: most commits do not."""
        growth = self.offsets.growth_by(commit)
        if growth <= 0 and commit.offsets:
            return
        if not self.offsets.has_any(commit.group_id):
            growth += GROUP_BYTES + len(commit.group_id)
        if growth <= 0:
            return
        has_members = group is not None and not group.is_empty
        if growth > self.room_bytes(Use.COMMITS_OF_MEMBERS if has_members else Use.OTHER_COMMITS):
            raise ApiError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE)

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        group = self.groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id, epoch)

    def delete_offsets(
        self, turn: Turn, answer: Answer, request: OffsetDeleteRequest, denied: Collection[str] = ()
    ) -> None:
        """`denied`: topics that whoever asks may not read."""
        group = self._existing(request.group_id)
        group.check_offset_delete()
        turn.is_divisible = True
        response, stored = OffsetDeleteResponse(), set(self.offsets.partitions(request.group_id))
        for topic in request.topics:
            subscribed = group.reads(topic.name)
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
            if topic.name in denied:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            results = []
            for partition in topic.partitions:
                index = partition.partition_index
                results.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
                if not code and (topic.name, index) in stored:
                    turn.write(store(OffsetCommit(request.group_id, topic.name, index, None)))
            response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=results))
        if turn.records:
            turn.tell(OffsetsDeleted(len(turn.records)))
        turn.answer(answer, response)

    def forget_topic(self, turn: Turn, topic: str) -> None:
        self._deleted_topics.forget(turn, topic)

    # Groups as a whole

    def delete_group(self, turn: Turn, answer: Answer, group_id: str) -> None:
        group = self._existing(group_id)
        group.check_delete()
        turn.is_divisible = True
        forget(turn, group, self.offsets)
        turn.answer(answer, ErrorCode.NONE)

    def describe_classic(self, group_id: str) -> describe_groups.DescribedGroup:
        return self._existing_of_kind(ClassicGroup, group_id).describe()

    def describe_consumer(self, group_id: str) -> consumer_group_describe.DescribedGroup:
        return self._existing_of_kind(ConsumerGroup, group_id).describe()

    def listed(self) -> list[Listed]:
        return [
            Listed(group_id, group.protocol_type or "", group.state_name, group.kind)
            for group_id, group in sorted(self.groups.items())
        ]

    def _existing(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no group {group_id}.")
        return group

    def _existing_of_kind(self, kind: type[K], group_id: str) -> K:
        self._existing(group_id)
        group = self._of_kind(kind, group_id)
        if group is None:
            raise ApiError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind.kind.lower()} group."
            )
        return group
