"""AlterConfigs (key 33): replaces all of a resource's dynamic configs by those given.

What is not named goes back to its default; IncrementalAlterConfigs changes single keys. Topics, brokers and
groups; broker loggers are INVALID_REQUEST here, as in Kafka.

v2 flexible
"""

from functools import partial

from ottla.api.call import Call
from ottla.api.config_resources import alter, plan_change
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.long_work import Steps
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def alter_configs(call: Call, request: AlterConfigsRequest) -> Steps:
    return alter(
        call,
        request.resources,
        lambda resource: plan_change(
            call, resource, partial(_values, resource), validate_only=request.validate_only
        ),
        result=AlterConfigsResourceResponse,
        respond=AlterConfigsResponse,
    )


def _values(resource: AlterConfigsResource, _current: dict[str, str]) -> dict[str, str]:
    values = {}
    for config in resource.configs:
        if config.value is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{config.name}: a null value is not allowed.")
        if config.name in values:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{config.name} is given more than once.")
        values[config.name] = config.value
    return values
