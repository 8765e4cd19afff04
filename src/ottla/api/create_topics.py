"""CreateTopics (key 19): new topics with counts or a replica assignment, and configs.

The answer comes when the topic is in the image and this broker has made its logs (`broker/log_queue`), so
that what it leads can be used at once; if that takes too long, the topic is created all the same. A name
given twice in one request is an error for that name. -1 partitions or replicas take the broker's defaults
(KIP-464).

v4 defaults · v5 flexible, counts and configs in the answer · v6 quota error · v7 topic id in the answer
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from ottla.api.call import Call
from ottla.api.needs import CLUSTER, CREATE, DESCRIBE_CONFIGS, TOPIC
from ottla.api.writes import Item, Writes, once_made, written
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import KRAFT_TOPIC
from ottla.broker.broker import Broker
from ottla.broker.config_entries import describe_topic
from ottla.broker.long_work import Steps
from ottla.broker.settings import Settings
from ottla.controller.keeper import Operation
from ottla.controller.topics import DEFAULT, NewTopic, PlannedTopic, check_partition_count, plan_topic
from ottla.wire.lazy import lazily
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

QUOTA_ERROR_SINCE = 6


def create_topics(call: Call, request: CreateTopicsRequest) -> Steps:
    times: Counter[str] = Counter()
    count = 0
    items: dict[str, Item] = {}
    planned: dict[str, PlannedTopic] = {}
    respond = partial(_respond, call, request, items, planned)
    writes = Writes(call.broker, lambda: once_made(call, written(items), request.timeout_ms, respond))

    may_create_any, denied = call.allows(CREATE, CLUSTER, is_asked=False), set[str]()

    def plan(asked: CreatableTopic) -> Sequence[Operation]:
        if times[asked.name] > 1:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Topic '{asked.name}' is in the request more than once."
            )
        if asked.name == KRAFT_TOPIC:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Nobody creates {KRAFT_TOPIC}.")
        if asked.name in denied:
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        check_partition_count(count)
        existing = call.broker.image.topics.get(asked.name)
        if existing is not None and asked.name in planned and existing.id == planned[asked.name].id:
            return []  # the keeper's answer was lost; the topic is ours all the same
        planned[asked.name] = _plan(call.broker, _new_topic(asked))
        if items[asked.name].attempts == 1:
            call.count_mutations(len(planned[asked.name].assignment), QUOTA_ERROR_SINCE)
        return [] if request.validate_only else planned[asked.name].operations(call.broker.image)

    for topic in request.topics:
        times[topic.name] += 1
        if not may_create_any and not call.allows(CREATE, TOPIC, topic.name):
            denied.add(topic.name)
        count += _partition_count(call.broker, topic)
        items[topic.name] = writes.add(partial(plan, topic))
        yield
    return (yield from writes.answer(call, request.timeout_ms))


def plan_new_topic(broker: Broker, new: NewTopic) -> Sequence[Operation]:
    """For whoever needs a topic, and does not mind who makes it."""
    return _plan(broker, new).operations(broker.image)


def _plan(broker: Broker, new: NewTopic) -> PlannedTopic:
    return plan_topic(
        broker.image,
        new,
        broker.random.randbytes(16),
        broker.settings.log_config,
        partitions=broker.config.num_partitions,
        replication=broker.config.default_replication_factor,
    )


def _partition_count(broker: Broker, asked: CreatableTopic) -> int:
    """How many partitions a topic asks for; what is illegal counts for nothing, and is refused on its own."""
    default = broker.config.num_partitions if asked.num_partitions == DEFAULT else asked.num_partitions
    return len(asked.assignments) or max(default, 0)


def _new_topic(asked: CreatableTopic) -> NewTopic:
    given = [config.name for config in asked.configs]
    if len(set(given)) != len(given):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"A config of topic '{asked.name}' is given more than once."
        )
    assignment = {
        replica_assignment.partition_index: tuple(replica_assignment.broker_ids)
        for replica_assignment in asked.assignments
    }
    if len(assignment) != len(asked.assignments):
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is assigned more than once.")
    return NewTopic(
        name=asked.name,
        partitions=asked.num_partitions,
        replication_factor=asked.replication_factor,
        assignment=assignment or None,
        configs={config.name: config.value for config in asked.configs},
    )


def _respond(
    call: Call, request: CreateTopicsRequest, items: dict[str, Item], planned: dict[str, PlannedTopic]
) -> CreateTopicsResponse:
    def answer(name: str) -> CreatableTopicResult:
        item = items[name]
        result = CreatableTopicResult(
            name=name, error_code=item.error_code, error_message=item.error_message, configs=None
        )
        if item.error is None:
            topic = planned[name]
            result.topic_id = topic.id if not request.validate_only else bytes(16)
            if not call.allows(DESCRIBE_CONFIGS, TOPIC, name, is_asked=False):
                result.topic_config_error_code, result.configs = ErrorCode.TOPIC_AUTHORIZATION_FAILED, []
                return result
            result.num_partitions = len(topic.assignment)
            result.replication_factor = topic.replication_factor
            result.configs = _configs(call.broker.settings, topic)
        return result

    return CreateTopicsResponse(topics=lazily(answer, items))


def _configs(settings: Settings, topic: PlannedTopic) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=False,
            config_source=entry.source,
            is_sensitive=False,
        )
        for entry in describe_topic(settings, topic.configs)
    ]
