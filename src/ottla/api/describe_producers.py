"""DescribeProducers (key 61): the idempotent producers whose state a partition holds (KIP-664)."""

from ottla.api.call import Call
from ottla.base.errors import ApiError
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def describe_producers(call: Call, request: DescribeProducersRequest) -> DescribeProducersResponse:
    response = DescribeProducersResponse()
    for topic in request.topics:
        results = [_describe(call, topic.name, index) for index in topic.partition_indexes]
        response.topics.append(TopicResponse(name=topic.name, partitions=results))
    return response


def _describe(call: Call, topic: str, index: int) -> PartitionResponse:
    answer = PartitionResponse(partition_index=index)
    try:
        partition = call.broker.partition(topic, index)
        partition.check_leader()
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
