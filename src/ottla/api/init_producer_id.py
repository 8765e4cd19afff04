"""InitProducerId (key 22): an id for an idempotent producer.

Ids come in blocks of 1,000 from the keeper, so that none is ever given twice, over restarts too. An
idempotent producer moves its epoch on by itself (KIP-360): whoever asks gets a new id, whatever it had.

v2 flexible · v3 id and epoch of a transactional producer · v4 PRODUCER_FENCED · v5 transaction errors
Left out: transactional ids, until there is a transaction coordinator.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.api.call import Call
from ottla.api.writes import Writes
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.broker import Broker
from ottla.broker.long_work import Steps
from ottla.controller import znodes
from ottla.controller.keeper import Create, Operation, Put
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

BLOCK_IDS = 1_000
WAIT_MS = 10_000


def init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse | Steps:
    broker = call.broker
    if (request.producer_id < 0) != (request.producer_epoch < 0) or request.transactional_id == "":
        return _refuse(ApiError(ErrorCode.INVALID_REQUEST))
    if request.transactional_id is not None:
        return _refuse(ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    claim = _Claim(broker)
    writes = Writes(broker, lambda: claim.respond(next((item.error for item in writes.items), None)))
    if broker.producer_ids.next >= broker.producer_ids.end:
        writes.add(claim.plan)
    return writes.answer(call, WAIT_MS)


@dataclass(slots=True)
class _Claim:
    """A block this request has asked the keeper for, if it has."""

    broker: Broker
    start: int | None = None

    def plan(self) -> Sequence[Operation]:
        """The next block; nothing to do if another request has brought one meanwhile."""
        self.start = None
        if self.broker.producer_ids.next < self.broker.producer_ids.end:
            return []
        image = self.broker.image
        self.start = image.producer_id_block_end + 1
        data = znodes.producer_id_block_node(self.broker.id, self.start, self.start + BLOCK_IDS - 1)
        if image.producer_id_block_version < 0:
            return [Create(znodes.PRODUCER_ID_BLOCK, data)]
        return [Put(znodes.PRODUCER_ID_BLOCK, data, image.producer_id_block_version)]

    def respond(self, error: ApiError | None) -> InitProducerIdResponse:
        ids = self.broker.producer_ids
        if error is not None:
            return _refuse(error)
        if self.start is not None:
            ids.next, ids.end = self.start, self.start + BLOCK_IDS
        producer_id = ids.next
        ids.next += 1
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refuse(error: ApiError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
