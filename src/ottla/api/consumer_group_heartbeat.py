"""ConsumerGroupHeartbeat (key 68): the one request of the new consumer protocol (KIP-848).

It joins (epoch 0), stays, says what it owns, and leaves (epoch -1, or -2 for a static member that will be
back); the answer brings the next epoch and, when that changed, the assignment. As in Kafka, a request that
makes no sense is told so whether or not there is such a group. A regular expression is matched with all
topics, and a member hears of those that it may describe.

v1 member ids made by the client, regular expressions
"""

from typing import Any

from ottla.api.call import Call
from ottla.api.coordinated import caller_of, coordinated
from ottla.api.needs import DESCRIBE, GROUP, READ, TOPIC
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.parked import Parked
from ottla.group.config import GroupConfig
from ottla.group.consumer.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

MEMBER_ID_REQUIRED_SINCE = 1
"""From this version on a consumer makes up its own member id (KIP-1082)."""


def consumer_group_heartbeat(
    call: Call, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Parked:
    def refuse(error: ApiError) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(
            error_code=error.code, error_message=error.message, member_epoch=0, heartbeat_interval_ms=0
        )

    config = call.broker.coordinators.groups.config
    if "consumer" not in config.rebalance_protocols:
        return refuse(ApiError(ErrorCode.UNSUPPORTED_VERSION))
    try:
        call.require(READ, GROUP, request.group_id)
        check_heartbeat(request, call.version, config)
        for topic in request.subscribed_topic_names or ():
            call.require(DESCRIBE, TOPIC, topic)
    except ApiError as error:
        return refuse(error)
    caller = caller_of(call, None)
    answer: ConsumerGroupHeartbeatResponse | Parked = coordinated(
        call,
        request.group_id,
        lambda shard, turn, answer: shard.consumer_heartbeat(turn, answer, request, caller),
        refuse,
        timeout_ms=config.commit_timeout_ms,
    )
    if call.broker.access.authorizer is None:
        return answer
    if not isinstance(answer, Parked):
        return _visible(call, answer)  # type: ignore[no-any-return]
    ready, expire = answer.ready, answer.expire
    answer.ready = lambda key, now_ms: _visible(call, ready(key, now_ms))
    answer.expire = lambda now_ms: _visible(call, expire(now_ms))
    return answer


def _visible(call: Call, answer: Any) -> Any:
    """Without the topics that a regular expression matches and the member may not even know of."""
    if isinstance(answer, ConsumerGroupHeartbeatResponse) and answer.assignment is not None:
        names = call.broker.image.topic_names
        answer.assignment = Assignment(
            topic_partitions=[
                assigned
                for assigned in answer.assignment.topic_partitions
                if assigned.topic_id not in names
                or call.allows(DESCRIBE, TOPIC, names[assigned.topic_id], is_asked=False)
            ]
        )
    return answer


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, config: GroupConfig) -> None:
    epoch = request.member_epoch
    _check(_is_filled(request.group_id), "The group id is empty.")
    _check(_is_filled(request.instance_id), "The instance id is empty.")
    _check(_is_filled(request.rack_id), "The rack id is empty.")
    _check(epoch >= STATIC_LEAVE_EPOCH, "The member epoch is invalid.")
    is_id_needed = version >= MEMBER_ID_REQUIRED_SINCE or epoch != JOIN_EPOCH
    _check(not is_id_needed or _is_filled(request.member_id), "The member id is empty.")
    if epoch == JOIN_EPOCH:
        _check(request.rebalance_timeout_ms != -1, "A first request has to have a rebalance timeout.")
        _check(request.topic_partitions == [], "Whoever joins owns no partitions, and has to say so.")
        _check(
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None,
            "A first request has to have topic names or a regular expression.",
        )
    if epoch == STATIC_LEAVE_EPOCH:
        _check(request.instance_id is not None, "Only a static member can leave for a while.")
    if request.server_assignor is not None and request.server_assignor not in config.consumer_assignors:
        supported = ", ".join(config.consumer_assignors)
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"There is no assignor {request.server_assignor}, only {supported}.",
        )


def _is_filled(text: str | None) -> bool:
    return text is None or bool(text.strip())


def _check(is_right: bool, message: str) -> None:
    if not is_right:
        raise ApiError(ErrorCode.INVALID_REQUEST, message)
