"""DeleteTopics (key 20): by name, or by id from v6.

A topic given twice in one request is an error, and is not deleted.

v3 TOPIC_DELETION_DISABLED · v4 flexible · v5 error message · v6 topic ids, and names may be null
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from ottla.api.call import Call
from ottla.api.writes import Writes
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.broker.slices import Steps
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


def delete_topics(call: Call, request: DeleteTopicsRequest) -> Steps:
    asked = request.topics
    if call.version < BY_ID_SINCE:
        asked = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names]
    results: list[DeletableTopicResult] = []
    writes = Writes(call.broker, lambda: respond())
    given: Counter[tuple[str | None, bytes]] = Counter()

    def plan(at: int) -> Sequence[Operation]:
        one, result = asked[at], results[at]
        if writes.items[at].is_doubtful and result.topic_id not in call.broker.image.topic_names:
            return []  # the keeper's answer was lost; the topic is gone all the same
        if not call.broker.config.delete_topic_enable:
            known = call.version >= DISABLED_SINCE
            code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
            raise ApiError(code, "delete.topic.enable is false on this broker.")
        if given[one.name, one.topic_id] > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, "The topic is in the request more than once.")
        topic = _find(call, one)
        result.name, result.topic_id = topic.name, topic.id
        return plan_deletion(call.broker.image, topic)

    def respond() -> DeleteTopicsResponse:
        return DeleteTopicsResponse(responses=lazily(answered, range(len(results))))

    def answered(at: int) -> DeletableTopicResult:
        item, result = writes.items[at], results[at]
        result.error_code, result.error_message = item.error_code, item.error_message
        return result

    for at, one in enumerate(asked):
        results.append(DeletableTopicResult(name=one.name, topic_id=one.topic_id))
        given[one.name, one.topic_id] += 1
        writes.add(partial(plan, at))
        yield
    return (yield from writes.answer(call, request.timeout_ms))


def _find(call: Call, one: DeleteTopicState) -> Topic:
    image = call.broker.image
    if (one.name is None) == (one.topic_id == ZERO_UUID):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Give a topic's name or its id, and not both.")
    if one.name is None:
        name = image.topic_names.get(one.topic_id)
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This broker knows no topic with this id.")
        return image.topics[name]
    topic = image.topics.get(one.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{one.name}'.")
    return topic
