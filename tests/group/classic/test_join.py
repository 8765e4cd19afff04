"""JoinGroup: who is let in, what starts a rebalance, when a generation begins."""

import pytest
from tests.group.classic.dialogue import Dialogue, code_of
from tests.support.groups import DELAY_MS, REBALANCE_MS, SESSION_MS, reading

from ottla.base.errors import ErrorCode
from ottla.group.classic.rebalance import BURST_MS, NEW_MEMBER_JOIN_TIMEOUT_MS
from ottla.group.classic.states import GroupState
from ottla.group.config import GroupConfig

# Coming in


def test_a_dynamic_member_without_an_id_is_given_one_and_asked_to_join_again():
    say = Dialogue()
    asked = say.join(client="app", version=4)
    assert code_of(asked) == ErrorCode.MEMBER_ID_REQUIRED
    assert (asked.reply.member_id, asked.reply.protocol_name) == ("app-1", "")
    assert say.group.is_empty
    assert say.timer("pending", "app-1") == SESSION_MS
    say.join("app-1", client="app", version=4)
    assert say.state is GroupState.PREPARING
    assert say.timer("pending", "app-1") is None


def test_before_version_4_it_is_let_in_at_once():
    say = Dialogue()
    answer = say.join(client="old", version=3)
    say.advance(DELAY_MS)
    assert code_of(answer) == ErrorCode.NONE
    assert (answer.reply.member_id, answer.reply.leader) == ("old-1", "old-1")


def test_an_id_that_is_not_used_in_time_is_forgotten():
    say = Dialogue()
    asked = say.join().reply
    say.advance(SESSION_MS)
    assert not say.group.roster.pending
    assert say.group.is_empty
    refused = say.join(asked.member_id)
    assert code_of(refused) == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused.reply.member_id == asked.member_id


def test_a_pending_member_cannot_turn_out_to_be_static():
    say = Dialogue()
    asked = say.join().reply
    assert code_of(say.join(asked.member_id, instance="i")) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_the_group_does_not_know_is_refused():
    say = Dialogue()
    assert code_of(say.join("who")) == ErrorCode.UNKNOWN_MEMBER_ID
    say.stable(1)
    assert code_of(say.join("who")) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("session_ms", "is_allowed"), [(5_999, 0), (6_000, 1), (1_800_000, 1), (1_800_001, 0)]
)
def test_the_session_timeout_has_bounds(session_ms: int, is_allowed: int):
    say = Dialogue()
    code = code_of(say.join(session_ms=session_ms))
    assert code == (ErrorCode.MEMBER_ID_REQUIRED if is_allowed else ErrorCode.INVALID_SESSION_TIMEOUT)


def test_version_0_has_one_timeout_for_both():
    say = Dialogue()
    say.join(version=0, session_ms=7_000, rebalance_ms=-1)
    (member,) = say.group.members.values()
    assert member.rebalance_timeout_ms == member.session_timeout_ms == 7_000


# Protocols


def test_members_without_a_protocol_or_a_type_are_refused():
    say = Dialogue()
    assert code_of(say.join(protocols={})) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    refused = say.join(protocol_type="")
    assert code_of(refused) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused.reply.protocol_name is None


def test_a_group_has_one_protocol_type():
    say = Dialogue()
    ids = say.stable(1)
    assert code_of(say.join(protocol_type="connect")) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code_of(say.join(ids[0], protocol_type="connect")) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    say.leave((ids[0], None))
    assert code_of(say.join(protocol_type="connect")) == ErrorCode.MEMBER_ID_REQUIRED


def test_a_member_must_share_a_protocol_with_all_others():
    say = Dialogue()
    say.enter(protocols={"a": b"", "b": b""})
    say.enter(protocols={"b": b"", "c": b""})
    assert code_of(say.join(protocols={"a": b"", "c": b""})) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code_of(say.join(protocols={"b": b""})) == ErrorCode.MEMBER_ID_REQUIRED


