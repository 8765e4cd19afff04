"""ConsumerGroupDescribe (key 69): epochs, members, their assignments and targets in the new protocol
(KIP-848). A group that is named twice is described once.

v1 member type
"""

from ottla.api.call import Call
from ottla.api.coordinated import answer_with_descriptions, check_coordinator
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
