"""What can be done with a topic, a group or the cluster, for whoever asks what it may do (KIP-430).

Without an authorizer that is all of it, as in Kafka. A request that does not ask is answered with the
smallest int, which is the messages' default.
"""

from collections.abc import Iterable
from typing import Final

from ottla.api.call import Call
from ottla.security.resources import CLUSTER_NAME, Operation, ResourceType

SUPPORTED: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
        Operation.ALTER,
        Operation.DESCRIBE,
    ),
}


def authorized_operations(call: Call, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
    """What whoever asks may do with it, as bits."""
    supported = SUPPORTED[resource_type]
    if not call.is_checked:
        return bits(supported)
    return bits(
        operation for operation in supported if call.allows(operation, resource_type, name, is_asked=False)
    )


def bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)
