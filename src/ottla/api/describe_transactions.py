"""DescribeTransactions (key 65): producer, state and partitions of transactional ids (KIP-664).

Of a transaction that has ended, those partitions are shown that have no marker yet. An id that is named twice
is described once. Topics that whoever asks may not describe are left out.
"""

from ottla.api.call import Call
from ottla.api.coordinated import answer_about, check_partition
from ottla.api.needs import DESCRIBE, TOPIC, TRANSACTIONAL_ID
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.long_work import Steps
from ottla.wire.lazy import lazily
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def describe_transactions(call: Call, request: DescribeTransactionsRequest) -> Steps:
    unique = dict.fromkeys(request.transactional_ids)

    def respond(now_ms: int) -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse(
            transaction_states=lazily(
                lambda transactional_id: _described(call, transactional_id, now_ms), unique
            )
        )

    return answer_about(call, call.broker.coordinators.transactions.partition_of, unique, respond)


def _described(call: Call, transactional_id: str, now_ms: int) -> TransactionState:
    try:
        return _describe(call, transactional_id, now_ms)
    except ApiError as error:
        return TransactionState(
            error_code=error.code,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
        )


def _describe(call: Call, transactional_id: str, now_ms: int) -> TransactionState:
    transactions = call.broker.coordinators.transactions
    if not transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    call.require(DESCRIBE, TRANSACTIONAL_ID, transactional_id)
    shard = transactions.shard_of(transactional_id)
    check_partition(call, transactions.partition_of(transactional_id), now_ms)
    transaction, partitions = shard.describe(transactional_id)
    topics: dict[str, TopicData] = {}
    for topic, index in sorted(partitions):
        if call.allows(DESCRIBE, TOPIC, topic, is_asked=False):
            topics.setdefault(topic, TopicData(topic=topic)).partitions.append(index)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.value,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=list(topics.values()),
    )
