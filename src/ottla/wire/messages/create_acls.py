"""CreateAcls (key 30), versions 1 to 3.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import i8, i16, i32, message, struct


@struct
class AclCreation:
    resource_type: i8
    resource_name: str
    resource_pattern_type: i8 = 3
    principal: str
    host: str
    operation: i8
    permission_type: i8


@message(key=30, versions=(1, 3), flexible=2)
class CreateAclsRequest:
    creations: list[AclCreation] = field(default_factory=list)


@struct
class AclCreationResult:
    error_code: i16 = 0
    error_message: str | None = None


@message(key=30, versions=(1, 3), flexible=2)
class CreateAclsResponse:
    throttle_time_ms: i32 = 0
    results: list[AclCreationResult] = field(default_factory=list)
