"""DescribeGroups (key 15): state, protocol and members of classic groups.

A group that is not there is described as Dead without an error, up to v5; v6 answers GROUP_ID_NOT_FOUND
(KIP-1043). One that is named twice is described once.

v3 authorized operations · v4 static members · v5 flexible · v6 error message
"""

from ottla.api.call import Call
from ottla.api.coordinated import answer_with_descriptions, check_coordinator, check_described
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.long_work import Steps
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

NOT_FOUND_SINCE = 6


def describe_groups(call: Call, request: DescribeGroupsRequest) -> Steps:
    return answer_with_descriptions(
        call,
        request.groups,
        _describe,
        lambda groups: DescribeGroupsResponse(groups=groups),
        with_operations=request.include_authorized_operations,
    )


def _describe(call: Call, group_id: str, now_ms: int) -> DescribedGroup:
    try:
        check_described(call, group_id)
        shard = call.broker.coordinators.groups.shard_of(group_id)
        check_coordinator(call, group_id, now_ms)
        return shard.describe_classic(group_id)
    except ApiError as error:
        described = DescribedGroup(group_id=group_id, group_state="", protocol_type="", protocol_data="")
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            described.group_state = "Dead"
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND or call.version >= NOT_FOUND_SINCE:
            described.error_code, described.error_message = error.code, error.message
        return described
