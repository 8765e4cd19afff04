"""CreatePartitions (key 37): more partitions for a topic; there is no way to fewer. Answered as CreateTopics.

v2 flexible · v3 quota error
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from ottla.api.call import Call
from ottla.api.needs import ALTER, TOPIC
from ottla.api.writes import Item, Writes, once_made, written
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.long_work import Steps
from ottla.controller.keeper import Operation
from ottla.controller.topics import plan_partitions
from ottla.wire.lazy import lazily
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

QUOTA_ERROR_SINCE = 3


def create_partitions(call: Call, request: CreatePartitionsRequest) -> Steps:
    names: list[str] = []
    times: Counter[str] = Counter()
    items: dict[str, Item] = {}
    writes = Writes(call.broker, lambda: once_made(call, changed(), request.timeout_ms, respond))

    def plan(asked: CreatePartitionsTopic) -> Sequence[Operation]:
        if times[asked.name] > 1:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Topic '{asked.name}' is in the request more than once."
            )
        call.require(ALTER, TOPIC, asked.name)
        topic = call.broker.image.topics.get(asked.name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{asked.name}'.")
        if items[asked.name].is_doubtful and len(topic.assignment) == asked.count:
            return []
        assignments = (
            None if asked.assignments is None else [assignment.broker_ids for assignment in asked.assignments]
        )
        operations, added = plan_partitions(call.broker.image, topic, asked.count, assignments)
        if items[asked.name].attempts == 1:
            call.count_mutations(added, QUOTA_ERROR_SINCE)
        return [] if request.validate_only else operations

    def changed() -> list[str]:
        return [] if request.validate_only else written(items)

    def respond() -> CreatePartitionsResponse:
        return CreatePartitionsResponse(
            results=lazily(
                lambda at: CreatePartitionsTopicResult(
                    name=names[at],
                    error_code=writes.items[at].error_code,
                    error_message=writes.items[at].error_message,
                ),
                range(len(names)),
            )
        )

    for topic in request.topics:
        names.append(topic.name)
        times[topic.name] += 1
        items[topic.name] = writes.add(partial(plan, topic))
        yield
    return (yield from writes.answer(call, request.timeout_ms))
