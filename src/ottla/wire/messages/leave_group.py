"""LeaveGroup (key 13), versions 0 to 5.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i16, i32, message, since, struct, until


@struct
class MemberIdentity:
    member_id: str
    group_instance_id: str | None = None
    reason: Annotated[str | None, since(5)] = None


@message(key=13, versions=(0, 5), flexible=4)
class LeaveGroupRequest:
    group_id: str
    member_id: Annotated[str, until(2)] = ""
    members: Annotated[list[MemberIdentity], since(3)] = field(default_factory=list)


@struct
class MemberResponse:
    member_id: str
    group_instance_id: str | None = None
    error_code: i16 = 0


@message(key=13, versions=(0, 5), flexible=4)
class LeaveGroupResponse:
    throttle_time_ms: Annotated[i32, since(1)] = 0
    error_code: i16 = 0
    members: Annotated[list[MemberResponse], since(3)] = field(default_factory=list)
