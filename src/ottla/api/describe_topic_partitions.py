"""DescribeTopicPartitions (key 75): partitions of topics, in pages (KIP-966).

Topics come in the order of their names. An answer holds at most `response_partition_limit` partitions, and
never more than `max.request.partition.size.limit`; what is left begins at the cursor. An empty list asks for
all topics, but for those that whoever asks may not describe. The last known ELR is who is waited for where
nobody leads. Authorized operations are always answered: the request cannot say that it wants none."""

from ottla.api.authorized_operations import authorized_operations
from ottla.api.call import Call
from ottla.api.metadata import describe_partition, topic_error
from ottla.api.needs import DESCRIBE, TOPIC
from ottla.base.errors import ErrorCode
from ottla.base.ids import INTERNAL_TOPICS, ZERO_UUID, TopicPartition
from ottla.broker.long_work import Steps
from ottla.controller.image import Topic
from ottla.controller.znodes import NO_LEADER
from ottla.wire.lazy import lazily
from ottla.wire.messages.describe_topic_partitions import (
    CursorResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)


def describe_topic_partitions(call: Call, request: DescribeTopicPartitionsRequest) -> Steps:
    image = call.broker.image
    first_topic, first_partition = "", 0
    if request.cursor is not None:
        first_topic, first_partition = request.cursor.topic_name, request.cursor.partition_index
    asked = [topic.name for topic in request.topics] or [
        name for name in image.topics if call.allows(DESCRIBE, TOPIC, name, is_asked=False)
    ]
    if first_partition < 0 or (first_topic and request.topics and first_topic not in asked):
        return _refuse(request)
    limit = min(max(request.response_partition_limit, 1), call.broker.config.request_partition_size_limit)
    response = DescribeTopicPartitionsResponse()
    for name in sorted(set(asked)):
        yield
        if name < first_topic:
            continue
        if limit <= 0:
            response.next_cursor = CursorResponse(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        is_allowed = not request.topics or call.allows(DESCRIBE, TOPIC, name)
        if topic is None or not is_allowed:
            code = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
            )
            response.topics.append(
                DescribeTopicPartitionsResponseTopic(name=name, error_code=code, topic_id=ZERO_UUID)
            )
            continue
        first = first_partition if name == first_topic else 0
        answer, following = _describe(call, topic, first, limit)
        response.topics.append(answer)
        limit -= len(answer.partitions)
        if following is not None:
            response.next_cursor = CursorResponse(topic_name=name, partition_index=following)
            break
    for answered in response.topics:
        if answered.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED and answered.name is not None:
            answered.topic_authorized_operations = authorized_operations(call, TOPIC, answered.name)
    return response


def _refuse(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """A cursor that points nowhere: an error for each topic, since the answer has no error of its own."""

    def refuse(topic: TopicRequest) -> DescribeTopicPartitionsResponseTopic:
        return DescribeTopicPartitionsResponseTopic(
            name=topic.name, error_code=ErrorCode.INVALID_REQUEST, topic_id=ZERO_UUID
        )

    return DescribeTopicPartitionsResponse(topics=lazily(refuse, request.topics))


def _describe(
    call: Call, topic: Topic, first: int, limit: int
) -> tuple[DescribeTopicPartitionsResponseTopic, int | None]:
    """A page of a topic's partitions, and the partition the next page begins with."""
    states = topic.partitions()
    page = [index for index in states if index >= first]
    answer = DescribeTopicPartitionsResponseTopic(
        error_code=topic_error(states),
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
    )
    answer.partitions = [
        describe_partition(
            DescribeTopicPartitionsResponsePartition,
            call,
            TopicPartition(topic.name, index),
            states[index],
            eligible_leader_replicas=list(states[index].elr),
            last_known_elr=[leader for leader in (states[index].last_leader,) if leader != NO_LEADER],
        )
        for index in page[:limit]
    ]
    return answer, page[limit] if len(page) > limit else None
