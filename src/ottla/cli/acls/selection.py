"""Options of `ottla acls` as the ACLs, or the filters, that they mean; as kafka-acls.sh means them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from ottla.base.command_error import USAGE, CommandError
from ottla.security.acls import AclBinding, AclEntry, AclFilter, ResourcePattern
from ottla.security.principals import USER
from ottla.security.resources import (
    CLUSTER_NAME,
    WILDCARD,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

_CONFIGS = {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}
# What can be done with what; ALL is all of it.
OPERATIONS = {
    ResourceType.TOPIC: {
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER,
        Operation.DESCRIBE, *_CONFIGS,
    },
    ResourceType.GROUP: {Operation.READ, Operation.DESCRIBE, Operation.DELETE, *_CONFIGS},
    ResourceType.CLUSTER: {
        Operation.CREATE, Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE, Operation.ALTER,
        Operation.DESCRIBE, *_CONFIGS,
    },
    ResourceType.TRANSACTIONAL_ID: {Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT},
}  # fmt: skip
PRODUCER = {
    ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (Operation.IDEMPOTENT_WRITE,),
}
CONSUMER = {ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE), ResourceType.GROUP: (Operation.READ,)}


class Resource(NamedTuple):
    resource_type: ResourceType
    name: str


@dataclass(frozen=True, slots=True)
class Selection:
    """What the options of a command say. Empty: nothing is said of it."""

    resources: tuple[Resource, ...] = ()
    pattern: PatternType | None = None
    principals: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()
    permission: Permission | None = None
    is_producer: bool = False
    is_consumer: bool = False

    def bindings(self) -> list[AclBinding]:
        """The ACLs to add."""
        if not self.principals:
            raise CommandError("say for whom: --principal User:NAME", USAGE)
        if not self.resources:
            raise CommandError(
                "say what it is about: --topic, --group, --transactional-id or --cluster", USAGE
            )
        pattern = self.pattern or PatternType.LITERAL
        if pattern not in {PatternType.LITERAL, PatternType.PREFIXED}:
            raise CommandError("an ACL is literal or prefixed; any and match are for list and remove", USAGE)
        permission = self.permission or Permission.ALLOW
        return [
            AclBinding(
                ResourcePattern(kind, name, _pattern_of(kind, pattern)),
                AclEntry(principal, operation, permission, host),
            )
            for (kind, name), operation in self._wanted(default=(Operation.ALL,))
            for principal, host in product(self.principals, self.hosts or (WILDCARD,))
        ]

    def filters(self, default: PatternType) -> list[AclFilter]:
        """What they select: everything, if nothing is said. `default` is how names are meant."""
        pattern = self.pattern or (default if self.resources else PatternType.ANY)
        resources = self._wanted(default=(Operation.ANY,)) if self.resources else self._everywhere()
        return [
            AclFilter(
                kind,
                name,
                _pattern_of(kind, pattern),
                principal,
                host,
                operation,
                self.permission or Permission.ANY,
            )
            for (kind, name), operation in resources
            for principal, host in product(self.principals or (None,), self.hosts or (None,))
        ]

    @property
    def is_everything(self) -> bool:
        return self == Selection()

    def _everywhere(self) -> Iterator[tuple[tuple[ResourceType, str | None], Operation]]:
        if self.is_producer or self.is_consumer:
            raise CommandError("--producer and --consumer take --topic, or --group", USAGE)
        yield from (
            ((ResourceType.ANY, None), operation) for operation in self.operations or (Operation.ANY,)
        )

    def _wanted(self, default: Iterable[Operation]) -> Iterator[tuple[Resource, Operation]]:
        """Each resource with each operation that is asked for it."""
        if not (self.is_producer or self.is_consumer):
            for resource, operation in product(self.resources, self.operations or default):
                _check_operation(resource.resource_type, operation)
                yield resource, operation
            return
        if self.operations:
            raise CommandError("--producer and --consumer stand for operations; leave out --operation", USAGE)
        kinds = {resource.resource_type for resource in self.resources}
        roles = ([PRODUCER] if self.is_producer else []) + ([CONSUMER] if self.is_consumer else [])
        useless = kinds - {kind for role in roles for kind in role}
        if (
            ResourceType.TOPIC not in kinds
            or (self.is_consumer and ResourceType.GROUP not in kinds)
            or useless
        ):
            raise CommandError(
                "--producer takes --topic, and perhaps --transactional-id and --cluster (to be idempotent); "
                "--consumer takes --topic and --group",
                USAGE,
            )
        for resource in self.resources:
            operations = dict.fromkeys(
                operation for role in roles for operation in role.get(resource.resource_type, ())
            )
            yield from ((resource, operation) for operation in operations)


def _pattern_of(kind: ResourceType, pattern: PatternType) -> PatternType:
    """There is one cluster, and it has no prefixes."""
    return PatternType.LITERAL if kind == ResourceType.CLUSTER else pattern


def _check_operation(kind: ResourceType, operation: Operation) -> None:
    if operation not in OPERATIONS[kind] | {Operation.ALL, Operation.ANY}:
        names = ", ".join(sorted(title(possible) for possible in OPERATIONS[kind]))
        raise CommandError(
            f"--operation {title(operation)} is not for a {title(kind)}, which has All, {names}", USAGE
        )


def title(member: Operation | ResourceType | Permission | PatternType) -> str:
    """DESCRIBE_CONFIGS as DescribeConfigs, as Kafka's tools write it."""
    return member.name.title().replace("_", "")


def principal(text: str) -> str:
    """`alice` is User:alice."""
    return text if ":" in text else f"{USER}:{text}"


def operation(text: str) -> Operation:
    for member in Operation:
        if member > Operation.ANY and text.replace("_", "").replace("-", "").lower() == title(member).lower():
            return member
    names = ", ".join(title(member) for member in Operation if member > Operation.ANY)
    raise CommandError(f"--operation is one of {names}, not {text!r}", USAGE)


def pattern(text: str | None) -> PatternType | None:
    if text is None:
        return None
    try:
        return PatternType[text.upper()]
    except KeyError:
        raise CommandError(f"--pattern is literal, prefixed, any or match, not {text!r}", USAGE) from None


def resources(
    topics: Iterable[str], groups: Iterable[str], transactional_ids: Iterable[str], *, cluster: bool
) -> tuple[Resource, ...]:
    return (
        *(Resource(ResourceType.TOPIC, name) for name in topics),
        *(Resource(ResourceType.GROUP, name) for name in groups),
        *(Resource(ResourceType.TRANSACTIONAL_ID, name) for name in transactional_ids),
        *([Resource(ResourceType.CLUSTER, CLUSTER_NAME)] if cluster else []),
    )
