"""A classic group and its requests: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The members agree among themselves who reads what: the coordinator only knows who is there, picks a protocol
they all support, and hands the assignment that one of them makes to the others. `states` says what a
request gets in each state, `rebalance` how a generation comes about.

Rules. Wrong input is an error in the answer, never an exception; only `check_commit` and the other checks
raise, for requests that are not ours to answer. Not checked here: whether the group id is empty, and
whether a group that is not there may be made (only for a member without an id; with one,
UNKNOWN_MEMBER_ID).
"""

from typing import ClassVar, NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.turn import Answer, TimerKey, Turn
from ottla.group.classic.generation import Generation, refused_join, refused_sync
from ottla.group.classic.member import ClassicMember, protocols_of, rebalance_timeout_ms_of
from ottla.group.classic.rebalance import Rebalance, WaitingJoin, name_of, said
from ottla.group.classic.roster import Roster
from ottla.group.classic.states import Act, GroupState
from ottla.group.commits import Commit
from ottla.group.config import GroupConfig
from ottla.group.group import Caller
from ottla.group.memory import GROUP_BYTES
from ottla.group.offsets import Offsets
from ottla.group.protocol import PROTOCOL_TYPE
from ottla.group.records import GroupMetadata, GroupMetadataValue, store
from ottla.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest


class _Join(NamedTuple):
    answer: Answer
    request: JoinGroupRequest
    caller: Caller

    @property
    def waiting(self) -> WaitingJoin:
        return WaitingJoin(self.answer, self.caller.version)


