"""Transactions from the first partition to the last marker: who may add, verify and end, and when."""

from dataclasses import replace

import pytest
from tests.support.transaction_coordinator import (
    BUSY,
    ID,
    P0,
    P1,
    Q0,
    TIMEOUT_MS,
    V1_END,
    V2_END,
    Coordinator,
)

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.records.builder import NewRecord, build_batch
from ottla.txn.shard import Producer
from ottla.txn.states import TransactionState
from ottla.txn.transaction import EPOCH_MAX, LAST_CLIENT_EPOCH, Transaction

NONE, FENCED, INVALID = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
NO_PRODUCER = (-1, -1)


def opened(level: int = 2, **options: object) -> tuple[Coordinator, tuple[int, int]]:
    coordinator = Coordinator(level=level, **options)  # type: ignore[arg-type]
    producer = coordinator.init()
    assert coordinator.add(producer, P0) == NONE
    return coordinator, producer


def at_last_epoch() -> tuple[Coordinator, tuple[int, int]]:
    """A transaction is open in the last epoch that a producer may have."""
    coordinator, (producer_id, _) = opened()
    last = replace(coordinator.transaction(), epoch=LAST_CLIENT_EPOCH)
    coordinator.run(lambda _shard, turn, answer: (turn.write(last.record(2)), turn.answer(answer, "done")))
    return coordinator, (producer_id, LAST_CLIENT_EPOCH)


# Partitions


def test_the_first_partition_opens_a_transaction_and_others_join_it() -> None:
    coordinator, producer = opened()
    begun_ms = coordinator.now_ms
    coordinator.advance(500)
    coordinator.add(producer, P1, Q0)
    transaction = coordinator.transaction()
    assert (transaction.state, transaction.partitions) == (TransactionState.ONGOING, {P0, P1, Q0})
    assert (transaction.start_ms, transaction.update_ms) == (begun_ms, begun_ms + 500)
    coordinator.check()


def test_partitions_that_take_part_already_write_nothing() -> None:
    coordinator, producer = opened()
    end = coordinator.journal.end_offset
    assert coordinator.add(producer, P0) == NONE
    assert coordinator.journal.end_offset == end


def test_only_the_producer_itself_adds_and_verifies() -> None:
    coordinator, (producer_id, epoch) = opened()
    for ask in (coordinator.add, coordinator.verify):
        assert ask((producer_id + 1, epoch)) == MAPPING
        assert ask((producer_id, epoch + 1)) == FENCED
        assert ask((producer_id, epoch - 1)) == FENCED
        assert ask((producer_id, epoch), transactional_id="nobody") == MAPPING


def test_verification_tells_which_partitions_take_part() -> None:
    coordinator, producer = opened()
    assert coordinator.verify(producer, P0, P1) == {P0: NONE, P1: ErrorCode.TRANSACTION_ABORTABLE}


def test_verification_finds_nothing_once_the_transaction_is_over() -> None:
    coordinator, producer = opened()
    producer = coordinator.commit(producer)
    assert coordinator.verify(producer, P0) == BUSY
    coordinator.write_markers()
    assert coordinator.verify(producer, P0) == {P0: ErrorCode.TRANSACTION_ABORTABLE}


def test_nothing_is_added_while_markers_are_written() -> None:
    coordinator, producer = opened()
    producer = coordinator.commit(producer)
    assert coordinator.add(producer, P1) == BUSY
    coordinator.write_markers()
    assert coordinator.add(producer, P1) == NONE
    assert coordinator.transaction().partitions == {P1}


# The end, up to v4


@pytest.mark.parametrize("committed", [True, False])
def test_an_old_end_keeps_the_epoch(committed: bool) -> None:
    coordinator, producer = opened()
    assert coordinator.end(producer, committed=committed, version=V1_END) == NO_PRODUCER
    (ended,) = coordinator.sent
    assert (ended.transactional_id, ended.producer_id, ended.producer_epoch) == (ID, *producer)
    assert (ended.committed, ended.partitions, ended.transaction_version) == (committed, {P0}, 0)
    assert ended.coordinator_epoch == coordinator.epoch
    coordinator.write_markers()
    finished = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
    assert coordinator.state() is finished
    assert coordinator.transaction().epoch == producer[1]
    coordinator.check()


