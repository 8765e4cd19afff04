"""What the requests of transactional producers have in common: they run on the shard of their id."""

from collections.abc import Callable
from typing import Any

from ottla.api.call import Call
from ottla.api.coordinated import answer_together
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.operations import Operation
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


def code_for(error: ApiError, version: int, fenced_since: int) -> ErrorCode:
    """PRODUCER_FENCED is new: versions before it know INVALID_PRODUCER_EPOCH alone."""
    if error.code == ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code
