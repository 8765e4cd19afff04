"""ACLs: who is allowed, or denied, which operation on which resources, and filters that select ACLs.

A pattern is LITERAL (one name, or `*` for all of a type) or PREFIXED. Principals and hosts are matched as
they are written: `User:*` is everybody, `*` every host. MATCH in a filter selects every pattern that has a
say about a name: the name itself, `*`, and its prefixes (KIP-290).
"""

from typing import NamedTuple

from ottla.security.principals import Principal
from ottla.security.resources import (
    CLUSTER_NAME,
    WILDCARD,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

EVERYBODY = "User:*"
_NOT_FOR_BINDINGS = {ResourceType.UNKNOWN, ResourceType.ANY}
_NO_OPERATIONS = {Operation.UNKNOWN, Operation.ANY}


class AclError(ValueError):
    """An ACL that cannot be, and what is wrong with it."""


class ResourcePattern(NamedTuple):
    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL


class AclEntry(NamedTuple):
    """What an ACL says; `principal` is text, such as `User:alice`."""

    principal: str
    operation: Operation
    permission: Permission = Permission.ALLOW
    host: str = WILDCARD


class AclBinding(NamedTuple):
    pattern: ResourcePattern
    entry: AclEntry


class AclFilter(NamedTuple):
    """None and ANY select everything."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, binding: AclBinding) -> bool:
        return self.matches_pattern(binding.pattern) and self.matches_entry(binding.entry)

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in {ResourceType.ANY, pattern.resource_type}:
            return False
        if self.pattern_type not in {PatternType.ANY, PatternType.MATCH, pattern.pattern_type}:
            return False
        if self.name is None or self.name == pattern.name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if pattern.pattern_type == PatternType.LITERAL:
            return pattern.name == WILDCARD
        return self.name.startswith(pattern.name)

    def matches_entry(self, entry: AclEntry) -> bool:
        return (
            self.principal in {None, entry.principal}
            and self.host in {None, entry.host}
            and self.operation in {Operation.ANY, entry.operation}
            and self.permission in {Permission.ANY, entry.permission}
        )


def check_binding(binding: AclBinding) -> None:
    """AclError: there cannot be such an ACL."""
    pattern, entry = binding
    if pattern.resource_type in _NOT_FOR_BINDINGS:
        raise AclError(f"Invalid resourceType {pattern.resource_type.name}")
    if pattern.pattern_type not in {PatternType.LITERAL, PatternType.PREFIXED}:
        raise AclError(f"Invalid patternType {pattern.pattern_type.name}")
    if entry.operation in _NO_OPERATIONS:
        raise AclError(f"Invalid operation {entry.operation.name}")
    if entry.permission not in {Permission.DENY, Permission.ALLOW}:
        raise AclError(f"Invalid permissionType {entry.permission.name}")
    if not pattern.name:
        raise AclError("Invalid empty resource name")
    if pattern.resource_type == ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        raise AclError(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not entry.host:
        raise AclError("Invalid empty host; * stands for every host")
    try:
        Principal.parse(entry.principal)
    except ValueError as error:
        raise AclError(str(error)) from None


def stored_name(member: ResourceType | Operation | Permission) -> str:
    """As Kafka's nodes and tools write it: DESCRIBE_CONFIGS is DescribeConfigs."""
    return member.name.title().replace("_", "")


OPERATIONS = {stored_name(operation).upper(): operation for operation in Operation}
RESOURCE_TYPES = {stored_name(kind).upper(): kind for kind in ResourceType}
PERMISSIONS = {stored_name(permission).upper(): permission for permission in Permission}