@pytest.mark.parametrize("committed", [True, False])
def test_an_old_end_sent_again_is_answered_by_the_state(committed: bool) -> None:
    coordinator, producer = opened()
    coordinator.end(producer, committed=committed, version=V1_END)
    assert coordinator.end(producer, committed=committed, version=V1_END) == BUSY
    assert coordinator.end(producer, committed=not committed, version=V1_END) == INVALID
    coordinator.write_markers()
    assert coordinator.end(producer, committed=committed, version=V1_END) == NO_PRODUCER
    assert coordinator.end(producer, committed=not committed, version=V1_END) == INVALID
    assert coordinator.sent == []


def test_an_old_producer_cannot_end_what_has_not_begun() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    assert coordinator.commit(producer, version=V1_END) == INVALID
    assert coordinator.abort(producer, version=V1_END) == INVALID


@pytest.mark.parametrize("version", [V1_END, V2_END])
def test_only_the_producer_itself_ends(version: int) -> None:
    coordinator, (producer_id, epoch) = opened()
    assert coordinator.commit((producer_id + 1, epoch), version=version) == MAPPING
    assert coordinator.commit((producer_id, epoch + 1), version=version) == FENCED
    assert coordinator.commit((producer_id, epoch - 1), version=version) == FENCED
    assert coordinator.commit((producer_id, epoch), version=version, transactional_id="x") == MAPPING
    assert coordinator.state() is TransactionState.ONGOING


# The end, since v5 (KIP-890)


@pytest.mark.parametrize("committed", [True, False])
def test_every_end_moves_the_epoch_on(committed: bool) -> None:
    coordinator, (producer_id, epoch) = opened()
    assert coordinator.end((producer_id, epoch), committed=committed) == (producer_id, epoch + 1)
    (ended,) = coordinator.sent
    assert (ended.producer_epoch, ended.transaction_version) == (epoch + 1, 2)
    coordinator.write_markers()
    assert coordinator.transaction().epoch == epoch + 1
    coordinator.check()


@pytest.mark.parametrize("reloads", [False, True])
@pytest.mark.parametrize("committed", [True, False])
def test_an_end_sent_again_is_told_from_the_next(committed: bool, reloads: bool) -> None:
    coordinator, old = opened()
    new = coordinator.end(old, committed=committed)
    if reloads:
        coordinator.restart()
    assert coordinator.end(old, committed=committed) == BUSY
    assert coordinator.end(old, committed=not committed) == INVALID
    coordinator.write_markers()
    if reloads:
        coordinator.restart()
    assert coordinator.end(old, committed=committed) == new
    assert coordinator.end(old, committed=not committed) == INVALID
    assert coordinator.sent == []


def test_a_delayed_end_never_ends_a_later_transaction() -> None:
    coordinator, old = opened()
    new = coordinator.commit(old)
    coordinator.write_markers()
    coordinator.add(new, P1)
    assert coordinator.commit(old) == coordinator.abort(old) == FENCED
    assert coordinator.state() is TransactionState.ONGOING
    newer = coordinator.abort(new)
    coordinator.write_markers()
    assert coordinator.commit(old) == coordinator.abort(old) == FENCED
    assert coordinator.abort(new) == newer


def test_a_delayed_partition_never_joins_a_later_transaction() -> None:
    coordinator, old = opened()
    new = coordinator.commit(old)
    coordinator.write_markers()
    assert coordinator.add(old, Q0) == FENCED
    coordinator.add(new, P1)
    assert coordinator.add(old, Q0) == coordinator.verify(old, P1) == FENCED
    assert coordinator.transaction().partitions == {P1}


