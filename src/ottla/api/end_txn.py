"""EndTxn (key 26): commit or abort a producer's transaction.

The answer comes when the decision is committed; markers are written after that. Until all are there the next
transaction has to wait (CONCURRENT_TRANSACTIONS). Which end is answered how says `txn/states`.

v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE · v5 the epoch moves on (KIP-890): the answer has
the producer's id and epoch for its next transaction
"""

from typing import Any

from ottla.api.call import Call
from ottla.api.needs import TRANSACTIONAL_ID, WRITE
from ottla.api.transaction_requests import answer_of, code_for, on_transaction
from ottla.base.errors import ErrorCode
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_SINCE = 2


def end_txn(call: Call, request: EndTxnRequest) -> Any:
    if not call.allows(WRITE, TRANSACTIONAL_ID, request.transactional_id):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    operation = on_transaction(
        call,
        request.transactional_id,
        lambda shard, turn, answer: shard.end(turn, answer, request, call.version),
        lambda error: EndTxnResponse(error_code=code_for(error, call.version, FENCED_SINCE)),
    )
    return answer_of(call, operation)
