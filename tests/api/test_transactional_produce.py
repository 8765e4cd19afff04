"""Batches of a transaction: nothing is appended that its coordinator has not confirmed."""

from typing import Any

import pytest
from tests.api.asking import batch, create, fetch, idempotent, lead, to, values
from tests.api.harness import Client, Machine, Pending
from tests.support.transactions import FakeVerifier, markers, transactional

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.records.control import Marker
from ottla.wire.messages.produce import ProduceRequest

V1, V2 = (
    11,
    12,
)  # the Produce versions of clients with transactions V1, which know of TRANSACTION_ABORTABLE, and V2


def started(
    code: ErrorCode | None = ErrorCode.NONE, partitions: int = 1
) -> tuple[Machine, Client, FakeVerifier]:
    machine = Machine()
    client = machine.client()
    create(client, "t", partitions)
    machine.broker.verifier = verifier = FakeVerifier(code)
    return machine, client, verifier


def in_transaction(*batches: bytes, acks: int = -1) -> ProduceRequest:
    request = to("t", *batches, acks=acks)
    request.transactional_id = "x"
    return request


def send(client: Client, *batches: bytes, version: int = V2) -> list[int]:
    return codes(client.send(in_transaction(*batches), version))


def codes(answer: Any) -> list[int]:
    return [part.error_code for topic in answer.responses for part in topic.partition_responses]


def end(machine: Machine, epoch: int = 0, *, committed: bool = False) -> None:
    """A marker of transactions V1."""
    client = machine.client()
    client.send(markers(Marker(7, epoch, committed, 0, 0), "t", 0))


def test_the_first_batch_is_asked_about_and_the_others_are_not() -> None:
    _, client, verifier = started()
    assert send(client, transactional(0, "a")) == [ErrorCode.NONE]
    assert send(client, transactional(1, "b")) == [ErrorCode.NONE]
    (question,) = verifier.questions
    assert (question.transactional_id, question.producer_id, question.producer_epoch) == ("x", 7, 0)
    assert question.topic_partitions == (TopicPartition("t", 0),)
    assert values(fetch(client, "t")) == ["a", "b"]


@pytest.mark.parametrize(("version", "adds"), [(9, False), (11, False), (12, True)])
def test_since_version_12_partitions_are_added_before_that_only_looked_for(version: int, adds: bool) -> None:
    _, client, verifier = started()
    assert send(client, transactional(), version=version) == [ErrorCode.NONE]
    assert [question.adds for question in verifier.questions] == [adds]


def test_after_the_end_of_a_transaction_the_next_is_asked_about() -> None:
    machine, client, verifier = started()
    send(client, transactional(0))
    end(machine)
    assert send(client, transactional(1)) == [ErrorCode.NONE]
    assert len(verifier.questions) == 2


def test_all_partitions_of_a_request_are_asked_about_at_once() -> None:
    _, client, verifier = started(partitions=3)
    send(client, transactional(), version=V1)
    assert send(client, *[transactional(1)] + [transactional(0)] * 2, version=V1) == [ErrorCode.NONE] * 3
    assert [question.topic_partitions for question in verifier.questions] == [
        (TopicPartition("t", 0),),
        (TopicPartition("t", 1), TopicPartition("t", 2)),
    ]


def test_plain_and_idempotent_batches_are_asked_about_by_nobody() -> None:
    _, client, verifier = started(partitions=2)
    assert send(client, batch("a"), idempotent(0, "b")) == [ErrorCode.NONE] * 2
    assert verifier.questions == []


def test_the_batch_waits_for_the_answer_and_what_is_behind_it_on_the_connection_too() -> None:
    machine, client, verifier = started(None)
    pending = client.ask(in_transaction(transactional(0, "a")), V2)
    assert pending.answer is None
    assert values(fetch(machine.client(), "t")) == []
    verifier.questions[0].then({}, machine.now_ms)
    machine.carry_out()
    assert codes(pending.answer) == [ErrorCode.NONE]
    assert values(fetch(machine.client(), "t")) == ["a"]


