"""IncrementalAlterConfigs (key 44): set or delete single keys, append to or subtract from list keys, of
topics, brokers and groups; set or delete levels of a broker's loggers, which are kept nowhere (KIP-412).

v1 flexible
"""

from functools import partial

from ottla.api.broker_loggers import change_levels
from ottla.api.call import Call
from ottla.api.config_resources import Planned, alter, plan_change
from ottla.base.config import ConfigResourceType, ConfigType, Row, rows_by_group_key, rows_by_topic_key
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.config_classes import broker_rows
from ottla.broker.config_entries import describe_broker, describe_topic
from ottla.broker.long_work import Steps
from ottla.group.config import GroupConfig
from ottla.log.config import LogConfig
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SET, DELETE, APPEND, SUBTRACT = range(4)


def incremental_alter_configs(call: Call, request: IncrementalAlterConfigsRequest) -> Steps:
    return alter(
        call,
        request.resources,
        partial(_plan, call, request),
        result=AlterConfigsResourceResponse,
        respond=IncrementalAlterConfigsResponse,
    )


def _plan(call: Call, request: IncrementalAlterConfigsRequest, resource: AlterConfigsResource) -> Planned:
    names = [config.name for config in resource.configs]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "A config is given more than once.")
    for config in resource.configs:
        if config.value is None and config.config_operation != DELETE:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{config.name}: a null value is not allowed.")
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        change_levels(call, resource.resource_name, resource.configs, validate_only=request.validate_only)
        return Planned()
    change = partial(_changed, call, resource)
    return plan_change(call, resource, change, validate_only=request.validate_only)


def _changed(call: Call, resource: AlterConfigsResource, current: dict[str, str]) -> dict[str, str]:
    for config in resource.configs:
        if config.config_operation == DELETE:
            current.pop(config.name, None)
        elif config.config_operation == SET:
            current[config.name] = config.value or ""
        else:
            current[config.name] = _list_change(call, resource, config, config.value or "")
    return current


def _list_change(call: Call, resource: AlterConfigsResource, config: AlterableConfig, value: str) -> str:
    if config.config_operation not in {APPEND, SUBTRACT}:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation {config.config_operation}.")
    row = _row(resource.resource_type, config.name)
    if row is None or row.type != ConfigType.LIST:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{config.name} is not a list: it cannot be appended to.")
    if resource.resource_type == ConfigResourceType.TOPIC:
        configs = call.broker.image.topic_config(resource.resource_name)
        entries = describe_topic(call.broker.settings, configs)
    else:
        entries = describe_broker(call.broker.settings)
    text = next(entry.value for entry in entries if entry.name == config.name)
    present = [part for part in (text or "").split(",") if part]
    given = [part.strip() for part in value.split(",")]
    if config.config_operation == APPEND:
        return ",".join(present + [part for part in given if part not in present])
    return ",".join(part for part in present if part not in given)


def _row(resource_type: int, name: str) -> Row | None:
    if resource_type == ConfigResourceType.TOPIC:
        return rows_by_topic_key(LogConfig).get(name)
    if resource_type == ConfigResourceType.GROUP:
        return rows_by_group_key(GroupConfig).get(name)
    return next((row for row in broker_rows() if row.name == name), None)
