"""OffsetCommit (key 8): remember how far a group has read; answered when that is committed itself.

Each partition has its own error: a topic that is not there, metadata that is too long. A wrong member,
generation or epoch is an error of the whole. Of a partition that is named twice the last offset is stored.
A commit of few offsets is done at once, any other in slices.

v2 retention time of the client (until v4) · v6 leader epochs · v7 static members · v8 flexible
v9 member epochs of the new protocol · v10 topic ids
"""

from collections.abc import Generator
from typing import Any, Protocol

from ottla.api.call import Call
from ottla.api.coordinated import coordinated
from ottla.api.needs import GROUP, READ, TOPIC
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.long_work import Steps, finished
from ottla.broker.operations import Tried
from ottla.controller.image import Topic as ImageTopic
from ottla.group.commits import Commit, OffsetToCommit
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE = 10
FEW = 32  # offsets: committed in a third of a millisecond

# Added to the time of the commit, it must still fit 64 bits.
RETENTION_MS_MAX = 1 << 62


class AskedPartition(Protocol):
    """A partition in a request of either API that commits offsets."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


def offset_commit(call: Call, request: OffsetCommitRequest, tried: Tried | None = None) -> Any:
    """OffsetCommit. `tried`: it was stored already, or that failed (`single_commit`)."""
    steps = _commit(call, request, tried)
    return finished(steps) if sum([len(topic.partitions) for topic in request.topics]) <= FEW else steps


def _commit(call: Call, request: OffsetCommitRequest, tried: Tried | None) -> Steps:
    is_allowed = call.allows(READ, GROUP, request.group_id)
    response, offsets = yield from _check(call, request, is_allowed=is_allowed)
    if not is_allowed:
        return response

    def refuse(error: ApiError) -> OffsetCommitResponse:
        for topic in response.topics:
            for partition in topic.partitions:
                partition.error_code = partition.error_code or error.code
        return response

    if tried is not None and tried.error is None:
        tried.answer.reply = response
    commit = Commit(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        epoch=request.generation_id_or_member_epoch,
        retention_ms=min(request.retention_time_ms, RETENTION_MS_MAX),
        offsets=list(offsets.values()),
        version=call.version,
    )
    return coordinated(
        call,
        request.group_id,
        lambda shard, turn, answer: shard.commit_offsets(turn, answer, commit, response),
        refuse,
        timeout_ms=call.broker.coordinators.groups.config.commit_timeout_ms,
        tried=tried,
    )


def _check(
    call: Call, request: OffsetCommitRequest, *, is_allowed: bool
) -> Generator[None, None, tuple[OffsetCommitResponse, dict[TopicPartition, OffsetToCommit]]]:
    """The answer, with the errors that are known already, and what is left to commit."""
    image, limit = call.broker.image, call.broker.coordinators.groups.config.metadata_bytes_max
    response, offsets = OffsetCommitResponse(), dict[TopicPartition, OffsetToCommit]()
    for topic in request.topics:
        by_id = call.version >= TOPIC_IDS_SINCE
        name = image.topic_names.get(topic.topic_id, "") if by_id else topic.name
        listed = image.topics.get(name)
        answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(answer)
        refusal = ErrorCode.NONE
        if not is_allowed:
            refusal = ErrorCode.GROUP_AUTHORIZATION_FAILED
        elif name and not call.allows(READ, TOPIC, name):
            refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for partition in topic.partitions:
            yield
            index = partition.partition_index
            result = OffsetCommitResponsePartition(partition_index=index)
            answer.partitions.append(result)
            if refusal:
                result.error_code = refusal
            elif by_id and listed is None:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_ID
            else:
                result.error_code = fault_of(partition, listed, limit)
            if not result.error_code:
                offsets[TopicPartition(name, index)] = to_commit(name, partition)
    return response, offsets


def fault_of(asked: AskedPartition, listed: ImageTopic | None, metadata_max: int) -> ErrorCode:
    """What keeps an offset from being committed, whoever commits it."""
    if listed is None or asked.partition_index not in listed.assignment:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len(asked.committed_metadata or "") > metadata_max:  # characters, whatever the key is called
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def to_commit(topic: str, asked: AskedPartition) -> OffsetToCommit:
    return OffsetToCommit(
        topic,
        asked.partition_index,
        asked.committed_offset,
        asked.committed_leader_epoch,
        asked.committed_metadata or "",
    )
