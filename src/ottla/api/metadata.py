"""Metadata (key 3): brokers, topics, partitions and their leaders.

A topic that is not there is created if the client allows it and `auto.create.topics.enable` does; the
answer waits for that, so that a first produce needs no second try. Answers are encoded once and kept until
the image changes (`dispatch`). A broker about to stop is listed: it serves until it is gone. The list is
never empty: when all sessions have ended, because ZooKeeper was away, whoever answers is there all the same.
A replica is offline if its broker is not there or its directory failed; a leader that is, is none
(LEADER_NOT_AVAILABLE). Nor is this broker itself where that is in doubt (`broker/proofs`): then the answer is
the last one on its connection, and the client asks another broker next time.

v0 an empty list asks for all topics; v1 null does · v2 cluster id · v4 allow_auto_topic_creation
v5 offline replicas · v7 leader epochs · v8 authorized operations, the cluster's up to v10 · v9 flexible
v10 topic ids in the answer · v12 and in the request · v13 top-level error
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from ottla.api.authorized_operations import ON_CLUSTER, ON_TOPIC
from ottla.api.call import Call, LastAnswer
from ottla.api.create_topics import plan_new_topic
from ottla.api.proven import SENT_AWAY
from ottla.api.writes import Item, Writes
from ottla.base.errors import ErrorCode
from ottla.base.ids import INTERNAL_TOPICS, OFFSETS_TOPIC, ZERO_UUID, TopicPartition, is_topic_name
from ottla.broker.broker import Broker
from ottla.broker.parked import Parked
from ottla.controller.draft import endpoints
from ottla.controller.image import BrokerEndpoint, PartitionState, Topic
from ottla.controller.keeper import Operation
from ottla.controller.topics import NewTopic
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

P = TypeVar("P")

BY_ID_SINCE = 12
AUTO_CREATE_WAIT_MS = 5_000
AUTO_CREATED_MAX = 1_000  # by one request; the client asks again for the others


def metadata(call: Call, request: MetadataRequest) -> MetadataResponse | Parked | LastAnswer:
    answer = _answer_all(call, request)
    if call.broker.proofs.in_doubt and not isinstance(answer, Parked):
        return LastAnswer(answer, SENT_AWAY)
    return answer


def _answer_all(call: Call, request: MetadataRequest) -> MetadataResponse | Parked:
    broker, image = call.broker, call.broker.image
    if request.topics is None or (call.version == 0 and not request.topics):
        return _respond(broker, request, [_describe(broker, topic) for topic in image.topics.values()])
    asked = list({(one.name, one.topic_id): one for one in request.topics}.values())
    if call.version < BY_ID_SINCE and any(one.name is None or one.topic_id != ZERO_UUID for one in asked):
        return _respond(broker, request, [_refused(one) for one in asked])
    may_create = call.broker.config.auto_create_topics and request.allow_auto_topic_creation
    created: dict[str, Item] = {}
    writes = Writes(
        call.broker, lambda: _respond(broker, request, [_answer(broker, one, created) for one in asked])
    )
    for name in dict.fromkeys(
        one.name for one in asked if one.name is not None and one.topic_id == ZERO_UUID
    ):
        if len(created) == AUTO_CREATED_MAX:
            break
        if may_create and name not in image.topics and is_topic_name(name):
            created[name] = writes.add(partial(_plan_topic, call.broker, name))
    return writes.answer(call, AUTO_CREATE_WAIT_MS)  # type: ignore[no-any-return]


def _plan_topic(broker: Broker, name: str) -> Sequence[Operation]:
    new = broker.groups.offsets_topic() if name == OFFSETS_TOPIC else NewTopic(name=name)
    return plan_new_topic(broker, new)


def listed_brokers(broker: Broker) -> list[BrokerEndpoint]:
    image = broker.image
    return list(image.brokers.values()) or [one for one in image.seen.values() if one.id == broker.id]


def _respond(
    broker: Broker, request: MetadataRequest, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    image = broker.image
    brokers = [
        MetadataResponseBroker(node_id=one.id, host=one.host, port=one.port, rack=one.rack)
        for one in listed_brokers(broker)
    ]
    response = MetadataResponse(
        brokers=brokers, cluster_id=image.cluster_id, controller_id=image.controller_id, topics=topics
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ON_CLUSTER
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.name is not None:
                topic.topic_authorized_operations = ON_TOPIC
    return response


def _answer(broker: Broker, asked: MetadataRequestTopic, created: dict[str, Item]) -> MetadataResponseTopic:
    image = broker.image
    if asked.topic_id != ZERO_UUID:
        name = image.topic_names.get(asked.topic_id)
        if name is None:
            return MetadataResponseTopic(
                name=None, topic_id=asked.topic_id, error_code=ErrorCode.UNKNOWN_TOPIC_ID
            )
        return _describe(broker, image.topics[name])
    topic = image.topics.get(asked.name or "")
    if topic is not None:
        return _describe(broker, topic)
    item = created.get(asked.name or "")
    code = _unknown(asked.name or "")
    if item and item.error and item.error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
        timed_out = item.error.code == ErrorCode.REQUEST_TIMED_OUT
        code = ErrorCode.LEADER_NOT_AVAILABLE if timed_out else item.error.code
    return MetadataResponseTopic(name=asked.name, error_code=code)


def _unknown(name: str) -> ErrorCode:
    legal = is_topic_name(name)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION


def _refused(asked: MetadataRequestTopic) -> MetadataResponseTopic:
    """v10 and v11 have room for an id in the request, and yet cannot be asked by it."""
    return MetadataResponseTopic(
        name=asked.name or "", topic_id=asked.topic_id, error_code=ErrorCode.INVALID_REQUEST
    )


def describe_partition(
    made: Callable[..., P], broker: Broker, id: TopicPartition, state: PartitionState, **more: Any
) -> P:
    """A partition, as the class `made` of an answer: DescribeTopicPartitions has one with `more` fields.

    A replica whose log directory failed counts as one whose broker is gone; of our own we know it first.
    """
    there = endpoints(broker.image, *id, state.replicas)
    if id in broker.store.lost:
        there.pop(broker.id, None)
    alive = state.leader in there and not (state.leader == broker.id and id in broker.proofs.in_doubt)
    return made(
        error_code=ErrorCode.NONE if alive else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=id.partition,
        leader_id=state.leader if alive else -1,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=[r for r in state.replicas if r not in there],
        **more,
    )


def _describe(broker: Broker, topic: Topic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=_describe_partitions(broker, topic),
    )


def _describe_partitions(broker: Broker, topic: Topic) -> list[MetadataResponsePartition]:
    """There may be thousands, and most are like one before: the same replicas, of which the same lead and are
    in sync. That holds as long as no replica is offline on its own."""
    made: list[MetadataResponsePartition] = []
    seen: dict[object, MetadataResponsePartition] = {}
    may_differ = bool(broker.image.offline or broker.store.lost or broker.proofs.in_doubt)
    for index, state in sorted(topic.states.items()):
        replicas = topic.assignment.get(index)
        if replicas is None:
            continue  # the topic is being created, or grows
        kind = (replicas, state.leader, state.isr)
        like = seen.get(kind)
        if like is None or may_differ:
            id, whole = TopicPartition(topic.name, index), PartitionState(replicas, *state)
            one = seen[kind] = describe_partition(MetadataResponsePartition, broker, id, whole)
        else:
            one = MetadataResponsePartition(
                error_code=like.error_code,
                partition_index=index,
                leader_id=like.leader_id,
                leader_epoch=state.leader_epoch,
                replica_nodes=like.replica_nodes,
                isr_nodes=like.isr_nodes,
                offline_replicas=like.offline_replicas,
            )
        made.append(one)
    return made
