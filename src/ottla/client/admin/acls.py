"""ACLs, as brokers know them."""

from collections.abc import Iterable
from typing import Any

from ottla.base.command_error import CommandError
from ottla.client.admin.refusals import check_answer
from ottla.client.admin.requests import Cluster
from ottla.security.acls import AclBinding, AclEntry, AclFilter, ResourcePattern
from ottla.security.resources import Operation, PatternType, Permission, ResourceType
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def listed(cluster: Cluster, filters: Iterable[AclFilter]) -> list[AclBinding]:
    """What any of the filters selects, in order."""
    bindings: set[AclBinding] = set()
    for wanted in filters:
        request = DescribeAclsRequest(**_fields(wanted))
        answer = cluster.ask_any(request, DescribeAclsResponse)
        check_answer(answer.error_code, "listing ACLs", answer.error_message)
        bindings.update(
            _binding(
                resource.resource_type, resource.resource_name, resource.pattern_type,
                acl.principal, acl.host, acl.operation, acl.permission_type,
            )
            for resource in answer.resources
            for acl in resource.acls
        )  # fmt: skip
    return sorted(bindings)


def add(cluster: Cluster, bindings: list[AclBinding]) -> None:
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                resource_pattern_type=pattern.pattern_type,
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for pattern, entry in bindings
        ]
    )
    answer = cluster.ask_controller(request, CreateAclsResponse)
    for result in answer.results:
        check_answer(result.error_code, "adding ACLs", result.error_message)


def remove(cluster: Cluster, filters: Iterable[AclFilter]) -> list[AclBinding]:
    """What was there, and is not any more."""
    request = DeleteAclsRequest(filters=[DeleteAclsFilter(**_fields(wanted)) for wanted in filters])
    answer = cluster.ask_controller(request, DeleteAclsResponse)
    removed: set[AclBinding] = set()
    for result in answer.filter_results:
        check_answer(result.error_code, "removing ACLs", result.error_message)
        for acl in result.matching_acls:
            check_answer(acl.error_code, "removing ACLs", acl.error_message)
            removed.add(
                _binding(
                    acl.resource_type, acl.resource_name, acl.pattern_type,
                    acl.principal, acl.host, acl.operation, acl.permission_type,
                )
            )  # fmt: skip
    return sorted(removed)


def _fields(wanted: AclFilter) -> dict[str, Any]:
    """Of a filter, in either request that has some."""
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def _binding(
    resource_type: int,
    name: str,
    pattern_type: int,
    principal: str,
    host: str,
    operation: int,
    permission: int,
) -> AclBinding:
    try:
        return AclBinding(
            ResourcePattern(ResourceType(resource_type), name, PatternType(pattern_type)),
            AclEntry(principal, Operation(operation), Permission(permission), host),
        )
    except ValueError as error:
        raise CommandError(f"the broker has an ACL of a kind that is not known here: {error}") from None
