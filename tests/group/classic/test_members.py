"""SyncGroup, Heartbeat, LeaveGroup, commits: what members do once a generation has begun."""

import pytest
from tests.group.classic.dialogue import Dialogue, code_of
from tests.support.groups import REBALANCE_MS, SESSION_MS, reading

from ottla.base.errors import ErrorCode
from ottla.group.classic.states import GroupState


def completing(say: Dialogue, count: int = 2) -> list[str]:
    """A group whose leader, the first, has not sent the assignment yet."""
    ids = [say.enter()[0] for _ in range(count)]
    say.gather()
    assert say.state is GroupState.COMPLETING
    return ids


# SyncGroup


def test_followers_wait_for_the_leader_and_each_gets_its_own():
    say = Dialogue()
    first, second, third = completing(say, 3)
    two = say.sync(second)
    assert code_of(two) is None
    one = say.sync(first, {first: b"1", second: b"2"})
    assert (one.reply.assignment, two.reply.assignment) == (b"1", b"2")
    assert (one.reply.protocol_type, one.reply.protocol_name) == ("consumer", "range")
    assert one.after_offset == two.after_offset == 1, "they wait until it is stored"
    assert say.state is GroupState.STABLE
    # the leader has left the third out
    assert say.sync(third).reply.assignment == b""
    assert say.sync(second).reply.assignment == b"2"
    assert len(say.journal.records) == 1


def test_what_a_follower_sends_as_assignment_means_nothing():
    say = Dialogue()
    first, second = completing(say)
    say.sync(second, {second: b"everything"})
    say.sync(first, {first: b"1", "nobody": b"2"})
    assert say.group.members[second].assignment == b""
    assert set(say.group.members) == {first, second}


def test_who_is_left_out_of_an_assignment_does_not_keep_the_one_before():
    say = Dialogue()
    first, second = say.stable(2)
    say.join(first)
    say.join(second)
    waits = say.sync(second)
    say.sync(first, {first: b"all"})
    assert waits.reply.assignment == b""
    assert say.stored().members[1].assignment == b""


