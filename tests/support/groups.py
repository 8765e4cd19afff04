"""Groups in tests: their requests, what consumers put into them, and a coordinator on a clock moved by hand.

`Coordinator` is a whole shard in the real runtime, with its journal in memory.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from tests.support.journal import Journal

from ottla.api.consumer_group_heartbeat import check_heartbeat
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.coordinator.runtime import Runtime
from ottla.coordinator.turn import Answer, TimerKey, Turn
from ottla.group.commits import Commit
from ottla.group.config import GroupConfig
from ottla.group.group import Caller
from ottla.group.memory import Use, room_bytes
from ottla.group.offsets import Offsets
from ottla.group.partitions import in_order
from ottla.group.protocol import (
    VERSION_MAX,
    Assignment,
    OwnedPartitions,
    Subscription,
    decode_assignment,
    encode_assignment,
)
from ottla.group.shard import GroupShard
from ottla.wire.codec import encode
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

G = "readers"
DELAY_MS, SESSION_MS, REBALANCE_MS = 3_000, 10_000, 60_000
METADATA = b"\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00"
"""A subscription to topic t, version 0."""

# What consumers put into their requests


def listed(partitions: Mapping[str, Iterable[int]]) -> list[OwnedPartitions]:
    sets = {topic: set(numbers) for topic, numbers in partitions.items()}
    return [OwnedPartitions(topic=topic, partitions=numbers) for topic, numbers in in_order(sets)]


def encode_subscription(subscription: Subscription, version: int = VERSION_MAX) -> bytes:
    """A version that we do not know is written as the highest we do, as it would be read."""
    version = min(version, VERSION_MAX)
    return version.to_bytes(2, "big") + encode(subscription, version)


def subscription(
    *topics: str, owned: Mapping[str, Iterable[int]] | None = None, version: int = VERSION_MAX, **more: Any
) -> bytes:
    said = Subscription(topics=list(topics), owned_partitions=listed(owned or {}), **more)
    return encode_subscription(said, version)


def reading(*topics: str) -> dict[str, bytes]:
    return {"range": subscription(*topics)}


def assignment(version: int = VERSION_MAX, **partitions: Iterable[int]) -> bytes:
    return encode_assignment(Assignment(assigned_partitions=listed(partitions)), version)


def assigned(encoded: bytes) -> dict[str, tuple[int, ...]]:
    """By topic; one that is listed twice is merged."""
    by_topic: dict[str, set[int]] = {}
    for owned in decode_assignment(encoded).assigned_partitions:
        by_topic.setdefault(owned.topic, set()).update(owned.partitions)
    return {topic: tuple(sorted(numbers)) for topic, numbers in by_topic.items()}


# Requests


def find(*keys: str, key_type: int = 0, version: int = 2) -> FindCoordinatorRequest:
    if version < 4:
        return FindCoordinatorRequest(key=keys[0], key_type=key_type)
    return FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type)


def joining(
    member: str = "", *, group: str = G, instance: str | None = None, session_ms: int = 10_000, **more: Any
) -> JoinGroupRequest:
    fields = {
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=METADATA)],
        "rebalance_timeout_ms": 60_000,
        **more,
    }
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        member_id=member,
        group_instance_id=instance,
        **fields,
    )


def syncing(
    member: str, generation: int, shares: dict[str, bytes] | None = None, *, group: str = G, **more: Any
) -> SyncGroupRequest:
    fields = {"protocol_type": "consumer", "protocol_name": "range", **more}
    assignments = [
        SyncGroupRequestAssignment(member_id=of, assignment=what) for of, what in (shares or {}).items()
    ]
    return SyncGroupRequest(
        group_id=group, generation_id=generation, member_id=member, assignments=assignments, **fields
    )


def beating(member: str, generation: int, *, group: str = G, instance: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member, group_instance_id=instance
    )


def leaving(*members: str, group: str = G, version: int = 5) -> LeaveGroupRequest:
    if version < 3:
        return LeaveGroupRequest(group_id=group, member_id=members[0])
    return LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member) for member in members])


def committing(
    offset: int,
    *,
    group: str = G,
    member: str = "",
    epoch: int = -1,
    topic: str | bytes = "t",
    partitions: tuple[int, ...] = (0,),
    metadata: str | None = "",
    **more: Any,
) -> OffsetCommitRequest:
    """A topic in bytes is an id."""
    name, topic_id = ("", topic) if isinstance(topic, bytes) else (topic, ZERO_UUID)
    listed = [
        OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=offset,
            committed_leader_epoch=4,
            committed_metadata=metadata,
        )
        for index in partitions
    ]
    topics = [OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=listed)]
    return OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=epoch, member_id=member, topics=topics, **more
    )


def codes(answer: Any) -> list[ErrorCode]:
    """The codes of all partitions of a commit's answer."""
    return [ErrorCode(partition.error_code) for topic in answer.topics for partition in topic.partitions]


