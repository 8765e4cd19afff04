"""IncrementalAlterConfigs (key 44), versions 0 to 1.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import i8, i16, i32, message, struct


@struct
class AlterableConfig:
    name: str
    config_operation: i8
    value: str | None = None


@struct
class AlterConfigsResource:
    resource_type: i8
    resource_name: str
    configs: list[AlterableConfig] = field(default_factory=list)


@message(key=44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool


@struct
class AlterConfigsResourceResponse:
    error_code: i16 = 0
    error_message: str | None = None
    resource_type: i8
    resource_name: str


@message(key=44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: i32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)
