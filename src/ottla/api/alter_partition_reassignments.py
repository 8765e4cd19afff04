"""AlterPartitionReassignments (key 45): move partitions to other brokers, or stop moving them (KIP-455).

Null replicas cancel. The answer says that the move has begun, not that it is done: ListPartitionReassignments
shows what is still moving. `controller/reassignment` has the phases. Of a partition that is named twice the
last wish counts.

v1 allow_replication_factor_change
"""

from functools import partial

from ottla.api.call import Call
from ottla.api.named_partitions import by_topic, unknown_partition
from ottla.base.errors import ErrorCode
from ottla.broker.controller_writes import Asks, Item
from ottla.broker.long_work import Steps
from ottla.controller import reassignment
from ottla.controller.draft import Draft
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def alter_partition_reassignments(call: Call, request: AlterPartitionReassignmentsRequest) -> Steps:
    broker, image = call.broker, call.broker.image
    allows = request.allow_replication_factor_change
    response = AlterPartitionReassignmentsResponse(allow_replication_factor_change=allows)
    if not broker.seat.is_active:
        response.error_code, response.error_message = ErrorCode.NOT_CONTROLLER, "Ask the controller."
        return response

    def respond(items: list[Item[ReassignablePartitionResponse]]) -> AlterPartitionReassignmentsResponse:
        for item in items:
            if item.error is not None:
                item.result.error_code, item.result.error_message = item.error.code, str(item.error)
        return response

    asks: Asks[ReassignablePartitionResponse] = Asks(broker.controller_writes, broker.waiting, respond)
    named = yield from by_topic(
        (topic.name, asked.partition_index, asked) for topic in request.topics for asked in topic.partitions
    )
    for name, partitions in named.items():
        answer = ReassignableTopicResponse(name=name)
        response.responses.append(answer)
        topic = image.topics.get(name)
        for index, asked in partitions.items():
            yield
            result = ReassignablePartitionResponse(partition_index=index)
            answer.partitions.append(result)
            if topic is not None and index in topic.states:
                asks.add(result, name, partial(_reassign, asked, allows))
            else:
                asks.refuse(result, unknown_partition(topic, name, index))
    return asks.answer(request.timeout_ms, call.now_ms)


def _reassign(partition: ReassignablePartition, allows: bool, draft: Draft) -> None:
    if partition.replicas is None:
        reassignment.cancel(draft, partition.partition_index)
    else:
        reassignment.begin(draft, partition.partition_index, partition.replicas, allows_factor_change=allows)
