"""SyncGroup (key 14), versions 0 to 5.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i16, i32, message, since, struct


@struct
class SyncGroupRequestAssignment:
    member_id: str
    assignment: bytes


@message(key=14, versions=(0, 5), flexible=4)
class SyncGroupRequest:
    group_id: str
    generation_id: i32
    member_id: str
    group_instance_id: Annotated[str | None, since(3)] = None
    protocol_type: Annotated[str | None, since(5)] = None
    protocol_name: Annotated[str | None, since(5)] = None
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)


@message(key=14, versions=(0, 5), flexible=4)
class SyncGroupResponse:
    throttle_time_ms: Annotated[i32, since(1)] = 0
    error_code: i16 = 0
    protocol_type: Annotated[str | None, since(5)] = None
    protocol_name: Annotated[str | None, since(5)] = None
    assignment: bytes
