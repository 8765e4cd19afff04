"""JoinGroup (key 11): become a member of a classic group; answered when all members have joined.

v1 rebalance timeout · v4 member id required first (KIP-394) · v5 static members (KIP-345) · v6 flexible
v7 protocol type in the answer · v8 reason · v9 skip_assignment (KIP-814)
"""

from ottla.api.call import Call
from ottla.api.coordinated import caller_of, coordinated
from ottla.base.errors import ApiError
from ottla.broker.parked import Parked
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

NULL_PROTOCOL_SINCE = 7


def join_group(call: Call, request: JoinGroupRequest) -> JoinGroupResponse | Parked:
    def refuse(error: ApiError) -> JoinGroupResponse:
        return JoinGroupResponse(
            error_code=error.code,
            protocol_name=None if call.version >= NULL_PROTOCOL_SINCE else "",
            leader="",
            member_id=request.member_id,
        )

    caller = caller_of(call, request.group_instance_id or call.client_id)
    return coordinated(  # type: ignore[no-any-return]
        call, request.group_id, lambda shard, turn, answer: shard.join(turn, answer, request, caller), refuse
    )
