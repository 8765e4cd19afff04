"""DescribeConfigs (key 32): every config key of a topic, broker or group, with its value, source and
documentation; or the loggers of this broker, with their levels (KIP-412).

Kafka's keys that have a meaning here are all listed, set or not. A group need not exist to have configs.
Sensitive are the values of a broker's keys that nobody here knows.

v1 source and synonyms · v3 type and documentation · v4 flexible
Left out: client metrics (INVALID_REQUEST).
"""

from ottla.api.broker_loggers import describe_loggers
from ottla.api.call import Call
from ottla.api.config_resources import (
    BROKER,
    BROKER_LOGGER,
    GROUP,
    TOPIC,
    check_broker_name,
    check_topic,
    unsupported,
)
from ottla.base.errors import ApiError
from ottla.broker.configs import (
    DYNAMIC_BROKER_LOGGER_CONFIG,
    Entry,
    check_group_configs,
    describe_broker,
    describe_default_broker,
    describe_group,
    describe_topic,
)
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_describe(call, request, one) for one in request.resources])


def _describe(
    call: Call, request: DescribeConfigsRequest, asked: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=asked.resource_type, resource_name=asked.resource_name)
    try:
        entries = _entries(call, asked)
    except ApiError as error:
        result.error_code, result.error_message = error.code, str(error)
        return result
    keys = asked.configuration_keys
    result.configs = [_result(request, one) for one in entries if not keys or one.name in keys]
    return result


def _entries(call: Call, asked: DescribeConfigsResource) -> list[Entry]:
    name = asked.resource_name
    if asked.resource_type == TOPIC:
        check_topic(call, name)
        return describe_topic(call.broker, call.broker.image.topic_config(name))
    if asked.resource_type == BROKER:
        check_broker_name(call, name)
        return describe_broker(call.broker) if name else describe_default_broker(call.broker)
    if asked.resource_type == BROKER_LOGGER:
        return describe_loggers(call, name)
    if asked.resource_type == GROUP:
        check_group_configs(call.broker, name, {})
        return describe_group(call.broker, name)
    raise unsupported(asked.resource_type)


def _result(request: DescribeConfigsRequest, entry: Entry) -> DescribeConfigsResourceResult:
    has_synonyms = request.include_synonyms and entry.source != DYNAMIC_BROKER_LOGGER_CONFIG
    synonyms = [
        DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source) for one in entry.synonyms
    ]
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=synonyms if has_synonyms else [],
        config_type=entry.type,
        documentation=entry.doc if request.include_documentation else None,
    )