def test_members_vote_for_the_protocol_they_like_best_of_those_all_support():
    say = Dialogue()
    first, one = say.enter(protocols={"only-mine": b"1", "range": b"2", "sticky": b"3"})
    second, _ = say.enter(protocols={"sticky": b"4", "range": b"5"})
    third, three = say.enter(protocols={"sticky": b"6", "range": b"7"})
    say.gather()
    assert one.reply.protocol_name == three.reply.protocol_name == "sticky"
    assert one.reply.protocol_type == "consumer"
    assert {each.member_id: each.metadata for each in one.reply.members} == {
        first: b"3",
        second: b"4",
        third: b"6",
    }


def test_a_tie_goes_to_the_member_who_came_first():
    say = Dialogue()
    _, one = say.enter(protocols={"x": b"", "y": b""})
    say.enter(protocols={"y": b"", "x": b""})
    say.gather()
    assert one.reply.protocol_name == "x"


def test_when_the_member_that_stood_in_the_way_leaves_its_protocols_no_longer_count():
    say = Dialogue()
    first, _ = say.enter(protocols={"x": b"", "y": b""})
    second, _ = say.enter(protocols={"x": b""})
    assert say.group.roster.supported == {"x": 2, "y": 1}
    say.leave((first, None))
    assert say.group.roster.supported == {"x": 1}
    assert code_of(say.join(protocols={"y": b""})) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert say.join(second, protocols={"x": b"", "z": b""}).reply is None
    assert code_of(say.join(protocols={"z": b""})) == ErrorCode.MEMBER_ID_REQUIRED


# The initial rebalance


def test_the_first_generation_waits_for_the_initial_delay():
    say = Dialogue()
    _, answer = say.enter()
    say.advance(DELAY_MS - 1)
    assert code_of(answer) is None
    say.advance(1)
    assert answer.reply.generation_id == 1


def test_a_newcomer_prolongs_the_delay_by_as_much_again():
    say = Dialogue()
    _, one = say.enter()
    say.advance(DELAY_MS - 1)
    _, two = say.enter()
    say.advance(DELAY_MS)
    assert code_of(one) is None
    say.advance(1)
    assert code_of(one) == code_of(two) == ErrorCode.NONE
    assert one.reply.leader == one.reply.member_id == two.reply.leader
    assert len(one.reply.members) == 2
    assert two.reply.members == []


def test_newcomers_do_not_prolong_it_beyond_the_time_to_rebalance():
    say = Dialogue()
    begin_ms = say.now_ms
    _, first = say.enter(rebalance_ms=7_000)
    while code_of(first) is None:
        say.advance(500)
        if code_of(first) is None:
            say.enter(rebalance_ms=7_000)
    assert say.now_ms - begin_ms == 7_000


def test_the_delay_is_not_cut_short_by_all_being_there_or_somebody_leaving():
    say = Dialogue()
    first, one = say.enter()
    second, _ = say.enter()
    say.join(second)
    assert say.leave((first, None)) == [ErrorCode.NONE]
    assert code_of(one) == ErrorCode.UNKNOWN_MEMBER_ID
    assert say.state is GroupState.PREPARING
    say.gather()
    assert say.state is GroupState.COMPLETING
    assert say.group.roster.leader == second


def test_a_group_all_of_whose_members_leave_in_the_delay_is_empty_after_it():
    say = Dialogue()
    first, _ = say.enter()
    say.leave((first, None))
    assert say.state is GroupState.PREPARING
    say.advance(DELAY_MS)
    assert say.group.is_empty
    assert say.group.generation.number == 1
    assert say.stored().members == []


def test_without_a_delay_members_that_are_started_together_are_all_in_the_first_generation():
    say = Dialogue(GroupConfig(initial_rebalance_delay_ms=0))
    answers = []
    for _ in range(3):
        _, answer = say.enter()
        answers.append(answer)
        say.advance(BURST_MS - 1)
    assert [code_of(answer) for answer in answers] == [None, None, None]
    say.advance(BURST_MS)
    assert [(code_of(answer), answer.reply.generation_id) for answer in answers] == [(ErrorCode.NONE, 1)] * 3


