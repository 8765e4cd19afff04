"""ListPartitionReassignments (key 46): the partitions that are being moved, all or some.

Partitions that are not moving, or not there, are left out.
"""

from ottla.api.call import Call
from ottla.base.errors import ErrorCode
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def list_partition_reassignments(
    call: Call, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    image = call.broker.image
    if not call.broker.seat.is_active:
        return ListPartitionReassignmentsResponse(
            error_code=ErrorCode.NOT_CONTROLLER, error_message="Ask the controller."
        )
    wanted: dict[str, set[int] | None] = dict.fromkeys(sorted(image.topics))
    if request.topics is not None:
        wanted = {topic.name: set(topic.partition_indexes) for topic in request.topics}
    response = ListPartitionReassignmentsResponse()
    for name, indexes in wanted.items():
        topic = image.topics.get(name)
        if topic is None:
            continue
        moving = sorted(topic.adding.keys() | topic.removing.keys())
        ongoing = [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(topic.assignment[index]),
                adding_replicas=list(topic.adding.get(index, ())),
                removing_replicas=list(topic.removing.get(index, ())),
            )
            for index in moving
            if indexes is None or index in indexes
        ]
        if ongoing:
            response.topics.append(OngoingTopicReassignment(name=name, partitions=ongoing))
    return response
