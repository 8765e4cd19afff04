"""Members of consumer groups: they join, own partitions, commit offsets and read them back.

`ClassicMember` speaks JoinGroup and SyncGroup, `ConsumerMember` ConsumerGroupHeartbeat (KIP-848). Both go on
from the offset they read: a partition's committed offset only ever grows, unless a commit was lost or
somebody who no longer owns it could still commit.
"""

import json
from typing import Any

from tests.sim.client import Client, Script
from tests.sim.ledger import Ledger

from ottla.base.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

OFFSETS_BY_NAME = 9
OVERTAKE_MS = 700  # longer than a frame can be on its way
MISSING = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
SESSION_MS = 2_500


class Member(Client):
    """What both kinds share. `epoch` is the generation, or the member's epoch."""

    def __init__(self, *place: Any, ledger: Ledger, group: str, topic: str, partitions: int) -> None:
        super().__init__(*place)
        self.ledger, self.group, self.topic, self.partitions = ledger, group, topic, partitions
        self.member_id = ""
        self.epoch = -1
        self.owned: dict[int, int | None] = {}  # the offset to go on from, once it was read
        self.is_fenced = False

    def coordinated(self, request: Any, version: int | None = None, timeout_ms: int = 2_000) -> Script:
        """Ask the coordinator; None: there was no answer, and it has to be found again."""
        while self.group not in self.coordinators:
            yield from self.find_coordinator(self.group)
            if self.is_stopping:
                return None
        answer = yield self.ask(self.coordinators[self.group], request, version, timeout_ms)
        if answer is None or getattr(answer, "error_code", 0) in MISSING:
            self.coordinators.pop(self.group, None)
            yield OVERTAKE_MS if answer is None else 50
            return None
        return answer

    def own(self, partitions: list[int]) -> None:
        self.owned = {one: self.owned.get(one) for one in partitions}
        where = [(self.topic, one) for one in partitions]
        self.ledger.on_owned(self.group, self.epoch, where, self.member_id)

    def work(self) -> Script:
        """Commit one more for every partition that is owned. False: this member is not what it was."""
        for partition in list(self.owned):
            if self.owned.get(partition) is None and not (yield from self._read(partition)):
                return False
            if not (yield from self._commit(partition)):
                return False
        return True

    def _read(self, partition: int) -> Script:
        wanted = OffsetFetchRequestTopics(name=self.topic, partition_indexes=[partition])
        group = OffsetFetchRequestGroup(group_id=self.group, topics=[wanted])
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        answer = yield from self.coordinated(request, OFFSETS_BY_NAME)
        if answer is None or answer.groups[0].error_code:
            self.coordinators.pop(self.group, None)
            return False
        part = answer.groups[0].topics[0].partitions[0]
        if part.error_code:
            return False
        self.owned[partition] = max(part.committed_offset, 0)
        return True

    def _commit(self, partition: int) -> Script:
        offset = (self.owned[partition] or 0) + 1
        part = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=self.topic, partitions=[part])],
        )
        before = self.ledger.committed(self.group, self.topic, partition)
        answer = yield from self.coordinated(request, OFFSETS_BY_NAME)
        if answer is None:
            return True  # whether it was committed or not: the same again
        error = answer.topics[0].partitions[0].error_code
        if error:
            self.is_fenced = error not in MISSING
            self.coordinators.pop(self.group, None)
            yield 50
            return not self.is_fenced
        self.world.note(f"{self.name} committed {offset} for {partition} in epoch {self.epoch}")
        self.ledger.on_committed(self.group, self.topic, partition, offset, self.name, before=before)
        self.owned[partition] = offset
        return True


class ClassicMember(Member):
    def script(self) -> Script:
        while not self.is_stopping:
            self.owned = {}
            if not (yield from self._join()):
                yield self.world.draw(20, 200)
                continue
            for _ in range(self.world.draw(5, 40)):
                if self.is_stopping or not (yield from self.work()) or not (yield from self._heartbeat()):
                    break
                yield self.world.draw(50, 400)
            else:
                yield from self._leave()

    def _join(self) -> Script:
        protocol = JoinGroupRequestProtocol(name="even", metadata=b"")
        request = JoinGroupRequest(
            group_id=self.group, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=1_500,
            member_id=self.member_id, protocol_type="consumer", protocols=[protocol],
        )  # fmt: skip
        answer = yield from self.coordinated(request, timeout_ms=4_000)
        if answer is None:
            return False
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return (yield from self._join())
        if answer.error_code:
            if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            return False
        self.member_id, self.epoch = answer.member_id, answer.generation_id
        return (yield from self._sync([one.member_id for one in answer.members]))

    def _sync(self, members: list[str]) -> Script:
        assigned = [
            SyncGroupRequestAssignment(
                member_id=member,
                assignment=json.dumps(list(range(self.partitions))[place :: len(members)]).encode(),
            )
            for place, member in enumerate(members)
        ]
        request = SyncGroupRequest(
            group_id=self.group, generation_id=self.epoch, member_id=self.member_id,
            protocol_type="consumer", protocol_name="even", assignments=assigned,
        )  # fmt: skip
        answer = yield from self.coordinated(request, timeout_ms=4_000)
        if answer is None or answer.error_code:
            if answer is not None and answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            return False
        self.own(json.loads(answer.assignment or b"[]"))
        return True

    def _heartbeat(self) -> Script:
        request = HeartbeatRequest(group_id=self.group, generation_id=self.epoch, member_id=self.member_id)
        answer = yield from self.coordinated(request)
        if answer is not None and answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        return answer is None or not answer.error_code

    def _leave(self) -> Script:
        member = MemberIdentity(member_id=self.member_id)
        yield from self.coordinated(LeaveGroupRequest(group_id=self.group, members=[member]))
        self.member_id = ""


class ConsumerMember(Member):
    def script(self) -> Script:
        while not self.is_stopping:
            self.member_id, self.epoch, self.owned, self.is_fenced = self._new_id(), 0, {}, False
            left = self.world.draw(10, 60)
            while not self.is_stopping and left and (yield from self._heartbeat()):
                left -= 1
                if self.epoch > 0:
                    yield from self.work()
                if self.is_fenced:
                    break
                yield self.world.draw(50, 300)
            if not left:
                yield from self._leave()

    def _new_id(self) -> str:
        return f"{self.name}-{self.world.draw(0, 1 << 30)}"

    def _heartbeat(self) -> Script:
        yield from self.refresh(self.topic) if self.topic not in self.topic_ids else ()
        owned = TopicPartitions(
            topic_id=self.topic_ids.get(self.topic, bytes(16)), partitions=list(self.owned)
        )
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch,
            rebalance_timeout_ms=1_500, subscribed_topic_names=[self.topic],
            topic_partitions=[owned] if self.owned else [],
        )  # fmt: skip
        answer = yield from self.coordinated(request)
        if answer is None:
            return True
        if answer.error_code:
            yield 100
            return False
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.own([p for topic in answer.assignment.topic_partitions for p in topic.partitions])
        return True

    def _leave(self) -> Script:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=-1, topic_partitions=None
        )
        yield from self.coordinated(request)


class Auditor(Member):
    """Reads in the end, when all is quiet, what a group has committed."""

    def script(self) -> Script:
        for partition in range(self.partitions):
            while not (yield from self._read(partition)):
                yield 100
            found = self.owned[partition] or 0
            self.ledger.on_offset_read(self.group, self.topic, partition, found, self.name)
