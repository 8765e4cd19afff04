"""ListConfigResources (key 74): the resources that have a dynamic config (KIP-1142).

v0 knew client metrics only, of which there are none here · v1 resource types; an empty list asks for all of
them
"""

from ottla.api.call import Call
from ottla.base.config import ConfigResourceType
from ottla.base.errors import ErrorCode
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

TYPES_SINCE = 1
LISTABLE = tuple(ConfigResourceType)


def list_config_resources(call: Call, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    wanted = request.resource_types if call.version >= TYPES_SINCE else [ConfigResourceType.CLIENT_METRICS]
    if not set(wanted) <= set(LISTABLE):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = call.broker.image
    brokers = {str(broker) for broker in image.brokers} | set(image.broker_configs)
    configured = (group for group, configs in image.group_configs.items() if configs.values)
    named: dict[int, list[str]] = {
        ConfigResourceType.TOPIC: sorted(image.topics),
        ConfigResourceType.BROKER: sorted(brokers - {""}),
        ConfigResourceType.BROKER_LOGGER: [str(broker) for broker in sorted(image.brokers)],
        ConfigResourceType.GROUP: sorted(configured),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in dict.fromkeys(wanted or LISTABLE)
            for name in named.get(kind, ())
        ]
    )