@pytest.mark.parametrize(
    ("version", "said", "told"),
    [
        (9, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (10, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (12, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (12, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (12, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (12, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (11, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (12, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (11, ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_ENOUGH_REPLICAS),
        (11, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (11, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
        (11, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (12, ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_what_the_coordinator_says_is_told_as_the_client_understands_it(
    version: int, said: ErrorCode, told: ErrorCode
) -> None:
    _, client, _ = started(said)
    assert send(client, transactional(), version=version) == [told]
    assert values(fetch(client, "t")) == []


def test_what_is_not_part_of_the_transaction_does_not_hold_up_what_is() -> None:
    machine, client, verifier = started(None, partitions=2)
    pending = client.ask(in_transaction(transactional(), transactional()), V1)
    (question,) = verifier.questions
    question.then({TopicPartition("t", 0): ErrorCode.TRANSACTION_ABORTABLE}, machine.now_ms)
    machine.carry_out()
    assert codes(pending.answer) == [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE]


def test_batches_of_two_producers_in_one_request_are_refused() -> None:
    _, client, _ = started(partitions=2)
    answer = send(client, transactional(), transactional(producer_id=8))
    assert answer == [ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_ID_MAPPING]


@pytest.mark.parametrize("version", [V1, V2])
def test_a_broker_that_does_not_lead_says_just_that(version: int) -> None:
    machine, client, verifier = started()
    lead(machine, "t", leader=99, epoch=1)
    assert send(client, transactional(), version=version) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert verifier.questions == []


def test_a_broker_that_is_replaced_while_it_asks_says_just_that() -> None:
    machine, client, verifier = started(None)
    pending = waiting(machine, client)
    lead(machine, "t", leader=99, epoch=1)
    verifier.questions[0].then({TopicPartition("t", 0): ErrorCode.INVALID_TXN_STATE}, machine.now_ms)
    machine.carry_out()
    assert codes(pending.answer) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_corrupt_batch_is_corrupt_whatever_it_says_it_is() -> None:
    _, client, verifier = started()
    corrupt = bytearray(transactional())
    corrupt[-1] ^= 1
    assert send(client, bytes(corrupt)) == [ErrorCode.CORRUPT_MESSAGE]
    assert verifier.questions == []


def test_a_transaction_without_a_producer_is_an_invalid_record() -> None:
    _, client, verifier = started()
    assert send(client, batch("a", transactional=True)) == [ErrorCode.INVALID_RECORD]
    assert verifier.questions == []


def waiting(machine: Machine, client: Client, sequence: int = 0, version: int = V1) -> Pending:
    pending = client.ask(in_transaction(transactional(sequence, "late")), version)
    assert pending.answer is None
    return pending


@pytest.mark.parametrize("committed", [False, True])
def test_an_answer_that_comes_after_a_marker_counts_for_nothing_faults_2_15(committed: bool) -> None:
    """The coordinator confirmed, and then ended the transaction: its marker overtook the answer."""
    machine, client, verifier = started(None)
    pending = waiting(machine, client)
    end(machine, committed=committed)
    verifier.questions[0].then({}, machine.now_ms)
    machine.carry_out()
    assert codes(pending.answer) == [ErrorCode.INVALID_TXN_STATE]
    assert "late" not in values(fetch(client, "t"))


def test_an_old_answer_does_not_open_the_next_transaction_faults_2_15() -> None:
    """The next transaction of the producer is being verified, too: it has a verification of its own."""
    machine, client, verifier = started(None)
    old = waiting(machine, client)
    end(machine)
    new = machine.client().ask(in_transaction(transactional(0, "new")), V1)
    verifier.questions[0].then({}, machine.now_ms)
    machine.carry_out()
    assert codes(old.answer) == [ErrorCode.INVALID_TXN_STATE]
    verifier.questions[1].then({}, machine.now_ms)
    machine.carry_out()
    assert codes(new.answer) == [ErrorCode.NONE]
    assert values(fetch(client, "t"))[-1] == "new"


def test_a_batch_that_comes_after_the_abort_is_not_part_of_the_next_transaction_faults_2_15() -> None:
    """With transactions V2 every transaction has an epoch of its own."""
    _, client, verifier = started()
    send(client, transactional(0, "a", epoch=0))
    client.send(markers(Marker(7, 1, False, 0, 2), "t", 0))
    assert send(client, transactional(0, "b", epoch=1)) == [ErrorCode.NONE]
    verifier.code = ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(client, transactional(1, "late", epoch=0)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert "late" not in values(fetch(client, "t"))


def test_the_marker_of_the_transaction_before_does_not_hold_up_a_quick_producer() -> None:
    """Transactions V2: a client that was told of the end begins the next, and may be before the marker."""
    machine, client, verifier = started(None)
    pending = client.ask(in_transaction(transactional(0, "next", epoch=1)), V2)
    machine.client().send(markers(Marker(7, 1, True, 0, 2), "t", 0))
    verifier.questions[0].then({}, machine.now_ms)
    machine.carry_out()
    assert codes(pending.answer) == [ErrorCode.NONE]
    late = machine.client().ask(in_transaction(transactional(0, "late", epoch=2)), V2)
    machine.client().send(markers(Marker(7, 3, False, 0, 2), "t", 0))
    verifier.questions[1].then({}, machine.now_ms)
    machine.carry_out()
    assert codes(late.answer) == [ErrorCode.INVALID_TXN_STATE]


def test_two_batches_that_wait_for_the_same_transaction_are_both_appended() -> None:
    machine, client, verifier = started(None)
    first = waiting(machine, client, 0)
    second = waiting(machine, machine.client(), 1)
    for question in verifier.questions:
        question.then({}, machine.now_ms)
        machine.carry_out()
    assert [codes(first.answer), codes(second.answer)] == [[ErrorCode.NONE], [ErrorCode.NONE]]


def test_what_is_behind_a_batch_that_was_not_confirmed_is_not_written_before_it() -> None:
    machine, client, verifier = started(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert send(client, transactional(0), version=V1) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    verifier.code = ErrorCode.NONE
    assert send(client, transactional(1), version=V1) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert send(client, transactional(0), version=V1) == [ErrorCode.NONE]
    assert send(client, transactional(1), version=V1) == [ErrorCode.NONE]
    assert machine.broker.partitions[TopicPartition("t", 0)].log.log_end_offset == 2


def test_a_producer_of_transactions_v2_begins_with_0_where_nobody_remembers_it() -> None:
    _, client, _ = started()
    assert send(client, transactional(5)) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert send(client, transactional(0)) == [ErrorCode.NONE]


def test_a_producer_of_transactions_v1_may_have_written_before_anybody_remembers() -> None:
    _, client, _ = started()
    assert send(client, transactional(5), version=V1) == [ErrorCode.NONE]


def test_a_coordinator_that_never_answers_costs_the_request_its_time_and_no_more() -> None:
    machine, client, _ = started(None)
    pending = waiting(machine, client)
    machine.pass_time(31_000)
    assert codes(pending.answer) == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_an_answer_that_comes_after_the_request_has_given_up_is_dropped() -> None:
    machine, client, verifier = started(None)
    pending = waiting(machine, client)
    machine.pass_time(31_000)
    verifier.questions[0].then({}, machine.now_ms)
    machine.carry_out()
    assert codes(pending.answer) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert values(fetch(client, "t")) == []


def test_a_client_that_hangs_up_takes_its_batch_with_it() -> None:
    machine, client, verifier = started(None)
    waiting(machine, client)
    client.close()
    verifier.questions[0].then({}, machine.now_ms)
    machine.carry_out()
    assert values(fetch(machine.client(), "t")) == []


def test_a_batch_that_is_large_to_check_waits_for_both() -> None:
    machine, client, verifier = started(None)
    large = transactional(0, *["v"] * 60_000)
    pending = client.ask(in_transaction(large), V1)
    assert pending.answer is None
    verifier.questions[0].then({}, machine.now_ms)
    machine.carry_out()
    assert codes(pending.answer) == [ErrorCode.NONE]
    assert len(verifier.questions) == 1


def test_where_an_operator_wants_no_verification_only_v2_asks() -> None:
    machine = Machine({"transaction.partition.verification.enable": "false"})
    client = machine.client()
    create(client, "t")
    machine.broker.verifier = verifier = FakeVerifier()
    assert send(client, transactional(0), version=V1) == [ErrorCode.NONE]
    assert verifier.questions == []
    end(machine)
    assert send(client, transactional(1), version=V2) == [ErrorCode.NONE]
    assert len(verifier.questions) == 1
