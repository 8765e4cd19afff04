"""How long the members of a consumer group may take: to be heard of, to give up partitions, to join and sync.

A member that no coordinator has heard of for its session timeout is removed. Heartbeats are not stored, so a
new coordinator does not know when the last one came; if it began a new session for everybody, a member that
died would live on, and keep its partitions, for as long as failovers come before a session ends. So silence
is stored: each time a member has been silent for a step, a quarter of its session and at least two heartbeat
intervals, its record says for how long (`silent_ms`), and the next coordinator goes on from there. Whoever is
heard of again is stored without. A live member, whose heartbeats come more often, costs no record; and time
in which there was no coordinator to be heard by does not count, so nobody is removed because a failover took
long. Members that speak the classic protocol have full sessions, as in Kafka.
"""

from dataclasses import replace
from typing import Final

from ottla.coordinator.turn import TimerKey, Turn
from ottla.group.consumer.member import ConsumerMember, MemberState
from ottla.group.consumer.records import position_record
from ottla.group.consumer.state import ConsumerState

SESSION_STEPS: Final = 4


class Sessions:
    """`_joins_due` is when classic members that were told to join again are given up."""

    __slots__ = ("_joins_due", "_state")

    def __init__(self, state: ConsumerState) -> None:
        self._state = state
        self._joins_due: dict[str, int] = {}

    def timer(self, kind: str, member_id: str) -> TimerKey:
        return "consumer", self._state.group_id, kind, member_id

    def resume(self, turn: Turn) -> None:
        """Sessions go on as far as is stored; the time to give up partitions begins anew."""
        for member in self._state.members.values():
            self.set(turn, member)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                due_ms = turn.now_ms + member.rebalance_timeout_ms
                turn.set_timer(self.timer("rebalance", member.member_id), due_ms)

    def set(self, turn: Turn, member: ConsumerMember) -> None:
        """From now on."""
        turn.set_timer(self.timer("session", member.member_id), turn.now_ms + self._step_ms(member))

    def is_over(self, turn: Turn, member: ConsumerMember) -> bool:
        """A member was silent for another step. If its session goes on, that is stored."""
        silent_ms = member.silent_ms + self._step_ms(member)
        if member.classic is not None or silent_ms >= self._state.config.consumer_session_timeout_ms:
            return True
        silent = replace(member, silent_ms=silent_ms)
        turn.write(position_record(self._state.group_id, silent))
        self.set(turn, silent)
        return False

    def _step_ms(self, member: ConsumerMember) -> int:
        """When to look again whether it was heard of. A classic member has said how long its session is."""
        if member.classic is not None:
            return member.classic.session_timeout_ms
        config = self._state.config
        timeout_ms = config.consumer_session_timeout_ms
        step_ms = max(timeout_ms // SESSION_STEPS, 2 * config.consumer_heartbeat_interval_ms)
        return min(step_ms, max(timeout_ms - member.silent_ms, 0))

    def time_revocation(self, turn: Turn, member: ConsumerMember) -> None:
        """A member has its rebalance timeout to give up partitions. Classic ones are timed by joins and
        syncs."""
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
            due_ms = turn.now_ms + member.rebalance_timeout_ms
            turn.set_timer(self.timer("rebalance", member.member_id), due_ms)
        else:
            turn.cancel_timer(self.timer("rebalance", member.member_id))

    def expect_join(self, turn: Turn, member: ConsumerMember) -> None:
        """A classic member is told to join again. Its time to do so runs from the first time it is told."""
        due_ms = self._joins_due.setdefault(member.member_id, turn.now_ms + member.rebalance_timeout_ms)
        turn.set_timer(self.timer("join", member.member_id), due_ms)

    def expect_sync(self, turn: Turn, member: ConsumerMember) -> None:
        """A classic member has joined."""
        self._joins_due.pop(member.member_id, None)
        turn.cancel_timer(self.timer("join", member.member_id))
        self.set(turn, member)
        turn.set_timer(self.timer("sync", member.member_id), turn.now_ms + member.rebalance_timeout_ms)

    def on_sync(self, turn: Turn, member: ConsumerMember) -> None:
        turn.cancel_timer(self.timer("sync", member.member_id))
        self.set(turn, member)

    def end(self, turn: Turn, member_id: str) -> None:
        """No timer of its is left."""
        self._joins_due.pop(member_id, None)
        for kind in ("session", "rebalance", "join", "sync"):
            turn.cancel_timer(self.timer(kind, member_id))
