"""DescribeAcls (key 29), versions 1 to 3.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import i8, i16, i32, message, struct


@message(key=29, versions=(1, 3), flexible=2)
class DescribeAclsRequest:
    resource_type_filter: i8
    resource_name_filter: str | None = None
    pattern_type_filter: i8 = 3
    principal_filter: str | None = None
    host_filter: str | None = None
    operation: i8
    permission_type: i8


@struct
class AclDescription:
    principal: str
    host: str
    operation: i8
    permission_type: i8


@struct
class DescribeAclsResource:
    resource_type: i8
    resource_name: str
    pattern_type: i8 = 3
    acls: list[AclDescription] = field(default_factory=list)


@message(key=29, versions=(1, 3), flexible=2)
class DescribeAclsResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    resources: list[DescribeAclsResource] = field(default_factory=list)
