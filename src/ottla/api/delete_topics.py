"""DeleteTopics (key 20): by name, or by id from v6.

A topic given twice in one request is an error, and is not deleted. Whoever may not describe a topic is told
TOPIC_AUTHORIZATION_FAILED whether it is there or not, and by its id not even what it is called.

v3 TOPIC_DELETION_DISABLED · v4 flexible · v5 error message · v6 topic ids, and names may be null
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from ottla.api.call import Call
from ottla.api.needs import DELETE, DESCRIBE, TOPIC
from ottla.api.writes import Writes
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.broker.long_work import Steps
from ottla.controller.image import Topic
from ottla.controller.keeper import Operation
from ottla.controller.topics import plan_deletion
from ottla.wire.lazy import lazily
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

BY_ID_SINCE = 6
DISABLED_SINCE = 3
QUOTA_ERROR_SINCE = 5


def delete_topics(call: Call, request: DeleteTopicsRequest) -> Steps:
    asked = request.topics
    if call.version < BY_ID_SINCE:
        asked = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names]
    results: list[DeletableTopicResult] = []
    writes = Writes(call.broker, lambda: respond())
    given: Counter[tuple[str | None, bytes]] = Counter()

    def plan(at: int) -> Sequence[Operation]:
        topic_state, result = asked[at], results[at]
        if writes.items[at].is_doubtful and result.topic_id not in call.broker.image.topic_names:
            return []  # the keeper's answer was lost; the topic is gone all the same
        if not call.broker.config.delete_topic_enable:
            has_code = call.version >= DISABLED_SINCE
            code = ErrorCode.TOPIC_DELETION_DISABLED if has_code else ErrorCode.INVALID_REQUEST
            raise ApiError(code, "delete.topic.enable is false on this broker.")
        if given[topic_state.name, topic_state.topic_id] > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, "The topic is in the request more than once.")
        topic = _find(call, topic_state)
        if writes.items[at].attempts == 1:
            call.count_mutations(len(topic.assignment), QUOTA_ERROR_SINCE)
        result.name, result.topic_id = topic.name, topic.id
        call.require(DELETE, TOPIC, topic.name)
        return plan_deletion(call.broker.image, topic)

    def respond() -> DeleteTopicsResponse:
        return DeleteTopicsResponse(responses=lazily(answered, range(len(results))))

    def answered(at: int) -> DeletableTopicResult:
        item, result = writes.items[at], results[at]
        result.error_code, result.error_message = item.error_code, item.error_message
        return result

    for at, topic_state in enumerate(asked):
        results.append(DeletableTopicResult(name=topic_state.name, topic_id=topic_state.topic_id))
        given[topic_state.name, topic_state.topic_id] += 1
        writes.add(partial(plan, at))
        yield
    return (yield from writes.answer(call, request.timeout_ms))


def _find(call: Call, asked: DeleteTopicState) -> Topic:
    image = call.broker.image
    if (asked.name is None) == (asked.topic_id == ZERO_UUID):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Give a topic's name or its id, and not both.")
    if asked.name is None:
        name = image.topic_names.get(asked.topic_id)
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This broker knows no topic with this id.")
        call.require(DESCRIBE, TOPIC, name)
        return image.topics[name]
    call.require(DESCRIBE, TOPIC, asked.name)
    topic = image.topics.get(asked.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{asked.name}'.")
    return topic