class ClassicGroup:
    __slots__ = ("config", "generation", "group_id", "rebalance", "roster")

    kind: ClassVar[str] = "Classic"

    def __init__(self, group_id: str, config: GroupConfig, *, wall_ms: int | None) -> None:
        self.group_id = group_id
        self.config = config
        self.roster = Roster()
        self.generation = Generation()
        self.rebalance = Rebalance(group_id, config, self.roster, self.generation, wall_ms)

    @classmethod
    def from_record(
        cls, group_id: str, value: GroupMetadataValue, config: GroupConfig, wall_ms: int
    ) -> "ClassicGroup":
        """The group as it was last stored. Of the protocols that members support only the chosen one was."""
        group = cls(group_id, config, wall_ms=wall_ms)
        group.rebalance.state = GroupState.STABLE if value.members else GroupState.EMPTY
        stored_ms = value.current_state_timestamp
        group.rebalance.state_timestamp_ms = None if stored_ms == -1 else stored_ms
        group.generation.number = value.generation
        group.generation.protocol_type = value.protocol_type or None
        for stored in value.members:
            timeout_ms = (
                stored.session_timeout if stored.rebalance_timeout == -1 else stored.rebalance_timeout
            )
            group.roster.add(
                ClassicMember(
                    member_id=stored.member_id,
                    instance_id=stored.group_instance_id,
                    client_id=stored.client_id,
                    client_host=stored.client_host,
                    rebalance_timeout_ms=timeout_ms,
                    session_timeout_ms=stored.session_timeout,
                    protocols={value.protocol or "": stored.subscription},
                )
            )
        group.roster.assign({stored.member_id: stored.assignment for stored in value.members})
        if value.leader in group.members:
            group.roster.leader = value.leader
        group.generation.choose_protocol(group.roster)
        return group

    @property
    def members(self) -> dict[str, ClassicMember]:
        return self.roster.members

    @property
    def state(self) -> GroupState:
        return self.rebalance.state

    @property
    def epoch(self) -> int:
        return self.generation.number

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def protocol_type(self) -> str | None:
        return self.generation.protocol_type

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def is_dead(self) -> bool:
        return self.state is GroupState.DEAD

    @property
    def is_unused(self) -> bool:
        return self.is_empty and not self.roster.pending

    @property
    def is_simple(self) -> bool:
        """It has never had members; it only stores offsets."""
        return self.is_unused and self.protocol_type is None

    # Its life

    def on_loaded(self, turn: Turn) -> None:
        """Sessions begin anew. A group that is larger than is now allowed has to shrink."""
        for member in self.members.values():
            self.rebalance.set_session(turn, member)
        if len(self.members) > self.config.members_max:
            self.rebalance.prepare(turn, f"more than {self.config.members_max} members are too many now")

    def on_timer(self, turn: Turn, key: TimerKey) -> "ClassicGroup":
        self.rebalance.on_timer(turn, key)
        return self

    def on_config(self, config: GroupConfig) -> None:
        """A classic group has no values of its own."""

    def check_delete(self) -> None:
        if self.is_dead:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        if not self.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def delete(self, turn: Turn) -> None:
        """It is empty, so there is nothing to end."""
        turn.write(store(GroupMetadata(self.group_id, None)))

    def close(self, turn: Turn, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Deleted, or in other hands."""
        self.rebalance.close(turn, code)

    # JoinGroup

    def join(self, turn: Turn, answer: Answer, request: JoinGroupRequest, caller: Caller) -> "ClassicGroup":
        """JoinGroup (key 11).

        The answer comes when the generation begins that the member is part of, which may be now.

        v0 one timeout for session and rebalance · v4 asks new dynamic members to join again with the id they
        are given (KIP-394) · v5 static members (KIP-345) · v7 protocol name may be null · v9 a leader may be
        told to leave the assignment as it is (KIP-814)
        """
        self._join(turn, _Join(answer, request, caller))
        return self

    def _join(self, turn: Turn, join: _Join) -> None:
        request = join.request
        config, session_ms = self.config, request.session_timeout_ms
        if not config.session_timeout_ms_min <= session_ms <= config.session_timeout_ms_max:
            self._refuse(turn, join, ErrorCode.INVALID_SESSION_TIMEOUT)
        elif isinstance(self.rebalance.rules.joins, ErrorCode):
            self._refuse(turn, join, self.rebalance.rules.joins)
        elif not self._has_room_for(request):
            refusal = refused_join("", ErrorCode.GROUP_MAX_SIZE_REACHED, join.caller.version)
            turn.answer(join.answer, refusal)
            self._turn_away(turn, request.member_id)
        elif not self._is_consistent(request):
            self._refuse(turn, join, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif not request.member_id:
            self._join_new(turn, join)
        elif request.member_id in self.roster.pending and request.group_instance_id is None:
            self._add(turn, join, request.member_id)
        elif code := self.roster.fault(request.member_id, request.group_instance_id):
            self._refuse(turn, join, code)
        else:
            self._rejoin(turn, join, self.members[request.member_id])

    def _refuse(self, turn: Turn, join: _Join, code: ErrorCode) -> None:
        turn.answer(join.answer, refused_join(join.request.member_id, code, join.caller.version))

    def _has_room_for(self, request: JoinGroupRequest) -> bool:
        """While a group rebalances only those who have joined count, so that of a group that has become too
        large the last ones to come back are turned away."""
        member_id = self.roster.member_id_of(request.member_id, request.group_instance_id)
        if self.state is GroupState.PREPARING:
            joins = self.rebalance.waiting.joins
            return member_id in joins or len(joins) < self.config.members_max
        return (
            self.state is GroupState.EMPTY
            or member_id in self.members
            or len(self.members) < self.config.members_max
        )

    def _turn_away(self, turn: Turn, member_id: str) -> None:
        """There is no room for it; the others wait for it no longer."""
        self.rebalance.remove_pending(turn, member_id)
        if member_id in self.members:
            self.rebalance.remove(turn, member_id)
        if self.state is GroupState.PREPARING:
            self.rebalance.follow(turn, Act.WAIT, "a member was turned away")

    def _is_consistent(self, request: JoinGroupRequest) -> bool:
        wanted = request.protocol_type if self.state is GroupState.EMPTY else self.protocol_type
        return (
            request.protocol_type != ""
            and request.protocol_type == wanted
            and self.roster.supports(protocols_of(request))
        )

    def _join_new(self, turn: Turn, join: _Join) -> None:
        instance_id, new_id = join.request.group_instance_id, join.caller.new_member_id
        if instance_id is None and join.caller.version >= 4:
            self.rebalance.expect(turn, new_id, join.request.session_timeout_ms)
            refusal = refused_join(new_id, ErrorCode.MEMBER_ID_REQUIRED, join.caller.version)
            turn.answer(join.answer, refusal)
        elif instance_id in self.roster.instances:
            self._return(turn, join, instance_id)
        else:
            self._add(turn, join, new_id)

    def _add(self, turn: Turn, join: _Join, member_id: str) -> None:
        request, caller = join.request, join.caller
        self.rebalance.remove_pending(turn, member_id)
        if not self.members:
            self.generation.protocol_type = request.protocol_type
        member = ClassicMember(
            member_id=member_id,
            instance_id=request.group_instance_id,
            client_id=caller.client_id,
            client_host=caller.client_host,
            rebalance_timeout_ms=rebalance_timeout_ms_of(request, caller.version),
            session_timeout_ms=request.session_timeout_ms,
            protocols=protocols_of(request),
            is_new=True,
        )
        self.rebalance.add(turn, member, join.waiting, request.reason)

    def _rejoin(self, turn: Turn, join: _Join, member: ClassicMember) -> None:
        what = "joined again"
        if not member.is_like(protocols_of(join.request)):
            cell, what = self.rebalance.rules.changes, "joined again with another subscription"
        elif member.member_id == self.roster.leader:
            cell, what = self.rebalance.rules.leader_rejoins, "joined again as the leader"
        else:
            cell = self.rebalance.rules.rejoins
        if cell is Act.ANSWER:
            turn.answer(join.answer, self.generation.joined(self.roster, member.member_id))
            return
        self._change(member, join)
        self.rebalance.waiting.join(turn, member.member_id, join.waiting)
        self.rebalance.follow(turn, cell, f"{name_of(member)} {what}{said(join.request.reason)}")

    def _change(self, member: ClassicMember, join: _Join) -> None:
        self.roster.change(member, protocols_of(join.request))
        member.rebalance_timeout_ms = rebalance_timeout_ms_of(join.request, join.caller.version)
        member.session_timeout_ms = join.request.session_timeout_ms

    def _return(self, turn: Turn, join: _Join, instance_id: str) -> None:
        """A static member is back without its member id: a restart, or a second one with the same id.

        If nothing has to be agreed anew it gets what its predecessor had. Its new id is stored first, or the
        old one would be let in again after a restart of ours. A leader that comes back must not assign anew,
        as nobody would ask for the result: from v9 it is told so, before that another is named as leader.
        """
        leader_before = self.roster.leader or ""
        member = self.rebalance.replace(turn, instance_id, join.caller.new_member_id)
        self._change(member, join)
        self.roster.rename(member, join.caller.client_id, join.caller.client_host)
        returns = self.rebalance.rules.returns
        if returns is Act.ANSWER and self.roster.choose_protocol() == self.generation.protocol_name:
            self.rebalance.store(turn)
            reply = self.generation.joined(self.roster, member.member_id)
            if join.caller.version >= 9:
                reply.skip_assignment = reply.leader == member.member_id
            else:
                reply.leader, reply.members = leader_before, []
            turn.answer(join.answer, reply)
            return
        self.rebalance.waiting.join(turn, member.member_id, join.waiting)
        reason = f"{name_of(member)} is back under a new id{said(join.request.reason)}"
        self.rebalance.follow(turn, Act.WAIT if returns is Act.WAIT else Act.REBALANCE, reason)

    # SyncGroup, Heartbeat

    def sync(self, turn: Turn, answer: Answer, request: SyncGroupRequest) -> None:
        """SyncGroup (key 14).

        The answer is the member's assignment; it waits for the leader's request, which brings everybody's.
        A member the leader has left out gets an empty one.

        v3 static members · v5 protocol type and name, checked if given
        """
        code = self._fault(request.member_id, request.group_instance_id, request.generation_id)
        if not code and not self.generation.is_agreed(request.protocol_type, request.protocol_name):
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        cell = code or self.rebalance.rules.syncs
        if isinstance(cell, ErrorCode):
            turn.answer(answer, refused_sync(cell))
            return
        self.rebalance.on_synced(turn, request.member_id)
        if cell is Act.ANSWER:
            turn.answer(answer, self.generation.synced(self.members[request.member_id]))
            return
        self.rebalance.waiting.sync(turn, request.member_id, answer)
        if request.member_id == self.roster.leader:
            assignments = {share.member_id: share.assignment for share in request.assignments}
            self.rebalance.complete(turn, assignments)

    def heartbeat(self, turn: Turn, answer: Answer, request: HeartbeatRequest) -> None:
        """Heartbeat (key 12). The answer also tells a member that it has to join again.

        v3 static members
        """
        code = self._fault(request.member_id, request.group_instance_id, request.generation_id)
        if not code:
            self.rebalance.set_session(turn, self.members[request.member_id])
            if isinstance(self.rebalance.rules.heartbeats, ErrorCode):
                code = self.rebalance.rules.heartbeats
        turn.answer(answer, HeartbeatResponse(error_code=code))

    def _fault(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        if self.is_dead:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        code = self.roster.fault(member_id, instance_id)
        if not code and generation != self.generation.number:
            return ErrorCode.ILLEGAL_GENERATION
        return code

    # LeaveGroup

    def leave(self, turn: Turn, answer: Answer, request: LeaveGroupRequest, version: int) -> None:
        """LeaveGroup (key 13). Always an answer at once.

        v3 many at once, static ones by their instance id alone · v5 reason, for the log
        """
        if self.is_dead:
            turn.answer(answer, LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        leaving = request.members if version >= 3 else [MemberIdentity(member_id=request.member_id)]
        size_before = len(self.members)
        results = [
            MemberResponse(
                member_id=who.member_id,
                group_instance_id=who.group_instance_id,
                error_code=self._leave(turn, who),
            )
            for who in leaving
        ]
        if len(self.members) < size_before or self.state is GroupState.PREPARING:
            self.rebalance.follow(turn, self.rebalance.rules.is_gone, _departure(leaving))
        if version >= 3:
            turn.answer(answer, LeaveGroupResponse(members=results))
        else:
            turn.answer(answer, LeaveGroupResponse(error_code=results[0].error_code))

    def _leave(self, turn: Turn, who: MemberIdentity) -> ErrorCode:
        """An administrator removes a static member by its instance id, without knowing its member id."""
        member_id = self.roster.member_id_of(who.member_id, who.group_instance_id)
        if member_id in self.roster.pending:
            self.rebalance.remove_pending(turn, member_id)
            return ErrorCode.NONE
        code = self.roster.fault(member_id, who.group_instance_id)
        if not code:
            self.rebalance.remove(turn, member_id)
        return code

    # Offsets

    def check_commit(self, commit: Commit) -> None:
        """May it commit? Without a generation it is a tool, or a consumer that takes part in no group: it
        may if nobody else is there. A transaction may at any time, also while a rebalance goes on, since old
        producers do not say who they are (before KIP-447)."""
        if commit.epoch < 0 and self.is_empty:
            return
        if not commit.names_nobody:
            code = self._fault(commit.member_id, commit.instance_id, commit.epoch)
        elif self.is_dead:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            code = ErrorCode.NONE if commit.writer is not None else ErrorCode.UNKNOWN_MEMBER_ID
        if not code and commit.writer is None and isinstance(self.rebalance.rules.commits, ErrorCode):
            code = self.rebalance.rules.commits
        if code:
            raise ApiError(code)

    def on_commit(self, turn: Turn, member_id: str) -> None:
        """A commit is as good as a heartbeat."""
        if self.rebalance.rules.commits is Act.ANSWER and member_id in self.members:
            self.rebalance.set_session(turn, self.members[member_id])

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Anybody may ask for its offsets."""

    def check_offset_delete(self) -> None:
        """A group of consumers may lose offsets of topics it does not read (see `reads`) while it is live."""
        if self.is_dead or self.protocol_type != PROTOCOL_TYPE:
            self.check_delete()

    def reads(self, topic: str) -> bool:
        return self.generation.reads(topic)

    def expired(self, offsets: Offsets, wall_ms: int) -> list[tuple[str, int]]:
        retention_ms = self.config.offsets_retention_ms
        if self.is_empty:
            since_ms = None if self.protocol_type is None else self.rebalance.state_timestamp_ms
            return offsets.expired(self.group_id, wall_ms, retention_ms, since_ms=since_ms)
        if self.state is not GroupState.STABLE or self.generation.subscribed_topics is None:
            return []
        return offsets.expired(self.group_id, wall_ms, retention_ms, is_subscribed=self.reads)

    # Memory

    @property
    def held_bytes(self) -> int:
        return GROUP_BYTES + len(self.group_id) + self.roster.held_bytes + self.roster.assigned_bytes

    def member_bytes(self, member_id: str, instance_id: str | None) -> int:
        member = self.members.get(self.roster.member_id_of(member_id, instance_id))
        return member.held_bytes if member is not None else 0

    def sync_growth(self, request: SyncGroupRequest) -> int:
        return sum(len(share.assignment) for share in request.assignments) - self.roster.assigned_bytes

    # DescribeGroups

    def describe(self) -> DescribedGroup:
        """Protocol and metadata are shown only while they are settled."""
        settled = self.generation.protocol_name if self.state is GroupState.STABLE else None
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state_name,
            protocol_type=self.protocol_type or "",
            protocol_data=settled or "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=b"" if settled is None else member.protocols[settled],
                    member_assignment=member.assignment,
                )
                for member in self.members.values()
            ],
        )


def _departure(leaving: list[MemberIdentity]) -> str:
    """For people: who leaves, all at once; nobody may be named."""
    if not leaving:
        return "nobody left"
    who = leaving[0]
    name = f"member {who.member_id!r:.200}" if who.member_id else f"member {who.group_instance_id!r:.100}"
    more = f" and {len(leaving) - 1} more" if len(leaving) > 1 else ""
    return f"{name}{more} left{said(who.reason)}"
