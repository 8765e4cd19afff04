"""A consumer group (KIP-848) and its requests.

The coordinator works out who reads what (`target`), and each member is led there by its own heartbeats
(`reconcile`): there is no moment at which everybody has to stop. A heartbeat brings what is new about a
member and what it owns; the answer brings its epoch and, if that has changed, its assignment.

    member epoch   means
    0              join, or join again after having been fenced
    > 0            the epoch of the last answer; the one before is accepted too if what the member owns is
                   part of what it has, since an answer may have been lost
    -1             leave
    -2             leave for a while: a static member whose instance will be back

Members that speak the classic protocol live here too while a group is being moved from one protocol to the
other: `consumer_classic`, `consumer_migrate`.

Rules. Stored state is changed by `replay` alone. An ApiError is raised before anything is decided. A group
that has to go on as a classic one is returned as such; it then takes this one's place.
"""

from dataclasses import replace

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.turn import Answer, StoredRecord, TimerKey, Turn
from ottla.group import consumer_classic, consumer_describe
from ottla.group.classic import Caller, ClassicGroup
from ottla.group.classic_rebalance import refused_join
from ottla.group.config import GroupConfig
from ottla.group.consumer_change import cancel_timers, fence, is_session_over, set_session, settle
from ottla.group.consumer_member import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    Member,
    MemberState,
    Partitions,
    is_subset,
    to_partitions,
)
from ottla.group.consumer_migrate import downgrade, is_last_of_its_kind, upgrade
from ottla.group.consumer_protocol import read_subscription
from ottla.group.consumer_records import group_tombstones, position_record
from ottla.group.consumer_requests import check_heartbeat, is_full, is_leaving
from ottla.group.consumer_state import ConsumerState
from ottla.group.regex import PATTERNS_MAX, compile_pattern
from ottla.group.target import all_topics
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


