"""A classic group's life: stored, loaded, described, deleted."""

import pytest
from tests.group.classic.dialogue import Dialogue, code_of
from tests.group.room import record_of
from tests.support.groups import SESSION_MS, G, reading

from ottla.base.errors import ApiError, ErrorCode
from ottla.group.classic.group import ClassicGroup
from ottla.group.classic.states import GroupState
from ottla.group.config import GroupConfig
from ottla.group.records import GroupMember, GroupMetadata, GroupMetadataValue, parse


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
    assert say.group.generation.number == 1
    assert say.group.generation.subscribed_topics == {"t", "u"}
    assert parse(record_of(say.group)) == parse(say.journal.records[0][0])
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
    assert say.group.generation.number == 2
    assert say.stored() == GroupMetadataValue(
        protocol_type="consumer", generation=2, current_state_timestamp=say.now_ms, members=[]
    )
    say.restart()
    assert say.group.is_empty
    assert say.group.generation.number == 2
    assert say.group.generation.subscribed_topics == frozenset()
    assert not say.group_timers


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
    group = ClassicGroup.from_record(G, value, GroupConfig(), wall_ms=5)
    assert group.rebalance.state_timestamp_ms is None
    assert group.members["m"].rebalance_timeout_ms == 7_000
    assert group.roster.leader == "m"
    assert group.generation.subscribed_topics is None
    entry = parse(record_of(group))
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
    assert (shown.group_id, shown.group_state) == (G, "Stable")
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
    assert say.group.generation.subscribed_topics == {"t", "u"}
    assert say.group.reads("u")
    assert not say.group.reads("v")

    for odd in (b"", b"\xff\xff", b"\x00\x00\x00\x00\x00\x09"):
        other = Dialogue()
        other.enter(protocols={"range": odd})
        other.gather()
        assert other.group.generation.subscribed_topics is None
        assert other.group.reads("anything")

    connect = Dialogue()
    connect.enter(protocol_type="connect", protocols={"default": b""})
    connect.gather()
    assert connect.group.generation.subscribed_topics is None
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
    assert not joining.group_timers

    syncing = Dialogue()
    ids = syncing.stable(2)
    syncing.join(ids[0])
    syncing.join(ids[1])
    answer = syncing.sync(ids[1])
    assert code_of(answer) is None
    syncing.close(code)
    assert code_of(answer) == code
    assert not syncing.group_timers


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
        say.change(lambda turn, key=key: say.shard.on_timer(turn, ("classic", G, *key)))
    assert say.state is GroupState.STABLE
    assert set(say.group.members) == {only}
