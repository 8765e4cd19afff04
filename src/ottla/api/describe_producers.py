"""DescribeProducers (key 61): the idempotent producers whose state a partition holds (KIP-664).

A partition that is named twice is described once."""

from functools import partial

from ottla.api.call import Call
from ottla.api.leadership_proof import check_led, proven
from ottla.api.named_partitions import by_topic, held_partitions
from ottla.api.needs import READ, TOPIC
from ottla.base.errors import ApiError
from ottla.broker.long_work import Steps
from ottla.log.producers import Producer
from ottla.wire.lazy import lazily
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def describe_producers(call: Call, request: DescribeProducersRequest) -> Steps:
    named = yield from by_topic(
        (topic.name, index, None) for topic in request.topics for index in topic.partition_indexes
    )
    partitions = held_partitions(call.broker, named)
    return proven(call, partitions, lambda now_ms: _respond(call, named, now_ms))


def _respond(call: Call, named: dict[str, dict[int, None]], now_ms: int) -> DescribeProducersResponse:
    def describe_topic(topic: str) -> TopicResponse:
        describe = partial(_describe, call, topic, now_ms)
        return TopicResponse(name=topic, partitions=lazily(describe, named[topic]))

    return DescribeProducersResponse(topics=lazily(describe_topic, named))


def _describe(call: Call, topic: str, now_ms: int, index: int) -> PartitionResponse:
    answer = PartitionResponse(partition_index=index)
    try:
        call.require(READ, TOPIC, topic)
        partition = call.broker.partitions.find(topic, index)
        partition.check_leader()
        check_led(call.broker, partition, call.now_ms, now_ms)
    except ApiError as error:
        answer.error_code, answer.error_message = error.code, error.message
        return answer
    answer.active_producers = lazily(_producer, sorted(partition.log.producers.by_id.items()))
    return answer


def _producer(active: tuple[int, Producer]) -> ProducerState:
    producer_id, producer = active
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.txn_first_offset,
    )
