"""DescribeConfigs (key 32): every config key of a topic, broker or group, with its value, source and
documentation; or the loggers of this broker, with their levels (KIP-412).

Kafka's keys that have a meaning here are all listed, set or not. A group need not exist to have configs.
Sensitive are the values of a broker's keys that nobody here knows. A resource that is named twice is
described once, with the keys that were asked for either time.

v1 source and synonyms · v3 type and documentation · v4 flexible
Left out: client metrics (INVALID_REQUEST).
"""

from functools import partial
from typing import TypeAlias

from ottla.api.broker_loggers import describe_loggers
from ottla.api.call import Call
from ottla.api.config_resources import (
    check_allowed,
    check_broker_name,
    check_topic,
    unsupported,
)
from ottla.api.needs import DESCRIBE_CONFIGS
from ottla.base.config import ConfigResourceType
from ottla.base.errors import ApiError
from ottla.broker.config_entries import (
    DYNAMIC_BROKER_LOGGER_CONFIG,
    Entry,
    check_group_configs,
    describe_broker,
    describe_default_broker,
    describe_group,
    describe_topic,
)
from ottla.broker.long_work import Steps
from ottla.wire.lazy import lazily
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

Named: TypeAlias = tuple[int, str]


def describe_configs(call: Call, request: DescribeConfigsRequest) -> Steps:
    wanted: dict[Named, set[str] | None] = {}  # the keys of each resource; None: all
    for resource in request.resources:
        named = resource.resource_type, resource.resource_name
        keys = wanted.setdefault(named, set())
        if not resource.configuration_keys:
            wanted[named] = None
        elif keys is not None:
            keys.update(resource.configuration_keys)
        yield
    describe = partial(_describe, call, request, wanted)
    return DescribeConfigsResponse(results=lazily(describe, wanted))


def _describe(
    call: Call, request: DescribeConfigsRequest, wanted: dict[Named, set[str] | None], named: Named
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=named[0], resource_name=named[1])
    try:
        entries = _entries(call, *named)
    except ApiError as error:
        result.error_code, result.error_message = error.code, str(error)
        return result
    keys = wanted[named]
    asked = [entry for entry in entries if keys is None or entry.name in keys]
    result.configs = lazily(partial(_result, request), asked)
    return result


def _entries(call: Call, resource_type: int, name: str) -> list[Entry]:
    image, settings = call.broker.image, call.broker.settings
    check_allowed(call, DESCRIBE_CONFIGS, resource_type, name)
    if resource_type == ConfigResourceType.TOPIC:
        check_topic(call, name)
        return describe_topic(settings, image.topic_config(name))
    if resource_type == ConfigResourceType.BROKER:
        check_broker_name(call, name)
        return describe_broker(settings) if name else describe_default_broker(image.broker_config(""))
    if resource_type == ConfigResourceType.BROKER_LOGGER:
        return describe_loggers(call, name)
    if resource_type == ConfigResourceType.GROUP:
        config = call.broker.coordinators.groups.config
        check_group_configs(config, name, {})
        return describe_group(config, image.group_config(name))
    raise unsupported(resource_type)


def _result(request: DescribeConfigsRequest, entry: Entry) -> DescribeConfigsResourceResult:
    has_synonyms = request.include_synonyms and entry.source != DYNAMIC_BROKER_LOGGER_CONFIG
    synonyms = [
        DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
        for synonym in entry.synonyms
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