# Joining again


def test_joining_again_unchanged_in_a_stable_group_is_answered_for_followers():
    say = Dialogue()
    first, second = say.stable(2)
    again = say.join(second)
    assert (again.reply.generation_id, again.reply.leader, again.reply.members) == (1, first, [])
    assert say.state is GroupState.STABLE


def test_the_leader_of_a_stable_group_rebalances_it_by_joining_again():
    say = Dialogue()
    first, second = say.stable(2)
    one = say.join(first)
    assert code_of(one) is None
    assert say.heartbeat(second) == ErrorCode.REBALANCE_IN_PROGRESS
    two = say.join(second)
    assert one.reply.generation_id == two.reply.generation_id == 2
    assert len(one.reply.members) == 2


def test_a_follower_with_other_metadata_rebalances_a_stable_group():
    say = Dialogue()
    first, second = say.stable(2)
    two = say.join(second, protocols=reading("t", "u"))
    assert say.state is GroupState.PREPARING
    one = say.join(first)
    assert code_of(two) == ErrorCode.NONE
    assert one.reply.members[1].metadata == reading("t", "u")["range"]
    assert say.group.generation.subscribed_topics == {"t", "u"}


def test_the_order_of_protocols_is_part_of_the_metadata():
    say = Dialogue()
    protocols = {"x": b"", "y": b""}
    _, second = say.stable(2, protocols=protocols)
    assert code_of(say.join(second, protocols={"x": b"", "y": b""})) == ErrorCode.NONE
    assert code_of(say.join(second, protocols={"y": b"", "x": b""})) is None


def test_joining_again_unchanged_before_the_assignment_repeats_the_answer():
    say = Dialogue()
    first, _ = say.enter()
    second, _ = say.enter()
    say.gather()
    assert len(say.join(first).reply.members) == 2
    assert say.join(second).reply.members == []
    assert say.state is GroupState.COMPLETING


def test_other_metadata_before_the_assignment_start_over_and_those_who_wait_join_again():
    say = Dialogue()
    first, _ = say.enter()
    second, _ = say.enter()
    say.gather()
    waits = say.sync(second)
    changed = say.join(first, protocols=reading("v"))
    assert code_of(waits) == ErrorCode.REBALANCE_IN_PROGRESS
    assert code_of(changed) is None
    assert code_of(say.join(second)) == ErrorCode.NONE
    assert changed.reply.generation_id == 2


def test_a_newcomer_rebalances_a_stable_group_and_everybody_gets_the_next_generation():
    say = Dialogue()
    first, second = say.stable(2)
    third, three = say.enter()
    one, two = say.join(first), say.join(second)
    assert {each.reply.generation_id for each in (one, two, three)} == {2}
    assert one.reply.leader == first
    say.settle([first, second, third])


def test_a_pending_newcomer_is_waited_for():
    say = Dialogue()
    first, second = say.stable(2)
    asked = say.join().reply
    assert say.state is GroupState.STABLE
    one, two = say.join(first), say.join(second)
    assert code_of(one) is None
    three = say.join(asked.member_id)
    assert code_of(one) == code_of(two) == code_of(three) == ErrorCode.NONE


@pytest.mark.parametrize("how", ["lapses", "leaves"])
def test_the_rebalance_goes_on_when_the_pending_newcomer_does_not_come(how: str):
    say = Dialogue()
    (first,) = say.stable(1)
    asked = say.join().reply
    one = say.join(first)
    assert code_of(one) is None
    if how == "lapses":
        say.advance(SESSION_MS)
    else:
        assert say.leave((asked.member_id, None)) == [ErrorCode.NONE]
    assert code_of(one) == ErrorCode.NONE


def test_a_pending_newcomer_that_lapses_ends_even_the_initial_delay():
    say = Dialogue(GroupConfig(initial_rebalance_delay_ms=30_000))
    say.join()
    _, answer = say.enter()
    say.advance(SESSION_MS)
    assert code_of(answer) == ErrorCode.NONE


