"""DescribeGroups (key 15): state, protocol and members of classic groups.

A group that is not there is described as Dead without an error, up to v5; v6 answers GROUP_ID_NOT_FOUND
(KIP-1043).

v3 authorized operations · v4 static members · v5 flexible · v6 error message
"""

from ottla.api.authorized_operations import ON_GROUP
from ottla.api.call import Call, LastAnswer
from ottla.api.coordinated import answer_about_groups, check_coordinator
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.parked import Parked
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

NOT_FOUND_SINCE = 6


def describe_groups(
    call: Call, request: DescribeGroupsRequest
) -> DescribeGroupsResponse | Parked | LastAnswer:
    def respond(now_ms: int) -> DescribeGroupsResponse:
        groups = [_describe(call, group_id, now_ms) for group_id in request.groups]
        for group in groups:
            if request.include_authorized_operations and not group.error_code:
                group.authorized_operations = ON_GROUP
        return DescribeGroupsResponse(groups=groups)

    return answer_about_groups(call, request.groups, respond)


def _describe(call: Call, group_id: str, now_ms: int) -> DescribedGroup:
    try:
        shard = call.broker.groups.shard_of(group_id)
        check_coordinator(call, group_id, now_ms)
        return shard.describe_classic(group_id)
    except ApiError as error:
        described = DescribedGroup(group_id=group_id, group_state="", protocol_type="", protocol_data="")
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            described.group_state = "Dead"
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND or call.version >= NOT_FOUND_SINCE:
            described.error_code, described.error_message = error.code, error.message
        return described