def test_a_producer_that_has_written_nothing_may_abort_and_not_commit() -> None:
    coordinator = Coordinator()
    producer_id, epoch = coordinator.init()
    assert coordinator.commit((producer_id, epoch)) == INVALID
    for bumps in range(1, 4):
        assert coordinator.abort((producer_id, epoch + bumps - 1)) == (producer_id, epoch + bumps)
        assert coordinator.state() is TransactionState.COMPLETE_ABORT
        coordinator.check()
    assert coordinator.sent == [], "there is nowhere to send markers to"
    assert coordinator.abort((producer_id, epoch + 2)) == (producer_id, epoch + 3), "the last, sent again"


def test_an_empty_transaction_after_a_commit_is_aborted_and_not_committed() -> None:
    coordinator, producer = opened()
    producer = coordinator.commit(producer)
    coordinator.write_markers()
    assert coordinator.commit(producer) == INVALID
    assert coordinator.abort(producer) == (producer[0], producer[1] + 1)
    assert coordinator.state() is TransactionState.COMPLETE_ABORT


def test_a_producer_that_ends_before_the_last_markers_are_written_waits_and_is_not_fenced() -> None:
    coordinator, producer = opened()
    producer = coordinator.commit(producer)
    assert coordinator.abort(producer) == coordinator.commit(producer) == BUSY
    coordinator.write_markers()
    assert coordinator.abort(producer) == (producer[0], producer[1] + 1)


def test_the_epoch_before_an_old_producers_is_fenced_and_no_end_sent_again() -> None:
    coordinator = Coordinator()
    zombie = coordinator.init()
    producer = coordinator.init()
    coordinator.add(producer, client_version=0)
    coordinator.commit(producer, version=V1_END)
    coordinator.write_markers()
    assert coordinator.commit(zombie) == FENCED


# Epochs run out


def test_an_end_in_the_last_epoch_brings_a_new_producer_id() -> None:
    coordinator, last = at_last_epoch()
    new = coordinator.commit(last)
    assert new == (last[0] + 1, 0)
    assert coordinator.commit(last) == BUSY
    assert coordinator.add(new, P1) == coordinator.verify(new, P1) == coordinator.abort(new) == BUSY
    coordinator.check()
    (ended,) = coordinator.write_markers()
    assert (ended.producer_id, ended.producer_epoch) == (last[0], EPOCH_MAX)
    transaction = coordinator.transaction()
    assert (transaction.producer_id, transaction.epoch) == new
    assert (transaction.previous_producer_id, transaction.next_producer_id) == (last[0], -1)
    coordinator.check()


@pytest.mark.parametrize("reloads", [False, True])
def test_sent_again_it_gets_the_same_producer_id(reloads: bool) -> None:
    coordinator, last = at_last_epoch()
    new = coordinator.commit(last)
    if reloads:
        coordinator.restart()
    coordinator.write_markers()
    if reloads:
        coordinator.restart()
    assert coordinator.commit(last) == new
    assert coordinator.abort(last) == INVALID
    assert coordinator.commit((last[0], 5)) == MAPPING
    assert coordinator.add(new, P1) == NONE


def test_without_a_producer_id_to_give_the_transaction_stays_open() -> None:
    coordinator, last = at_last_epoch()
    coordinator.ids_left = 0
    assert coordinator.commit(last) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert coordinator.state() is TransactionState.ONGOING
    coordinator.ids_left = 1
    assert coordinator.commit(last) == (last[0] + 1, 0)


def test_an_abort_of_nothing_in_the_last_epoch_brings_a_new_producer_id_at_once() -> None:
    coordinator, last = at_last_epoch()
    new = coordinator.commit(last)
    coordinator.write_markers()
    assert coordinator.abort(new) == (new[0], 1)


# Markers


def test_markers_are_sent_when_the_end_is_committed_and_not_before() -> None:
    coordinator, producer = opened()
    coordinator.journal.waits = True
    coordinator.commit_journal()
    coordinator.commit(producer)
    assert coordinator.sent == []
    assert coordinator.state() is TransactionState.PREPARE_COMMIT
    coordinator.commit_journal()
    assert [ended.committed for ended in coordinator.sent] == [True]
    coordinator.commit_journal()
    assert len(coordinator.sent) == 1, "once"