def test_a_sync_is_refused_from_whoever_is_not_of_this_generation():
    say = Dialogue()
    assert code_of(say.sync("who", generation=0)) == ErrorCode.UNKNOWN_MEMBER_ID
    first, _ = completing(say)
    assert code_of(say.sync("who")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(say.sync(first, instance="i")) == ErrorCode.UNKNOWN_MEMBER_ID
    for generation in (-1, 0, 2):
        assert code_of(say.sync(first, generation=generation)) == ErrorCode.ILLEGAL_GENERATION


def test_a_sync_with_another_protocol_is_refused():
    say = Dialogue()
    first, _ = completing(say)
    for other in ({"protocol_type": "connect"}, {"protocol_name": "sticky"}):
        assert code_of(say.sync(first, **other)) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    answer = say.sync(first, protocol_type="consumer", protocol_name="range")
    assert code_of(answer) == ErrorCode.NONE


def test_a_sync_while_members_join_is_told_to_join():
    say = Dialogue()
    first, second = say.stable(2)
    say.join(first)
    assert code_of(say.sync(second)) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_in_the_first_rebalance_is_too_even_if_it_names_a_protocol():
    say = Dialogue()
    member, _ = say.enter()
    assert code_of(say.sync(member, protocol_name="range")) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_sent_again_supersedes_the_first():
    say = Dialogue()
    first, second = completing(say)
    lost = say.sync(second)
    again = say.sync(second)
    assert code_of(lost) == ErrorCode.REBALANCE_IN_PROGRESS
    assert code_of(again) is None
    say.sync(first)
    assert code_of(again) == ErrorCode.NONE


def test_a_member_that_waits_for_its_assignment_need_not_send_heartbeats():
    say = Dialogue()
    first, second = completing(say)
    two = say.sync(second)
    for _ in range(3):
        say.advance(SESSION_MS - 1)
        say.heartbeat(first)
    assert code_of(two) is None
    assert say.timer("session", second) is None
    say.sync(first, {second: b"2"})
    assert two.reply.assignment == b"2"
    assert say.timer("session", second) == SESSION_MS


def test_who_does_not_ask_for_its_assignment_in_time_is_removed_and_the_rest_start_over():
    say = Dialogue()
    first, second, third = completing(say, 3)
    say.sync(first, {each: each.encode() for each in (first, second, third)})
    assert say.state is GroupState.STABLE
    say.sync(second)
    left_ms = say.timer("sync")
    assert left_ms == REBALANCE_MS
    while say.state is GroupState.STABLE:
        for each in (first, second, third):
            say.heartbeat(each)
        say.advance(SESSION_MS // 2)
    assert say.state is GroupState.PREPARING
    assert set(say.group.members) == {first, second}


def test_when_the_leader_does_not_send_the_assignment_in_time_another_leads():
    say = Dialogue()
    first, second = completing(say)
    two = say.sync(second)
    while code_of(two) is None:
        say.heartbeat(first)
        say.advance(SESSION_MS // 2)
    assert code_of(two) == ErrorCode.REBALANCE_IN_PROGRESS
    assert say.join(second).reply.leader == second
    assert say.group.generation.number == 2


def test_there_is_no_deadline_once_all_have_asked():
    say = Dialogue()
    say.stable(2)
    assert say.timer("sync") is None


# Heartbeat


def test_heartbeats_keep_a_session_alive():
    say = Dialogue()
    first, second = say.stable(2)
    for _ in range(5):
        say.advance(SESSION_MS - 1)
        assert say.heartbeat(first) == say.heartbeat(second) == ErrorCode.NONE


def test_a_silent_member_is_removed_and_the_others_are_told_to_join():
    say = Dialogue()
    first, second = say.stable(2)
    say.advance(SESSION_MS - 1)
    assert say.heartbeat(second) == ErrorCode.NONE
    say.advance(1)
    assert say.heartbeat(first) == ErrorCode.UNKNOWN_MEMBER_ID
    assert say.heartbeat(second) == ErrorCode.REBALANCE_IN_PROGRESS
    answer = say.join(second)
    assert (answer.reply.leader, answer.reply.generation_id) == (second, 2)


def test_a_member_that_is_silent_before_the_assignment_starts_it_over():
    say = Dialogue()
    first, second = completing(say)
    two = say.sync(second)
    say.advance(SESSION_MS)
    assert code_of(two) == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(say.group.members) == {second}
    assert say.heartbeat(first) == ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_count_before_the_assignment():
    say = Dialogue()
    first, _ = completing(say)
    say.advance(SESSION_MS - 1)
    assert say.heartbeat(first) == ErrorCode.NONE
    assert say.timer("session", first) == SESSION_MS


def test_a_heartbeat_is_refused_from_whoever_is_not_of_this_generation():
    say = Dialogue()
    assert say.heartbeat("who", generation=0) == ErrorCode.UNKNOWN_MEMBER_ID
    (first,) = say.stable(1)
    assert say.heartbeat("who") == ErrorCode.UNKNOWN_MEMBER_ID
    assert say.heartbeat(first, generation=2) == ErrorCode.ILLEGAL_GENERATION
    assert say.heartbeat(first, instance="i") == ErrorCode.UNKNOWN_MEMBER_ID
    assert say.heartbeat(say.join().reply.member_id) == ErrorCode.UNKNOWN_MEMBER_ID, "only pending"


# LeaveGroup


def test_a_member_that_leaves_starts_a_rebalance_and_the_last_one_leaves_the_group_empty():
    say = Dialogue()
    first, second = say.stable(2)
    assert say.leave((first, None)) == [ErrorCode.NONE]
    assert say.timer("session", first) is None
    assert say.state is GroupState.PREPARING
    assert say.group.roster.leader == second
    assert say.leave((second, None)) == [ErrorCode.NONE]
    assert say.group.is_empty
    assert say.group.rebalance.state_timestamp_ms == say.now_ms
    stored = say.stored()
    assert (stored.generation, stored.members, stored.protocol, stored.leader) == (2, [], None, None)
    assert stored.protocol_type == "consumer"


def test_a_group_that_was_left_begins_again_with_the_next_generation():
    say = Dialogue()
    say.leave(*((member, None) for member in say.stable(2)))
    assert say.group.generation.number == 2
    _, answer = say.enter(protocol_type="connect")
    say.gather()
    assert answer.reply.generation_id == 3
    assert say.group.protocol_type == "connect"


def test_the_rebalance_goes_on_when_the_one_still_missing_leaves():
    say = Dialogue()
    first, second = say.stable(2)
    one = say.join(first)
    say.leave((second, None))
    assert code_of(one) == ErrorCode.NONE


def test_somebody_else_may_end_a_membership_whose_owner_waits():
    say = Dialogue()
    first, second = say.stable(2)
    joining = say.join(first)
    say.leave((first, None))
    assert code_of(joining) == ErrorCode.UNKNOWN_MEMBER_ID

    say.join(second)
    third, _ = say.enter()
    say.join(second)
    assert say.state is GroupState.COMPLETING
    syncing = say.sync(third)
    say.leave((third, None))
    assert code_of(syncing) == ErrorCode.UNKNOWN_MEMBER_ID


def test_each_gets_its_own_result():
    say = Dialogue()
    first, second = say.stable(2)
    pending = say.join().reply.member_id
    assert say.leave((first, None), ("who", None), ("", None), (first, None), (pending, None)) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    assert set(say.group.members) == {second}


def test_if_nobody_could_leave_nothing_happens():
    say = Dialogue()
    assert say.leave(("who", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    say.stable(1)
    assert say.leave(("who", None), ("", "i")) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert say.leave() == []
    assert say.state is GroupState.STABLE


def test_before_version_3_one_leaves_and_the_result_is_the_answer():
    say = Dialogue()
    first, _ = say.stable(2)
    assert say.leave_alone("who").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert say.leave_alone("").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    answer = say.leave_alone(first)
    assert (answer.error_code, answer.members) == (ErrorCode.NONE, [])
    assert say.state is GroupState.PREPARING


# Commits


def test_members_of_the_generation_may_commit_and_it_counts_as_a_heartbeat():
    say = Dialogue()
    first, _ = say.stable(2)
    say.advance(SESSION_MS - 1)
    assert say.commit(first) == ErrorCode.NONE
    assert say.timer("session", first) == SESSION_MS


def test_in_a_rebalance_the_old_generation_may_commit_until_the_new_one_begins():
    say = Dialogue()
    first, second = say.stable(2)
    say.join(first)
    assert say.commit(second) == ErrorCode.NONE
    assert say.timer("session", second) == SESSION_MS
    say.join(second)
    assert say.commit(second, generation=1) == ErrorCode.ILLEGAL_GENERATION
    assert say.commit(second) == ErrorCode.REBALANCE_IN_PROGRESS
    session_ms = say.timer("session", second)
    say.advance(10)
    say.change(lambda turn: say.group.on_commit(turn, second))
    assert say.timer("session", second) == session_ms - 10, "this one does not count"


@pytest.mark.parametrize(
    ("member", "instance", "generation", "code"),
    [
        ("who", None, 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a-1", None, 2, ErrorCode.ILLEGAL_GENERATION),
        ("a-1", None, -1, ErrorCode.ILLEGAL_GENERATION),
        ("a-1", "i", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "i", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_nobody_else_may(member: str, instance: str | None, generation: int, code: ErrorCode):
    say = Dialogue()
    assert say.stable(1) == ["a-1"]
    assert say.commit(member, instance=instance, generation=generation) == code


def test_an_empty_group_takes_commits_of_those_who_are_in_no_group():
    say = Dialogue()
    assert say.commit("", generation=-1) == ErrorCode.NONE
    assert say.commit("assigned-by-hand", generation=-1) == ErrorCode.NONE
    assert say.commit("", generation=0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert say.commit("who", generation=0) == ErrorCode.UNKNOWN_MEMBER_ID
    say.enter(protocols=reading("t"))
    assert say.commit("", generation=-1) == ErrorCode.UNKNOWN_MEMBER_ID
