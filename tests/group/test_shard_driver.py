"""A whole shard in the real runtime, on a clock moved by hand: the other shard tests' way to talk to it.

Requests answer with the reply, or with the code they were refused with; None is an answer yet to come.
After every turn a fresh shard that replays the journal has to know the same groups and offsets: that is what
"decide, then replay" promises. Of a classic group only what is stored can be compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.runtime import Runtime
from ottla.coordinator.turn import Answer, StoredRecord
from ottla.group.classic import Caller, ClassicGroup
from ottla.group.commits import Commit, OffsetToCommit
from ottla.group.config import GroupConfig
from ottla.group.consumer import ConsumerGroup
from ottla.group.memory import GROUP_BYTES, PENDING_BYTES, Use, room_bytes
from ottla.group.protocol import (
    Assignment,
    OwnedPartitions,
    Subscription,
    by_topic,
    decode_assignment,
    encode_assignment,
    encode_subscription,
    to_partitions,
)
from ottla.group.shard import GroupShard
from ottla.group.states import GroupState
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import OffsetCommitResponse
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

G = "readers"
SESSION_MS, REBALANCE_MS = 10_000, 60_000
MINUTE_MS = 60_000


class Topics:
    """The topics of a cluster: name and number of partitions."""

    def __init__(self, **counts: int) -> None:
        self.counts = dict(counts)
        self.revision = 1

    def grow(self, name: str, count: int) -> None:
        self.counts[name] = count
        self.revision += 1

    def names(self) -> list[str]:
        return list(self.counts)

    def id_of(self, name: str) -> bytes | None:
        return name.encode().ljust(16, b".") if name in self.counts else None

    def name_of(self, topic_id: bytes) -> str | None:
        return next((name for name in self.counts if self.id_of(name) == topic_id), None)

    def partition_count(self, name: str) -> int:
        return self.counts.get(name, 0)

    def racks(self, _name: str) -> dict[int, set[str]]:
        return {}


class Journal:
    """In memory. What is written is committed at once, unless `waits`; then `commit` moves the watermark."""

    def __init__(self) -> None:
        self.records: list[tuple[StoredRecord, int, int]] = []
        self.waits = False
        self.committed = 0
        self.error: ApiError | None = None

    @property
    def end_offset(self) -> int:
        return len(self.records)

    @property
    def committed_offset(self) -> int:
        return self.committed if self.waits else self.end_offset

    @property
    def batch_bytes_max(self) -> int:
        return 1 << 20

    def place(self, offset: int) -> str:
        return f"file of {offset}"

    def stored(self) -> Iterator[tuple[StoredRecord, int, int]]:
        return iter(list(self.records))

    def append(self, records: list[StoredRecord], now_ms: int, wall_ms: int) -> int:
        if self.error is not None:
            raise self.error
        base = len(self.records)
        self.records.extend((record, base + at, wall_ms) for at, record in enumerate(records))
        return base


def subscription(*topics: str, owned: dict[str, tuple[int, ...]] | None = None) -> bytes:
    listed = [OwnedPartitions(topic=name, partitions=list(ps)) for name, ps in (owned or {}).items()]
    return encode_subscription(Subscription(topics=list(topics), owned_partitions=listed))


def assignment(**partitions: tuple[int, ...]) -> bytes:
    return encode_assignment(Assignment(assigned_partitions=to_partitions(partitions)))


def assigned(encoded: bytes) -> dict[str, tuple[int, ...]]:
    return by_topic(decode_assignment(encoded).assigned_partitions)


@dataclass
class Room:
    config: GroupConfig = field(default_factory=GroupConfig)
    topics: Topics = field(default_factory=lambda: Topics(t=4, u=2))
    now_ms: int = 1_000_000
    memory_bytes: int | None = None
    checks: bool = True
    epoch: int = 0
    ids: int = 0
    journal: Journal = field(default_factory=Journal)
    given: list[Answer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runtime: Runtime[GroupShard] = Runtime(
            self._new_shard, lambda answer, _now_ms: self.given.append(answer)
        )
        self.restart()

    def _new_shard(self, _index: int) -> GroupShard:
        if self.memory_bytes is None:
            return GroupShard(self.config, self.topics)
        return GroupShard(self.config, self.topics, room_bytes=self.room_bytes)

    def room_bytes(self, use: Use) -> int:
        assert self.memory_bytes is not None
        return room_bytes(use, self.memory_bytes, self.shard.held_bytes, self.shard.stored_bytes)

    @property
    def shard(self) -> GroupShard:
        return self.runtime.shard(0)

    @property
    def group(self) -> Any:
        return self.shard.groups[G]

    @property
    def timers(self) -> dict[Any, int]:
        return self.runtime.shards[0].timers.deadlines

    def restart(self) -> None:
        """Another coordinator takes over from what is stored."""
        self.epoch += 1
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

    def ask(self, operation: Any) -> Answer:
        """The answer of an operation; a refusal is one too."""
        answer = Answer()
        try:
            self.runtime.execute(0, self.now_ms, lambda shard, turn: operation(shard, turn, answer))
        except ApiError as error:
            answer.reply = error.code
        self.check()
        return answer

    def caller(self, version: int, name: str = "c") -> Caller:
        self.ids += 1
        return Caller(name, f"/{name}", version, f"{name}-{self.ids}")

    # The classic protocol

    def joining(
        self,
        member: str = "",
        *,
        group: str = G,
        version: int = 9,
        instance: str | None = None,
        topics: tuple[str, ...] = ("t",),
        owned: dict[str, tuple[int, ...]] | None = None,
        protocol_type: str = "consumer",
        protocol: str = "range",
        metadata: bytes | None = None,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
    ) -> Answer:
        metadata = subscription(*topics, owned=owned) if metadata is None else metadata
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=protocol, metadata=metadata)],
        )
        caller = self.caller(version, instance or "c")
        return self.ask(lambda shard, turn, answer: shard.join(turn, answer, request, caller))

    def join(self, member: str = "", **options: Any) -> Any:
        return self.joining(member, **options).reply

    def syncing(
        self,
        member: str,
        generation: int,
        shares: dict[str, bytes] | None = None,
        *,
        group: str = G,
        instance: str | None = None,
    ) -> Answer:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
            assignments=[
                SyncGroupRequestAssignment(member_id=of, assignment=what)
                for of, what in (shares or {}).items()
            ],
        )
        return self.ask(lambda shard, turn, answer: shard.sync(turn, answer, request))

    def sync(self, *args: Any, **options: Any) -> Any:
        return self.syncing(*args, **options).reply

    def beat(self, member: str, generation: int, *, group: str = G, instance: str | None = None) -> Any:
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member, group_instance_id=instance
        )
        reply = self.ask(lambda shard, turn, answer: shard.heartbeat(turn, answer, request)).reply
        return ErrorCode(getattr(reply, "error_code", reply))

    def leave(self, *members: str, group: str = G, instance: str | None = None) -> Any:
        """The codes of all that leave, or the one code of the refusal."""
        listed = [MemberIdentity(member_id=member, group_instance_id=instance) for member in members]
        request = LeaveGroupRequest(group_id=group, members=listed)
        reply = self.ask(lambda shard, turn, answer: shard.leave(turn, answer, request, 5)).reply
        return reply if isinstance(reply, ErrorCode) else [ErrorCode(one.error_code) for one in reply.members]

    def classic(self, count: int = 1, group: str = G, **options: Any) -> list[str]:
        """A stable classic group of the first `count` members, who share topic t."""
        answers = []
        for _ in range(count):
            asked = self.join(group=group, **options)
            answers.append(self.joining(asked.member_id, group=group, **options))
        while self.shard.groups[group].state is GroupState.PREPARING:
            self.advance(100)
        joined = [answer.reply for answer in answers]
        members = [reply.member_id for reply in joined]
        generation = joined[0].generation_id
        shares = {
            member: assignment(t=tuple(range(at, self.topics.counts["t"], count)))
            for at, member in enumerate(members)
        }
        for reply in reversed(joined):
            leads = reply.leader == reply.member_id
            self.sync(reply.member_id, generation, shares if leads else {}, group=group)
        return members

    # The consumer protocol

    def consume(
        self,
        member: str,
        epoch: int,
        owned: dict[str, tuple[int, ...]] | None = None,
        *,
        group: str = G,
        topics: tuple[str, ...] | None = None,
        version: int = 1,
        **fields: Any,
    ) -> Any:
        """The reply to a ConsumerGroupHeartbeat. A join says everything; `owned` is by topic name."""
        if epoch == 0:
            fields.setdefault("rebalance_timeout_ms", REBALANCE_MS)
            topics = ("t",) if topics is None else topics
            owned = {} if owned is None else owned
        listed = None
        if owned is not None:
            listed = [
                TopicPartitions(topic_id=self.topics.id_of(name) or b"", partitions=list(numbers))
                for name, numbers in owned.items()
            ]
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else list(topics),
            topic_partitions=listed,
            **fields,
        )
        caller = self.caller(version)
        return self.ask(
            lambda shard, turn, answer: shard.consumer_heartbeat(turn, answer, request, caller)
        ).reply

    def told(self, reply: Any) -> dict[str, tuple[int, ...]] | None:
        """What a heartbeat's reply assigns."""
        if reply.assignment is None:
            return None
        return {
            self.topics.name_of(one.topic_id) or "?": tuple(one.partitions)
            for one in reply.assignment.topic_partitions
        }

    # Offsets and groups

    def committing(
        self,
        offset: int,
        member: str = "",
        epoch: int = -1,
        *,
        group: str = G,
        topic: str = "t",
        partition: int = 0,
        instance: str | None = None,
        retention_ms: int = -1,
        version: int = 9,
        metadata: str = "",
    ) -> Answer:
        commit = Commit(
            group_id=group,
            member_id=member,
            instance_id=instance,
            epoch=epoch,
            retention_ms=retention_ms,
            offsets=[OffsetToCommit(topic, partition, offset, 3, metadata)],
            version=version,
        )
        done = OffsetCommitResponse()
        return self.ask(lambda shard, turn, answer: shard.commit_offsets(turn, answer, commit, done))

    def commit(self, *args: Any, **options: Any) -> ErrorCode:
        reply = self.committing(*args, **options).reply
        return reply if isinstance(reply, ErrorCode) else ErrorCode.NONE

    def offset(self, group: str = G, topic: str = "t", partition: int = 0) -> int | None:
        found = self.shard.offsets.get(group, topic, partition, self.journal.committed_offset)
        return None if found is None else found.offset

    def delete_offsets(self, topic: str, *partitions: int, group: str = G) -> Any:
        asked = OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in partitions]
        )
        request = OffsetDeleteRequest(group_id=group, topics=[asked])
        reply = self.ask(lambda shard, turn, answer: shard.delete_offsets(turn, answer, request)).reply
        if isinstance(reply, ErrorCode):
            return reply
        return [ErrorCode(one.error_code) for one in reply.topics[0].partitions]

    def delete(self, group: str = G) -> Any:
        return self.ask(lambda shard, turn, answer: shard.delete_group(turn, answer, group)).reply

    # What must always be true

    def fresh(self) -> GroupShard:
        """A shard that knows only the journal."""
        shard = GroupShard(self.config, self.topics)
        shard.on_committed(self.journal.end_offset)
        for record, offset, timestamp_ms in self.journal.records:
            shard.replay(record, offset, timestamp_ms)
        return shard

    def check(self) -> None:
        if not self.checks:
            return
        fresh, live = self.fresh(), self.shard
        assert sorted(fresh.offsets.groups()) == sorted(live.offsets.groups())
        for group_id in live.offsets.groups():
            assert fresh.offsets.newest(group_id) == live.offsets.newest(group_id)
            assert group_id in live.groups, "offsets without a group"
        for group_id, group in live.groups.items():
            again = fresh.groups.get(group_id)
            if isinstance(group, ConsumerGroup):
                assert again == group
            else:
                self._check_classic(group, again)
        self._check_memory(live)
        assert fresh.offsets.held_bytes == live.offsets.held_bytes
        gone = fresh.groups.keys() - live.groups.keys()
        assert not gone, f"{gone} would be back after a restart"

    @staticmethod
    def _check_memory(shard: GroupShard) -> None:
        """What is added up on the way is what a count from scratch gives."""
        for group in shard.groups.values():
            members = sum(member.held_bytes for member in group.members.values())
            if isinstance(group, ConsumerGroup):
                resolved = sum(found.held_bytes for found in group.resolved.values())
                assert group.held_bytes == GROUP_BYTES + len(group.group_id) + members + resolved
            else:
                pending = sum(PENDING_BYTES + len(member_id) for member_id in group.roster.pending)
                assert group.roster.held_bytes == members + pending
        groups = sum(group.held_bytes for group in shard.groups.values())
        assert shard.held_bytes == groups + shard.offsets.held_bytes
        kept = sum(GROUP_BYTES + len(group) for group in shard.offsets.groups())
        assert shard.stored_bytes == kept + shard.offsets.held_bytes <= shard.held_bytes

    def _check_classic(self, group: ClassicGroup, again: Any) -> None:
        assert again is None or isinstance(again, ClassicGroup)
        assert group.state is not GroupState.DEAD, "the shard knows no dead groups"
        if again is not None:
            assert again.generation <= group.generation
        if group.state is GroupState.STABLE or (group.is_empty and group.generation > 0):
            assert again is not None
            assert again.record() == group.record()
            assert again.state is group.state


def test_the_driver_sees_a_shard_whose_state_its_journal_does_not_have() -> None:
    room = Room()
    room.commit(5)
    room.journal.records.clear()
    try:
        room.check()
    except AssertionError:
        return
    raise AssertionError("the check sees nothing")
