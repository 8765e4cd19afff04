"""What the requests of transactional producers have in common: they run on the shard of their id."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from ottla.api.call import Call
from ottla.api.coordinated import answer_together
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.operations import Operation
from ottla.broker.parked import Parked
from ottla.broker.transactions import Completed
from ottla.coordinator.turn import Answer, Turn
from ottla.txn.shard import TransactionShard


def on_transaction(
    call: Call,
    transactional_id: str,
    operation: Callable[[TransactionShard, Turn, Answer], None],
    refuse: Callable[[ApiError], Any],
) -> Operation[TransactionShard]:
    """Run an operation on the shard of a transactional id."""
    broker = call.broker
    return Operation(
        broker.partitions, broker.proofs, broker.coordinators.transactions, transactional_id, operation,
        refuse, call.now_ms,
    )  # fmt: skip


def answer_of(call: Call, operation: Operation[TransactionShard]) -> Any:
    """What it answers, or Parked until that may be sent."""
    timeout_ms = call.broker.coordinators.transactions.commit_timeout_ms
    return answer_together(call, [operation], lambda replies: replies[0], timeout_ms)


def once_complete(
    call: Call, transactional_ids: Collection[str], wait_ms: int, run: Callable[[Call], Any]
) -> Any:
    """What `run` answers, if need be a moment later: a producer that has heard of the end of its transaction
    begins the next at once, while markers are on their way. To refuse that is right too, as Kafka does
    (CONCURRENT_TRANSACTIONS), but then the producer pauses for far longer than markers take."""
    transactions = call.broker.coordinators.transactions

    def is_early() -> bool:
        """One of several that is complete need not wait for the others."""
        return bool(transactional_ids) and all(map(transactions.is_completing, transactional_ids))

    def run_at(now_ms: int) -> Any:
        return run(replace(call, now_ms=now_ms))

    if not is_early():
        return run(call)
    return Parked(
        keys=tuple(map(Completed, transactional_ids)),
        deadline_ms=call.now_ms + wait_ms,
        ready=lambda _key, now_ms: None if is_early() else run_at(now_ms),
        expire=run_at,
    )


def code_for(error: ApiError, version: int, fenced_since: int) -> ErrorCode:
    """PRODUCER_FENCED is new: versions before it know INVALID_PRODUCER_EPOCH alone."""
    if error.code == ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code
