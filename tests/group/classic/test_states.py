"""The table of states, read as a whole."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.group.classic.states import STATES, Act, GroupState, check_step


def test_there_is_a_row_for_every_state_and_dead_is_the_end():
    assert set(STATES) == set(GroupState)
    assert STATES[GroupState.DEAD].goes_to == {GroupState.DEAD}
    assert all(GroupState.DEAD in rules.goes_to for rules in STATES.values())


def test_every_state_but_dead_can_be_reached_again():
    live = set(GroupState) - {GroupState.DEAD}
    for start in live:
        reached, edge = {start}, {start}
        while edge:
            edge = {to for state in edge for to in STATES[state].goes_to} - reached
            reached |= edge
        assert reached == set(GroupState)


def test_a_state_from_which_something_rebalances_can_go_there():
    for rules in STATES.values():
        if Act.REBALANCE in rules[1:]:
            assert GroupState.PREPARING in rules.goes_to


def test_only_the_two_phases_of_a_rebalance_make_anybody_wait():
    waits = {state for state, rules in STATES.items() if Act.WAIT in rules[1:]}
    assert waits == {GroupState.PREPARING, GroupState.COMPLETING}


@pytest.mark.parametrize(
    ("state", "sync", "heartbeat", "commit"),
    [
        (GroupState.EMPTY, *[ErrorCode.UNKNOWN_MEMBER_ID] * 3),
        (GroupState.PREPARING, *[ErrorCode.REBALANCE_IN_PROGRESS] * 2, Act.ANSWER),
        (GroupState.COMPLETING, Act.WAIT, Act.ANSWER, ErrorCode.REBALANCE_IN_PROGRESS),
        (GroupState.STABLE, *[Act.ANSWER] * 3),
        (GroupState.DEAD, *[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3),
    ],
)
def test_what_members_get_in_each_state(state: GroupState, sync: object, heartbeat: object, commit: object):
    rules = STATES[state]
    assert (rules.syncs, rules.heartbeats, rules.commits) == (sync, heartbeat, commit)


def test_a_step_the_table_does_not_have_is_a_bug():
    check_step(GroupState.EMPTY, GroupState.PREPARING)
    with pytest.raises(AssertionError, match="from Empty to Stable"):
        check_step(GroupState.EMPTY, GroupState.STABLE)
