"""SyncGroup (key 14): the leader brings the assignment, everybody gets a part of it.

v3 static members · v4 flexible · v5 protocol type and name have to be there, and right
"""

from ottla.api.call import Call
from ottla.api.coordinated import coordinated
from ottla.base.errors import ErrorCode
from ottla.broker.parked import Parked
from ottla.group.classic.generation import refused_sync
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_NAMED_SINCE = 5


def sync_group(call: Call, request: SyncGroupRequest) -> SyncGroupResponse | Parked:
    is_named = request.protocol_type is not None and request.protocol_name is not None
    if call.version >= PROTOCOL_NAMED_SINCE and not is_named:
        return refused_sync(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return coordinated(  # type: ignore[no-any-return]
        call,
        request.group_id,
        lambda shard, turn, answer: shard.sync(turn, answer, request),
        lambda error: refused_sync(error.code),
    )
