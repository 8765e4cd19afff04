"""JoinGroup (key 11): become a member of a classic group; answered when all members have joined.

v1 rebalance timeout · v4 member id required first (KIP-394) · v5 static members (KIP-345) · v6 flexible
v7 protocol type in the answer · v8 reason · v9 skip_assignment (KIP-814)
"""

from ottla.api.call import Call
from ottla.api.coordinated import caller_of, coordinated
from ottla.base.errors import ApiError
from ottla.broker.parked import Parked
from ottla.group.classic.generation import refused_join
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


def join_group(call: Call, request: JoinGroupRequest) -> JoinGroupResponse | Parked:
    def refuse(error: ApiError) -> JoinGroupResponse:
        return refused_join(request.member_id, error.code, call.version)

    caller = caller_of(call, request.group_instance_id or call.client_id)
    return coordinated(  # type: ignore[no-any-return]
        call, request.group_id, lambda shard, turn, answer: shard.join(turn, answer, request, caller), refuse
    )
