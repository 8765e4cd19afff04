"""Transactions of a producer of confluent-kafka, one after the other.

librdkafka says of an error what it asks for: another try, an abort, or another producer. Whatever ends a
transaction early aborts it, so that no reader waits for its timeout.

Not obvious: an error that ends a transaction makes whatever comes next fail, with no reason given; the reason
comes with the attempt to commit. And one that is fatal may come out of any call, in the middle of a
delivery report even, which makes a SystemError of it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ottla.base.command_error import CommandError
from ottla.client.librdkafka.errors import REQUEST_S, explain

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

TIMEOUT = "transaction.timeout.ms"
TIMEOUT_MS = 60_000  # librdkafka's default, and Java's
ANSWER_MS = 100  # so much earlier librdkafka wants to give up on a request
STEP_S = 5.0
END_S = 60.0

ABORTED = "the transaction was aborted"
LEFT = f"the broker aborts the transaction, after {TIMEOUT} at the latest"
UNKNOWN = "whether the transaction is committed is not known: read the topic to see"


def settings(transactional_id: str, timeout_ms: int) -> dict[str, str | int]:
    """What librdkafka must know. No request may take longer than the transaction."""
    request_ms = min(int(REQUEST_S * 1000), timeout_ms - ANSWER_MS)
    return {"transactional.id": transactional_id, TIMEOUT: timeout_ms, "socket.timeout.ms": request_ms}


class Transactions:
    """`committed` counts those that are; `fate` is what became of the one that ended early."""

    def __init__(self, client: "Producer", transactional_id: str, timeout_ms: int) -> None:
        self.committed = 0
        self.fate = ABORTED
        self._client = client
        self._name = f"transactional id {transactional_id!r}"
        self._timeout_ms = timeout_ms
        self._began = time.monotonic()
        refusal = _patiently(client.init_transactions)
        if refusal is not None:
            raise CommandError(f"{self._name}: {self._why(refusal)}")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Committed at the end of the block, aborted if there is an exception."""
        self._began, self.fate = time.monotonic(), ABORTED
        refusal = _patiently(lambda _s: self._client.begin_transaction())
        if refusal is not None:
            raise CommandError(f"{self._name}: {self._why(refusal)}")
        is_lost = False
        try:
            yield
        except BaseException as error:
            is_lost = is_over(error)
            if not is_lost:
                self._abort()
                raise
        self._commit(is_lost=is_lost)
        self.committed += 1

    def _commit(self, *, is_lost: bool) -> None:
        """Or have it said why not, if it is lost already."""
        self.fate = ABORTED if is_lost else UNKNOWN
        refusal = _patiently(self._client.commit_transaction)
        if refusal is None:
            return
        if refusal.txn_requires_abort():
            self._abort()
        elif _is_fenced(refusal) and self._is_late():
            self.fate = ABORTED
        raise CommandError(f"{self._name}: {self._why(refusal)}")

    def _abort(self) -> None:
        self.fate = LEFT  # should this be interrupted
        if _patiently(self._client.abort_transaction) is None:
            self.fate = ABORTED

    def _is_late(self) -> bool:
        return (time.monotonic() - self._began) * 1000 > self._timeout_ms

    def _why(self, refusal: "KafkaError") -> str:
        from confluent_kafka import KafkaError

        if refusal.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            return f"{TIMEOUT} is larger than transaction.max.timeout.ms of the brokers"
        if not _is_fenced(refusal):
            return explain(KafkaError(refusal.code()))  # without the request, the epoch and so on
        if self._is_late():
            limit = f"{TIMEOUT} ({self._timeout_ms / 1000:g} s)"
            return (
                f"the transaction was open for longer than {limit}: allow more, or send fewer records in one"
            )
        return "another producer has begun to use it"


def is_over(error: BaseException) -> bool:
    """Whether this says no more than that the transaction, or the producer, is done for."""
    from confluent_kafka import KafkaError

    refusal = _refusal(error)
    return refusal is not None and (
        refusal.fatal() or refusal.code() in (KafkaError._STATE, KafkaError._FATAL)
    )


def _is_fenced(refusal: "KafkaError") -> bool:
    from confluent_kafka import KafkaError

    return refusal.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)


def _patiently(step: Callable[[float], None]) -> "KafkaError | None":
    """Take a step again while it may still succeed; why it did not."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + END_S
    while True:
        try:
            step(STEP_S)
        except (KafkaException, SystemError) as error:
            refusal = _refusal(error)
            if refusal is None:
                raise
            if not refusal.retriable() or time.monotonic() > deadline:
                return refusal
        else:
            return None


def _refusal(error: BaseException) -> "KafkaError | None":
    from confluent_kafka import KafkaError, KafkaException

    cause = error.__cause__ if isinstance(error, SystemError) else error
    if not isinstance(cause, KafkaException):
        return None
    refusal: KafkaError = cause.args[0]
    return refusal
