"""ConsumerGroupDescribe (key 69): epochs, members, their assignments and targets in the new protocol
(KIP-848). A group that is named twice is described once. Whoever may not describe all of the topics that are
assigned is told nothing of its members: TOPIC_AUTHORIZATION_FAILED. Those that a member has only by its
regular expression are left out.

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
    Member,
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
    """A topic that only a regular expression leads to is left out: anybody can make up one that matches a
    name, and would be told by an error that there is such a topic."""
    if call.broker.access.authorizer is None:
        return
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            assignment.topic_partitions = [
                assigned
                for assigned in assignment.topic_partitions
                if _is_visible(call, member, assigned.topic_name)
            ]


def _is_visible(call: Call, member: Member, topic: str) -> bool:
    is_named = not member.subscribed_topic_regex or topic in member.subscribed_topic_names
    if call.allows(DESCRIBE, TOPIC, topic, is_asked=is_named):
        return True
    if is_named:
        raise ApiError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "The group has described topic(s) that the client is not authorized to describe.",
        )
    return False