def test_an_end_is_complete_when_every_partition_has_its_marker() -> None:
    coordinator, producer = opened()
    coordinator.add(producer, P1)
    coordinator.commit(producer)
    (ended,) = coordinator.sent
    coordinator.written(ended, P1)
    assert coordinator.state() is TransactionState.PREPARE_COMMIT
    assert coordinator.shard.describe(ID)[1] == {P0}
    coordinator.written(ended, P1)
    assert coordinator.state() is TransactionState.PREPARE_COMMIT
    coordinator.written(ended, P0)
    assert coordinator.state() is TransactionState.COMPLETE_COMMIT


def test_markers_of_an_end_that_is_past_change_nothing() -> None:
    coordinator, producer = opened()
    producer = coordinator.commit(producer)
    (old,) = coordinator.write_markers()
    coordinator.written(old)
    coordinator.add(producer, P0)
    coordinator.written(old)
    assert coordinator.state() is TransactionState.ONGOING
    coordinator.abort(producer)
    coordinator.written(old)
    assert coordinator.state() is TransactionState.PREPARE_ABORT
    coordinator.written(replace(old, transactional_id="nobody"))


def test_a_completion_that_cannot_be_stored_is_tried_until_it_can() -> None:
    coordinator, producer = opened()
    coordinator.commit(producer)
    coordinator.journal.error = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
    coordinator.write_markers()
    coordinator.advance(1_000)
    assert coordinator.state() is TransactionState.PREPARE_COMMIT
    coordinator.journal.error = None
    coordinator.advance(1_000)
    assert coordinator.state() is TransactionState.COMPLETE_COMMIT
    assert coordinator.sent == []


def test_an_end_that_cannot_be_stored_has_not_happened() -> None:
    coordinator, producer = opened()
    coordinator.journal.error = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert coordinator.commit(producer) == ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.journal.error = None
    assert coordinator.state() is TransactionState.ONGOING
    assert coordinator.abort(producer) == (producer[0], producer[1] + 1)


@pytest.mark.parametrize("committed", [True, False])
def test_the_next_coordinator_goes_on_with_what_was_prepared(committed: bool) -> None:
    coordinator, producer = opened()
    coordinator.end(producer, committed=committed)
    (before,) = coordinator.sent
    coordinator.restart()
    (after,) = coordinator.sent
    assert after == replace(before, coordinator_epoch=before.coordinator_epoch + 1)
    coordinator.write_markers()
    finished = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
    assert coordinator.state() is finished


def test_what_was_prepared_and_is_not_committed_yet_waits_at_the_next_coordinator_too() -> None:
    coordinator, producer = opened()
    coordinator.journal.waits = True
    coordinator.commit_journal()
    coordinator.commit(producer)
    coordinator.restart()
    assert coordinator.sent == []
    coordinator.commit_journal()
    assert len(coordinator.sent) == 1


def test_an_end_without_partitions_that_was_left_unfinished_is_completed_after_a_load() -> None:
    coordinator, producer = opened()
    coordinator.abort(producer)
    coordinator.write_markers()
    prepared = coordinator.transaction().prepared(
        committed=False, epoch=2, client_version=2, next_producer_id=-1, now_ms=coordinator.now_ms
    )
    coordinator.run(
        lambda _shard, turn, answer: (turn.write(prepared.record(2)), turn.answer(answer, "done"))
    )
    coordinator.restart()
    coordinator.advance(1)
    assert coordinator.state() is TransactionState.COMPLETE_ABORT


# Time


