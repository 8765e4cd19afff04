"""DescribeGroups (key 15), versions 0 to 6.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i16, i32, message, since, struct


@message(key=15, versions=(0, 6), flexible=5)
class DescribeGroupsRequest:
    groups: list[str] = field(default_factory=list)
    include_authorized_operations: Annotated[bool, since(3)] = False


@struct
class DescribedGroupMember:
    member_id: str
    group_instance_id: Annotated[str | None, since(4)] = None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


@struct
class DescribedGroup:
    error_code: i16 = 0
    error_message: Annotated[str | None, since(6)] = None
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: list[DescribedGroupMember] = field(default_factory=list)
    authorized_operations: Annotated[i32, since(3)] = -2147483648


@message(key=15, versions=(0, 6), flexible=5)
class DescribeGroupsResponse:
    throttle_time_ms: Annotated[i32, since(1)] = 0
    groups: list[DescribedGroup] = field(default_factory=list)
