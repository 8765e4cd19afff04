"""A consumer group (KIP-848) and its requests.

The coordinator works out who reads what (`target`), and each member is led there by its own heartbeats
(`reconciliation`): there is no moment at which everybody has to stop. A heartbeat brings what is new about a
member and what it owns; the answer brings its epoch and, if that has changed, its assignment.

    member epoch   means
    0              join, or join again after having been fenced
    > 0            the epoch of the last answer; the one before is accepted too if what the member owns is
                   part of what it has, since an answer may have been lost
    -1             leave
    -2             leave for a while: a static member whose instance will be back

Members that speak the classic protocol live here too while a group is being moved from one protocol to the
other: `classic_members`, `migration`.

Rules. Stored state is changed by `replay` alone. An ApiError is raised before anything is decided. A group
that has to go on as a classic one is returned as such; it then takes this one's place.
"""

from dataclasses import replace
from typing import ClassVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.turn import Answer, TimerKey, Turn
from ottla.group.classic.generation import refused_join
from ottla.group.classic.group import ClassicGroup
from ottla.group.commits import Commit
from ottla.group.config import GroupConfig
from ottla.group.consumer import description
from ottla.group.consumer.classic_members import ClassicMembers
from ottla.group.consumer.epochs import Epochs
from ottla.group.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
)
from ottla.group.consumer.migration import downgrade, is_last_of_its_kind, upgrade
from ottla.group.consumer.records import group_tombstones, position_record
from ottla.group.consumer.regex import PATTERNS_MAX, compile_pattern
from ottla.group.consumer.sessions import Sessions
from ottla.group.consumer.state import ConsumerState
from ottla.group.consumer.target import all_topics
from ottla.group.group import Caller, Group
from ottla.group.offsets import Offsets
from ottla.group.partitions import Partitions, in_order, is_subset, to_partitions
from ottla.group.protocol import PROTOCOL_TYPE, read_subscription
from ottla.group.records import Entry
from ottla.group.topics import Topics
from ottla.wire.messages.consumer_group_describe import DescribedGroup
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitionsResponse,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.sync_group import SyncGroupRequest

COMMIT_VERSION_MIN = 9
"""OffsetCommit from this version on has a member epoch and can answer that it is stale."""


_LATE = {
    "session": "was not heard of for its session timeout",
    "rebalance": "did not give up its partitions in time",
    "join": "did not join again in time",
    "sync": "did not ask for its assignment in time",
}


