"""A producer that begins its next transaction while the markers of the last are on their way."""

from typing import Any

import pytest
from tests.api.asking import to
from tests.api.harness import Client, Machine, Pending
from tests.api.transactions import (
    BUSY,
    ID,
    NONE,
    add,
    add_request,
    codes,
    describe,
    end_request,
    init,
    of_broker,
    producers,
    started,
)
from tests.support.transactions import open_transaction, transactional

from ottla.base.errors import ErrorCode
from ottla.broker.effects import SyncLog
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest

RETRY_MS, RETRY_MS_MAX = 20, 100  # add.partitions.to.txn.retry.backoff.ms and .max.ms


def completing(version: int) -> tuple[Machine, Client, tuple[int, int]]:
    """A transaction whose end is decided and answered, while its marker waits for the disk."""
    machine, client = started(log_flush_interval_messages="1", offsets_topic_num_partitions="1")
    client.send(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    producer = init(client)
    add(client, producer)
    open_transaction(machine.broker, "t", machine.now_ms, producer_id=producer[0])
    machine.hold(SyncLog)
    pending = client.ask(end_request(producer), version)
    machine.release(still_hold=True)
    assert pending.answer.error_code == NONE
    assert describe(machine.client())[0].transaction_state == "PrepareCommit"
    return machine, client, (producer[0], producer[1] + (version >= 5))


def offsets_request(producer: tuple[int, int]) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], group_id="g"
    )


def asked(client: Client, producer: tuple[int, int], what: str) -> Pending:
    if what == "partitions":
        return client.ask(add_request(producer, 1), 3)
    if what == "offsets":
        return client.ask(offsets_request(producer))
    if what == "partitions, by a broker":
        return client.ask(AddPartitionsToTxnRequest(transactions=[of_broker(producer, 1)]), 5)
    request = to("t", transactional(0, producer_id=producer[0], epoch=producer[1]))
    request.transactional_id = ID
    return client.ask(request, 12)


def code_of(answer: Any) -> ErrorCode:
    if hasattr(answer, "error_code") and answer.error_code:
        return ErrorCode(answer.error_code)
    if hasattr(answer, "responses"):
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)
    if hasattr(answer, "results_by_transaction"):
        results = [result.topic_results for result in answer.results_by_transaction]
        results.append(answer.results_by_topic_v3_and_below)
        return next((code for topics in results for code in codes(topics)), NONE)
    return NONE


ASKED = pytest.mark.parametrize(
    ("what", "version", "wait_ms", "refusal"),
    [
        ("partitions", 3, RETRY_MS_MAX, BUSY),
        ("offsets", 3, RETRY_MS_MAX, BUSY),
        ("partitions, by a broker", 5, RETRY_MS, BUSY),
        ("records", 5, RETRY_MS_MAX, BUSY),
    ],
)


@ASKED
def test_the_next_transaction_begins_as_soon_as_the_last_is_complete(
    what: str, version: int, wait_ms: int, refusal: ErrorCode
) -> None:
    del wait_ms, refusal
    machine, client, producer = completing(version)
    pending = asked(client, producer, what)
    assert pending.answer is None
    machine.release()
    assert describe(machine.client())[0].transaction_state == "Ongoing", "no time has passed"
    assert code_of(pending.answer) == NONE


@ASKED
def test_it_is_refused_if_that_takes_too_long(
    what: str, version: int, wait_ms: int, refusal: ErrorCode
) -> None:
    machine, client, producer = completing(version)
    pending = asked(client, producer, what)
    machine.pass_time(wait_ms - 1)
    assert pending.answer is None
    machine.pass_time(1)
    machine.release(still_hold=True)
    assert code_of(pending.answer) == refusal


def test_of_several_transactions_those_that_can_go_on_do_not_wait_for_the_others() -> None:
    machine, client, producer = completing(5)
    other = init_other(machine)
    transactions = [of_broker(producer, 1), of_broker(other, 2, transactional_id="other")]
    pending = client.ask(AddPartitionsToTxnRequest(transactions=transactions), 5)
    machine.release(still_hold=True)
    results = pending.answer.results_by_transaction
    assert [codes(result.topic_results) for result in results] == [[BUSY], [NONE]]


def init_other(machine: Machine) -> tuple[int, int]:
    """Another transactional id, whose producer is there before anything is held back."""
    held, machine.held = machine.held, []
    machine.holding.clear()
    producer: tuple[int, int] = init(machine.client(), "other")
    machine.held = held
    machine.hold(SyncLog)
    return producer


def test_the_end_of_a_transaction_is_answered_before_its_markers_are_written() -> None:
    machine, client = started()
    producer = init(client)
    add(client, producer)
    open_transaction(machine.broker, "t", machine.now_ms, producer_id=producer[0])
    pending = Pending(end_request(producer), 5, 1)
    answer = client.raw(pending.frame("a client"))
    assert isinstance(answer, list), "it is there"
    assert producers(machine).by_id[producer[0]].txn_first_offset == 0
    machine.carry_out()
    assert producers(machine).by_id[producer[0]].txn_first_offset == -1
    assert describe(client)[0].transaction_state == "CompleteCommit"
