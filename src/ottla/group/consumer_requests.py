"""What is wrong with a ConsumerGroupHeartbeat, before anybody looks at the group."""

from ottla.base.errors import ApiError, ErrorCode
from ottla.group.config import GroupConfig
from ottla.group.consumer_member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

MEMBER_ID_REQUIRED_SINCE = 1
"""From this version on a consumer makes up its own member id (KIP-1082)."""


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


def is_leaving(request: ConsumerGroupHeartbeatRequest) -> bool:
    return request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A member that joins, or is not sure of its state, says everything, and wants to be told everything."""
    is_all_there = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    return request.member_epoch == JOIN_EPOCH or is_all_there


def _is_filled(text: str | None) -> bool:
    return text is None or bool(text.strip())


def _check(is_right: bool, message: str) -> None:
    if not is_right:
        raise ApiError(ErrorCode.INVALID_REQUEST, message)
