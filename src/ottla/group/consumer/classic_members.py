"""Members of a consumer group that speak the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

While a group moves from one protocol to the other its members speak both. One that speaks the classic one has
its subscription in the metadata of its first assignor, its member epoch for a generation, and nobody's
assignment to work out but its own, which the coordinator gives it in the answer to SyncGroup. Where the new
protocol would tell it something in a heartbeat, it is told to join again:

    its epoch is behind the group's              join again, to go towards the new target
    UNREVOKED_PARTITIONS                         it knows its smaller assignment; join again without the rest
    UNRELEASED_PARTITIONS, and what it waits
    for has become free                          join again, to get it

What a member owns is what its subscription says. An eager one gives up everything before it joins, and says
so by saying nothing; a cooperative one lists what it keeps.

Who is told to join again has its rebalance timeout to do so, and after that again to sync; else it is fenced.
Rules: wrong input is an error in the answer, never an exception, and is found before anything is written.
"""

from dataclasses import replace

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.turn import Answer, Turn
from ottla.group.classic.generation import refused_join, refused_sync
from ottla.group.classic.member import protocols_of, rebalance_timeout_ms_of
from ottla.group.consumer.epochs import Epochs
from ottla.group.consumer.member import ClassicSide, ConsumerMember, MemberState
from ottla.group.consumer.sessions import Sessions
from ottla.group.consumer.state import ConsumerState
from ottla.group.group import Caller
from ottla.group.partitions import NOWHERE, Partitions
from ottla.group.protocol import PROTOCOL_TYPE, as_assignment, by_topic_id, read_subscription
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

MEMBER_ID_REQUIRED_SINCE = 4
"""From this version of JoinGroup on a dynamic member joins with an id it was given (KIP-394)."""