def test_a_pending_newcomer_that_leaves_does_not_disturb_a_stable_group():
    say = Dialogue()
    say.stable(1)
    asked = say.join().reply
    assert say.leave((asked.member_id, None)) == [ErrorCode.NONE]
    assert say.state is GroupState.STABLE


def test_a_request_sent_again_supersedes_the_first_which_is_told_to_retry():
    say = Dialogue()
    first, _ = say.stable(2)
    lost = say.join(first)
    again = say.join(first)
    assert code_of(lost) == ErrorCode.REBALANCE_IN_PROGRESS
    assert code_of(again) is None


# The end of the time to join


def test_dynamic_members_that_do_not_join_again_in_time_are_removed():
    say = Dialogue()
    first, second = say.stable(2)
    begin_ms = say.now_ms
    two = say.join(second, protocols=reading("u"))
    while say.state is GroupState.PREPARING:
        assert say.heartbeat(first) == ErrorCode.REBALANCE_IN_PROGRESS
        say.advance(SESSION_MS // 2)
    assert say.now_ms - begin_ms == REBALANCE_MS
    assert two.reply.leader == second
    assert set(say.group.members) == {second}
    assert say.timer("session", first) is None
    assert say.heartbeat(first) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_slowest_member_decides_how_long_others_wait():
    say = Dialogue()
    first, _ = say.enter(rebalance_ms=20_000)
    second, _ = say.enter(rebalance_ms=90_000)
    say.gather()
    say.settle([first, second])
    say.join(first)
    assert say.timer("join") == 90_000


def test_a_new_member_whose_client_is_gone_is_not_waited_for_for_ever():
    say = Dialogue()
    (first,) = say.stable(1, rebalance_ms=10 * 60_000)
    newcomer, answer = say.enter(client="new")
    assert say.timer("session", newcomer) == NEW_MEMBER_JOIN_TIMEOUT_MS
    while code_of(answer) is None:
        say.heartbeat(first)
        say.advance(5_000)
    assert code_of(answer) == ErrorCode.UNKNOWN_MEMBER_ID
    assert answer.reply.member_id == ""
    assert say.state is GroupState.PREPARING


def test_a_member_that_waits_to_join_need_not_send_heartbeats():
    say = Dialogue()
    first, second = say.stable(2)
    one = say.join(first)
    for _ in range(4):
        say.advance(SESSION_MS - 1)
        say.heartbeat(second)
    assert code_of(one) is None
    assert set(say.group.members) == {first, second}
    assert say.timer("session", first) is None
    say.join(second)
    assert code_of(one) == ErrorCode.NONE
    assert say.timer("session", first) == SESSION_MS


# group.max.size


def test_beyond_the_largest_size_newcomers_are_refused():
    say = Dialogue(GroupConfig(members_max=2))
    say.stable(2)
    refused = say.join()
    assert code_of(refused) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.reply.member_id == ""
    assert say.state is GroupState.STABLE


def test_ids_given_out_are_no_places_and_the_last_to_use_theirs_is_refused():
    say = Dialogue(GroupConfig(members_max=2))
    ids = [say.join().reply.member_id for _ in range(3)]
    one, two, three = (say.join(member) for member in ids)
    assert code_of(one) is code_of(two) is None
    assert code_of(three) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not say.group.roster.pending
    say.gather()
    assert code_of(one) == code_of(two) == ErrorCode.NONE


def test_members_of_a_full_group_may_join_again():
    say = Dialogue(GroupConfig(members_max=2))
    first, second = say.stable(2)
    one, two = say.join(first), say.join(second)
    assert code_of(one) == code_of(two) == ErrorCode.NONE
    assert code_of(say.join(first)) == ErrorCode.NONE


def test_a_pending_member_of_a_group_that_has_become_full_is_refused():
    say = Dialogue(GroupConfig(members_max=1))
    asked = say.join().reply
    first = say.join(version=3)
    say.gather()
    assert code_of(first) == ErrorCode.NONE
    assert code_of(say.join(asked.member_id)) == ErrorCode.GROUP_MAX_SIZE_REACHED
