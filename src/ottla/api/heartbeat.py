"""Heartbeat (key 12): a member of a classic group is alive; the answer tells it when to rejoin.

v3 static members · v4 flexible
"""

from ottla.api.call import Call
from ottla.api.coordinated import coordinated
from ottla.broker.parked import Parked
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat(call: Call, request: HeartbeatRequest) -> HeartbeatResponse | Parked:
    return coordinated(  # type: ignore[no-any-return]
        call,
        request.group_id,
        lambda shard, turn, answer: shard.heartbeat(turn, answer, request),
        lambda error: HeartbeatResponse(error_code=error.code),
        timeout_ms=call.broker.coordinators.groups.config.commit_timeout_ms,
    )
