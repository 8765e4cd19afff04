"""Static members (KIP-345): the instance id stays, the member id changes with every restart."""

import pytest
from tests.group.classic.dialogue import Dialogue, code_of
from tests.support.groups import REBALANCE_MS, SESSION_MS, reading

from ottla.base.errors import ErrorCode
from ottla.group.classic.states import GroupState
from ottla.group.config import GroupConfig


def stable(say: Dialogue, *instances: str) -> list[str]:
    joined = [say.join(client=instance, instance=instance) for instance in instances]
    say.gather()
    ids = [answer.reply.member_id for answer in joined]
    say.settle(ids)
    return ids


def test_a_static_member_needs_no_second_request():
    say = Dialogue()
    answer = say.join(instance="i")
    say.gather()
    assert code_of(answer) == ErrorCode.NONE
    assert answer.reply.member_id == "i-1"
    assert answer.reply.members[0].group_instance_id == "i"


def test_a_restart_takes_its_place_again_without_a_rebalance():
    say = Dialogue()
    first, second = stable(say, "one", "two")
    say.advance(SESSION_MS // 2)
    answer = say.join(client="elsewhere", instance="two")
    new = answer.reply.member_id
    assert new != second
    assert (answer.reply.generation_id, answer.reply.leader) == (1, first)
    assert (answer.reply.members, answer.reply.skip_assignment) == ([], False)
    assert say.state is GroupState.STABLE
    assert say.heartbeat(first) == ErrorCode.NONE
    assert say.sync(new, instance="two").reply.assignment == second.encode()
    assert say.timer("session", new) == SESSION_MS
    assert say.timer("session", second) is None
    assert say.group.members[new].client_host == "/elsewhere"


def test_its_new_id_is_stored_before_it_gets_it():
    say = Dialogue()
    stable(say, "one", "two")
    answer = say.join(instance="two")
    assert answer.after_offset == 2
    assert say.stored().members[1].member_id == answer.reply.member_id
    assert say.stored().members[1].assignment == b"two-2"
    say.restart()
    assert say.heartbeat(answer.reply.member_id, instance="two") == ErrorCode.NONE
    assert say.heartbeat("two-2", instance="two") == ErrorCode.FENCED_INSTANCE_ID


def test_a_leader_that_is_back_is_told_not_to_assign():
    say = Dialogue()
    first, _ = stable(say, "one", "two")
    answer = say.join(instance="one", version=9)
    assert answer.reply.leader == answer.reply.member_id != first
    assert answer.reply.skip_assignment
    assert len(answer.reply.members) == 2


def test_before_version_9_it_is_kept_from_assigning_by_naming_its_old_self_as_leader():
    say = Dialogue()
    first, _ = stable(say, "one", "two")
    answer = say.join(instance="one", version=8)
    assert answer.reply.leader == first
    assert answer.reply.members == []
    assert not answer.reply.skip_assignment
    assert say.group.roster.leader == answer.reply.member_id


def test_the_one_it_replaces_is_fenced_in_everything_it_does():
    say = Dialogue()
    _, old = stable(say, "one", "two")
    say.join(instance="two")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert code_of(say.join(old, instance="two")) == fenced
    assert code_of(say.sync(old, instance="two")) == fenced
    assert say.heartbeat(old, instance="two") == fenced
    assert say.commit(old, instance="two") == fenced
    assert say.leave((old, "two")) == [fenced]
    # one that does not say which instance it is cannot be told that it was replaced
    assert say.heartbeat(old) == ErrorCode.UNKNOWN_MEMBER_ID


def test_if_it_was_waiting_it_is_fenced_at_once():
    say = Dialogue()
    joining = say.join(instance="one")
    again = say.join(instance="one")
    assert code_of(joining) == ErrorCode.FENCED_INSTANCE_ID
    assert joining.reply.member_id == "one-1"
    say.join(instance="two")
    say.gather()
    assert code_of(again) == ErrorCode.NONE

    syncing = say.sync("two-3", instance="two")
    say.join(instance="two")
    assert code_of(syncing) == ErrorCode.FENCED_INSTANCE_ID
    # the leader may already have been told of the old one, so the assignment starts over
    assert say.state is GroupState.PREPARING


def test_a_restart_that_changes_the_choice_of_protocol_rebalances():
    say = Dialogue()
    both = {"x": b"", "y": b""}
    one = say.join(instance="one", protocols=both)
    say.join(instance="two", protocols={"y": b"", "x": b""})
    say.gather()
    say.settle(["one-1", "two-2"])
    assert one.reply.protocol_name == "x"
    answer = say.join(instance="one", protocols={"y": b""})
    assert say.state is GroupState.PREPARING
    two = say.join("two-2", instance="two", protocols={"y": b"", "x": b""})
    assert code_of(answer) == code_of(two) == ErrorCode.NONE
    assert answer.reply.protocol_name == "y"


def test_other_metadata_alone_do_not_and_are_what_the_leader_sees_next():
    say = Dialogue()
    first, _ = stable(say, "one", "two")
    answer = say.join(instance="two", protocols=reading("u"))
    assert code_of(answer) == ErrorCode.NONE
    assert say.state is GroupState.STABLE
    one = say.join(first, instance="one")
    say.join(answer.reply.member_id, instance="two", protocols=reading("u"))
    assert one.reply.members[1].metadata == reading("u")["range"]


def test_a_restart_with_a_protocol_nobody_else_has_is_refused_and_fences_nobody():
    say = Dialogue()
    _, second = stable(say, "one", "two")
    refused = say.join(instance="two", protocols={"mine": b""})
    assert code_of(refused) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert say.heartbeat(second, instance="two") == ErrorCode.NONE


def test_a_restart_with_its_member_id_is_like_any_member_joining_again():
    say = Dialogue()
    first, second = stable(say, "one", "two")
    assert say.join(second, instance="two").reply.generation_id == 1
    assert code_of(say.join(first, instance="one")) is None


def test_a_restart_while_members_join_completes_the_rebalance():
    say = Dialogue()
    first, _ = stable(say, "one", "two")
    one = say.join(first, instance="one")
    two = say.join(instance="two")
    assert code_of(one) == code_of(two) == ErrorCode.NONE
    assert {each.member_id for each in one.reply.members} == {first, two.reply.member_id}


def test_a_restart_of_one_that_has_not_asked_for_its_assignment_is_no_reason_to_rebalance_later():
    say = Dialogue()
    one = say.join(instance="one")
    say.join(instance="two")
    say.gather()
    first = one.reply.member_id
    say.sync(first, {first: b"1"}, instance="one")
    new = say.join(instance="two").reply.member_id
    assert say.timer("sync") is None
    for _ in range(REBALANCE_MS // SESSION_MS + 2):
        say.advance(SESSION_MS - 1)
        assert say.heartbeat(first) == say.heartbeat(new) == ErrorCode.NONE


def test_static_members_that_do_not_join_again_stay_and_get_an_assignment():
    say = Dialogue()
    first, second = stable(say, "one", "two")
    one = say.join(first, instance="one")
    while code_of(one) is None:
        say.heartbeat(second, instance="two")
        say.advance(SESSION_MS // 2)
    assert len(one.reply.members) == 2
    say.sync(first, {second: b"2"}, instance="one")
    new = say.join(instance="two").reply.member_id
    assert say.sync(new, instance="two").reply.assignment == b"2"


def test_if_only_static_members_are_left_and_none_is_back_their_sessions_decide():
    say = Dialogue()
    minutes = 10 * 60_000
    joined = [
        say.join(instance=instance, session_ms=session_ms)
        for instance, session_ms in (("one", SESSION_MS), ("two", minutes), ("three", minutes))
    ]
    say.gather()
    say.settle([answer.reply.member_id for answer in joined])
    say.advance(SESSION_MS)  # the first lapses: a rebalance for which nobody comes
    say.advance(REBALANCE_MS)
    assert say.state is GroupState.PREPARING
    assert say.group.generation.number == 1
    assert say.timer("join") == REBALANCE_MS
    back = say.join(instance="three", session_ms=minutes)
    say.advance(REBALANCE_MS)
    assert back.reply.leader == back.reply.member_id
    assert {each.group_instance_id for each in back.reply.members} == {"two", "three"}


def test_a_static_member_is_gone_when_its_session_lapses():
    say = Dialogue()
    first, second = stable(say, "one", "two")
    say.advance(SESSION_MS - 1)
    say.heartbeat(first)
    say.advance(1)
    assert say.heartbeat(second, instance="two") == ErrorCode.UNKNOWN_MEMBER_ID
    assert "two" not in say.group.roster.instances


def test_an_administrator_removes_a_static_member_by_its_instance_id():
    say = Dialogue()
    first, _ = stable(say, "one", "two")
    assert say.leave(("", "two"), ("", "three")) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert say.state is GroupState.PREPARING
    assert say.join(first, instance="one").reply.generation_id == 2


def test_a_static_member_may_also_leave_by_its_member_id():
    say = Dialogue()
    first, second = stable(say, "one", "two")
    assert say.leave((first, "one"), (second, None)) == [ErrorCode.NONE] * 2
    assert say.group.is_empty


@pytest.mark.parametrize("state", ["stable", "preparing"])
def test_a_restart_needs_no_room_in_a_full_group(state: str):
    say = Dialogue(GroupConfig(members_max=2))
    first, _ = stable(say, "one", "two")
    if state == "preparing":
        say.join(first, instance="one")
    assert code_of(say.join(instance="two")) == ErrorCode.NONE
    assert code_of(say.join(instance="three")) == ErrorCode.GROUP_MAX_SIZE_REACHED
