"""IncrementalAlterConfigs (key 44): set or delete single keys, append to or subtract from list keys.

v1 flexible
"""

from functools import partial

from ottla.api.call import Call
from ottla.api.config_resources import BROKER, TOPIC, alter
from ottla.base.config import ConfigType, Row, rows
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.configs import BROKER_CONFIGS, describe_broker, describe_topic
from ottla.broker.parked import Parked
from ottla.log.config import LogConfig
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SET, DELETE, APPEND, SUBTRACT = range(4)


def incremental_alter_configs(
    call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse | Parked:
    return alter(  # type: ignore[no-any-return]
        call,
        request.resources,
        partial(_changed, call),
        validate_only=request.validate_only,
        result=AlterConfigsResourceResponse,
        respond=IncrementalAlterConfigsResponse,
    )


def _changed(call: Call, resource: AlterConfigsResource, current: dict[str, str]) -> dict[str, str]:
    names = [config.name for config in resource.configs]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "A config is given more than once.")
    for config in resource.configs:
        if config.config_operation == DELETE:
            current.pop(config.name, None)
        elif config.value is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{config.name}: a null value is not allowed.")
        elif config.config_operation == SET:
            current[config.name] = config.value
        else:
            current[config.name] = _list_change(call, resource, config, config.value)
    return current


def _list_change(call: Call, resource: AlterConfigsResource, config: AlterableConfig, value: str) -> str:
    if config.config_operation not in {APPEND, SUBTRACT}:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation {config.config_operation}.")
    row = _row(resource.resource_type, config.name)
    if row is None or row.type != ConfigType.LIST:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{config.name} is not a list: it cannot be appended to.")
    if resource.resource_type == TOPIC:
        entries = describe_topic(call.broker, call.broker.image.topic_config(resource.resource_name))
    else:
        entries = describe_broker(call.broker)
    text = next(entry.value for entry in entries if entry.name == config.name)
    present = [part for part in text.split(",") if part]
    given = [part.strip() for part in value.split(",")]
    if config.config_operation == APPEND:
        return ",".join(present + [part for part in given if part not in present])
    return ",".join(part for part in present if part not in given)


def _row(resource_type: int, name: str) -> Row | None:
    if resource_type == TOPIC:
        return next((row for row in rows(LogConfig) if row.topic == name), None)
    assert resource_type == BROKER, "plan_change lets no other type through"
    return next((row for cls in BROKER_CONFIGS for row in rows(cls) if row.name == name), None)