class ConsumerGroup(ConsumerState):
    __slots__ = ()

    @classmethod
    def from_classic(
        cls, turn: Turn, classic: ClassicGroup, config: GroupConfig, topics: Topics
    ) -> "ConsumerGroup":
        """What a classic group becomes when somebody joins it with the new protocol; GROUP_ID_NOT_FOUND if it
        may not. Have it answer the heartbeat, and then close the classic group (REBALANCE_IN_PROGRESS): it is
        made again, by replay, when what the turn has written is stored."""
        group = cls(classic.group_id, config, topics)
        upgrade(group, turn, classic)
        return group

    def on_loaded(self, turn: Turn) -> None:
        """Sessions go on as far as is stored; the time to give up partitions begins anew."""
        for member in self.members.values():
            set_session(self, turn, member)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                due_ms = turn.now_ms + member.rebalance_timeout_ms
                turn.set_timer(self.timer("rebalance", member.member_id), due_ms)

    def on_timer(self, turn: Turn, key: TimerKey) -> ClassicGroup | None:
        """Somebody's time is up. A timer may outlive what it was set for; then it means nothing."""
        assert isinstance(key, tuple)
        _, _, kind, member_id = key
        member = self.members.get(member_id)
        if member is None or (kind == "rebalance" and member.state is not MemberState.UNREVOKED_PARTITIONS):
            return None
        if kind in ("join", "sync") and member.classic is None:
            return None  # it speaks the new protocol by now
        if kind == "session" and not is_session_over(self, turn, member):
            return None
        return self._remove(turn, member)

    # ConsumerGroupHeartbeat

    def heartbeat(
        self, turn: Turn, answer: Answer, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> ClassicGroup | None:
        """ConsumerGroupHeartbeat (key 68).

        v0 member ids may be given out here · v1 regular expressions, member ids are the client's (KIP-1082)
        """
        check_heartbeat(request, caller.version, self.config)
        if is_leaving(request):
            return self._leave(turn, answer, request)
        member_id = request.member_id or caller.new_member_id
        owned = None if request.topic_partitions is None else to_partitions(request.topic_partitions)
        before, replaced = self._find(request, member_id, owned)
        after = _described(before, request, caller)
        if after.regex and after.regex != before.regex:
            self._check_pattern(after.regex)
        member = settle(self, turn, before, after, owned, replaced)
        set_session(self, turn, member)
        reply = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.config.consumer_heartbeat_interval_ms,
        )
        if is_full(request) or member.assigned != before.assigned:
            reply.assignment = _assignment(member.assigned)
        turn.answer(answer, reply)
        return None

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
    ) -> tuple[Member, Member | None]:
        """The member as known, and whom it replaces."""
        is_joining = request.member_epoch == JOIN_EPOCH
        known = self.members.get(member_id)
        static = self.static_member(request.instance_id)
        if is_joining and known is None and static is None:
            if len(self.members) >= self.config.consumer_members_max:
                raise ApiError(
                    ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group is full: {len(self.members)} members."
                )
            return Member(member_id), None
        if is_joining and static is not None:
            if static.epoch == STATIC_LEAVE_EPOCH or static.classic is not None:
                back = replace(static, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
                return back, None if static.member_id == member_id else static
            if static.member_id != member_id:
                raise ApiError(
                    ErrorCode.UNRELEASED_INSTANCE_ID, f"Its instance id still belongs to {static.member_id}."
                )
        if request.instance_id is not None and not is_joining:
            known = consumer_classic.check_static(static, member_id)
        if known is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of the group.")
        _check_epoch(known, request.member_epoch, owned)
        return known, None

    def _leave(
        self, turn: Turn, answer: Answer, request: ConsumerGroupHeartbeatRequest
    ) -> ClassicGroup | None:
        member = self.members.get(request.member_id)
        if request.instance_id is not None:
            member = consumer_classic.check_static(self.static_member(request.instance_id), request.member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{request.member_id} is not a member of the group.")
        classic = None
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            # It has stopped reading, so what it was to give up is free. Its session goes on without it.
            away = replace(member, epoch=STATIC_LEAVE_EPOCH, pending={})
            turn.write(position_record(self.group_id, away))
            turn.cancel_timer(self.timer("rebalance", member.member_id))
        else:
            classic = self._remove(turn, member)
        reply = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
        )
        turn.answer(answer, reply)
        return classic

    def _remove(self, turn: Turn, member: Member) -> ClassicGroup | None:
        if is_last_of_its_kind(self, member):
            return downgrade(self, turn, member)
        fence(self, turn, [member])
        return None

    # Members that speak the classic protocol

    def classic_join(
        self, turn: Turn, answer: Answer, request: JoinGroupRequest, caller: Caller
    ) -> ClassicGroup | None:
        """JoinGroup, unless the group is empty: then it is deleted (`tombstones`) for a new classic one."""
        static = self.static_member(request.group_instance_id)
        is_back = static is not None and not request.member_id
        if static is None or not is_back or not is_last_of_its_kind(self, static, is_replaced=True):
            consumer_classic.join(self, turn, answer, request, caller)
            return None
        try:
            consumer_classic.check_join(self, request)
            for protocol in request.protocols:
                read_subscription(protocol.metadata)
        except ApiError as error:
            turn.answer(answer, refused_join(request.member_id, error.code, caller.version))
            return None
        classic = downgrade(self, turn, static, (request, caller.version))
        classic.join(turn, answer, request, caller)
        return classic

    def classic_sync(self, turn: Turn, answer: Answer, request: SyncGroupRequest) -> None:
        consumer_classic.sync(self, turn, answer, request)

    def classic_heartbeat(self, turn: Turn, answer: Answer, request: HeartbeatRequest) -> None:
        consumer_classic.heartbeat(self, turn, answer, request)

    def classic_leave(self, turn: Turn, answer: Answer, request: LeaveGroupRequest, version: int) -> None:
        consumer_classic.leave(self, turn, answer, request, version)

    # OffsetCommit, OffsetFetch, and what else asks about a group

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int = COMMIT_VERSION_MIN
    ) -> None:
        """May it commit? Without an epoch it is a tool, which may if nobody is there. `instance_id` is not
        looked at, as in Kafka: the member id says enough. Left out: transactional commits."""
        del instance_id
        if epoch < 0 and self.is_empty:
            return
        member = self._check_member(member_id, epoch)
        if member.classic is None and version < COMMIT_VERSION_MIN:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION, f"Members commit with version {COMMIT_VERSION_MIN} or above."
            )

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """May it ask for offsets? Whoever does not say who it is may."""
        if member_id is not None or epoch >= 0:
            self._check_member(member_id or "", epoch)

    def _check_member(self, member_id: str, epoch: int) -> Member:
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of the group.")
        if epoch != member.epoch:
            is_classic = member.classic is not None
            code = ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH
            raise ApiError(code, f"The epoch is {member.epoch}, not {epoch}.")
        return member

    def on_commit(self, turn: Turn, member_id: str) -> None:
        """Unlike in a classic group, a commit is not as good as a heartbeat."""

    def check_delete(self) -> None:
        if not self.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def check_offset_delete(self) -> None:
        """Offsets of topics it does not read (see `reads`) may be deleted at any time."""

    def reads(self, topic: str) -> bool:
        return topic in self.subscribed_topics

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """By name or by regular expression."""
        matched = {pattern: found.topics for pattern, found in self.resolved.items()}
        return all_topics(self.members.values(), matched)

    def describe(self) -> DescribedGroup:
        return consumer_describe.describe(self)

    def tombstones(self) -> list[StoredRecord]:
        """Everything there is of it, for when it is deleted."""
        return list(group_tombstones(self))

    def close(self, turn: Turn) -> None:
        """Deleted: no timer is left."""
        for member_id in self.members:
            cancel_timers(self, turn, member_id)


def _check_epoch(member: Member, epoch: int, owned: Partitions | None) -> None:
    if epoch == member.epoch:
        return
    if epoch == member.previous_epoch and epoch < member.epoch and is_subset(owned, member.assigned):
        return
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The member's epoch is {member.epoch}, not {epoch}. It has to give up all partitions and rejoin.",
    )


def _described(member: Member, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> Member:
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
            TopicPartitionsResponse(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in sorted(partitions.items())
        ]
    )
