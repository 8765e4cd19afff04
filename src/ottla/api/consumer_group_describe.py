"""ConsumerGroupDescribe (key 69): epochs, members, their assignments and targets in the new protocol
(KIP-848). A group that is named twice is described once. Whoever may not describe all of the topics that are
assigned is told nothing of its members: TOPIC_AUTHORIZATION_FAILED.

v1 member type
"""

from ottla.api.call import Call
from ottla.api.coordinated import answer_with_descriptions, check_coordinator, check_described
from ottla.api.needs import DESCRIBE, TOPIC
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.long_work import Steps
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def consumer_group_describe(call: Call, request: ConsumerGroupDescribeRequest) -> Steps:
    return answer_with_descriptions(
        call,
        request.group_ids,
        _describe,
        lambda groups: ConsumerGroupDescribeResponse(groups=groups),
        with_operations=request.include_authorized_operations,
    )


def _describe(call: Call, group_id: str, now_ms: int) -> DescribedGroup:
    try:
        if "consumer" not in call.broker.coordinators.groups.config.rebalance_protocols:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        check_described(call, group_id)
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        shard = call.broker.coordinators.groups.shard_of(group_id)
        check_coordinator(call, group_id, now_ms)
        described = shard.describe_consumer(group_id)
        _check_topics(call, described)
        return described
    except ApiError as error:
        return DescribedGroup(
            error_code=error.code,
            error_message=error.message,
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
        )


def _check_topics(call: Call, group: DescribedGroup) -> None:
    if call.broker.access.authorizer is None:
        return
    topics = {
        assigned.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for assigned in assignment.topic_partitions
    }
    if not all(call.allows(DESCRIBE, TOPIC, topic) for topic in sorted(topics)):
        raise ApiError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "The group has described topic(s) that the client is not authorized to describe.",
        )
