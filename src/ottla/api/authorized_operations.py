"""What a client may do with a topic, a group or the cluster, for whoever asks (KIP-430).

There are no ACLs yet, so everybody may do everything that the kind of resource supports, as in Kafka without
an authorizer. A request that does not ask is answered with the smallest int, which is the messages' default.
"""

from typing import Final

from ottla.security.resources import Operation


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


ON_TOPIC: Final = _bits(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DESCRIBE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
ON_GROUP: Final = _bits(
    Operation.READ, Operation.DESCRIBE, Operation.DELETE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
)
ON_CLUSTER: Final = _bits(
    Operation.CREATE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
    Operation.ALTER,
    Operation.DESCRIBE,
)
