"""Requests to a group's coordinator: run on the group's shard, answered when what they rest on is
committed."""

from collections.abc import Callable
from typing import Any

from ottla.api.call import Call
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition, uuid_text
from ottla.broker.broker import Broker
from ottla.broker.parked import Key, Parked
from ottla.coordinator.turn import Answer, Turn
from ottla.group.classic import Caller
from ottla.group.shard import GroupShard

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
    """The answer of an operation, or Parked until it has one that may be sent."""
    broker, answer = call.broker, Answer()
    try:
        broker.groups.execute(group_id, call.now_ms, lambda shard, turn: operation(shard, turn, answer))
    except ApiError as error:
        return refuse(ApiError(_STORAGE.get(error.code, error.code), error.message))
    partition = broker.groups.partition_of(group_id)
    reply = _sendable(broker, partition, answer)
    if reply is not None:
        return reply
    shards = broker.groups.runtime.shards
    loaded = shards[partition.partition]

    def ready(_key: Key, _now_ms: int) -> Any | None:
        if shards.get(partition.partition) is not loaded:
            return refuse(ApiError(ErrorCode.NOT_COORDINATOR))  # the shard that would answer is gone
        return _sendable(broker, partition, answer)

    return Parked(
        keys=(answer, partition),
        deadline_ms=call.now_ms + timeout_ms,
        ready=ready,
        expire=lambda _now_ms: refuse(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)),
    )


def _sendable(broker: Broker, partition: TopicPartition, answer: Answer) -> Any | None:
    if answer.reply is None or broker.partitions[partition].high_watermark < answer.after_offset:
        return None
    return answer.reply
