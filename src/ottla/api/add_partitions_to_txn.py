"""AddPartitionsToTxn (key 24): partitions that take part in a producer's transaction.

Up to v3 producers ask, before they write to a partition. Since v4 brokers ask, for producers that have just
written to a partition: several transactions at once, each either added to (transactions V2, KIP-890) or only
verified. Partitions that do not exist are refused, and the others of their transaction are not attempted.
While the transaction before is being completed, the next waits for a moment before it is refused; where there
are several, until the first of them can go on.

v2 PRODUCER_FENCED · v3 flexible · v4 several transactions at once, verification · v5 TRANSACTION_ABORTABLE
Where brokers have a listener of their own, v4 is refused on the others.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from ottla.api.call import Call
from ottla.api.coordinated import answer_together
from ottla.api.needs import CLUSTER, CLUSTER_ACTION, TOPIC, TRANSACTIONAL_ID, WRITE
from ottla.api.transaction_requests import code_for, on_transaction, once_complete
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import INTERNAL_TOPICS, TopicPartition
from ottla.broker.long_work import TO_BE_FINISHED, Steps
from ottla.broker.operations import Operation
from ottla.controller.image import Image
from ottla.txn.shard import ADDED_BY_BROKERS_SINCE, Producer, TransactionShard
from ottla.txn.transaction import EPOCH_BUMP_SINCE
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FENCED_SINCE = 2

Result = AddPartitionsToTxnResult


def add_partitions_to_txn(call: Call, request: AddPartitionsToTxnRequest) -> Any:
    is_from_broker = call.version >= ADDED_BY_BROKERS_SINCE
    if is_from_broker and not (call.is_between_brokers and call.allows(CLUSTER_ACTION, CLUSTER)):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    asked, config = _transactions(call, request), call.broker.coordinators.transactions.config
    transactional_ids = dict.fromkeys(transaction.transactional_id for transaction in asked)
    # A broker asks again after this time, and meanwhile for nobody else.
    wait_ms = config.add_retry_ms if is_from_broker else config.add_retry_ms_max
    return once_complete(call, transactional_ids, wait_ms, lambda call: _answer(call, asked))


def _answer(call: Call, asked: Sequence[AddPartitionsToTxnTransaction]) -> Steps:
    yield TO_BE_FINISHED
    replies: list[Result | Operation[TransactionShard]] = []
    for transaction in asked:
        replies.append((yield from _run(call, transaction)))
        yield
    operations = [reply for reply in replies if isinstance(reply, Operation)]

    def respond(_replies: list[Result]) -> AddPartitionsToTxnResponse:
        results = [reply.reply if isinstance(reply, Operation) else reply for reply in replies]
        if call.version < ADDED_BY_BROKERS_SINCE:
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
        return AddPartitionsToTxnResponse(results_by_transaction=results)

    timeout_ms = call.broker.coordinators.transactions.commit_timeout_ms
    return answer_together(call, operations, respond, timeout_ms)


def _transactions(call: Call, request: AddPartitionsToTxnRequest) -> Sequence[AddPartitionsToTxnTransaction]:
    if call.version >= ADDED_BY_BROKERS_SINCE:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def _run(
    call: Call, transaction: AddPartitionsToTxnTransaction
) -> Generator[None, None, Result | Operation[TransactionShard]]:
    """Add to a transaction or verify it; what it is answered, if nobody needs to be asked for that."""
    transactional_id = transaction.transactional_id
    producer = Producer(transactional_id, transaction.producer_id, transaction.producer_epoch)
    is_from_broker = call.version >= ADDED_BY_BROKERS_SINCE
    partitions: dict[TopicPartition, ErrorCode] = {}
    is_allowed = is_from_broker or call.allows(WRITE, TRANSACTIONAL_ID, transactional_id)
    for topic in transaction.topics:
        refusal = ErrorCode.NONE
        if not is_allowed:
            refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        elif not is_from_broker and not call.allows(WRITE, TOPIC, topic.name):
            refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for index in topic.partitions:
            yield
            topic_partition = TopicPartition(topic.name, index)
            partitions[topic_partition] = refusal or _problem(
                call.broker.image, topic_partition, is_from_broker
            )
    if any(partitions.values()):
        not_attempted = ErrorCode.OPERATION_NOT_ATTEMPTED
        return _result(transactional_id, {at: code or not_attempted for at, code in partitions.items()})

    def refuse(error: ApiError) -> Result:
        code = code_for(error, call.version, FENCED_SINCE)
        return _result(transactional_id, dict.fromkeys(partitions, code))

    if transaction.verify_only:
        return on_transaction(
            call,
            transactional_id,
            lambda shard, turn, answer: shard.verify(
                turn, answer, producer, partitions, lambda codes: _result(transactional_id, codes)
            ),
            refuse,
        )
    version = EPOCH_BUMP_SINCE if is_from_broker else 0
    added = _result(transactional_id, partitions)
    return on_transaction(
        call,
        transactional_id,
        lambda shard, turn, answer: shard.add_partitions(turn, answer, producer, partitions, version, added),
        refuse,
    )


def _problem(image: Image, topic_partition: TopicPartition, is_from_broker: bool) -> ErrorCode:
    name, index = topic_partition
    topic = image.topics.get(name)
    if name in INTERNAL_TOPICS and not is_from_broker:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic is None or index not in topic.assignment:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _result(transactional_id: str, codes: Mapping[TopicPartition, ErrorCode]) -> Result:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (name, index), code in codes.items():
        topic = topics.setdefault(name, AddPartitionsToTxnTopicResult(name=name))
        topic.results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        )
    return Result(transactional_id=transactional_id, topic_results=list(topics.values()))