@pytest.mark.parametrize("level", [1, 2])
def test_a_transaction_whose_time_is_up_is_aborted_and_its_producer_fenced(level: int) -> None:
    coordinator, producer = opened(level=level)
    coordinator.advance(TIMEOUT_MS)
    assert coordinator.state() is TransactionState.ONGOING
    coordinator.advance(coordinator.config.abort_interval_ms)
    assert coordinator.state() is TransactionState.PREPARE_ABORT
    (ended,) = coordinator.write_markers()
    assert (ended.producer_epoch, ended.committed) == (producer[1] + 1, False)
    assert coordinator.add(producer) == FENCED
    assert coordinator.commit(producer, version=V1_END) == FENCED
    if level == 2:
        assert coordinator.commit(producer) == INVALID, "its transaction is not committed"
        assert coordinator.abort(producer) == (producer[0], producer[1] + 1), "and it may go on"
    else:
        assert coordinator.commit(producer) == coordinator.abort(producer) == FENCED


def test_time_goes_on_when_the_coordinator_moves() -> None:
    coordinator, _ = opened()
    coordinator.advance(TIMEOUT_MS - 1_000)
    coordinator.restart()
    coordinator.advance(1_000 + coordinator.config.abort_interval_ms)
    assert coordinator.state() is TransactionState.PREPARE_ABORT


