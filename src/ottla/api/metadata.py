"""Metadata (key 3): brokers, topics, partitions and their leaders.

A topic that is not there is created if the client allows it and `auto.create.topics.enable` does; the answer
waits for that, so that a first produce needs no second try. With an authorizer, topics that who asks may not
describe are left out of the list of all, and a topic that it names is TOPIC_AUTHORIZATION_FAILED whether it
is there or not; so is one that is not there, and that it may not create. Answers are encoded once and kept
until the image changes (`dispatch`), topics until they or the brokers do (`broker/kept_answers`). A topic
whose partitions are not known yet is LEADER_NOT_AVAILABLE as a whole. A broker about to stop is listed: it
serves until it is gone. The list is never empty: when all sessions have ended, because ZooKeeper was away,
whoever answers is there all the same. A replica is offline if its broker is not there or its directory
failed; a leader that is, is none (LEADER_NOT_AVAILABLE). Brokers are named with the address of the listener
that is asked; a leader that has none there is none either (LISTENER_NOT_FOUND since v6). Nor is this broker
itself where that is in doubt (`broker/leadership_proofs`): then the answer is the last one on its connection,
and the client asks another broker next time.

v0 an empty list asks for all topics; v1 null does · v2 cluster id · v4 allow_auto_topic_creation
v5 offline replicas · v7 leader epochs · v8 authorized operations, the cluster's up to v10 · v9 flexible
v10 topic ids in the answer · v12 and in the request · v13 top-level error
"""

from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from ottla.api.authorized_operations import authorized_operations
from ottla.api.call import Call
from ottla.api.create_topics import plan_new_topic
from ottla.api.leadership_proof import last_if_in_doubt
from ottla.api.needs import CLUSTER, CREATE, DESCRIBE, TOPIC
from ottla.api.writes import Item, Writes, once_made, written
from ottla.base.addresses import Address
from ottla.base.errors import ErrorCode
from ottla.base.ids import INTERNAL_TOPICS, ZERO_UUID, TopicPartition, is_topic_name
from ottla.broker.broker import Broker
from ottla.broker.long_work import Steps
from ottla.controller.draft import endpoints
from ottla.controller.image import BrokerEndpoint, PartitionState, Topic
from ottla.controller.keeper import Operation
from ottla.controller.topics import NewTopic
from ottla.controller.znodes import State
from ottla.wire.codec import encode_part_in_slices
from ottla.wire.lazy import Encoded, lazily, lazily_in_steps
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

A = TypeVar("A")
P = TypeVar("P")

BY_ID_SINCE = 12
LISTENER_NOT_FOUND_SINCE = 6
AUTO_CREATE_WAIT_MS = 5_000
UNASKED = -(2**31)  # of operations, in the messages' default
AUTO_CREATED_MAX = 1_000  # by one request; the client asks again for the others


def metadata(call: Call, request: MetadataRequest) -> Steps:
    return last_if_in_doubt(call, _answer_all(call, request))


def _answer_all(call: Call, request: MetadataRequest) -> Steps:
    image = call.broker.image
    if request.topics is None or (call.version == 0 and not request.topics):
        return _respond(call, request, lambda topic: topic, (yield from _visible(call)))
    asked: dict[tuple[str | None, bytes], MetadataRequestTopic] = {}
    is_refused = False
    may_create = call.broker.config.auto_create_topics and request.allow_auto_topic_creation
    created: dict[str, Item] = {}
    denied: set[str] = set()
    writes = Writes(
        call.broker,
        lambda: once_made(
            call,
            written(created),
            AUTO_CREATE_WAIT_MS,
            lambda: _respond(call, request, partial(_lookup, call, created, denied), asked.values()),
        ),
    )
    for topic in request.topics:
        yield
        name, by_name = topic.name, topic.topic_id == ZERO_UUID
        asked[name, topic.topic_id] = topic
        is_refused |= call.version < BY_ID_SINCE and (name is None or not by_name)
        listed = name if by_name else image.topic_names.get(topic.topic_id)
        if listed is not None and not call.allows(DESCRIBE, TOPIC, listed):
            denied.add(listed)
            continue
        if not may_create or name is None or not by_name or name in created or name in image.topics:
            continue
        if not call.allows(CREATE, CLUSTER, is_asked=False) and not call.allows(CREATE, TOPIC, name):
            denied.add(name)
        elif len(created) < AUTO_CREATED_MAX and is_topic_name(name):
            created[name] = writes.add(partial(_plan_topic, call.broker, name))
            call.count_mutations(call.broker.config.num_partitions)
    if is_refused:
        return _respond(call, request, _refused, asked.values())
    return (yield from writes.answer(call, AUTO_CREATE_WAIT_MS))


def _visible(call: Call) -> Generator[None, None, list[Topic]]:
    """All topics, but for those that whoever asks may not even know of."""
    topics = list(call.broker.image.topics.values())
    if call.broker.access.authorizer is None:
        return topics
    visible = []
    for topic in topics:
        yield
        if call.allows(DESCRIBE, TOPIC, topic.name, is_asked=False):
            visible.append(topic)
    return visible


def _plan_topic(broker: Broker, name: str) -> Sequence[Operation]:
    return plan_new_topic(broker, broker.coordinators.internal_topic(name) or NewTopic(name=name))


def listed_brokers(call: Call) -> list[tuple[BrokerEndpoint, Address]]:
    """Each with where it has the listener that is asked: one that has none is left out."""
    image = call.broker.image
    there = list(image.brokers.values()) or [
        endpoint for endpoint in image.seen.values() if endpoint.id == call.broker.id
    ]
    listener = call.listener
    return [(broker, broker.endpoints[listener]) for broker in there if listener in broker.endpoints]


