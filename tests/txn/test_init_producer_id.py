"""InitProducerId in the coordinator: ids, epochs, fencing, and recovery as in KIP-360."""

import pytest
from tests.support.transaction_coordinator import BUSY, ID, P0, TIMEOUT_MS, V1_END, Coordinator

from ottla.base.errors import ErrorCode
from ottla.txn.states import TransactionState
from ottla.txn.transaction import EPOCH_MAX, LAST_CLIENT_EPOCH

FENCED = ErrorCode.PRODUCER_FENCED


def with_epoch(epoch: int, level: int = 2) -> tuple[Coordinator, tuple[int, int]]:
    """A producer that has come to this epoch, and an empty transaction."""
    coordinator = Coordinator(level=level)
    producer_id, _ = coordinator.init()
    started = coordinator.transaction().started(producer_id, epoch, TIMEOUT_MS, coordinator.now_ms)
    coordinator.run(lambda _shard, turn, answer: (turn.write(started.record(2)), turn.answer(answer, "done")))
    return coordinator, (producer_id, epoch)


def test_a_new_id_gets_a_producer_id_with_epoch_0() -> None:
    coordinator = Coordinator()
    assert coordinator.init() == (1001, 0)
    assert coordinator.init("other") == (1002, 0)
    assert coordinator.state() is TransactionState.EMPTY
    coordinator.check()


def test_who_comes_again_gets_the_next_epoch_of_the_same_id() -> None:
    coordinator = Coordinator()
    assert [coordinator.init() for _ in range(3)] == [(1001, 0), (1001, 1), (1001, 2)]


def test_so_does_whoever_comes_to_the_next_coordinator() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.restart()
    assert coordinator.init() == (1001, 1)


