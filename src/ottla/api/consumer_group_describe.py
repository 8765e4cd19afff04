"""ConsumerGroupDescribe (key 69): epochs, members, their assignments and targets in the new protocol
(KIP-848). A group that is named twice is described once.

v1 member type
"""

from ottla.api.authorized_operations import ON_GROUP
from ottla.api.call import Call
from ottla.api.coordinated import answer_about_groups, check_coordinator
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.slices import Steps
from ottla.wire.lazy import lazily
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def consumer_group_describe(call: Call, request: ConsumerGroupDescribeRequest) -> Steps:
    group_ids = dict.fromkeys(request.group_ids)

    def respond(now_ms: int) -> ConsumerGroupDescribeResponse:
        def describe(group_id: str) -> DescribedGroup:
            group = _describe(call, group_id, now_ms)
            if request.include_authorized_operations and not group.error_code:
                group.authorized_operations = ON_GROUP
            return group

        return ConsumerGroupDescribeResponse(groups=lazily(describe, group_ids))

    return answer_about_groups(call, group_ids, respond)


def _describe(call: Call, group_id: str, now_ms: int) -> DescribedGroup:
    try:
        if "consumer" not in call.broker.coordinators.groups.config.rebalance_protocols:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        shard = call.broker.coordinators.groups.shard_of(group_id)
        check_coordinator(call, group_id, now_ms)
        return shard.describe_consumer(group_id)
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
