"""OffsetForLeaderEpoch (key 23): where an epoch ended in the leader's log, so that others can find where to
cut.

The answer is the largest epoch not above the one asked for, and the offset at which it ended (KIP-101,
KIP-279). Only the leader answers, and only to who knows its epoch (KIP-320).

v2 current leader epoch · v3 replica id · v4 flexible
"""

from ottla.api.call import Call
from ottla.base.errors import ApiError
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def offset_for_leader_epoch(call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        results = [_answer(call, topic.topic, one) for one in topic.partitions]
        response.topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=results))
    return response


def _answer(call: Call, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    try:
        partition = call.broker.partition(topic, asked.partition)
        partition.check_leader(asked.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = partition.end_offset_for_epoch(asked.leader_epoch)
    except ApiError as error:
        answer.error_code = error.code
    except OSError as error:
        answer.error_code = call.broker.storage_error(error)
    return answer
