"""What a principal must be allowed to do for a request, declared beside each row of the table (`api/table`).

Dispatch asks for what a request needs on the cluster before its handler runs. What it needs on the topics,
groups and transactional ids that it names is asked by the handler, for each of them, since each is answered
for itself. `docs/reference/apis.md` shows all of it; tests walk the table and hold both to it.
"""

from typing import NamedTuple

from ottla.security.resources import Operation, ResourceType

# Their names, for rows and handlers: many a module has an `Operation` of another kind.
READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, CLUSTER_ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
IDEMPOTENT_WRITE = Operation.IDEMPOTENT_WRITE
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID


class Need(NamedTuple):
    """One of `operations` on a resource of this type. `note` says when, if that is not always; then it is the
    handler that asks, also on the cluster."""

    resource_type: ResourceType
    operations: tuple[Operation, ...]
    note: str = ""

    @property
    def is_first(self) -> bool:
        """Does dispatch ask for it?"""
        return self.resource_type == CLUSTER and not self.note

    def __str__(self) -> str:
        operations = " or ".join(operation.name.title().replace("_", "") for operation in self.operations)
        resource = self.resource_type.name.title().replace("_", "")
        return f"{operations} on {resource}" + (f" ({self.note})" if self.note else "")


def on_cluster(*operations: Operation, note: str = "") -> Need:
    return Need(CLUSTER, operations, note)


def on_topic(*operations: Operation, note: str = "") -> Need:
    return Need(TOPIC, operations, note)


def on_group(*operations: Operation, note: str = "") -> Need:
    return Need(GROUP, operations, note)


def on_transactional_id(*operations: Operation, note: str = "") -> Need:
    return Need(TRANSACTIONAL_ID, operations, note)
