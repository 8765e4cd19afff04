"""LeaveGroup (key 13): members go, and the others need not wait for their sessions to end.

v3 several members, static ones by instance id · v4 flexible · v5 reason
"""

from ottla.api.call import Call
from ottla.api.coordinated import coordinated
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.parked import Parked
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

MEMBERS_SINCE = 3


def leave_group(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse | Parked:
    def refuse(error: ApiError) -> LeaveGroupResponse:
        if error.code != ErrorCode.UNKNOWN_MEMBER_ID or call.version < MEMBERS_SINCE:
            return LeaveGroupResponse(error_code=error.code)
        members = [
            MemberResponse(
                member_id=who.member_id, group_instance_id=who.group_instance_id, error_code=error.code
            )
            for who in request.members
        ]
        return LeaveGroupResponse(members=members)

    return coordinated(  # type: ignore[no-any-return]
        call,
        request.group_id,
        lambda shard, turn, answer: shard.leave(turn, answer, request, call.version),
        refuse,
        timeout_ms=call.broker.coordinators.groups.config.commit_timeout_ms,
    )