class ClassicMembers:
    __slots__ = ("_epochs", "_sessions", "_state")

    def __init__(self, state: ConsumerState, sessions: Sessions, epochs: Epochs) -> None:
        self._state = state
        self._sessions = sessions
        self._epochs = epochs

    def join(self, turn: Turn, answer: Answer, request: JoinGroupRequest, caller: Caller) -> None:
        """JoinGroup (key 11), answered at once. Ids given out with MEMBER_ID_REQUIRED are not remembered."""
        try:
            self.check_join(request)
            is_nobody_yet = not request.member_id and request.group_instance_id is None
            if is_nobody_yet and caller.version >= MEMBER_ID_REQUIRED_SINCE:
                code = ErrorCode.MEMBER_ID_REQUIRED
                turn.answer(answer, refused_join(caller.new_member_id, code, caller.version))
                return
            before, replaced = self._joining(request, request.member_id or caller.new_member_id)
            after, owned = self._described(before, request, caller)
            member = self._epochs.settle(turn, before, after, owned, replaced)
        except ApiError as error:
            turn.answer(answer, refused_join(request.member_id, error.code, caller.version))
            return
        self._sessions.expect_sync(turn, member)
        reply = JoinGroupResponse(
            generation_id=member.epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=request.protocols[0].name,
            leader="",
            member_id=member.member_id,
        )
        turn.answer(answer, reply)

    def check_join(self, request: JoinGroupRequest) -> None:
        """Whether it may come in at all: session, room, and a protocol that all classic members have."""
        state, config = self._state, self._state.config
        if not config.session_timeout_ms_min <= request.session_timeout_ms <= config.session_timeout_ms_max:
            raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)
        static = state.static_member(request.group_instance_id)
        is_new = request.member_id not in state.members and static is None
        if len(state.members) >= config.consumer_members_max and is_new:
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        shared = set(protocols_of(request))
        has_any = bool(shared)
        classics = [member.classic for member in state.members.values() if member.classic is not None]
        for classic in classics:
            shared &= {name for name, _ in classic.protocols}
        if request.protocol_type != PROTOCOL_TYPE or not has_any or not shared:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def sync(self, turn: Turn, answer: Answer, request: SyncGroupRequest) -> None:
        """SyncGroup (key 14), answered at once with what is assigned. Assignments that it brings are
        ignored."""
        try:
            member, classic = self._classic_member(request.member_id, request.group_instance_id)
            _check_generation(member, request.generation_id)
            name, metadata = classic.protocols[0]
            if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (
                None,
                name,
            ):
                raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        except ApiError as error:
            turn.answer(answer, refused_sync(error.code))
            return
        # One that is to give up partitions has joined already; it has to know which before it joins again.
        if self._state.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._sessions.expect_join(turn, member)
            turn.answer(answer, refused_sync(ErrorCode.REBALANCE_IN_PROGRESS))
            return
        self._sessions.on_sync(turn, member)
        reply = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=as_assignment(member.assigned, metadata, self._state.topics),
        )
        turn.answer(answer, reply)

    def heartbeat(self, turn: Turn, answer: Answer, request: HeartbeatRequest) -> None:
        """Heartbeat (key 12). The answer also tells a member that it has to join again."""
        try:
            member, _ = self._classic_member(request.member_id, request.group_instance_id)
            _check_generation(member, request.generation_id)
        except ApiError as error:
            turn.answer(answer, HeartbeatResponse(error_code=error.code))
            return
        self._sessions.set(turn, member)
        code = ErrorCode.NONE
        if self._has_to_join(member):
            self._sessions.expect_join(turn, member)
            code = ErrorCode.REBALANCE_IN_PROGRESS
        turn.answer(answer, HeartbeatResponse(error_code=code))

    def leave(self, turn: Turn, answer: Answer, request: LeaveGroupRequest, version: int) -> None:
        """LeaveGroup (key 13). v3 many at once, static ones by their instance id alone."""
        leaving: dict[str, ConsumerMember] = {}
        results = []
        for who in request.members if version >= 3 else [MemberIdentity(member_id=request.member_id)]:
            result = MemberResponse(member_id=who.member_id, group_instance_id=who.group_instance_id)
            try:
                member, _ = self._classic_member(who.member_id, who.group_instance_id, is_leaving=True)
                if member.member_id in leaving:
                    raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
                result.member_id = member.member_id
                leaving[member.member_id] = member
            except ApiError as error:
                result.error_code = error.code
            results.append(result)
        if leaving:
            self._epochs.fence(turn, leaving.values(), f"{len(leaving)} members left")
        if version >= 3:
            turn.answer(answer, LeaveGroupResponse(members=results))
        else:
            turn.answer(answer, LeaveGroupResponse(error_code=results[0].error_code))

    def _joining(
        self, request: JoinGroupRequest, member_id: str
    ) -> tuple[ConsumerMember, ConsumerMember | None]:
        """The member as it was, and whom it replaces: a static one that is back without its member id."""
        instance_id = request.group_instance_id
        if instance_id is None:
            return self._state.members.get(member_id) or ConsumerMember(member_id), None
        if request.member_id:
            return self._state.check_static(instance_id, member_id), None
        static = self._state.static_member(instance_id)
        if static is None:
            return ConsumerMember(member_id), None
        return replace(static, member_id=member_id, epoch=0, previous_epoch=0), static

    def _described(
        self, before: ConsumerMember, request: JoinGroupRequest, caller: Caller
    ) -> tuple[ConsumerMember, Partitions]:
        """The member as it describes itself, and what it owns."""
        subscription = read_subscription(request.protocols[0].metadata)
        after = replace(
            before,
            instance_id=request.group_instance_id or before.instance_id,
            rack_id=subscription.rack_id or before.rack_id,
            client_id=caller.client_id,
            client_host=caller.client_host,
            topic_names=frozenset(subscription.topics),
            regex="",
            rebalance_timeout_ms=rebalance_timeout_ms_of(request, caller.version),
            assignor=None,
            classic=ClassicSide(request.session_timeout_ms, tuple(protocols_of(request).items())),
        )
        return after, by_topic_id(subscription.owned_partitions, self._state.topics)

    def _classic_member(
        self, member_id: str, instance_id: str | None, is_leaving: bool = False
    ) -> tuple[ConsumerMember, ClassicSide]:
        """A tool that removes a static member knows only its instance id."""
        if instance_id is None:
            member = self._state.members.get(member_id)
        elif is_leaving and not member_id:
            member = self._state.static_member(instance_id)
        else:
            member = self._state.check_static(instance_id, member_id)
        if member is None or member.classic is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member, member.classic

    def _has_to_join(self, member: ConsumerMember) -> bool:
        match member.state:
            case MemberState.UNREVOKED_PARTITIONS:
                return True
            case MemberState.UNRELEASED_PARTITIONS if member.epoch == self._state.epoch:
                return not self._is_waiting(member)
        return member.epoch < self._state.epoch

    def _is_waiting(self, member: ConsumerMember) -> bool:
        """Whether something of its target still belongs to another."""
        return any(
            self._state.owner(topic_id, partition) not in (None, member.member_id)
            for topic_id, numbers in self._state.targets.get(member.member_id, NOWHERE).items()
            for partition in numbers - member.assigned.get(topic_id, frozenset())
        )


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
