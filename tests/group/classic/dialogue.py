"""One classic group: how its tests talk to it, and what must be true of it after every turn."""

from dataclasses import dataclass
from typing import Any

from tests.support.groups import Coordinator, G, commit_of

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.turn import Answer
from ottla.group.classic.group import ClassicGroup
from ottla.group.classic.states import GroupState
from ottla.group.records import GroupMetadata, GroupMetadataValue, parse
from ottla.group.shard import GroupShard
from ottla.wire.messages.leave_group import LeaveGroupResponse


@dataclass
class Dialogue(Coordinator):
    """Requests return their answers. The group is there from the beginning."""

    now_ms: int = 1_000

    def new_shard(self) -> GroupShard:
        return self.without_expiry()

    def restart(self) -> None:
        super().restart()
        new = ClassicGroup(G, self.config, wall_ms=self.now_ms)
        self.shard.groups.setdefault(G, new)

    @property
    def state(self) -> GroupState:
        state: GroupState = self.group.state
        return state

    def timer(self, *what: str) -> int | None:
        """How long until this timer runs out."""
        deadline_ms = self.timers.get(("classic", G, *what))
        return None if deadline_ms is None else deadline_ms - self.now_ms

    def stored(self) -> GroupMetadataValue:
        entry = parse(self.journal.records[-1][0])
        assert isinstance(entry, GroupMetadata)
        assert entry.value is not None
        return entry.value

    def gather(self) -> None:
        """Until the time to join is over."""
        while self.state is GroupState.PREPARING:
            self.advance(self.timer("join") or 0)

    def join(self, member: str = "", **options: Any) -> Answer:
        return self.ask_join(member, **options)

    def enter(self, **options: Any) -> tuple[str, Answer]:
        """Join as somebody new, with the second request that dynamic members need."""
        asked = self.join(**options).reply
        assert asked.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return asked.member_id, self.join(asked.member_id, **options)

    def _current(self, generation: int | None) -> int:
        return self.group.generation.number if generation is None else generation

    def sync(
        self,
        member: str,
        shares: dict[str, bytes] | None = None,
        *,
        generation: int | None = None,
        **options: Any,
    ) -> Answer:
        return self.ask_sync(member, self._current(generation), shares, **options)

    def heartbeat(
        self, member: str, *, generation: int | None = None, instance: str | None = None
    ) -> ErrorCode:
        reply = self.ask_heartbeat(member, self._current(generation), instance=instance).reply
        return ErrorCode(reply.error_code)

    def leave(self, *who: tuple[str, str | None]) -> list[ErrorCode]:
        reply = self.ask_leave(*who).reply
        assert reply.error_code == ErrorCode.NONE
        assert [(member.member_id, member.group_instance_id) for member in reply.members] == list(who)
        return [ErrorCode(member.error_code) for member in reply.members]

    def leave_alone(self, member: str) -> LeaveGroupResponse:
        """As old clients do it."""
        reply = self.ask_leave((member, None), version=2).reply
        assert isinstance(reply, LeaveGroupResponse)
        return reply

    def commit(self, member: str, *, generation: int | None = None, instance: str | None = None) -> ErrorCode:
        try:
            self.group.check_commit(commit_of(member, self._current(generation), instance=instance))
        except ApiError as error:
            return error.code
        self.change(lambda turn: self.group.on_commit(turn, member))
        return ErrorCode.NONE

    def close(self, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        self.change(lambda turn: self.group.close(turn, code))

    def change(self, operation: Any) -> None:
        """What nobody waits for."""
        self.runtime.execute(0, self.now_ms, lambda _shard, turn: operation(turn))
        self.check()

    def stable(self, count: int, **options: Any) -> list[str]:
        """A stable group of dynamic members; each has its own id as its assignment. The first leads."""
        entered = [self.enter(client=chr(ord("a") + at), **options) for at in range(count)]
        self.gather()
        ids = [member for member, _ in entered]
        assert all(answer.reply.error_code == ErrorCode.NONE for _, answer in entered)
        self.settle(ids)
        return ids

    def settle(self, ids: list[str]) -> None:
        """All ask for their assignment, the first brings it."""
        synced = [self.sync(member, {of: of.encode() for of in ids}) for member in ids]
        assert [answer.reply.assignment for answer in synced] == [member.encode() for member in ids]
        assert self.state is GroupState.STABLE

    def check(self) -> None:
        group, rebalance = self.group, self.group.rebalance
        joins, syncs = rebalance.waiting.joins, rebalance.waiting.syncs
        waiting = {*joins, *syncs}
        assert waiting <= set(group.members)
        assert len(self.waiting) == len(joins) + len(syncs)
        if group.is_dead:
            assert not waiting
            return
        assert not joins or group.state is GroupState.PREPARING
        assert not syncs or group.state is GroupState.COMPLETING
        assert bool(group.members) <= (group.roster.leader in group.members)
        assert (group.state is GroupState.EMPTY) <= (not group.members)
        assert rebalance.initial_delay is None or group.state is GroupState.PREPARING
        assert (self.timer("join") is not None) == (group.state is GroupState.PREPARING)
        assert (self.timer("sync") is not None) == bool(rebalance.not_synced)
        for member in group.members.values():
            assert member.member_id in waiting or self.timer("session", member.member_id) is not None
        for member_id in group.roster.pending:
            assert self.timer("pending", member_id) is not None
        timed = {key[3] for key in self.timers if isinstance(key, tuple) and len(key) == 4}
        assert timed <= set(group.members) | group.roster.pending


def code_of(answer: Answer) -> ErrorCode | None:
    """None while it waits."""
    return None if answer.reply is None else ErrorCode(answer.reply.error_code)
