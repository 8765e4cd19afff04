"""ConsumerGroupDescribe (key 69): epochs, members, their assignments and targets in the new protocol
(KIP-848).

v1 member type
Left out: authorized operations, until there are ACLs.
"""

from ottla.api.call import Call
from ottla.base.errors import ApiError, ErrorCode
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def consumer_group_describe(
    call: Call, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[_describe(call, group_id) for group_id in request.group_ids])


def _describe(call: Call, group_id: str) -> DescribedGroup:
    try:
        if "consumer" not in call.broker.groups.config.rebalance_protocols:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        return call.broker.groups.shard_of(group_id).describe_consumer(group_id)
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
