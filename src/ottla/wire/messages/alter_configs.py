"""AlterConfigs (key 33), versions 0 to 2.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import i8, i16, i32, message, struct


@struct
class AlterableConfig:
    name: str
    value: str | None = None


@struct
class AlterConfigsResource:
    resource_type: i8
    resource_name: str
    configs: list[AlterableConfig] = field(default_factory=list)


@message(key=33, versions=(0, 2), flexible=2)
class AlterConfigsRequest:
    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool


@struct
class AlterConfigsResourceResponse:
    error_code: i16 = 0
    error_message: str | None = None
    resource_type: i8
    resource_name: str


@message(key=33, versions=(0, 2), flexible=2)
class AlterConfigsResponse:
    throttle_time_ms: i32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)
