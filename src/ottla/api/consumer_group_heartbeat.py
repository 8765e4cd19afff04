"""ConsumerGroupHeartbeat (key 68): the one request of the new consumer protocol (KIP-848).

It joins (epoch 0), stays, says what it owns, and leaves (epoch -1, or -2 for a static member that will be
back); the answer brings the next epoch and, when that changed, the assignment.

v1 member ids made by the client, regular expressions
"""

from ottla.api.call import Call
from ottla.api.coordinated import caller_of, coordinated
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.parked import Parked
from ottla.group.consumer_requests import check_heartbeat
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def consumer_group_heartbeat(
    call: Call, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Parked:
    def refuse(error: ApiError) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(
            error_code=error.code, error_message=error.message, member_epoch=0, heartbeat_interval_ms=0
        )

    if "consumer" not in call.broker.coordinators.groups.config.rebalance_protocols:
        return refuse(ApiError(ErrorCode.UNSUPPORTED_VERSION))
    try:
        # As in Kafka, a request that makes no sense is told so whether or not there is such a group.
        check_heartbeat(request, call.version, call.broker.coordinators.groups.config)
    except ApiError as error:
        return refuse(error)
    caller = caller_of(call, None)
    return coordinated(  # type: ignore[no-any-return]
        call,
        request.group_id,
        lambda shard, turn, answer: shard.consumer_heartbeat(turn, answer, request, caller),
        refuse,
        timeout_ms=call.broker.coordinators.groups.config.commit_timeout_ms,
    )
