"""Transactions of a producer that librdkafka, or the cluster, lets down."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from ottla.base.command_error import CommandError
from ottla.client.librdkafka import transactions
from ottla.client.librdkafka.transactions import ABORTED, LEFT, UNKNOWN, Transactions

TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "Timed out waiting", retriable=True)
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "ProduceRequest failed", txn_requires_abort=True)
FENCED = KafkaError(KafkaError._FENCED, "ProduceRequest failed", fatal=True)
STATE = KafkaError(KafkaError._STATE, "Unable to produce")


class FakeProducer:
    """Answers what it is told, and then that all is well."""

    def __init__(self, **answers: list[KafkaError]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        def step(*_: float) -> None:
            self.asked.append(name.removesuffix("_transaction"))
            if self.answers.get(name):
                raise KafkaException(self.answers[name].pop(0))

        return step


def started(client: FakeProducer, timeout_ms: int = 60_000) -> Transactions:
    return Transactions(cast("Producer", client), "orders", timeout_ms)


def failed(given: Transactions, error: BaseException | None = None) -> str:
    with pytest.raises(CommandError) as caught:
        run(given, error)
    return str(caught.value)


def run(given: Transactions, error: BaseException | None) -> None:
    with given.transaction():
        if error is not None:
            raise error


def test_a_step_that_may_still_succeed_is_taken_again() -> None:
    client = FakeProducer(
        init_transactions=[TIMED_OUT], begin_transaction=[TIMED_OUT], commit_transaction=[TIMED_OUT] * 2
    )
    given = started(client)
    with given.transaction():
        pass
    assert given.committed == 1
    assert client.asked == ["init_transactions"] * 2 + ["begin"] * 2 + ["commit"] * 3


def test_a_commit_without_an_answer_is_not_said_to_be_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "END_S", -1.0)
    for timeout_ms in (60_000, 0):  # within its timeout, or long after it
        client = FakeProducer(commit_transaction=[TIMED_OUT])
        given = started(client, timeout_ms)
        assert failed(given) == "transactional id 'orders': Timed out"
        assert (given.fate, given.committed, client.asked[-1]) == (UNKNOWN, 0, "commit")


def test_a_transaction_that_the_broker_ended_at_its_timeout_is_aborted() -> None:
    given = started(FakeProducer(commit_transaction=[FENCED]), 0)
    assert "open for longer than transaction.timeout.ms (0 s)" in failed(given)
    assert given.fate == ABORTED


def test_an_abort_without_an_answer_is_left_to_the_broker() -> None:
    given = started(FakeProducer(abort_transaction=[FENCED]))
    with pytest.raises(KeyboardInterrupt), given.transaction():
        raise KeyboardInterrupt
    assert given.fate == LEFT


def test_what_ended_a_transaction_is_told_by_the_attempt_to_commit() -> None:
    client = FakeProducer(commit_transaction=[TOO_LARGE])
    given = started(client)
    assert failed(given, KafkaException(STATE)) == "transactional id 'orders': Message size too large"
    assert (given.fate, client.asked[-2:]) == (ABORTED, ["commit", "abort"])
    with given.transaction():  # the producer can go on
        pass
    assert given.committed == 1


def test_a_fatal_error_in_the_middle_of_a_delivery_report_is_known_for_what_it_is() -> None:
    error = SystemError("returned a result with an exception set")
    error.__cause__ = KafkaException(FENCED)
    given = started(FakeProducer(commit_transaction=[FENCED]))
    assert failed(given, error) == "transactional id 'orders': another producer has begun to use it"
    assert given.fate == ABORTED
    given = started(FakeProducer(commit_transaction=[FENCED]))
    failed(given)
    assert given.fate == UNKNOWN  # its commit may have come first, and the answer be lost


def test_another_exception_aborts_and_goes_on_as_it_is() -> None:
    client = FakeProducer()
    given = started(client)
    interrupt = SystemError("interrupted")
    interrupt.__cause__ = KeyboardInterrupt()
    error: Any
    for error in (KeyboardInterrupt(), interrupt, CommandError("line 3: no")):
        with pytest.raises(type(error)), given.transaction():
            raise error
        assert (given.fate, client.asked[-1]) == (ABORTED, "abort")


def test_no_request_takes_longer_than_the_transaction() -> None:
    for timeout_ms, request_ms in ((60_000, 15_000), (1_000, 900)):
        own = transactions.settings("orders", timeout_ms)
        assert own == {
            "transactional.id": "orders",
            "transaction.timeout.ms": timeout_ms,
            "socket.timeout.ms": request_ms,
        }
        Producer(own)
