"""AlterConfigs (key 33): replaces all of a resource's dynamic configs by those given.

What is not named goes back to its default; IncrementalAlterConfigs changes single keys.

v2 flexible
"""

from collections import Counter
from functools import partial

from ottla.api.call import Call
from ottla.api.config_resources import once, plan_change
from ottla.api.writes import Writes
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.parked import Parked
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

WAIT_MS = 30_000


def alter_configs(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse | Parked:
    writes = Writes(call.broker, lambda: respond())
    named = [(one.resource_type, one.resource_name) for one in request.resources]
    times = Counter(named)
    for resource, (kind, name) in zip(request.resources, named, strict=True):
        change = once(times, (kind, name), partial(_values, resource))
        writes.add(partial(plan_change, call, kind, name, change, validate_only=request.validate_only))

    def respond() -> AlterConfigsResponse:
        return AlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    error_code=item.error_code,
                    error_message=item.error_message,
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                )
                for one, item in zip(request.resources, writes.items, strict=True)
            ]
        )

    return writes.answer(call, WAIT_MS)  # type: ignore[no-any-return]


def _values(resource: AlterConfigsResource, _current: dict[str, str]) -> dict[str, str]:
    values = {}
    for config in resource.configs:
        if config.value is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{config.name}: a null value is not allowed.")
        if config.name in values:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{config.name} is given more than once.")
        values[config.name] = config.value
    return values