class ConsumerGroup:
    __slots__ = ("classic_members", "epochs", "group_id", "sessions", "state")

    kind: ClassVar[str] = "Consumer"
    protocol_type = PROTOCOL_TYPE

    def __init__(self, group_id: str, config: GroupConfig, topics: Topics) -> None:
        self.group_id = group_id
        self.state = ConsumerState(group_id, config, topics)
        self.sessions = Sessions(self.state)
        self.epochs = Epochs(self.state, self.sessions)
        self.classic_members = ClassicMembers(self.state, self.sessions, self.epochs)

    @classmethod
    def from_classic(
        cls, turn: Turn, classic: ClassicGroup, config: GroupConfig, topics: Topics
    ) -> "ConsumerGroup":
        """What a classic group becomes when somebody joins it with the new protocol; GROUP_ID_NOT_FOUND if it
        may not. Have it answer the heartbeat, and then close the classic group (REBALANCE_IN_PROGRESS): it is
        made again, by replay, when what the turn has written is stored."""
        group = cls(classic.group_id, config, topics)
        upgrade(group.state, turn, classic)
        group.sessions.resume(turn)
        return group

    @property
    def members(self) -> dict[str, ConsumerMember]:
        return self.state.members

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def state_name(self) -> str:
        return self.state.state_name

    @property
    def is_empty(self) -> bool:
        return not self.state.members

    @property
    def is_unused(self) -> bool:
        return self.is_empty

    # Its life

    def replay(self, entry: Entry) -> None:
        self.state.replay(entry)

    def on_loaded(self, turn: Turn) -> None:
        self.sessions.resume(turn)

    def on_timer(self, turn: Turn, key: TimerKey) -> Group:
        assert isinstance(key, tuple)
        _, _, kind, member_id = key
        member = self.members.get(member_id)
        if member is None or (kind == "rebalance" and member.state is not MemberState.UNREVOKED_PARTITIONS):
            return self
        if kind in ("join", "sync") and member.classic is None:
            return self  # it speaks the new protocol by now
        if kind == "session" and not self.sessions.is_over(turn, member):
            return self
        return self._remove(turn, member, _LATE[kind])

    def on_config(self, config: GroupConfig) -> None:
        """Its members learn of it, and their sessions change, with their next heartbeats."""
        self.state.config = config

    def check_delete(self) -> None:
        if not self.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def delete(self, turn: Turn) -> None:
        self._end_sessions(turn)
        turn.write(*group_tombstones(self.state))

    def _end_sessions(self, turn: Turn) -> None:
        for member_id in self.members:
            self.sessions.end(turn, member_id)

    def _remove(self, turn: Turn, member: ConsumerMember, what: str) -> Group:
        if is_last_of_its_kind(self.state, member):
            return self._downgrade(turn, member)
        self.epochs.fence(turn, [member], f"member {member.member_id!r:.200} {what}")
        return self

    def _downgrade(
        self, turn: Turn, leaving: ConsumerMember, successor: tuple[JoinGroupRequest, int] | None = None
    ) -> ClassicGroup:
        self._end_sessions(turn)
        return downgrade(self.state, turn, leaving, successor)

    # ConsumerGroupHeartbeat

    def consumer_heartbeat(
        self, turn: Turn, answer: Answer, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> Group:
        """ConsumerGroupHeartbeat (key 68). What makes no sense for any group was refused before.

        v0 member ids may be given out here · v1 regular expressions, member ids are the client's (KIP-1082)
        """
        if is_leaving(request):
            return self._leave(turn, answer, request)
        member_id = request.member_id or caller.new_member_id
        owned = None if request.topic_partitions is None else to_partitions(request.topic_partitions)
        before, replaced = self._find(request, member_id, owned)
        after = _described(before, request, caller)
        if after.regex and after.regex != before.regex:
            self._check_pattern(after.regex)
        member = self.epochs.settle(turn, before, after, owned, replaced)
        self.sessions.set(turn, member)
        reply = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.state.config.consumer_heartbeat_interval_ms,
        )
        if _is_full(request) or member.assigned != before.assigned:
            reply.assignment = _assignment(member.assigned)
        turn.answer(answer, reply)
        return self

    def _check_pattern(self, pattern: str) -> None:
        compile_pattern(pattern)
        patterns = {member.regex for member in self.members.values() if member.regex}
        if pattern not in patterns and len(patterns) >= PATTERNS_MAX:
            raise ApiError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"The members of the group have {len(patterns)} different regular expressions: no more.",
            )

    def _find(
        self, request: ConsumerGroupHeartbeatRequest, member_id: str, owned: Partitions | None
    ) -> tuple[ConsumerMember, ConsumerMember | None]:
        """The member as it was, and whom it replaces."""
        is_joining = request.member_epoch == JOIN_EPOCH
        member = self.members.get(member_id)
        static = self.state.static_member(request.instance_id)
        if is_joining and member is None and static is None:
            if len(self.members) >= self.state.config.consumer_members_max:
                raise ApiError(
                    ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group is full: {len(self.members)} members."
                )
            return ConsumerMember(member_id), None
        if is_joining and static is not None:
            if static.epoch == STATIC_LEAVE_EPOCH or static.classic is not None:
                back = replace(static, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
                return back, None if static.member_id == member_id else static
            if static.member_id != member_id:
                raise ApiError(
                    ErrorCode.UNRELEASED_INSTANCE_ID, f"Its instance id still belongs to {static.member_id}."
                )
        if request.instance_id is not None and not is_joining:
            member = self.state.check_static(request.instance_id, member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of the group.")
        _check_epoch(member, request.member_epoch, owned)
        return member, None

    def _leave(self, turn: Turn, answer: Answer, request: ConsumerGroupHeartbeatRequest) -> Group:
        member = self.members.get(request.member_id)
        if request.instance_id is not None:
            member = self.state.check_static(request.instance_id, request.member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{request.member_id} is not a member of the group.")
        group: Group = self
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            # It has stopped reading, so what it was to give up is free. Its session goes on without it.
            away = replace(member, epoch=STATIC_LEAVE_EPOCH, pending={})
            turn.write(position_record(self.group_id, away))
            turn.cancel_timer(self.sessions.timer("rebalance", member.member_id))
        else:
            group = self._remove(turn, member, "left")
        reply = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
        )
        turn.answer(answer, reply)
        return group

    # Requests of the classic protocol

    def join(self, turn: Turn, answer: Answer, request: JoinGroupRequest, caller: Caller) -> Group:
        """JoinGroup (key 11). A group that is empty is deleted, for a new classic one."""
        if self.is_empty:
            return self._join_anew(turn, answer, request, caller)
        static = self.state.static_member(request.group_instance_id)
        is_back = static is not None and not request.member_id
        if static is None or not is_back or not is_last_of_its_kind(self.state, static, is_replaced=True):
            self.classic_members.join(turn, answer, request, caller)
            return self
        try:
            self.classic_members.check_join(request)
            for protocol in request.protocols:
                read_subscription(protocol.metadata)
        except ApiError as error:
            turn.answer(answer, refused_join(request.member_id, error.code, caller.version))
            return self
        classic = self._downgrade(turn, static, (request, caller.version))
        return classic.join(turn, answer, request, caller)

    def _join_anew(self, turn: Turn, answer: Answer, request: JoinGroupRequest, caller: Caller) -> Group:
        if request.member_id:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        self.delete(turn)
        classic = ClassicGroup(self.group_id, self.state.config, wall_ms=turn.wall_ms)
        classic.join(turn, answer, request, caller)
        return self if classic.is_simple else classic  # if it was refused, there is nobody to go on with

    def sync(self, turn: Turn, answer: Answer, request: SyncGroupRequest) -> None:
        self.classic_members.sync(turn, answer, request)

    def heartbeat(self, turn: Turn, answer: Answer, request: HeartbeatRequest) -> None:
        self.classic_members.heartbeat(turn, answer, request)

    def leave(self, turn: Turn, answer: Answer, request: LeaveGroupRequest, version: int) -> None:
        self.classic_members.leave(turn, answer, request, version)

    # Offsets

    def check_commit(self, commit: Commit) -> None:
        """May it commit? Without an epoch it is a tool, which may if nobody is there. The instance id is not
        looked at, as in Kafka: the member id says enough. A transaction need not say who it is for, and has
        versions of its own."""
        is_transactional = commit.writer is not None
        if (commit.epoch < 0 and self.is_empty) or (is_transactional and commit.names_nobody):
            return
        member = self._check_member(commit.member_id, commit.epoch)
        if member.classic is None and commit.version < COMMIT_VERSION_MIN and not is_transactional:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION, f"Members commit with version {COMMIT_VERSION_MIN} or above."
            )

    def on_commit(self, turn: Turn, member_id: str) -> None:
        """Unlike in a classic group, a commit is not as good as a heartbeat."""

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """May it ask for offsets? Whoever does not say who it is may."""
        if member_id is not None or epoch >= 0:
            self._check_member(member_id or "", epoch)

    def _check_member(self, member_id: str, epoch: int) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of the group.")
        if epoch != member.epoch:
            is_classic = member.classic is not None
            code = ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH
            raise ApiError(code, f"The epoch is {member.epoch}, not {epoch}.")
        return member

    def check_offset_delete(self) -> None:
        """Offsets of topics it does not read (see `reads`) may be deleted at any time."""

    def reads(self, topic: str) -> bool:
        return topic in self.subscribed_topics

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """By name or by regular expression."""
        matched = {pattern: resolved.topics for pattern, resolved in self.state.resolved.items()}
        return all_topics(self.members.values(), matched)

    def expired(self, offsets: Offsets, wall_ms: int) -> list[tuple[str, int]]:
        retention_ms = self.state.config.offsets_retention_ms
        return offsets.expired(self.group_id, wall_ms, retention_ms, is_subscribed=self.reads)

    # Memory

    @property
    def held_bytes(self) -> int:
        return self.state.held_bytes

    def member_bytes(self, member_id: str, instance_id: str | None) -> int:
        member = self.members.get(member_id) or self.state.static_member(instance_id)
        return member.held_bytes if member is not None else 0

    def sync_growth(self, request: SyncGroupRequest) -> int:
        """Assignments in the request are ignored."""
        del request
        return 0

    # ConsumerGroupDescribe

    def describe(self) -> DescribedGroup:
        return description.describe(self.state)


def is_leaving(request: ConsumerGroupHeartbeatRequest) -> bool:
    return request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A member that joins, or is not sure of its state, says everything, and wants to be told everything."""
    is_all_there = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    return request.member_epoch == JOIN_EPOCH or is_all_there


def _check_epoch(member: ConsumerMember, epoch: int, owned: Partitions | None) -> None:
    if epoch == member.epoch:
        return
    if epoch == member.previous_epoch and epoch < member.epoch and is_subset(owned, member.assigned):
        return
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The member's epoch is {member.epoch}, not {epoch}. It has to give up all partitions and rejoin.",
    )


def _described(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> ConsumerMember:
    """The member as it now describes itself; what it does not say is as it was."""
    names, regex, timeout_ms = (
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.rebalance_timeout_ms,
    )
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topic_names=member.topic_names if names is None else frozenset(names),
        regex=member.regex if regex is None else regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
        silent_ms=0,
    )


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitionsResponse(topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in in_order(partitions)
        ]
    )
