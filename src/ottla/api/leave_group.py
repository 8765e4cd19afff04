"""LeaveGroup (key 13): members go, and the others need not wait for their sessions to end.

v3 several members, static ones by instance id · v4 flexible · v5 reason
"""

from ottla.api.call import Call
from ottla.api.coordinated import coordinated
from ottla.broker.parked import Parked
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def leave_group(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse | Parked:
    return coordinated(  # type: ignore[no-any-return]
        call,
        request.group_id,
        lambda shard, turn, answer: shard.leave(turn, answer, request, call.version),
        lambda error: LeaveGroupResponse(error_code=error.code),
    )
