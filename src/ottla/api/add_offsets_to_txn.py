"""AddOffsetsToTxn (key 25): a producer will commit offsets of a group in its transaction.

The group's partition of `__consumer_offsets` takes part in the transaction like any other. Producers that
speak transactions V2 do not ask: TxnOffsetCommit adds it for them (KIP-890).

v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE
"""

from typing import Any

from ottla.api.call import Call
from ottla.api.needs import GROUP, READ, TRANSACTIONAL_ID, WRITE
from ottla.api.transaction_requests import answer_of, code_for, on_transaction, once_complete
from ottla.base.errors import ApiError
from ottla.txn.shard import Producer
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_SINCE = 2


def add_offsets_to_txn(call: Call, request: AddOffsetsToTxnRequest) -> Any:
    try:
        call.require(WRITE, TRANSACTIONAL_ID, request.transactional_id)
        call.require(READ, GROUP, request.group_id)
    except ApiError as error:
        return AddOffsetsToTxnResponse(error_code=error.code)
    wait_ms = call.broker.coordinators.transactions.config.add_retry_ms_max
    return once_complete(call, [request.transactional_id], wait_ms, lambda call: _add(call, request))


def _add(call: Call, request: AddOffsetsToTxnRequest) -> Any:
    producer = Producer(request.transactional_id, request.producer_id, request.producer_epoch)
    partitions = [call.broker.coordinators.groups.partition_of(request.group_id)]
    operation = on_transaction(
        call,
        request.transactional_id,
        lambda shard, turn, answer: shard.add_partitions(
            turn, answer, producer, partitions, 0, AddOffsetsToTxnResponse()
        ),
        lambda error: AddOffsetsToTxnResponse(error_code=code_for(error, call.version, FENCED_SINCE)),
    )
    return answer_of(call, operation)
