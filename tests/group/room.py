"""A shard with any number of groups: how its tests talk to it, and what must be true after every turn."""

from typing import Any

from tests.support.groups import (
    REBALANCE_MS,
    Coordinator,
    G,
    assignment,
    commit_of,
    deleting_offsets,
    groups_of,
    subscription,
)

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.turn import Answer, StoredEnd, StoredRecord, Writer
from ottla.group.classic.group import ClassicGroup
from ottla.group.classic.states import GroupState
from ottla.group.commits import OffsetToCommit
from ottla.group.consumer.group import ConsumerGroup
from ottla.group.memory import GROUP_BYTES, PENDING_BYTES
from ottla.group.shard import GroupShard
from ottla.records.control import Marker
from ottla.wire.messages.offset_commit import OffsetCommitResponse

MINUTE_MS = 60_000


def record_of(group: ClassicGroup) -> StoredRecord:
    return group.generation.record(group.group_id, group.roster, group.rebalance.state_timestamp_ms)


class Room(Coordinator):
    """Requests answer with the reply, or with the code they were refused with; None is an answer yet to come.

    After every turn a fresh shard that replays the journal has to know the same groups and offsets: that is
    what "decide, then replay" promises. Of a classic group only what is stored can be compared.
    """

    def run(self, operation: Any, version: int | None = None) -> Answer:
        try:
            return super().run(operation, version)
        except ApiError as error:
            self.check()
            return Answer(reply=error.code)

    # The classic protocol

    def joining(
        self,
        member: str = "",
        *,
        topics: tuple[str, ...] = ("t",),
        owned: dict[str, tuple[int, ...]] | None = None,
        protocol: str = "range",
        metadata: bytes | None = None,
        **options: Any,
    ) -> Answer:
        metadata = subscription(*topics, owned=owned) if metadata is None else metadata
        return self.ask_join(member, protocols={protocol: metadata}, **options)

    def join(self, member: str = "", **options: Any) -> Any:
        return self.joining(member, **options).reply

    def sync(self, *args: Any, **options: Any) -> Any:
        return self.ask_sync(*args, **options).reply

    def beat(self, member: str, generation: int, **options: Any) -> Any:
        reply = self.ask_heartbeat(member, generation, **options).reply
        return ErrorCode(getattr(reply, "error_code", reply))

    def leave(self, *members: str, group: str = G, instance: str | None = None) -> Any:
        """The codes of all that leave, or the one code of the refusal."""
        reply = self.ask_leave(*((member, instance) for member in members), group=group).reply
        if isinstance(reply, ErrorCode):
            return reply
        return [ErrorCode(member.error_code) for member in reply.members]

    def classic(self, count: int = 1, group: str = G, **options: Any) -> list[str]:
        """A stable classic group of the first `count` members, who share topic t."""
        answers = []
        for _ in range(count):
            asked = self.join(group=group, **options)
            answers.append(self.joining(asked.member_id, group=group, **options))
        while self.shard.groups[group].state_name == GroupState.PREPARING.value:
            self.advance(100)
        joined = [answer.reply for answer in answers]
        members = [reply.member_id for reply in joined]
        generation = joined[0].generation_id
        shares = {
            member: assignment(t=range(at, self.topics.counts["t"], count))
            for at, member in enumerate(members)
        }
        for reply in reversed(joined):
            leads = reply.leader == reply.member_id
            self.sync(reply.member_id, generation, shares if leads else {}, group=group)
        return members

    # The consumer protocol

    def consume(
        self, member: str, epoch: int, owned: Any = None, *, topics: Any = None, **options: Any
    ) -> Any:
        """A join says everything."""
        if epoch == 0:
            options.setdefault("rebalance_timeout_ms", REBALANCE_MS)
            topics = ("t",) if topics is None else topics
            owned = {} if owned is None else owned
        return self.ask_consume(member, epoch, owned, topics=topics, **options).reply

    # Offsets and groups

    def committing(
        self,
        offset: int,
        member: str = "",
        epoch: int = -1,
        *,
        topic: str = "t",
        partition: int = 0,
        metadata: str = "",
        **options: Any,
    ) -> Answer:
        offsets = [OffsetToCommit(topic, partition, offset, 3, metadata)]
        commit, done = commit_of(member, epoch, offsets=offsets, **options), OffsetCommitResponse()
        return self.run(lambda shard, turn, answer: shard.commit_offsets(turn, answer, commit, done))

    def commit(self, *args: Any, **options: Any) -> ErrorCode:
        reply = self.committing(*args, **options).reply
        return reply if isinstance(reply, ErrorCode) else ErrorCode.NONE

    def commit_in(self, writer: Writer, *args: Any, version: int = 3, **options: Any) -> ErrorCode:
        """A commit in a transaction."""
        return self.commit(*args, writer=writer, version=version, **options)

    def end(self, writer: Writer, *, committed: bool = True) -> Answer:
        answer, marker = Answer(), Marker(*writer, committed, 0, 0)
        self.waiting.append((answer, None))
        self.runtime.end_transaction(0, marker, self.now_ms, answer)
        self.check()
        return answer

    def is_unstable(self, group: str = G, topic: str = "t", partition: int = 0) -> bool:
        return self.shard.offsets.is_unstable(group, topic, partition, self.journal.committed_offset)

    def offset(self, group: str = G, topic: str = "t", partition: int = 0) -> int | None:
        committed = self.shard.offsets.get(group, topic, partition, self.journal.committed_offset)
        return None if committed is None else committed.offset

    def delete_offsets(self, topic: str, *partitions: int, group: str = G) -> Any:
        request = deleting_offsets(topic, *partitions, group=group)
        reply = self.run(lambda shard, turn, answer: shard.delete_offsets(turn, answer, request)).reply
        if isinstance(reply, ErrorCode):
            return reply
        return [ErrorCode(partition.error_code) for partition in reply.topics[0].partitions]

    def delete(self, group: str = G) -> Any:
        return self.run(lambda shard, turn, answer: shard.delete_group(turn, answer, group)).reply

    # What must always be true

    def fresh(self) -> GroupShard:
        """A shard that knows only the journal."""
        shard = GroupShard(self.config, self.topics)
        shard.on_committed(self.journal.end_offset)
        for stored in self.journal.items:
            if isinstance(stored, StoredEnd):
                shard.replay_end(stored)
            else:
                shard.replay(*stored)
        return shard

    def check(self) -> None:
        if not self.checks:
            return
        fresh, live = self.fresh(), self.shard
        assert sorted(groups_of(fresh.offsets)) == sorted(groups_of(live.offsets))
        for group_id in groups_of(live.offsets):
            assert fresh.offsets.newest(group_id) == live.offsets.newest(group_id)
            assert fresh.offsets.partitions(group_id) == live.offsets.partitions(group_id)
            assert group_id in live.groups, "offsets without a group"
        for group_id, group in live.groups.items():
            again: Any = fresh.groups.get(group_id)
            if isinstance(group, ConsumerGroup):
                assert again.state == group.state
            else:
                self._check_classic(group, again)
        self._check_memory(live)
        assert fresh.offsets.held_bytes == live.offsets.held_bytes
        gone = fresh.groups.keys() - live.groups.keys()
        assert not gone, f"{gone} would be back after a restart"

    @staticmethod
    def _check_memory(shard: GroupShard) -> None:
        """What is added up on the way is what a count from scratch gives."""
        group: Any
        for group in shard.groups.values():
            members = sum(member.held_bytes for member in group.members.values())
            if isinstance(group, ConsumerGroup):
                resolved = sum(matched.held_bytes for matched in group.state.resolved.values())
                assert group.held_bytes == GROUP_BYTES + len(group.group_id) + members + resolved
            else:
                pending = sum(PENDING_BYTES + len(member_id) for member_id in group.roster.pending)
                assert group.roster.held_bytes == members + pending
        groups = sum(group.held_bytes for group in shard.groups.values())
        assert shard.held_bytes == groups + shard.offsets.held_bytes
        kept = sum(GROUP_BYTES + len(group) for group in groups_of(shard.offsets))
        assert shard.stored_bytes == kept + shard.offsets.held_bytes <= shard.held_bytes

    def _check_classic(self, group: Any, again: Any) -> None:
        assert again is None or isinstance(again, ClassicGroup)
        assert not group.is_dead, "the shard knows no dead groups"
        if again is not None:
            assert again.generation.number <= group.generation.number
        if group.state is GroupState.STABLE or (group.is_empty and group.generation.number > 0):
            assert again is not None
            assert record_of(again) == record_of(group)
            assert again.state is group.state
