"""ConsumerGroupDescribe (key 69): epochs, members, their assignments and targets in the new protocol
(KIP-848).

v1 member type
"""

from ottla.api.authorized_operations import ON_GROUP
from ottla.api.call import Call, LastAnswer
from ottla.api.coordinated import answer_about_groups, check_coordinator
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.parked import Parked
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def consumer_group_describe(
    call: Call, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Parked | LastAnswer:
    def respond(now_ms: int) -> ConsumerGroupDescribeResponse:
        groups = [_describe(call, group_id, now_ms) for group_id in request.group_ids]
        for group in groups:
            if request.include_authorized_operations and not group.error_code:
                group.authorized_operations = ON_GROUP
        return ConsumerGroupDescribeResponse(groups=groups)

    return answer_about_groups(call, request.group_ids, respond)


def _describe(call: Call, group_id: str, now_ms: int) -> DescribedGroup:
    try:
        if "consumer" not in call.broker.groups.config.rebalance_protocols:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        shard = call.broker.groups.shard_of(group_id)
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