def fetching(
    *partitions: int,
    group: str = G,
    topic: str | bytes = "t",
    version: int = 5,
    member: str | None = None,
    epoch: int = -1,
    everything: bool = False,
    **more: Any,
) -> OffsetFetchRequest:
    wanted = list(partitions or (0,))
    if version < 8:
        assert isinstance(topic, str)
        named = None if everything else [OffsetFetchRequestTopic(name=topic, partition_indexes=wanted)]
        return OffsetFetchRequest(group_id=group, topics=named, **more)
    name, topic_id = ("", topic) if isinstance(topic, bytes) else (topic, ZERO_UUID)
    topics = [OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=wanted)]
    asked = OffsetFetchRequestGroup(
        group_id=group, member_id=member, member_epoch=epoch, topics=None if everything else topics
    )
    return OffsetFetchRequest(groups=[asked], **more)


def consuming(
    member: str, epoch: int, owned: list[TopicPartitions] | None = None, *, group: str = G, **more: Any
) -> ConsumerGroupHeartbeatRequest:
    if epoch == 0:
        more = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": 60_000, **more}
        owned = [] if owned is None else owned
    return ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, topic_partitions=owned, **more
    )


def deleting_offsets(topic: str, *partitions: int, group: str = G) -> OffsetDeleteRequest:
    listed = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    return OffsetDeleteRequest(
        group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=listed)]
    )


def describing(*groups: str) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=False)


# A coordinator


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b".")


class Topics:
    """The topics of a cluster: name and number of partitions. One that is made again has another id."""

    def __init__(self, **counts: int) -> None:
        self.counts = dict(counts)
        self.births: dict[str, int] = {}
        self.revision = 1

    def racks(self, _name: str) -> dict[int, set[str]]:
        return {}

    def set(self, name: str, count: int) -> None:
        if name not in self.counts:
            self.births[name] = self.births.get(name, 0) + 1
        self.counts[name] = count
        self.revision += 1

    def delete(self, name: str) -> None:
        del self.counts[name]
        self.revision += 1

    def names(self) -> list[str]:
        return list(self.counts)

    def id_of(self, name: str) -> bytes | None:
        if name not in self.counts:
            return None
        births = self.births.get(name, 0)
        return topic_id(name) if births < 2 else name.encode().ljust(15, b".") + bytes([births])

    def name_of(self, wanted: bytes) -> str | None:
        return next((name for name in self.counts if self.id_of(name) == wanted), None)

    def partition_count(self, name: str) -> int:
        return self.counts.get(name, 0)


@cache
def _never_expiring(config: GroupConfig) -> GroupConfig:
    return replace(config, offsets_retention_check_interval_ms=1 << 40)