def test_without_a_producer_id_to_give_nothing_changes_and_the_producer_asks_again() -> None:
    coordinator = Coordinator(ids_left=0)
    assert coordinator.init() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert coordinator.shard.transactions == {}
    coordinator.ids_left = 1
    assert coordinator.init() == (1001, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_must_be_one_that_the_broker_allows(timeout_ms: int) -> None:
    coordinator = Coordinator()
    assert coordinator.init(timeout_ms=timeout_ms) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert coordinator.init(timeout_ms=900_000) == (1001, 0)


def test_the_last_timeout_counts() -> None:
    coordinator = Coordinator()
    coordinator.init(timeout_ms=5)
    coordinator.init(timeout_ms=7)
    assert coordinator.transaction().timeout_ms == 7


@pytest.mark.parametrize("level", [0, 1, 2])
def test_an_open_transaction_is_aborted_first_and_its_producer_fenced(level: int) -> None:
    coordinator = Coordinator(level=level)
    old = coordinator.init()
    coordinator.add(old)
    assert coordinator.init() == BUSY
    assert coordinator.state() is TransactionState.PREPARE_ABORT
    assert coordinator.init() == BUSY, "until the markers are written"
    (ended,) = coordinator.write_markers()
    assert (ended.producer_id, ended.producer_epoch, ended.committed) == (old[0], old[1] + 1, False)
    assert ended.transaction_version == (2 if level == 2 else 0)
    assert coordinator.state() is TransactionState.COMPLETE_ABORT
    new = coordinator.init()
    assert new == (old[0], 2)
    assert coordinator.add(old) == FENCED
    assert coordinator.commit(old) == coordinator.commit(old, version=V1_END) == FENCED
    assert coordinator.abort(old) == coordinator.abort(old, version=V1_END) == FENCED
    assert coordinator.add(new) == ErrorCode.NONE
    coordinator.check()


# Recovery (KIP-360)


def test_a_producer_that_says_what_it_has_gets_the_next_epoch() -> None:
    coordinator = Coordinator()
    first = coordinator.init()
    assert coordinator.init(had=first) == (1001, 1)


def test_asked_again_it_gets_the_same_epoch_again() -> None:
    coordinator = Coordinator()
    first = coordinator.init()
    assert coordinator.init(had=first) == coordinator.init(had=first) == (1001, 1)


def test_the_next_coordinator_cannot_tell_that_and_fences_as_in_kafka() -> None:
    coordinator = Coordinator()
    first = coordinator.init()
    coordinator.init(had=first)
    coordinator.restart()
    assert coordinator.init(had=first) == FENCED
    assert coordinator.init(had=(1001, 1)) == (1001, 2)


def test_a_producer_that_somebody_took_over_from_is_fenced() -> None:
    coordinator = Coordinator()
    old = coordinator.init()
    coordinator.init()
    assert coordinator.init(had=old) == FENCED
    assert coordinator.init(had=(7, 1)) == FENCED
    assert coordinator.transaction().epoch == 1


def test_a_fenced_producer_does_not_abort_what_its_successor_has_open() -> None:
    coordinator = Coordinator()
    old = coordinator.init()
    new = coordinator.init()
    coordinator.add(new)
    assert coordinator.init(had=old) == FENCED
    assert coordinator.state() is TransactionState.ONGOING


def test_a_producer_with_an_open_transaction_has_it_aborted_and_goes_on() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.add(producer)
    assert coordinator.init(had=producer) == BUSY
    coordinator.write_markers()
    assert coordinator.init(had=producer) == (1001, 1), "with the epoch that the abort has moved it on to"
    assert coordinator.add((1001, 1)) == ErrorCode.NONE


def test_an_id_that_was_forgotten_is_given_anew_whatever_the_producer_had() -> None:
    assert Coordinator().init(had=(7, 4)) == (1001, 0)


# Epochs run out


def test_after_the_last_epoch_comes_a_new_producer_id() -> None:
    coordinator, _ = with_epoch(LAST_CLIENT_EPOCH - 1)
    assert coordinator.init() == (1001, LAST_CLIENT_EPOCH)
    assert coordinator.init() == (1002, 0)
    coordinator.check()


def test_so_it_does_in_a_recovery_and_asked_again_it_is_the_same() -> None:
    coordinator, last = with_epoch(LAST_CLIENT_EPOCH)
    assert coordinator.init(had=last) == coordinator.init(had=last) == (1002, 0)
    assert coordinator.init(had=(1001, 5)) == FENCED


def test_an_epoch_is_left_to_fence_the_last_producer_with() -> None:
    coordinator, last = with_epoch(LAST_CLIENT_EPOCH, level=1)
    coordinator.add(last, P0)
    assert coordinator.init() == BUSY
    (ended,) = coordinator.write_markers()
    assert ended.producer_epoch == EPOCH_MAX
    assert coordinator.init() == (1002, 0)


def test_with_v2_the_abort_itself_brings_the_new_producer_id() -> None:
    coordinator, last = with_epoch(LAST_CLIENT_EPOCH)
    coordinator.add(last, P0)
    assert coordinator.init() == BUSY
    assert coordinator.transaction().next_producer_id == 1002
    (ended,) = coordinator.write_markers()
    assert (ended.producer_id, ended.producer_epoch) == (1001, EPOCH_MAX)
    assert coordinator.init() == (1002, 1)
    coordinator.check()


def test_without_one_the_transaction_stays_open_until_there_is() -> None:
    coordinator, last = with_epoch(LAST_CLIENT_EPOCH)
    coordinator.add(last, P0)
    coordinator.ids_left = 0
    assert coordinator.init() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert coordinator.state() is TransactionState.ONGOING
    assert ID in coordinator.shard.transactions


# Memory


def test_ids_that_somebody_makes_up_are_refused_when_they_take_too_much() -> None:
    coordinator = Coordinator(memory_bytes=10_000)
    mine = coordinator.init()
    refused = [coordinator.init(f"made-up-{number}") for number in range(20)][-1]
    assert refused == ErrorCode.POLICY_VIOLATION
    assert coordinator.shard.held_bytes <= 7_500
    assert coordinator.init() == (1001, 1), "who is there already starts again"
    assert coordinator.add((1001, 1), P0) == ErrorCode.NONE, "and has transactions"
    assert coordinator.commit((1001, 1)) == (1001, 2)
    assert mine == (1001, 0)


def test_partitions_beyond_the_limit_are_refused_and_the_transaction_can_still_end() -> None:
    coordinator = Coordinator(memory_bytes=2_000)
    producer = coordinator.init()
    assert coordinator.add(producer, P0) == ErrorCode.NONE
    many = [P0._replace(partition=index) for index in range(1, 10)]
    assert coordinator.add(producer, *many) == ErrorCode.POLICY_VIOLATION
    assert coordinator.transaction().partitions == {P0}
    assert coordinator.abort(producer) == (1001, 1)
    coordinator.check()


def test_memory_is_given_back_when_ids_expire() -> None:
    coordinator = Coordinator()
    coordinator.init()
    assert coordinator.shard.held_bytes > 0
    coordinator.advance(coordinator.config.id_expiration_ms + coordinator.config.expiration_interval_ms)
    assert (coordinator.shard.transactions, coordinator.shard.held_bytes) == ({}, 0)
