"""How a classic group gets from one generation to the next, and what ends a membership.

A rebalance has two phases. In the first, everybody joins: the answers to JoinGroup are kept in `joining`
until all members are there or the *join* timer runs out. Then the generation begins, and all those answers
are given. In the second, everybody asks for its assignment: the answers to SyncGroup are kept in `syncing`
until the leader has sent the assignment. Who has not asked when the *sync* timer runs out is removed.

A member whose *session* timer runs out is removed, unless it has an answer coming: it cannot be expected to
send heartbeats while it waits. A new member is the exception, since a client that has given up on its first
join may have come back as somebody else. A *pending* timer is that of a member id given out but not used
yet.

Rules. Whoever waits gets an answer: nobody is removed, replaced or superseded without one. All of this is
soft state, changed at once and not by replay; what must survive (a complete assignment, an empty group, a
static member's new id) is written in the same turn, before its answers can leave.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.coordinator.turn import Answer, StoredRecord, TimerKey, Turn
from ottla.group.classic_member import Member, subscribed_topics
from ottla.group.classic_roster import Roster
from ottla.group.config import GroupConfig
from ottla.group.memory import GROUP_BYTES
from ottla.group.protocol import PROTOCOL_TYPE
from ottla.group.records import GroupMember, GroupMetadata, GroupMetadataValue, store
from ottla.group.states import Act, Cell, GroupState, check_step
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.sync_group import SyncGroupResponse

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60_000
STORED_MEMBER_BYTES: Final = 120  # an address, lengths and timeouts
STATIC_WAIT_MS_MIN: Final = 1_000  # members may ask for a rebalance timeout of 0, or less


class WaitingJoin(NamedTuple):
    answer: Answer
    version: int


@dataclass(slots=True)
class InitialDelay:
    """An empty group waits a little longer each time somebody comes, but not for ever."""

    remaining_ms: int
    has_newcomer: bool = False


class RebalancingGroup:
    """A group without its requests."""

    def __init__(self, group_id: str, config: GroupConfig, *, wall_ms: int | None) -> None:
        self.group_id = group_id
        self.config = config
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = wall_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.subscribed_topics: frozenset[str] | None = None
        self.roster = Roster()
        self.joining: dict[str, WaitingJoin] = {}
        self.syncing: dict[str, Answer] = {}
        self.not_synced: set[str] = set()
        self.initial_delay: InitialDelay | None = None
        self.assigned_bytes = 0

    @property
    def members(self) -> dict[str, Member]:
        return self.roster.members

    @property
    def held_bytes(self) -> int:
        """About what it takes in memory."""
        return GROUP_BYTES + len(self.group_id) + self.roster.held_bytes + self.assigned_bytes

    def stored_bytes(self, assignments: Mapping[str, bytes]) -> int:
        """About how large the group's record would be; never less than it is."""
        chosen = self.protocol_name or ""
        return len(self.group_id) + sum(
            STORED_MEMBER_BYTES
            + 4 * (len(member.member_id) + len(member.instance_id or "") + len(member.client_id))
            + len(member.protocols[chosen])
            + len(assignments.get(member.member_id, b""))
            for member in self.members.values()
        )

    def key(self, *what: str) -> TimerKey:
        return ("classic", self.group_id, *what)

    # What happens to a group.

    def prepare_rebalance(self, turn: Turn) -> None:
        """Have everybody join again."""
        if self.state is GroupState.COMPLETING:
            for member in self.members.values():
                member.assignment = b""
            self.assigned_bytes = 0
            self.answer_syncs(turn, ErrorCode.REBALANCE_IN_PROGRESS)
        self.not_synced.clear()
        turn.cancel_timer(self.key("sync"))
        is_initial = self.state is GroupState.EMPTY
        self.go(turn, GroupState.PREPARING)
        if is_initial:
            delay_ms = self.config.initial_rebalance_delay_ms
            self.initial_delay = InitialDelay(max(self.roster.rebalance_timeout_ms() - delay_ms, 0))
            turn.set_timer(self.key("join"), turn.now_ms + delay_ms)
        elif self.has_all_joined():
            self.begin_generation(turn)
        else:
            turn.set_timer(self.key("join"), turn.now_ms + self.roster.rebalance_timeout_ms())

    def has_all_joined(self) -> bool:
        return len(self.joining) == len(self.members) and not self.roster.pending

    def begin_if_all_joined(self, turn: Turn) -> None:
        if self.has_all_joined():
            self.begin_generation(turn)

    def follow(self, turn: Turn, cell: Cell) -> None:
        """Somebody has come, changed or gone: what the table of states says about it."""
        if cell is Act.REBALANCE:
            self.prepare_rebalance(turn)
        elif cell is Act.WAIT and self.initial_delay is None:
            self.begin_if_all_joined(turn)

    def begin_generation(self, turn: Turn) -> None:
        """The time to join is over: all are here, or it is up."""
        turn.cancel_timer(self.key("join"))
        self.initial_delay = None
        for member in list(self.members.values()):
            if member.instance_id is None and member.member_id not in self.joining:
                self.remove(turn, member.member_id)
        if self.members and not self.roster.elect(self.joining):
            # Only static members, none of them back yet: their sessions decide who stays.
            wait_ms = max(self.roster.rebalance_timeout_ms(), STATIC_WAIT_MS_MIN)
            turn.set_timer(self.key("join"), turn.now_ms + wait_ms)
            return
        self.generation += 1
        self.choose_protocol()
        if not self.members:
            self.go(turn, GroupState.EMPTY)
            self.store(turn)
            return
        self.go(turn, GroupState.COMPLETING)
        self.not_synced = set(self.members)
        turn.set_timer(self.key("sync"), turn.now_ms + self.roster.rebalance_timeout_ms())
        for member in self.members.values():
            member.is_new = False
            self.set_session(turn, member)
            if waiting := self.joining.pop(member.member_id, None):
                turn.answer(waiting.answer, self.joined(member.member_id))

    def go(self, turn: Turn, to: GroupState) -> None:
        check_step(self.state, to)
        self.state, self.state_timestamp_ms = to, turn.wall_ms

    def choose_protocol(self) -> None:
        """What the members agree on and, if they are consumers, what they then read."""
        self.protocol_name = self.roster.choose_protocol() if self.members else None
        self.subscribed_topics = None
        if self.protocol_type == PROTOCOL_TYPE:
            self.subscribed_topics = subscribed_topics(self.members.values(), self.protocol_name or "")

    def store(self, turn: Turn) -> None:
        """Write what must survive. It is not replayed: it is how the group already is."""
        turn.write(self.record())
        turn.is_replayed = False

    def record(self) -> StoredRecord:
        return store(GroupMetadata(self.group_id, self._value()))

    def _value(self) -> GroupMetadataValue:
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.roster.leader,
            current_state_timestamp=-1 if self.state_timestamp_ms is None else self.state_timestamp_ms,
            members=[
                GroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.protocols[self.protocol_name or ""],
                    assignment=member.assignment,
                )
                for member in self.members.values()
            ],
        )

    # What happens to a member.

    def wait_for_join(self, turn: Turn, member_id: str, waiting: WaitingJoin) -> None:
        if superseded := self.joining.get(member_id):
            self._refuse_join(turn, superseded, member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        self.joining[member_id] = waiting

    def wait_for_sync(self, turn: Turn, member_id: str, answer: Answer) -> None:
        if superseded := self.syncing.get(member_id):
            turn.answer(superseded, refused_sync(ErrorCode.REBALANCE_IN_PROGRESS))
        self.syncing[member_id] = answer

    def on_synced(self, turn: Turn, member_id: str) -> None:
        """One less that the sync timer is for."""
        self.not_synced.discard(member_id)
        if not self.not_synced:
            turn.cancel_timer(self.key("sync"))

    def remove(self, turn: Turn, member_id: str) -> None:
        self.roster.remove(member_id)
        self._end(turn, member_id, "", ErrorCode.UNKNOWN_MEMBER_ID)

    def replace(self, turn: Turn, instance_id: str, new_id: str) -> Member:
        """A static member is back under a new id; nobody must go on under the old one."""
        old_id = self.roster.instances[instance_id]
        member = self.roster.replace(instance_id, new_id)
        self._end(turn, old_id, old_id, ErrorCode.FENCED_INSTANCE_ID)
        self.set_session(turn, member)
        return member

    def _end(self, turn: Turn, member_id: str, told_id: str, code: ErrorCode) -> None:
        turn.cancel_timer(self.key("session", member_id))
        if waiting := self.joining.pop(member_id, None):
            self._refuse_join(turn, waiting, told_id, code)
        if answer := self.syncing.pop(member_id, None):
            turn.answer(answer, refused_sync(code))
        self.on_synced(turn, member_id)

    def remove_pending(self, turn: Turn, member_id: str) -> None:
        self.roster.forget_pending(member_id)
        turn.cancel_timer(self.key("pending", member_id))

    def set_session(self, turn: Turn, member: Member, timeout_ms: int | None = None) -> None:
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        turn.set_timer(self.key("session", member.member_id), turn.now_ms + timeout_ms)

    # Answers.

    def joined(self, member_id: str) -> JoinGroupResponse:
        """What a member learns of the current generation; its leader learns everybody's metadata."""
        members: list[JoinGroupResponseMember] = []
        if member_id == self.roster.leader:
            members = [
                JoinGroupResponseMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    metadata=member.protocols[self.protocol_name or ""],
                )
                for member in self.members.values()
            ]
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.roster.leader or "",
            member_id=member_id,
            members=members,
        )

    def synced(self, member: Member) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    def answer_syncs(self, turn: Turn, code: ErrorCode = ErrorCode.NONE) -> None:
        """Everybody who waits for its assignment; their sessions begin anew."""
        for member_id, answer in self.syncing.items():
            member = self.members[member_id]
            turn.answer(answer, refused_sync(code) if code else self.synced(member))
            self.set_session(turn, member)
        self.syncing.clear()

    def refuse_all(self, turn: Turn, code: ErrorCode) -> None:
        """Nobody who waits here will get what it waits for."""
        for member_id, waiting in self.joining.items():
            self._refuse_join(turn, waiting, member_id, code)
        for answer in self.syncing.values():
            turn.answer(answer, refused_sync(code))
        self.joining.clear()
        self.syncing.clear()

    def _refuse_join(self, turn: Turn, waiting: WaitingJoin, member_id: str, code: ErrorCode) -> None:
        turn.answer(waiting.answer, refused_join(member_id, code, waiting.version))

    # Timers.

    def on_join_timer(self, turn: Turn) -> None:
        delay = self.initial_delay
        if delay is None or not delay.has_newcomer or not delay.remaining_ms:
            self.begin_generation(turn)
            return
        longer_ms = min(self.config.initial_rebalance_delay_ms, delay.remaining_ms)
        self.initial_delay = InitialDelay(delay.remaining_ms - longer_ms)
        turn.set_timer(self.key("join"), turn.now_ms + longer_ms)

    def on_sync_timer(self, turn: Turn) -> None:
        for member_id in sorted(self.not_synced):
            self.remove(turn, member_id)
        self.prepare_rebalance(turn)

    def on_session_timer(self, turn: Turn, member: Member, cell: Cell) -> None:
        has_answer_coming = member.member_id in self.joining or member.member_id in self.syncing
        if has_answer_coming and not member.is_new:
            return
        self.remove(turn, member.member_id)
        if self.state is GroupState.PREPARING:
            self.begin_if_all_joined(turn)  # unlike somebody who leaves, even in the initial delay
        else:
            self.follow(turn, cell)

    def on_pending_timer(self, turn: Turn, member_id: str) -> None:
        self.remove_pending(turn, member_id)
        if self.state is GroupState.PREPARING:
            self.begin_if_all_joined(turn)


def refused_join(member_id: str, code: ErrorCode, version: int) -> JoinGroupResponse:
    """No protocol name is null from version 7, empty before."""
    return JoinGroupResponse(
        error_code=code, member_id=member_id, leader="", protocol_name=None if version >= 7 else ""
    )


def refused_sync(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code, assignment=b"")
