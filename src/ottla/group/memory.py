"""About how much memory groups hold, in bytes, and what a member adds to it.

The constants are what objects took when that was measured; what clients choose the length of is counted. A
group that would take more than `ottla.groups.max.bytes` leaves, for all groups of this broker, is refused
what it asks for, and never loses what it has.

What members hold goes when they do, at the end of their sessions at the latest; committed offsets stay for
days, over restarts. So offsets may not take all of it, and least those of groups without members: anybody
commits for groups that do not exist.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest

GROUP_BYTES: Final = 1_600
MEMBER_BYTES: Final = 1_500
PENDING_BYTES: Final = 400
NAME_BYTES: Final = 80
PARTITION_BYTES: Final = 100
TOPIC_BYTES: Final = 300
OFFSET_BYTES: Final = 250
PENDING_OFFSET_BYTES: Final = 900
"""Of a transaction; more than what is added when it is committed, so that this never lacks room."""


class Use(Enum):
    """What memory is wanted for; and the part of all memory that stored offsets may take then."""

    MEMBERS = 1.0
    COMMITS_OF_MEMBERS = 0.75
    OTHER_COMMITS = 0.5


def room_bytes(use: Use, limit: int, held: int, stored: int) -> int:
    """How much more may be taken if groups hold so much, and offsets with their groups so much of that."""
    room = limit - held
    return room if use is Use.MEMBERS else min(room, int(limit * use.value) - stored)


def classic_member_bytes(member_id: str, client_id: str, protocols: Mapping[str, bytes]) -> int:
    said = sum(len(name) + len(metadata) + NAME_BYTES for name, metadata in protocols.items())
    return MEMBER_BYTES + len(member_id) + len(client_id) + said


def heartbeat_bytes(request: ConsumerGroupHeartbeatRequest) -> int:
    names = request.subscribed_topic_names or ()
    return (
        MEMBER_BYTES
        + len(request.subscribed_topic_regex or "")
        + sum(map(len, names))
        + NAME_BYTES * len(names)
        + sum(len(text or "") for text in (request.member_id, request.instance_id, request.rack_id))
    )


def join_bytes(request: JoinGroupRequest) -> int:
    """What a JoinGroup asks to be held, by itself: its protocols may have the same name."""
    return sum(len(protocol.name) + len(protocol.metadata) + NAME_BYTES for protocol in request.protocols)


def check_member(size: int, limit: int) -> None:
    if size > limit:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"A member may say {limit} bytes about itself (ottla.group.member.max.bytes), not {size}.",
        )
