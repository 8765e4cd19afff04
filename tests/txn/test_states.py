"""The table of states: it is whole, and a step that it does not have is a bug."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.txn.states import BY_NUMBER, IDLE, PREPARED, STATES, Act, TransactionState, check_step


def test_every_state_has_its_rules_and_the_number_that_kafka_stores() -> None:
    assert {state.value: rules.number for state, rules in STATES.items()} == {
        "Empty": 0,
        "Ongoing": 1,
        "PrepareCommit": 2,
        "PrepareAbort": 3,
        "CompleteCommit": 4,
        "CompleteAbort": 5,
    }
    assert len(BY_NUMBER) == len(TransactionState)


def test_what_is_decided_is_never_undone() -> None:
    assert STATES[TransactionState.PREPARE_COMMIT].goes_to == {TransactionState.COMPLETE_COMMIT}
    assert STATES[TransactionState.PREPARE_ABORT].goes_to == {TransactionState.COMPLETE_ABORT}
    with pytest.raises(AssertionError, match="does not go from PrepareCommit to CompleteAbort"):
        check_step(TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_ABORT)


def test_only_an_open_transaction_commits() -> None:
    for state, rules in STATES.items():
        ends = [rules.old_commit, rules.commit, rules.commit_again]
        assert (Act.END in ends) == (state is TransactionState.ONGOING)
        assert Act.END_NOTHING not in ends


def test_while_markers_are_written_everybody_waits() -> None:
    for state in PREPARED:
        rules = STATES[state]
        assert {rules.inits, rules.adds, rules.verifies} == {ErrorCode.CONCURRENT_TRANSACTIONS}


def test_an_id_expires_only_where_no_transaction_is_open() -> None:
    assert set(TransactionState) - IDLE == {TransactionState.ONGOING, *PREPARED}