@dataclass
class Coordinator:
    """`given` are the answers that were given, `waiting` those that are yet to come, with the versions to
    encode them in."""

    config: GroupConfig = field(default_factory=GroupConfig)
    topics: Topics = field(default_factory=lambda: Topics(t=4, u=2))
    now_ms: int = 1_000_000
    memory_bytes: int | None = None
    checks: bool = True
    epoch: int = 0
    ids: int = 0
    journal: Journal = field(default_factory=Journal)
    given: list[Answer] = field(default_factory=list)
    waiting: list[tuple[Answer, int | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runtime: Runtime[GroupShard] = Runtime(lambda _index: self.new_shard(), self._on_answered)
        self.restart()

    def new_shard(self) -> GroupShard:
        if self.memory_bytes is None:
            return GroupShard(self.config, self.topics)
        return GroupShard(self.config, self.topics, room_bytes=self.room_bytes)

    def without_expiry(self) -> GroupShard:
        """A shard whose groups stay when they are empty."""
        return GroupShard(_never_expiring(self.config), self.topics)

    def room_bytes(self, use: Use) -> int:
        assert self.memory_bytes is not None
        return room_bytes(use, self.memory_bytes, self.shard.held_bytes, self.shard.stored_bytes)

    @property
    def shard(self) -> GroupShard:
        return self.runtime.shard(0)

    @property
    def group(self) -> Any:
        """The group of the tests; None if there is none."""
        return self.shard.groups.get(G)

    @property
    def timers(self) -> dict[TimerKey, int]:
        return self.runtime.shards[0].timers.deadlines

    @property
    def group_timers(self) -> dict[TimerKey, int]:
        return {key: due_ms for key, due_ms in self.timers.items() if key != ("expire",)}

    def restart(self) -> None:
        """Another coordinator takes over from what is stored; whoever waited has lost its connection."""
        self.epoch += 1
        self.waiting.clear()
        self.runtime.load(0, self.journal, self.epoch, self.now_ms)
        while self.runtime.loading:
            self.runtime.on_tick(self.now_ms)

    def advance(self, ms: int) -> None:
        """Time goes by, from one timer to the next."""
        until_ms = self.now_ms + ms
        while (due_ms := self.runtime.next_ms) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.runtime.on_tick(self.now_ms)
            self.check()
        self.now_ms = until_ms

    def run(self, operation: Any, version: int | None = None) -> Answer:
        """The answer of an operation, which has a `reply` now or later."""
        answer = Answer()
        self.waiting.append((answer, version))
        try:
            self.runtime.execute(0, self.now_ms, lambda shard, turn: operation(shard, turn, answer))
        except ApiError:
            self.waiting.remove((answer, version))
            raise
        self.check()
        return answer

    def _on_answered(self, answer: Answer, _now_ms: int) -> None:
        place = next((at for at, (given, _) in enumerate(self.waiting) if given is answer), None)
        assert place is not None, "somebody has been answered twice"
        _, version = self.waiting.pop(place)
        assert answer.after_offset == self.journal.end_offset
        if version is not None:
            encode(answer.reply, version)
        self.given.append(answer)

    def caller(self, version: int, client: str = "c", name: str | None = None) -> Caller:
        self.ids += 1
        return Caller(client, f"/{client}", version, f"{name or client}-{self.ids}")

    def ask_join(
        self,
        member: str = "",
        *,
        group: str = G,
        version: int = 9,
        client: str = "c",
        instance: str | None = None,
        protocols: Mapping[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
    ) -> Answer:
        named = reading("t") if protocols is None else protocols
        request = joining(
            member,
            group=group,
            instance=instance,
            session_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=of) for name, of in named.items()],
        )
        caller = self.caller(version, client, instance)
        return self.run(lambda shard, turn, answer: shard.join(turn, answer, request, caller), version)

    def ask_sync(
        self,
        member: str,
        generation: int,
        shares: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        group: str = G,
    ) -> Answer:
        request = syncing(
            member,
            generation,
            shares,
            group=group,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
        )
        return self.run(lambda shard, turn, answer: shard.sync(turn, answer, request), 5)

    def ask_heartbeat(self, member: str, generation: int, **more: Any) -> Answer:
        request = beating(member, generation, **more)
        return self.run(lambda shard, turn, answer: shard.heartbeat(turn, answer, request), 4)

    def ask_leave(self, *who: tuple[str, str | None], group: str = G, version: int = 5) -> Answer:
        identities = [MemberIdentity(member_id=member, group_instance_id=of) for member, of in who]
        first = who[0][0] if who else ""
        request = LeaveGroupRequest(group_id=group, member_id=first, members=identities)
        return self.run(lambda shard, turn, answer: shard.leave(turn, answer, request, version), version)

    def ask_consume(
        self,
        member: str,
        epoch: int,
        owned: Mapping[str, Iterable[int]] | None = None,
        *,
        group: str = G,
        version: int = 1,
        client: str = "c",
        topics: Iterable[str] | None = None,
        regex: str | None = None,
        **more: Any,
    ) -> Answer:
        """A ConsumerGroupHeartbeat; `owned` is by topic name."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=regex,
            topic_partitions=None if owned is None else self.listed(owned),
            **more,
        )
        caller = self.caller(version, client)

        def heartbeat(shard: GroupShard, turn: Turn, answer: Answer) -> None:
            check_heartbeat(request, version, self.config)
            shard.consumer_heartbeat(turn, answer, request, caller)

        return self.run(heartbeat, version)

    def listed(self, owned: Mapping[str, Iterable[int]]) -> list[TopicPartitions]:
        return [
            TopicPartitions(topic_id=self.topics.id_of(name) or topic_id(name), partitions=sorted(numbers))
            for name, numbers in owned.items()
        ]

    def told(self, reply: Any) -> dict[str, tuple[int, ...]] | None:
        """What a heartbeat's reply assigns, by topic name; None if it says nothing of that."""
        if reply.assignment is None:
            return None
        return {
            self.topics.name_of(topic.topic_id) or "?": tuple(topic.partitions)
            for topic in reply.assignment.topic_partitions
        }

    def check(self) -> None:
        """What is true after every turn."""


def commit_of(
    member: str = "", epoch: int = -1, *, group: str = G, instance: str | None = None, **more: Any
) -> Commit:
    fields = {"retention_ms": -1, "offsets": [], "version": 9, **more}
    return Commit(group_id=group, member_id=member, instance_id=instance, epoch=epoch, **fields)


def groups_of(offsets: Offsets) -> list[str]:
    """The groups that have offsets, committed or pending."""
    return [*offsets._newest, *(group for group in offsets.pending._by_group if group not in offsets._newest)]
