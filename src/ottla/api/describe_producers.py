"""DescribeProducers (key 61): the idempotent producers whose state a partition holds (KIP-664)."""

from ottla.api.call import Call, LastAnswer
from ottla.api.proven import check_led, proven
from ottla.base.errors import ApiError
from ottla.base.ids import TopicPartition
from ottla.broker.parked import Parked
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def describe_producers(
    call: Call, request: DescribeProducersRequest
) -> DescribeProducersResponse | Parked | LastAnswer:
    named = (
        call.broker.partitions.get(TopicPartition(topic.name, index))
        for topic in request.topics
        for index in topic.partition_indexes
    )
    partitions = [partition for partition in named if partition is not None]
    return proven(call, partitions, lambda now_ms: _respond(call, request, now_ms))


def _respond(call: Call, request: DescribeProducersRequest, now_ms: int) -> DescribeProducersResponse:
    response = DescribeProducersResponse()
    for topic in request.topics:
        results = [_describe(call, topic.name, index, now_ms) for index in topic.partition_indexes]
        response.topics.append(TopicResponse(name=topic.name, partitions=results))
    return response


def _describe(call: Call, topic: str, index: int, now_ms: int) -> PartitionResponse:
    answer = PartitionResponse(partition_index=index)
    try:
        partition = call.broker.partition(topic, index)
        partition.check_leader()
        check_led(call.broker, partition, call.now_ms, now_ms)
    except ApiError as error:
        answer.error_code, answer.error_message = error.code, error.message
        return answer
    answer.active_producers = [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=one.epoch,
            last_sequence=one.last_sequence,
            last_timestamp=one.last_timestamp,
            coordinator_epoch=one.coordinator_epoch,
            current_txn_start_offset=one.txn_first_offset,
        )
        for producer_id, one in sorted(partition.log.producers.by_id.items())
    ]
    return answer
