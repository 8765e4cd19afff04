"""InitProducerId (key 22): an id for a producer, and with a transactional id the next epoch of it.

Ids come in blocks of 1,000 from the keeper, so that none is ever given twice, over restarts too. An
idempotent producer moves its epoch on by itself (KIP-360): whoever asks gets a new id, whatever it had.

With a transactional id the coordinator answers. It fences whoever had the id before; if that has a
transaction open, this is aborted first, and the answer is CONCURRENT_TRANSACTIONS. A producer that says what
id and epoch it has goes on with the next epoch, unless somebody has taken over from it (KIP-360).

v2 flexible · v3 id and epoch of a transactional producer · v4 PRODUCER_FENCED · v5 TRANSACTION_ABORTABLE
Left out: v6, two-phase commit (KIP-939), which is not stable in Kafka either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ottla.api.call import Call
from ottla.api.needs import CLUSTER, IDEMPOTENT_WRITE, TOPIC, TRANSACTIONAL_ID, WRITE
from ottla.api.writes import Writes
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.broker import Broker
from ottla.broker.long_work import Steps
from ottla.controller.keeper import Operation
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

WAIT_MS = 10_000
FENCED_SINCE = 4


def init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse | Steps | Any:
    broker, transactional_id = call.broker, request.transactional_id
    if transactional_id is not None:
        if not call.allows(WRITE, TRANSACTIONAL_ID, transactional_id):
            return _refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not call.allows(IDEMPOTENT_WRITE, CLUSTER, is_asked=False) and not call.allows_any(WRITE, TOPIC):
        return _refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id < 0) != (request.producer_epoch < 0) or transactional_id == "":
        return _refuse(ErrorCode.INVALID_REQUEST)
    if transactional_id is not None:
        return _with_transactional_id(call, request, transactional_id)
    claim = _Claim(broker)
    writes = Writes(broker, lambda: claim.respond(next((item.error for item in writes.items), None)))
    if broker.producer_ids.is_empty:
        writes.add(claim.plan)
    return writes.answer(call, WAIT_MS)


def _with_transactional_id(call: Call, request: InitProducerIdRequest, transactional_id: str) -> Any:
    from ottla.api.transaction_requests import answer_of, code_for, on_transaction  # few producers have one

    operation = on_transaction(
        call,
        transactional_id,
        lambda shard, turn, answer: shard.init_producer_id(turn, answer, request),
        lambda error: _refuse(code_for(error, call.version, FENCED_SINCE)),
    )
    return answer_of(call, operation)


@dataclass(slots=True)
class _Claim:
    """A block this request has asked the keeper for, if it has."""

    broker: Broker
    start: int | None = None

    def plan(self) -> Sequence[Operation]:
        """The next block; nothing to do if another request has brought one meanwhile."""
        self.start = None
        if not self.broker.producer_ids.is_empty:
            return []
        self.start, operations = self.broker.producer_ids.plan()
        return operations

    def respond(self, error: ApiError | None) -> InitProducerIdResponse:
        ids = self.broker.producer_ids
        if error is not None:
            return _refuse(error.code)
        if self.start is not None:
            ids.add_block(self.start)
        if ids.is_empty:  # others were faster
            return _refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return InitProducerIdResponse(producer_id=ids.give(), producer_epoch=0)


def _refuse(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)