def test_a_transaction_that_began_in_the_future_times_out_by_the_clock_of_its_new_coordinator() -> None:
    """The clock of the coordinator before was an hour fast."""
    coordinator, producer = opened(now_ms=1_000_000 + 3_600_000)
    coordinator.now_ms -= 3_600_000
    coordinator.restart()
    coordinator.advance(TIMEOUT_MS // 2)
    assert coordinator.add(producer, Q0) == NONE
    coordinator.advance(TIMEOUT_MS // 2)
    assert coordinator.state() is TransactionState.ONGOING
    coordinator.advance(2 * coordinator.config.abort_interval_ms)
    assert coordinator.state() is TransactionState.PREPARE_ABORT


def test_what_has_ended_does_not_time_out() -> None:
    coordinator, producer = opened()
    coordinator.commit(producer)
    coordinator.advance(10 * TIMEOUT_MS)
    assert coordinator.state() is TransactionState.PREPARE_COMMIT
    coordinator.write_markers()
    coordinator.advance(10 * TIMEOUT_MS)
    assert coordinator.state() is TransactionState.COMPLETE_COMMIT


def test_a_timeout_in_the_last_epoch_waits_for_a_producer_id_and_holds_up_nobody() -> None:
    coordinator, _ = at_last_epoch()
    other = coordinator.init("other")
    coordinator.add(other, transactional_id="other")
    coordinator.ids_left = 0
    coordinator.advance(TIMEOUT_MS + 2 * coordinator.config.abort_interval_ms)
    assert coordinator.state() is TransactionState.ONGOING
    assert coordinator.state("other") is TransactionState.PREPARE_ABORT
    coordinator.ids_left = 1
    coordinator.advance(2 * coordinator.config.abort_interval_ms)
    assert coordinator.state() is TransactionState.PREPARE_ABORT


def test_many_transactions_time_out_in_slices() -> None:
    coordinator = Coordinator()
    for number in range(1_200):
        name = f"t{number}"
        coordinator.add(coordinator.init(name), transactional_id=name)
    coordinator.advance(TIMEOUT_MS + 2 * coordinator.config.abort_interval_ms)
    assert len(coordinator.sent) == 1_200


def test_an_id_that_nobody_used_for_long_is_forgotten() -> None:
    coordinator, producer = opened()
    coordinator.init("idle")
    coordinator.commit(producer)
    coordinator.write_markers()
    coordinator.advance(coordinator.config.id_expiration_ms - coordinator.config.expiration_interval_ms)
    assert set(coordinator.shard.transactions) == {ID, "idle"}
    coordinator.advance(2 * coordinator.config.expiration_interval_ms)
    assert coordinator.shard.transactions == {}
    coordinator.check()
    coordinator.restart()
    assert coordinator.shard.transactions == {}


def test_an_id_with_markers_to_write_is_not_forgotten() -> None:
    coordinator, producer = opened()
    coordinator.commit(producer)
    coordinator.advance(2 * coordinator.config.id_expiration_ms)
    assert coordinator.state() is TransactionState.PREPARE_COMMIT


# What it says


def test_describe_shows_what_takes_part() -> None:
    coordinator, producer = opened()
    transaction, partitions = coordinator.shard.describe(ID)
    assert (transaction.producer_id, transaction.epoch) == producer
    assert partitions == {P0}
    with pytest.raises(ApiError) as refused:
        coordinator.shard.describe("nobody")
    assert refused.value.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_all_ids_are_listed() -> None:
    coordinator, _ = opened()
    coordinator.init("other")
    assert {transaction.transactional_id for transaction in coordinator.shard.listed()} == {ID, "other"}


# What can be stored


@pytest.mark.parametrize("level", [0, 2])
def test_what_can_be_opened_can_be_ended_and_stored(level: int) -> None:
    coordinator, producer = opened()
    coordinator.journal.batch_bytes_max = 4_000
    for index in range(40):
        partition = TopicPartition(f"{index:>0249}", 0)
        if coordinator.add(producer, partition) == ErrorCode.MESSAGE_TOO_LARGE:
            break
    else:
        pytest.fail("nothing was too large")
    assert 10 < len(coordinator.transaction().partitions) < 16
    coordinator.level = level
    last = replace(coordinator.transaction(), epoch=LAST_CLIENT_EPOCH)
    coordinator.run(
        lambda _shard, turn, answer: (turn.write(last.record(level)), turn.answer(answer, "done"))
    )
    coordinator.advance(TIMEOUT_MS + 20_000)
    assert coordinator.state() == TransactionState.PREPARE_ABORT


@pytest.mark.parametrize(
    "state", [state for state in TransactionState if state is not TransactionState.EMPTY]
)
@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("partitions", [1, 300])
def test_no_record_is_larger_than_was_said(state: TransactionState, level: int, partitions: int) -> None:
    transaction = Transaction(
        "\u20ac" * 200, 1 << 60, EPOCH_MAX, TIMEOUT_MS, 1 << 60, state,
        frozenset(TopicPartition(f"{topic:>0200}", at) for topic in range(partitions) for at in range(2)),
        1 << 60, 1 << 60, 1 << 60 if level else -1, level,
    )  # fmt: skip
    key, value, _ = transaction.record(level)
    batch = build_batch([NewRecord(key, value, timestamp=1 << 50)])
    assert len(batch) <= transaction.stored_bytes_max < len(batch) + 250 + 8 * partitions


# Transactions in which nothing takes part


@pytest.mark.parametrize("version", [V1_END, V2_END])
@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_without_partitions_ends_at_once(version: int, committed: bool) -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.run(
        lambda shard, turn, answer: shard.add_partitions(turn, answer, Producer(ID, *producer), (), 0, NONE)
    )
    assert coordinator.state() == TransactionState.ONGOING
    coordinator.end(producer, committed=committed, version=version)
    assert coordinator.state() == (
        TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
    )
    coordinator.check()


def test_so_it_does_when_its_time_is_up_or_its_producer_starts_anew() -> None:
    coordinator = Coordinator()
    for stop in (lambda: coordinator.advance(TIMEOUT_MS + 20_000), lambda: coordinator.init()):
        producer = coordinator.init()
        coordinator.run(
            lambda shard, turn, answer, producer=producer: shard.add_partitions(
                turn, answer, Producer(ID, *producer), (), 0, NONE
            )
        )
        stop()
        assert coordinator.state() == TransactionState.COMPLETE_ABORT


def test_the_epoch_that_is_kept_for_markers_is_nobodys() -> None:
    """Nobody is given it, and no marker could end what is written with it."""
    coordinator, (producer_id, _) = at_last_epoch()
    coordinator.level = 1
    coordinator.advance(TIMEOUT_MS + 20_000)
    coordinator.write_markers()
    assert (coordinator.state(), coordinator.transaction().epoch) == (
        TransactionState.COMPLETE_ABORT,
        EPOCH_MAX,
    )
    assert coordinator.add((producer_id, EPOCH_MAX), P0) == FENCED
    assert coordinator.init() == (producer_id + 1, 0)
