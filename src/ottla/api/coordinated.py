"""Requests to a group's coordinator: run on the group's shard, answered when what they rest on is
committed, and when it is certain that this broker was the coordinator (`broker/leadership_proofs`)."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from ottla.api.authorized_operations import ON_GROUP
from ottla.api.call import Call
from ottla.api.leadership_proof import proven
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition, uuid_text
from ottla.broker.broker import Broker
from ottla.broker.leadership_proofs import Proof
from ottla.broker.long_work import Steps
from ottla.broker.parked import Key, Parked
from ottla.coordinator.turn import Answer, Turn
from ottla.group.group import Caller
from ottla.group.shard import GroupShard
from ottla.wire.lazy import lazily

R = TypeVar("R")


class Described(Protocol):
    """A group, in the answer of either API that describes groups."""

    error_code: int
    authorized_operations: int


D = TypeVar("D", bound=Described)

PATIENCE_MS = 7 * 24 * 3600 * 1000

# What went wrong with the partition that stores the group, as a client of the group should hear it.
_STORAGE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

# What rests on nothing that this coordinator knows: there is none here, or the request itself is wrong.
_AT_ONCE = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_SESSION_TIMEOUT,
    ErrorCode.INVALID_REGULAR_EXPRESSION,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.UNSUPPORTED_ASSIGNOR,
    ErrorCode.UNSUPPORTED_VERSION,
}


def caller_of(call: Call, name: str | None) -> Caller:
    """Who asks. If it has no member id yet, it gets one made of `name` and something random."""
    member_id = f"{name}-{call.random_uuid()}" if name else uuid_text(call.broker.random.randbytes(16))
    return Caller(call.client_id, call.client_host, call.version, member_id)


def coordinated(
    call: Call,
    group_id: str,
    operation: Callable[[GroupShard, Turn, Answer], None],
    refuse: Callable[[ApiError], Any],
    *,
    timeout_ms: int = PATIENCE_MS,
) -> Any:
    """The answer of an operation, or Parked until it has one that may be sent. Most refusals rest on what the
    coordinator knows as much as any answer does, and wait alike."""
    broker, answer = call.broker, Answer()
    topic_partition = broker.coordinators.groups.partition_of(group_id)
    if topic_partition in broker.proofs.in_doubt:
        return refuse(ApiError(ErrorCode.NOT_COORDINATOR))
    try:
        broker.coordinators.groups.execute(
            group_id, call.now_ms, lambda shard, turn: operation(shard, turn, answer)
        )
    except ApiError as error:
        code = _STORAGE.get(error.code, error.code)
        refusal = refuse(ApiError(code, error.message))
        if code in _AT_ONCE or error.code in _STORAGE:
            return refusal
        end_offset = broker.partitions[topic_partition].log.log_end_offset
        answer.reply, answer.after_offset, answer.given_ms = refusal, end_offset, call.now_ms
        timeout_ms = min(timeout_ms, broker.coordinators.groups.config.commit_timeout_ms)
    reply = _sendable(broker, topic_partition, answer, call.now_ms)
    if reply is not None:
        return reply
    shards = broker.coordinators.groups.runtime.shards
    loaded = shards[topic_partition.partition]

    def ready(_key: Key, now_ms: int) -> Any | None:
        if shards.get(topic_partition.partition) is not loaded:
            return refuse(ApiError(ErrorCode.NOT_COORDINATOR))  # the shard that would answer is gone
        reply = _sendable(broker, topic_partition, answer, now_ms)
        if reply is None and topic_partition in broker.proofs.in_doubt:
            return refuse(ApiError(ErrorCode.NOT_COORDINATOR))
        return reply

    return Parked(
        keys=(answer, topic_partition, Proof(topic_partition)),
        deadline_ms=call.now_ms + timeout_ms,
        ready=ready,
        expire=lambda _now_ms: refuse(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)),
    )


def _sendable(broker: Broker, topic_partition: TopicPartition, answer: Answer, now_ms: int) -> Any | None:
    partition = broker.partitions[topic_partition]
    if answer.reply is None or partition.high_watermark < answer.after_offset:
        return None
    if partition.replication is not None and partition.replication.is_held:
        return None  # the coordinator before may still answer, and knows nothing of what is in memory here
    if not broker.proofs.led_at(partition, answer.given_ms, now_ms):
        broker.proofs.ask_for(partition, answer.given_ms, now_ms)
        return None
    return answer.reply


def check_coordinator(call: Call, group_id: str, now_ms: int) -> None:
    """Refuse to speak of a group while this broker may not know all that was committed, or may have been
    replaced: with the one error after which every client asks again (librdkafka, told NOT_COORDINATOR, would
    look for another and leave the partitions it asked about unread)."""
    broker = call.broker
    partition = broker.partitions.get(broker.coordinators.groups.partition_of(group_id))
    if partition is None or not partition.is_leader:
        raise ApiError(ErrorCode.NOT_COORDINATOR)
    if not partition.is_settled or not broker.proofs.led_at(partition, call.now_ms, now_ms):
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def answer_about_groups(call: Call, group_ids: Iterable[str], respond: Callable[[int], Any]) -> Steps:
    """What `respond` says of groups, once this broker can be certain of it. It calls `check_coordinator`."""
    broker = call.broker
    topic_partitions: dict[TopicPartition, None] = {}
    for group_id in group_ids:
        topic_partitions[broker.coordinators.groups.partition_of(group_id)] = None
        yield
    partitions = [
        broker.partitions[topic_partition]
        for topic_partition in topic_partitions
        if topic_partition in broker.partitions
    ]
    return proven(call, partitions, respond, settled=True)


def answer_with_descriptions(
    call: Call,
    group_ids: Iterable[str],
    describe: Callable[[Call, str, int], D],
    respond: Callable[[list[D]], Any],
    *,
    with_operations: bool,
) -> Steps:
    """A response with the description of every group, each of them once."""
    unique = dict.fromkeys(group_ids)

    def answer(now_ms: int) -> Any:
        def description(group_id: str) -> D:
            group = describe(call, group_id, now_ms)
            if with_operations and not group.error_code:
                group.authorized_operations = ON_GROUP
            return group

        return respond(lazily(description, unique))

    return answer_about_groups(call, unique, answer)