def _respond(
    call: Call,
    request: MetadataRequest,
    look_up: Callable[[A], Topic | MetadataResponseTopic],
    asked: Collection[A],
) -> MetadataResponse:
    image = call.broker.image

    def answer(topic: A) -> Iterable[MetadataResponseTopic | Encoded | None]:
        described = look_up(topic)
        if isinstance(described, Topic):
            return _described(call, described, operations_on(described.name))
        if described.name is not None and described.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            described.topic_authorized_operations = operations_on(described.name)
        return (described,)

    def operations_on(topic: str) -> int:
        is_asked = request.include_topic_authorized_operations
        return authorized_operations(call, TOPIC, topic) if is_asked else UNASKED

    brokers = [
        MetadataResponseBroker(node_id=endpoint.id, host=address.host, port=address.port, rack=endpoint.rack)
        for endpoint, address in listed_brokers(call)
    ]
    response = MetadataResponse(
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=lazily_in_steps(answer, asked),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(call)
    return response


def cluster_operations(call: Call) -> int:
    """Whoever may not describe the cluster may do nothing with it."""
    if not call.allows(DESCRIBE, CLUSTER):
        return 0
    return authorized_operations(call, CLUSTER)


def _lookup(
    call: Call, created: dict[str, Item], denied: Collection[str], asked: MetadataRequestTopic
) -> Topic | MetadataResponseTopic:
    """A topic, or what is answered instead."""
    image = call.broker.image
    if asked.topic_id != ZERO_UUID:
        name = image.topic_names.get(asked.topic_id)
        if name is None or name in denied:
            code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return MetadataResponseTopic(name=None, topic_id=asked.topic_id, error_code=code)
        return image.topics[name]
    if asked.name in denied:
        return MetadataResponseTopic(name=asked.name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic = image.topics.get(asked.name or "")
    if topic is not None:
        return topic
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
    made: Callable[..., P],
    call: Call,
    topic_partition: TopicPartition,
    state: PartitionState,
    without_listener: ErrorCode = ErrorCode.LISTENER_NOT_FOUND,
    **more: Any,
) -> P:
    """A partition, as the class `made` of an answer: DescribeTopicPartitions has one with `more` fields.

    A replica whose log directory failed counts as one whose broker is gone; of our own we know it first.
    `without_listener` is the answer where the leader lacks the listener that is asked.
    """
    broker = call.broker
    there = endpoints(broker.image, *topic_partition, state.replicas)
    if topic_partition in broker.store.lost:
        there.pop(broker.id, None)
    code = ErrorCode.NONE
    if state.leader not in there or (state.leader == broker.id and topic_partition in broker.proofs.in_doubt):
        code = ErrorCode.LEADER_NOT_AVAILABLE
    elif call.listener not in there[state.leader].endpoints:
        code = without_listener
    return made(
        error_code=code,
        partition_index=topic_partition.partition,
        leader_id=-1 if code else state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=[r for r in state.replicas if r not in there],
        **more,
    )


def topic_error(partitions: Collection[object]) -> ErrorCode:
    """A topic without partitions is one of whose two nodes this broker has seen one so far. Clients take a
    topic that has none, and no error, for what it says, and some do not ask again for minutes."""
    return ErrorCode.NONE if partitions else ErrorCode.LEADER_NOT_AVAILABLE


def _described(call: Call, topic: Topic, operations: int) -> Iterable[Encoded | None]:
    key = (call.version, call.listener, operations)
    kept = call.broker.kept_topics.get(topic, key)
    return (kept,) if kept is not None else _encoded(call, topic, operations, key)


def _encoded(call: Call, topic: Topic, operations: int, key: Hashable) -> Iterator[Encoded | None]:
    kept_topics = call.broker.kept_topics
    basis = kept_topics.basis(topic)
    described = _describe(call, topic, operations)
    encoded = yield from encode_part_in_slices(described, MetadataResponse, call.version)
    kept_topics.put(topic, key, basis, encoded)
    yield None  # many small topics take as long as a large one
    yield encoded


def _describe(call: Call, topic: Topic, operations: int) -> MetadataResponseTopic:
    partitions = _describe_partitions(call, topic)
    return MetadataResponseTopic(
        error_code=topic_error(partitions),
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _describe_partitions(call: Call, topic: Topic) -> list[MetadataResponsePartition]:
    """There may be thousands, and most are like one before: the same replicas, of which the same lead and are
    in sync. That holds as long as no replica is offline on its own."""
    broker, assignment, seen = call.broker, topic.assignment, dict[object, MetadataResponsePartition]()
    is_new = call.version >= LISTENER_NOT_FOUND_SINCE
    missing = ErrorCode.LISTENER_NOT_FOUND if is_new else ErrorCode.LEADER_NOT_AVAILABLE
    may_differ = bool(broker.image.offline or broker.store.lost or broker.proofs.in_doubt)

    def describe(indexed: tuple[int, State]) -> MetadataResponsePartition:
        index, state = indexed
        replicas = assignment[index]
        kind = (replicas, state.leader, state.isr)
        like = seen.get(kind)
        if like is None or may_differ:
            topic_partition, whole = TopicPartition(topic.name, index), PartitionState(replicas, *state)
            seen[kind] = described = describe_partition(
                MetadataResponsePartition, call, topic_partition, whole, missing
            )
            return described
        return MetadataResponsePartition(
            error_code=like.error_code,
            partition_index=index,
            leader_id=like.leader_id,
            leader_epoch=state.leader_epoch,
            replica_nodes=like.replica_nodes,
            isr_nodes=like.isr_nodes,
            offline_replicas=like.offline_replicas,
        )

    # One without an assignment is being created, or its topic grows.
    return lazily(describe, sorted(entry for entry in topic.states.items() if entry[0] in assignment))
