"""OffsetForLeaderEpoch (key 23): where an epoch ended in the leader's log, so that others can find where to
cut.

The answer is the largest epoch not above the one asked for, and the offset at which it ended (KIP-101,
KIP-279). Only the leader answers, and only to who knows its epoch (KIP-320); a consumer hears of it once it
is certain that this broker led when it was asked (`leadership_proof`). In the name of a replica only that
broker asks, on a connection that is proved to be its own; others are told CLUSTER_AUTHORIZATION_FAILED. A
partition that is named twice is answered once.

v2 current leader epoch · v3 replica id · v4 flexible
"""

from functools import partial

from ottla.api.call import Call
from ottla.api.leadership_proof import check_led, proven
from ottla.api.named_partitions import by_topic, held_partitions
from ottla.api.needs import CLUSTER, CLUSTER_ACTION, DESCRIBE, TOPIC
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.long_work import Steps
from ottla.wire.lazy import lazily
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def offset_for_leader_epoch(call: Call, request: OffsetForLeaderEpochRequest) -> Steps:
    named = yield from by_topic(
        (topic.topic, asked.partition, asked) for topic in request.topics for asked in topic.partitions
    )
    partitions = held_partitions(call.broker, named) if request.replica_id < 0 else []
    return proven(call, partitions, lambda now_ms: _respond(call, request.replica_id, named, now_ms))


def _respond(
    call: Call, replica_id: int, named: dict[str, dict[int, OffsetForLeaderPartition]], now_ms: int
) -> OffsetForLeaderEpochResponse:
    def answer_topic(topic: str) -> OffsetForLeaderTopicResult:
        answer = partial(_answer, call, topic, replica_id, now_ms)
        return OffsetForLeaderTopicResult(topic=topic, partitions=lazily(answer, named[topic].values()))

    return OffsetForLeaderEpochResponse(topics=lazily(answer_topic, named))


def _answer(
    call: Call, topic: str, replica_id: int, now_ms: int, asked: OffsetForLeaderPartition
) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    try:
        if replica_id < 0 and not call.allows(CLUSTER_ACTION, CLUSTER, is_asked=False):
            call.require(DESCRIBE, TOPIC, topic)
        if replica_id >= 0 and not call.may_act_as(replica_id, "OffsetForLeaderEpoch"):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        partition = call.broker.partitions.find(topic, asked.partition)
        partition.check_leader(asked.current_leader_epoch)
        if replica_id < 0:
            check_led(call.broker, partition, call.now_ms, now_ms)
        answer.leader_epoch, answer.end_offset = partition.end_offset_for_epoch(asked.leader_epoch)
    except ApiError as error:
        answer.error_code = error.code
    except OSError as error:
        answer.error_code = call.broker.storage.failed(error)
    return answer
