"""FindCoordinator (key 10): which broker coordinates a group, or a transactional id.

It is the leader of the partition of `__consumer_offsets`, or `__transaction_state`, that the id hashes to.
The topic is created when it is first asked for, and the answer waits for that and for this broker's logs.
While there are fewer brokers than offsets.topic.replication.factor, or
transaction.state.log.replication.factor, asks for, the answer is COORDINATOR_NOT_AVAILABLE, and the client
asks again.
A broker names itself only if it was certain to lead a moment ago: one that was replaced, and does not know
it, would draw clients to itself for ever. Where it is in doubt for longer (`broker/leadership_proofs`), that
is the last answer on the connection, and the client asks another broker.

v1 key type: groups (0); transactions (1) and share groups (2) · v3 flexible · v4 several keys at once
(KIP-699)
v5 TRANSACTION_ABORTABLE · v6 share groups
Left out: share groups (INVALID_REQUEST).
"""

from collections.abc import Collection, Sequence
from functools import partial

from ottla.api.call import REFUSALS, Call
from ottla.api.create_topics import plan_new_topic
from ottla.api.leadership_proof import last_if_in_doubt
from ottla.api.needs import DESCRIBE
from ottla.api.writes import Item, Writes, once_made
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from ottla.broker.broker import Broker
from ottla.broker.long_work import Steps
from ottla.controller.image import BrokerEndpoint
from ottla.controller.keeper import Operation
from ottla.security.resources import ResourceType
from ottla.wire.lazy import lazily
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP, TRANSACTION = 0, 1
BATCHED_SINCE = 4
WAIT_MS = 10_000
CERTAIN_MS = 1_000


def find_coordinator(call: Call, request: FindCoordinatorRequest) -> Steps:
    keys = list(dict.fromkeys(request.coordinator_keys)) if call.version >= BATCHED_SINCE else [request.key]
    kind = ResourceType.TRANSACTIONAL_ID if request.key_type == TRANSACTION else ResourceType.GROUP
    denied = {key for key in keys if not call.allows(DESCRIBE, kind, key)}
    topic = _topic_of(request.key_type)
    writes = Writes(
        call.broker,
        lambda: once_made(
            call,
            [] if topic is None else [topic],
            WAIT_MS,
            lambda: _respond(call, request.key_type, keys, denied, writes.items),
        ),
    )
    if (
        topic is not None
        and any(key and key not in denied for key in keys)
        and topic not in call.broker.image.topics
    ):
        writes.add(lambda: _plan(call.broker, topic))
    return last_if_in_doubt(call, writes.answer(call, WAIT_MS))


def _topic_of(key_type: int) -> str | None:
    """Where a coordinator stores keys of this type; None if nobody coordinates them."""
    if key_type == TRANSACTION:
        return TRANSACTIONS_TOPIC
    return OFFSETS_TOPIC if key_type == GROUP else None


def _plan(broker: Broker, topic: str) -> Sequence[Operation]:
    new = broker.coordinators.internal_topic(topic)
    assert new is not None, f"nobody coordinates what is in {topic}"
    return plan_new_topic(broker, new)


def _respond(
    call: Call, key_type: int, keys: list[str], denied: Collection[str], created: list[Item]
) -> FindCoordinatorResponse:
    obstacle = next((item.error_message for item in created if item.error), None)
    find = partial(_find, call, key_type, denied, obstacle)
    if call.version >= BATCHED_SINCE:
        return FindCoordinatorResponse(coordinators=lazily(find, keys))
    coordinator = find(keys[0])
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _find(call: Call, key_type: int, denied: Collection[str], obstacle: str | None, key: str) -> Coordinator:
    try:
        if key in denied:
            is_group = key_type == GROUP
            raise ApiError(REFUSALS[ResourceType.GROUP if is_group else ResourceType.TRANSACTIONAL_ID])
        broker = _coordinator_of(call, key_type, key, obstacle)
    except ApiError as error:
        return Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message
        )
    host, port = broker.endpoints[call.listener]
    return Coordinator(key=key, node_id=broker.id, host=host, port=port)


def _coordinator_of(call: Call, key_type: int, key: str, obstacle: str | None) -> BrokerEndpoint:
    """`obstacle`: what kept the coordinator's topic from being created."""
    name = _topic_of(key_type)
    if name is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"There is no coordinator for keys of type {key_type}.")
    if not key:
        is_group = key_type == GROUP
        raise ApiError(
            ErrorCode.INVALID_GROUP_ID if is_group else ErrorCode.INVALID_REQUEST,
            "A group needs an id." if is_group else "A transactional id is not empty.",
        )
    image, coordinators = call.broker.image, call.broker.coordinators
    topic = image.topics.get(name)
    if key_type == GROUP:
        topic_partition = coordinators.groups.partition_of(key)
    else:
        topic_partition = coordinators.transactions.partition_of(key)
    state = topic.states.get(topic_partition.partition) if topic else None
    leader = image.brokers.get(state.leader) if state else None
    if leader is None or (leader.id == call.broker.id and topic_partition in call.broker.store.lost):
        raise ApiError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, obstacle or f"{topic_partition} has no leader now."
        )
    if call.listener not in leader.endpoints:
        raise ApiError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Broker {leader.id} has no listener {call.listener}."
        )
    if leader.id == call.broker.id:
        _check_certain(call, topic_partition)
    return leader


def _check_certain(call: Call, topic_partition: TopicPartition) -> None:
    """Where it was not, clients ask again soon, and by then the keeper may have confirmed it."""
    broker, now_ms = call.broker, call.now_ms
    partition = broker.partitions.get(topic_partition)
    if partition is None or partition.replication is None:
        return
    since_ms = now_ms - CERTAIN_MS
    if partition.replication.now_ms < since_ms and not broker.proofs.led_at(partition, since_ms, now_ms):
        broker.proofs.ask_for(partition, now_ms, now_ms)
        raise ApiError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"Nothing confirms that broker {broker.id} still coordinates.",
        )
