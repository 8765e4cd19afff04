"""AlterPartitionReassignments (key 45): move partitions to other brokers, or stop moving them (KIP-455).

Null replicas cancel. The answer says that the move has begun, not that it is done: ListPartitionReassignments
shows what is still moving. `controller/reassignment` has the phases.

v1 allow_replication_factor_change
"""

from functools import partial

from ottla.api.call import Call
from ottla.api.controlled import Asks, Item
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.parked import Parked
from ottla.controller import reassignment
from ottla.controller.draft import Draft
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def alter_partition_reassignments(
    call: Call, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse | Parked:
    broker, image = call.broker, call.broker.image
    allows = request.allow_replication_factor_change
    response = AlterPartitionReassignmentsResponse(allow_replication_factor_change=allows)
    if not broker.controlling.is_active:
        response.error_code, response.error_message = ErrorCode.NOT_CONTROLLER, "Ask the controller."
        return response

    def respond(items: list[Item[ReassignablePartitionResponse]]) -> AlterPartitionReassignmentsResponse:
        for item in items:
            if item.error is not None:
                item.result.error_code, item.result.error_message = item.error.code, str(item.error)
        return response

    asks: Asks[ReassignablePartitionResponse] = Asks(broker, respond)
    for topic in request.topics:
        answer = ReassignableTopicResponse(name=topic.name)
        response.responses.append(answer)
        for one in topic.partitions:
            result = ReassignablePartitionResponse(partition_index=one.partition_index)
            answer.partitions.append(result)
            if topic.name in image.topics:
                asks.add(result, topic.name, partial(_reassign, one, allows))
            else:
                error = f"There is no topic '{topic.name}'."
                asks.refuse(result, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error))
    return asks.answer(call, request.timeout_ms)  # type: ignore[no-any-return]


def _reassign(one: ReassignablePartition, allows: bool, draft: Draft) -> None:
    if one.replicas is None:
        reassignment.cancel(draft, one.partition_index)
    else:
        reassignment.begin(draft, one.partition_index, one.replicas, allows_factor_change=allows)
