"""DescribeConfigs (key 32): every config key of a topic or broker, with its value, source and documentation.

Kafka's keys that have a meaning here are all listed, set or not. Nothing sensitive exists yet.

v1 source and synonyms · v3 type and documentation · v4 flexible
Left out: broker loggers and client metrics (INVALID_REQUEST).
"""

from ottla.api.call import Call
from ottla.api.config_resources import BROKER, TOPIC, check_broker_name, check_topic, unsupported
from ottla.base.errors import ApiError
from ottla.broker.configs import Entry, describe_broker, describe_default_broker, describe_topic
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
    raise unsupported(asked.resource_type)


def _result(request: DescribeConfigsRequest, entry: Entry) -> DescribeConfigsResourceResult:
    synonyms = [
        DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source) for one in entry.synonyms
    ]
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=False,
        synonyms=synonyms if request.include_synonyms else [],
        config_type=entry.row.type,
        documentation=entry.row.doc if request.include_documentation else None,
    )
