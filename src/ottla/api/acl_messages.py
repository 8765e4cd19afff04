"""ACLs and filters of ACLs, from and to the messages of the three APIs about them."""

from enum import IntEnum
from typing import Protocol, TypeVar

from ottla.api.call import CloseConnection
from ottla.controller.acl_nodes import AclKey, StoredAcl
from ottla.security.acls import AclBinding, AclEntry, AclFilter, ResourcePattern, stored_name
from ottla.security.resources import Operation, PatternType, Permission, ResourceType
from ottla.wire.messages.create_acls import AclCreation

E = TypeVar("E", bound=IntEnum)

NO_AUTHORIZER = "No Authorizer is configured."


class AskedFilter(Protocol):
    """A filter in either request that has some."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def binding_of(creation: AclCreation) -> AclBinding:
    """CloseConnection: it has a number that means nothing, as in Kafka."""
    return AclBinding(
        ResourcePattern(
            _member(ResourceType, creation.resource_type),
            creation.resource_name,
            _member(PatternType, creation.resource_pattern_type),
        ),
        AclEntry(
            creation.principal,
            _member(Operation, creation.operation),
            _member(Permission, creation.permission_type),
            creation.host,
        ),
    )


def filter_of(asked: AskedFilter) -> AclFilter:
    """CloseConnection: likewise."""
    return AclFilter(
        _member(ResourceType, asked.resource_type_filter),
        asked.resource_name_filter,
        _member(PatternType, asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        _member(Operation, asked.operation),
        _member(Permission, asked.permission_type),
    )


def key_of(pattern: ResourcePattern) -> AclKey:
    """The node of a pattern."""
    is_prefix = pattern.pattern_type == PatternType.PREFIXED
    return AclKey(stored_name(pattern.resource_type), pattern.name, is_prefix)


def stored(entry: AclEntry) -> StoredAcl:
    return StoredAcl(entry.principal, stored_name(entry.permission), stored_name(entry.operation), entry.host)


def _member(kind: type[E], code: int) -> E:
    try:
        member = kind(code)
    except ValueError:
        member = kind(0)
    if not member:
        raise CloseConnection(f"a request about ACLs has no {kind.__name__} {code}")
    return member
