"""A classic group in the real runtime, on a clock moved by hand: the other tests' way to talk to it.

After every turn it checks what must always be true. The tests here are of a group's life: stored, loaded,
described, deleted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.runtime import Runtime
from ottla.coordinator.turn import Answer, StoredRecord, TimerKey, Turn
from ottla.group.classic import Caller, ClassicGroup
from ottla.group.config import GroupConfig
from ottla.group.protocol import Subscription, encode_subscription
from ottla.group.records import GroupMember, GroupMetadata, GroupMetadataValue, parse
from ottla.group.states import GroupState
from ottla.wire.codec import encode
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

GROUP = "readers"
DELAY_MS, SESSION_MS, REBALANCE_MS = 3_000, 10_000, 60_000


def reading(*topics: str) -> dict[str, bytes]:
    return {"range": encode_subscription(Subscription(topics=list(topics)))}


class Journal:
    def __init__(self) -> None:
        self.records: list[tuple[StoredRecord, int, int]] = []

    @property
    def end_offset(self) -> int:
        return len(self.records)

    @property
    def committed_offset(self) -> int:
        return len(self.records)

    @property
    def batch_bytes_max(self) -> int:
        return 1 << 20

    def place(self, offset: int) -> str:
        return f"file of {offset}"

    def stored(self) -> Iterator[tuple[StoredRecord, int, int]]:
        return iter(list(self.records))

    def append(self, records: list[StoredRecord], now_ms: int, wall_ms: int) -> int:
        base = len(self.records)
        self.records.extend((record, base + at, wall_ms) for at, record in enumerate(records))
        return base


@dataclass
class Shard:
    config: GroupConfig
    group: ClassicGroup

    def replay(self, record: StoredRecord, offset: int, timestamp_ms: int) -> None:
        entry = parse(record)
        assert isinstance(entry, GroupMetadata)
        assert entry.value is not None
        self.group = ClassicGroup.from_record(entry.group, entry.value, self.config, timestamp_ms)

    def on_committed(self, below: int) -> None:
        """Answers wait for it, groups do not."""

    def on_loaded(self, turn: Turn) -> None:
        self.group.on_loaded(turn)

    def on_timer(self, turn: Turn, key: TimerKey) -> None:
        self.group.on_timer(turn, key)


@dataclass
class Dialogue:
    """Requests return their answers, which have a `reply` now or later."""

    config: GroupConfig = field(default_factory=GroupConfig)
    now_ms: int = 1_000
    epoch: int = 0
    ids: int = 0
    answers: list[tuple[Answer, int, int]] = field(default_factory=list)
    journal: Journal = field(default_factory=Journal)

    def __post_init__(self) -> None:
        self.runtime: Runtime[Shard] = Runtime(
            lambda _: Shard(self.config, ClassicGroup(GROUP, self.config, wall_ms=self.now_ms)),
            self._on_answered,
        )
        self.restart()

    @property
    def group(self) -> ClassicGroup:
        return self.runtime.shard(0).group

    @property
    def state(self) -> GroupState:
        return self.group.state

    @property
    def timers(self) -> dict[TimerKey, int]:
        return self.runtime.shards[0].timers.deadlines

    def timer(self, *what: str) -> int | None:
        """How long until this timer runs out."""
        deadline_ms = self.timers.get(("classic", GROUP, *what))
        return None if deadline_ms is None else deadline_ms - self.now_ms

    def stored(self) -> GroupMetadataValue:
        entry = parse(self.journal.records[-1][0])
        assert isinstance(entry, GroupMetadata)
        assert entry.value is not None
        return entry.value

    def restart(self) -> None:
        """Another coordinator takes over; whoever waited has lost its connection."""
        self.epoch += 1
        self.answers.clear()
        self.runtime.load(0, self.journal, self.epoch, self.now_ms)
        while self.runtime.loading:
            self.runtime.on_tick(self.now_ms)

    def advance(self, ms: int) -> None:
        until_ms = self.now_ms + ms
        while (due_ms := self.runtime.next_ms) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.runtime.on_tick(self.now_ms)
            self.check()
        self.now_ms = until_ms

    def gather(self) -> None:
        """Until the time to join is over."""
        while self.state is GroupState.PREPARING:
            self.advance(self.timer("join") or 0)

    def join(
        self,
        member: str = "",
        *,
        client: str = "c",
        instance: str | None = None,
        version: int = 9,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
    ) -> Answer:
        protocols = reading("t") if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=of) for name, of in protocols.items()],
        )
        self.ids += 1
        caller = Caller(client, f"/{client}", version, f"{instance or client}-{self.ids}")
        return self._ask(
            lambda shard, turn, answer: shard.group.join(turn, answer, request, caller), 11, version
        )

    def enter(self, **options: Any) -> tuple[str, Answer]:
        """Join as somebody new, with the second request that dynamic members need."""
        asked = self.join(**options).reply
        assert asked.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return asked.member_id, self.join(asked.member_id, **options)

    def sync(
        self,
        member: str,
        assignments: dict[str, bytes] | None = None,
        *,
        generation: int | None = None,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Answer:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.group.generation if generation is None else generation,
            member_id=member,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=of, assignment=what)
                for of, what in (assignments or {}).items()
            ],
        )
        return self._ask(lambda shard, turn, answer: shard.group.sync(turn, answer, request), 14, 5)

    def heartbeat(
        self, member: str, *, generation: int | None = None, instance: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.group.generation if generation is None else generation,
            member_id=member,
            group_instance_id=instance,
        )
        answer = self._ask(lambda shard, turn, answer: shard.group.heartbeat(turn, answer, request), 12, 4)
        return ErrorCode(answer.reply.error_code)

    def leave(self, *who: tuple[str, str | None]) -> list[ErrorCode]:
        members = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in who]
        answer = self._leave(LeaveGroupRequest(group_id=GROUP, members=members), 5)
        assert answer.reply.error_code == ErrorCode.NONE
        assert [(each.member_id, each.group_instance_id) for each in answer.reply.members] == list(who)
        return [ErrorCode(each.error_code) for each in answer.reply.members]

    def leave_alone(self, member: str) -> LeaveGroupResponse:
        """As old clients do it."""
        reply = self._leave(LeaveGroupRequest(group_id=GROUP, member_id=member), 2).reply
        assert isinstance(reply, LeaveGroupResponse)
        return reply

    def _leave(self, request: LeaveGroupRequest, version: int) -> Answer:
        return self._ask(
            lambda shard, turn, answer: shard.group.leave(turn, answer, request, version), 13, version
        )

    def commit(self, member: str, *, generation: int | None = None, instance: str | None = None) -> ErrorCode:
        generation = self.group.generation if generation is None else generation
        try:
            self.group.check_commit(member, instance, generation)
        except ApiError as error:
            return error.code
        self.run(lambda shard, turn: shard.group.on_commit(turn, member))
        return ErrorCode.NONE

    def close(self, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        self.run(lambda shard, turn: shard.group.close(turn, code))

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
        synced = [self.sync(member, {each: each.encode() for each in ids}) for member in ids]
        assert [answer.reply.assignment for answer in synced] == [each.encode() for each in ids]
        assert self.state is GroupState.STABLE

    def run(self, operation: Any) -> None:
        self.runtime.execute(0, self.now_ms, operation)
        self.check()

    def _ask(self, operation: Any, key: int, version: int) -> Answer:
        answer = Answer()
        self.answers.append((answer, key, version))
        self.run(lambda shard, turn: operation(shard, turn, answer))
        return answer

    def _on_answered(self, answer: Answer, now_ms: int) -> None:
        version = next((version for known, _, version in self.answers if known is answer), None)
        assert version is not None, "somebody has been answered twice"
        self.answers = [row for row in self.answers if row[0] is not answer]
        assert answer.after_offset == self.journal.end_offset
        encode(answer.reply, version)

    def check(self) -> None:
        """What is true after every turn."""
        group = self.group
        waiting = {*group.joining, *group.syncing}
        assert waiting <= set(group.members)
        assert len(self.answers) == len(group.joining) + len(group.syncing)
        if group.is_dead:
            assert not waiting
            return
        assert not group.joining or group.state is GroupState.PREPARING
        assert not group.syncing or group.state is GroupState.COMPLETING
        assert bool(group.members) <= (group.roster.leader in group.members)
        assert (group.state is GroupState.EMPTY) <= (not group.members)
        assert group.initial_delay is None or group.state is GroupState.PREPARING
        assert (self.timer("join") is not None) == (group.state is GroupState.PREPARING)
        assert (self.timer("sync") is not None) == bool(group.not_synced)
        for member in group.members.values():
            assert member.member_id in waiting or self.timer("session", member.member_id) is not None
        for member_id in group.roster.pending:
            assert self.timer("pending", member_id) is not None
        timed = {key[3] for key in self.timers if isinstance(key, tuple) and len(key) == 4}
        assert timed <= set(group.members) | group.roster.pending


def code_of(answer: Answer) -> ErrorCode | None:
    """None while it waits."""
    assert answer.reply is None or isinstance(answer.reply, JoinGroupResponse | SyncGroupResponse)
    return None if answer.reply is None else ErrorCode(answer.reply.error_code)


def test_a_group_is_stored_once_its_assignment_is_complete_and_loaded_as_it_was():
    say = Dialogue()
    first, second = say.stable(2, protocols=reading("t", "u"))
    stored = say.stored()
    assert (stored.generation, stored.protocol_type, stored.protocol, stored.leader) == (
        1, "consumer", "range", first,
    )  # fmt: skip
    assert stored.current_state_timestamp == say.now_ms
    assert [(each.member_id, each.client_id, each.client_host) for each in stored.members] == [
        (first, "a", "/a"),
        (second, "b", "/b"),
    ]
    assert len(say.journal.records) == 1

    say.restart()
    assert say.state is GroupState.STABLE
    assert say.group.generation == 1
    assert say.group.subscribed_topics == {"t", "u"}
    assert parse(say.group.record()) == parse(say.journal.records[0][0])
    assert say.timer("session", first) == SESSION_MS
    assert say.heartbeat(first) == ErrorCode.NONE
    assert say.sync(second).reply.assignment == second.encode()


def test_loaded_members_lapse_unless_they_send_a_heartbeat_and_the_empty_group_is_stored():
    say = Dialogue()
    say.stable(2)
    say.restart()
    say.advance(SESSION_MS)
    # the first to lapse starts a rebalance, in which the second lapses too
    assert say.state is GroupState.EMPTY
    assert say.group.generation == 2
    assert say.stored() == GroupMetadataValue(
        protocol_type="consumer", generation=2, current_state_timestamp=say.now_ms, members=[]
    )
    say.restart()
    assert say.group.is_empty
    assert say.group.generation == 2
    assert say.group.subscribed_topics == frozenset()
    assert not say.timers


def test_old_records_lack_a_timestamp_a_rebalance_timeout_and_maybe_the_leader():
    member = GroupMember(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout=7_000,
        subscription=b"",
        assignment=b"1",
    )
    value = GroupMetadataValue(
        protocol_type="connect", generation=4, protocol="p", leader="gone", members=[member]
    )
    group = ClassicGroup.from_record(GROUP, value, GroupConfig(), wall_ms=5)
    assert group.state_timestamp_ms is None
    assert group.members["m"].rebalance_timeout_ms == 7_000
    assert group.roster.leader == "m"
    assert group.subscribed_topics is None
    entry = parse(group.record())
    assert isinstance(entry, GroupMetadata)
    assert entry.value is not None
    assert entry.value.current_state_timestamp == -1


def test_a_loaded_group_that_is_larger_than_is_now_allowed_has_to_shrink():
    say = Dialogue()
    first, second, third = say.stable(3)
    say.config = GroupConfig(members_max=2)
    say.restart()
    assert say.state is GroupState.PREPARING
    one, two = say.join(first), say.join(second)
    refused = say.join(third)
    assert code_of(refused) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.reply.member_id == ""
    assert code_of(one) == code_of(two) == ErrorCode.NONE
    assert set(say.group.members) == {first, second}


def test_only_a_stable_group_is_described_with_its_protocol_and_metadata():
    say = Dialogue()
    assert say.group.describe().group_state == "Empty"
    assert say.group.describe().protocol_type == ""
    first, _ = say.stable(2)
    shown = say.group.describe()
    assert (shown.group_id, shown.group_state) == (GROUP, "Stable")
    assert (shown.protocol_type, shown.protocol_data) == ("consumer", "range")
    assert shown.members[0].member_id == first
    assert (shown.members[0].client_id, shown.members[0].client_host) == ("a", "/a")
    assert shown.members[0].member_metadata == reading("t")["range"]
    assert shown.members[0].member_assignment == first.encode()
    say.join(first)
    shown = say.group.describe()
    assert (shown.group_state, shown.protocol_data) == ("PreparingRebalance", "")
    assert shown.members[0].member_metadata == b""


def test_topics_of_consumers_are_known_if_all_of_them_can_be_understood():
    say = Dialogue()
    assert not say.group.reads("t")
    say.enter(protocols=reading("t"))
    say.enter(protocols={"range": reading("u")["range"] + b"what later versions add"})
    say.gather()
    assert say.group.subscribed_topics == {"t", "u"}
    assert say.group.reads("u")
    assert not say.group.reads("v")

    for odd in (b"", b"\xff\xff", b"\x00\x00\x00\x00\x00\x09"):
        other = Dialogue()
        other.enter(protocols={"range": odd})
        other.gather()
        assert other.group.subscribed_topics is None
        assert other.group.reads("anything")

    connect = Dialogue()
    connect.enter(protocol_type="connect", protocols={"default": b""})
    connect.gather()
    assert connect.group.subscribed_topics is None
    assert not connect.group.reads("t")


def test_a_group_is_deleted_only_when_it_is_empty():
    say = Dialogue()
    say.group.check_delete()
    say.group.check_offset_delete()
    (only,) = say.stable(1)
    with pytest.raises(ApiError) as refused:
        say.group.check_delete()
    assert refused.value.code == ErrorCode.NON_EMPTY_GROUP
    say.group.check_offset_delete()  # it is a group of consumers: topic by topic
    say.leave((only, None))
    say.group.check_delete()
    say.close()
    assert say.group.is_dead
    with pytest.raises(ApiError) as refused:
        say.group.check_offset_delete()
    assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_a_live_group_that_are_not_consumers_are_not_deleted():
    say = Dialogue()
    say.stable(1, protocol_type="connect")
    with pytest.raises(ApiError) as refused:
        say.group.check_offset_delete()
    assert refused.value.code == ErrorCode.NON_EMPTY_GROUP


def test_a_simple_group_has_never_had_members():
    say = Dialogue()
    assert say.group.is_simple
    asked = say.join().reply
    assert not say.group.is_simple
    say.leave((asked.member_id, None))
    assert say.group.is_simple
    (only,) = say.stable(1)
    say.leave((only, None))
    assert say.group.is_empty
    assert not say.group.is_simple


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.REBALANCE_IN_PROGRESS])
def test_whoever_waits_when_a_group_is_closed_gets_the_reason(code: ErrorCode):
    joining = Dialogue()
    _, answer = joining.enter()
    joining.join()  # and one is pending
    joining.close(code)
    assert code_of(answer) == code
    assert not joining.timers

    syncing = Dialogue()
    ids = syncing.stable(2)
    syncing.join(ids[0])
    syncing.join(ids[1])
    answer = syncing.sync(ids[1])
    assert code_of(answer) is None
    syncing.close(code)
    assert code_of(answer) == code
    assert not syncing.timers


def test_a_dead_group_sends_everybody_to_look_for_the_coordinator():
    say = Dialogue()
    (only,) = say.stable(1)
    say.close()
    gone = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert code_of(say.join()) == gone
    assert code_of(say.join(only)) == gone
    assert code_of(say.sync(only)) == gone
    assert say.heartbeat(only) == gone
    assert say.leave_alone(only).error_code == gone
    assert say.commit(only) == gone
    assert say.commit("", generation=-1) == gone
    say.close()
    assert say.group.is_dead


def test_a_timer_that_has_outlived_its_purpose_means_nothing():
    say = Dialogue()
    (only,) = say.stable(1)
    for key in (("join",), ("sync",), ("session", "somebody"), ("pending", "somebody")):
        say.run(lambda shard, turn, key=key: shard.on_timer(turn, ("classic", GROUP, *key)))
    assert say.state is GroupState.STABLE
    assert set(say.group.members) == {only}
