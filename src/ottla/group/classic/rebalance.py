"""How a classic group gets from one generation to the next, and what ends a membership.

A rebalance has two phases. In the first, everybody joins: the answers to JoinGroup wait until all members are
there or the *join* timer runs out. Then the generation begins, and all those answers are given. In the
second, everybody asks for its assignment: the answers to SyncGroup wait until the leader has sent the
assignment. Who has not asked when the *sync* timer runs out is removed.

A member whose *session* timer runs out is removed, unless it has an answer coming: it cannot be expected to
send heartbeats while it waits. A new member is the exception, since a client that has given up on its first
join may have come back as somebody else. A *pending* timer is that of a member id given out but not used
yet.

Rules. Whoever waits gets an answer: nobody is removed, replaced or superseded without one. All of this is
soft state, changed at once and not by replay; what must survive (a complete assignment, an empty group, a
static member's new id) is written in the same turn, before its answers can leave.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.coordinator.turn import Answer, TimerKey, Turn
from ottla.group.classic.generation import Generation, refused_join, refused_sync
from ottla.group.classic.member import ClassicMember
from ottla.group.classic.roster import Roster
from ottla.group.classic.states import STATES, Act, Cell, GroupState, Rules, check_step
from ottla.group.config import GroupConfig
from ottla.group.events import ClassicRebalanceEnded, RebalanceBegun

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60_000
STATIC_WAIT_MS_MIN: Final = 1_000  # members may ask for a rebalance timeout of 0, or less
# Members that are started together come within milliseconds. One that has its assignment by then learns of
# the others with its next heartbeat: so the first waits a little for others even if no delay is wanted.
BURST_MS: Final = 5


class WaitingJoin(NamedTuple):
    answer: Answer
    version: int


@dataclass(slots=True)
class Waiting:
    """Those whose answers are yet to come, by member id."""

    joins: dict[str, WaitingJoin] = field(default_factory=dict)
    syncs: dict[str, Answer] = field(default_factory=dict)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self.joins or member_id in self.syncs

    def join(self, turn: Turn, member_id: str, waiting: WaitingJoin) -> None:
        if superseded := self.joins.get(member_id):
            _refuse_join(turn, superseded, member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        self.joins[member_id] = waiting

    def sync(self, turn: Turn, member_id: str, answer: Answer) -> None:
        if superseded := self.syncs.get(member_id):
            turn.answer(superseded, refused_sync(ErrorCode.REBALANCE_IN_PROGRESS))
        self.syncs[member_id] = answer

    def refuse(self, turn: Turn, member_id: str, told_id: str, code: ErrorCode) -> None:
        """`told_id` is the member id in the answer to its join."""
        if waiting := self.joins.pop(member_id, None):
            _refuse_join(turn, waiting, told_id, code)
        if answer := self.syncs.pop(member_id, None):
            turn.answer(answer, refused_sync(code))

    def refuse_all(self, turn: Turn, code: ErrorCode) -> None:
        for member_id, waiting in self.joins.items():
            _refuse_join(turn, waiting, member_id, code)
        for answer in self.syncs.values():
            turn.answer(answer, refused_sync(code))
        self.joins.clear()
        self.syncs.clear()


@dataclass(slots=True)
class InitialDelay:
    """An empty group waits a little longer each time somebody comes, but not for ever."""

    remaining_ms: int
    has_newcomer: bool = False


class Rebalance:
    """Has the state of the group. It changes the roster and the generation, which the group has too."""

    __slots__ = (
        "config", "generation", "group_id", "initial_delay", "not_synced", "roster", "state",
        "state_timestamp_ms", "waiting",
    )  # fmt: skip

    def __init__(
        self, group_id: str, config: GroupConfig, roster: Roster, generation: Generation, wall_ms: int | None
    ) -> None:
        self.group_id = group_id
        self.config = config
        self.roster = roster
        self.generation = generation
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = wall_ms
        self.waiting = Waiting()
        self.not_synced: set[str] = set()
        self.initial_delay: InitialDelay | None = None

    @property
    def rules(self) -> Rules:
        return STATES[self.state]

    def key(self, *what: str) -> TimerKey:
        return ("classic", self.group_id, *what)

    # From one generation to the next

    def follow(self, turn: Turn, cell: Cell, reason: str) -> None:
        """Somebody has come, changed or gone: what the table of states says about it."""
        if cell is Act.REBALANCE:
            self.prepare(turn, reason)
        elif cell is Act.WAIT and self.initial_delay is None:
            self._begin_if_all_joined(turn)

    def prepare(self, turn: Turn, reason: str) -> None:
        """Have everybody join again."""
        turn.tell(RebalanceBegun(self.group_id, reason, self.generation.number))
        if self.state is GroupState.COMPLETING:
            self.roster.assign({})
            self._answer_syncs(turn, ErrorCode.REBALANCE_IN_PROGRESS)
        self.not_synced.clear()
        turn.cancel_timer(self.key("sync"))
        is_initial = self.state is GroupState.EMPTY
        self._go(turn, GroupState.PREPARING)
        if is_initial:
            delay_ms = self._initial_delay_ms
            self.initial_delay = InitialDelay(max(self.roster.rebalance_timeout_ms() - delay_ms, 0))
            turn.set_timer(self.key("join"), turn.now_ms + delay_ms)
        elif self._has_all_joined():
            self._begin_generation(turn)
        else:
            turn.set_timer(self.key("join"), turn.now_ms + self.roster.rebalance_timeout_ms())

    @property
    def _initial_delay_ms(self) -> int:
        return max(self.config.initial_rebalance_delay_ms, BURST_MS)

    def _has_all_joined(self) -> bool:
        return len(self.waiting.joins) == len(self.roster.members) and not self.roster.pending

    def _begin_if_all_joined(self, turn: Turn) -> None:
        if self._has_all_joined():
            self._begin_generation(turn)

    def _begin_generation(self, turn: Turn) -> None:
        """The time to join is over: all are here, or it is up."""
        roster, joins = self.roster, self.waiting.joins
        turn.cancel_timer(self.key("join"))
        self.initial_delay = None
        for member in list(roster.members.values()):
            if member.instance_id is None and member.member_id not in joins:
                self.remove(turn, member.member_id)
        if roster.members and not roster.elect(joins):
            # Only static members, none of them back yet: their sessions decide who stays.
            wait_ms = max(roster.rebalance_timeout_ms(), STATIC_WAIT_MS_MIN)
            turn.set_timer(self.key("join"), turn.now_ms + wait_ms)
            return
        self.generation.number += 1
        self.generation.choose_protocol(roster)
        if not roster.members:
            self._go(turn, GroupState.EMPTY)
            self.store(turn)
            turn.tell(ClassicRebalanceEnded(self.group_id, self.generation.number, 0))
            return
        self._go(turn, GroupState.COMPLETING)
        self.not_synced = set(roster.members)
        turn.set_timer(self.key("sync"), turn.now_ms + roster.rebalance_timeout_ms())
        for member in roster.members.values():
            member.is_new = False
            self.set_session(turn, member)
            if waiting := joins.pop(member.member_id, None):
                turn.answer(waiting.answer, self.generation.joined(roster, member.member_id))

    def on_synced(self, turn: Turn, member_id: str) -> None:
        """One less that the sync timer is for."""
        self.not_synced.discard(member_id)
        if not self.not_synced:
            turn.cancel_timer(self.key("sync"))

    def complete(self, turn: Turn, assignments: Mapping[str, bytes]) -> None:
        """The leader has sent the assignment. As in Kafka, one that is too large to be stored is an error for
        everybody, and they join again."""
        if self.generation.record_bytes(self.group_id, self.roster, assignments) > turn.batch_bytes_max:
            self._answer_syncs(turn, ErrorCode.UNKNOWN_SERVER_ERROR)
            self.prepare(turn, "the assignment is too large to be stored")
            return
        self.roster.assign(assignments)
        self._go(turn, GroupState.STABLE)
        self.store(turn)
        turn.tell(ClassicRebalanceEnded(self.group_id, self.generation.number, len(self.roster.members)))
        self._answer_syncs(turn)

    def store(self, turn: Turn) -> None:
        """Write what must survive. It is not replayed: it is how the group already is."""
        turn.write(self.generation.record(self.group_id, self.roster, self.state_timestamp_ms))
        turn.is_replayed = False

    def close(self, turn: Turn, code: ErrorCode) -> None:
        """Whoever still waits gets this error, and no timer is left."""
        for what in ("join", "sync"):
            turn.cancel_timer(self.key(what))
        for member_id in self.roster.members:
            turn.cancel_timer(self.key("session", member_id))
        for member_id in sorted(self.roster.pending):
            self.remove_pending(turn, member_id)
        self.waiting.refuse_all(turn, code)
        self.not_synced.clear()
        self._go(turn, GroupState.DEAD)

    def _go(self, turn: Turn, to: GroupState) -> None:
        check_step(self.state, to)
        self.state, self.state_timestamp_ms = to, turn.wall_ms

    def _answer_syncs(self, turn: Turn, code: ErrorCode = ErrorCode.NONE) -> None:
        """Everybody who waits for its assignment; their sessions begin anew."""
        for member_id, answer in self.waiting.syncs.items():
            member = self.roster.members[member_id]
            turn.answer(answer, refused_sync(code) if code else self.generation.synced(member))
            self.set_session(turn, member)
        self.waiting.syncs.clear()

    # What happens to a member

    def expect(self, turn: Turn, member_id: str, timeout_ms: int) -> None:
        """A member id was given out: somebody is to join with it."""
        self.roster.expect(member_id)
        turn.set_timer(self.key("pending", member_id), turn.now_ms + timeout_ms)

    def remove_pending(self, turn: Turn, member_id: str) -> None:
        self.roster.forget_pending(member_id)
        turn.cancel_timer(self.key("pending", member_id))

    def add(self, turn: Turn, member: ClassicMember, waiting: WaitingJoin, reason: str | None = None) -> None:
        """A new member cannot send heartbeats before its first answer; so that those whose client has gone
        away do not pile up in a long rebalance, its join itself has a limit."""
        self.roster.add(member)
        self.waiting.join(turn, member.member_id, waiting)
        self.set_session(turn, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        if self.initial_delay is not None:
            self.initial_delay.has_newcomer = True
        self.follow(turn, self.rules.joins, f"{name_of(member)} joined{said(reason)}")

    def remove(self, turn: Turn, member_id: str) -> None:
        self.roster.remove(member_id)
        self._end(turn, member_id, "", ErrorCode.UNKNOWN_MEMBER_ID)

    def replace(self, turn: Turn, instance_id: str, new_id: str) -> ClassicMember:
        """A static member is back under a new id; nobody must go on under the old one."""
        old_id = self.roster.instances[instance_id]
        member = self.roster.replace(instance_id, new_id)
        self._end(turn, old_id, old_id, ErrorCode.FENCED_INSTANCE_ID)
        self.set_session(turn, member)
        return member

    def _end(self, turn: Turn, member_id: str, told_id: str, code: ErrorCode) -> None:
        turn.cancel_timer(self.key("session", member_id))
        self.waiting.refuse(turn, member_id, told_id, code)
        self.on_synced(turn, member_id)

    def set_session(self, turn: Turn, member: ClassicMember, timeout_ms: int | None = None) -> None:
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        turn.set_timer(self.key("session", member.member_id), turn.now_ms + timeout_ms)

    # Timers

    def on_timer(self, turn: Turn, key: TimerKey) -> None:
        """One may outlive what it was set for; then it means nothing."""
        assert isinstance(key, tuple)
        match key[2:]:
            case ("join",) if self.state is GroupState.PREPARING:
                self._on_join_timer(turn)
            case ("sync",) if self.not_synced:
                late = sorted(self.not_synced)
                for member_id in late:
                    self.remove(turn, member_id)
                self.prepare(turn, f"{len(late)} members did not ask for their assignment in time")
            case ("session", member_id) if member_id in self.roster.members:
                self._on_session_timer(turn, self.roster.members[member_id])
            case ("pending", member_id) if member_id in self.roster.pending:
                self.remove_pending(turn, member_id)
                if self.state is GroupState.PREPARING:
                    self._begin_if_all_joined(turn)

    def _on_join_timer(self, turn: Turn) -> None:
        delay = self.initial_delay
        if delay is None or not delay.has_newcomer or not delay.remaining_ms:
            self._begin_generation(turn)
            return
        longer_ms = min(self._initial_delay_ms, delay.remaining_ms)
        self.initial_delay = InitialDelay(delay.remaining_ms - longer_ms)
        turn.set_timer(self.key("join"), turn.now_ms + longer_ms)

    def _on_session_timer(self, turn: Turn, member: ClassicMember) -> None:
        if member.member_id in self.waiting and not member.is_new:
            return
        is_gone = self.rules.is_gone
        self.remove(turn, member.member_id)
        if self.state is GroupState.PREPARING:
            self._begin_if_all_joined(turn)  # unlike somebody who leaves, even in the initial delay
        else:
            self.follow(turn, is_gone, f"{name_of(member)} was not heard of for its session timeout")


def name_of(member: ClassicMember) -> str:
    """For people."""
    static = f" ({member.instance_id!r:.100})" if member.instance_id is not None else ""
    return f"member {member.member_id!r:.200}{static}"


def said(reason: str | None) -> str:
    """What a client says of it (KIP-800)."""
    return f": {reason!r:.255}" if reason else ""


def _refuse_join(turn: Turn, waiting: WaitingJoin, member_id: str, code: ErrorCode) -> None:
    turn.answer(waiting.answer, refused_join(member_id, code, waiting.version))
