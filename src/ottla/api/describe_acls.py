"""DescribeAcls (key 29): the ACLs that a filter selects, by the pattern that they are about.

Without an authorizer it is SECURITY_DISABLED.

v1 pattern types (KIP-290) · v2 flexible · v3 resources of type USER
"""

from ottla.api.acl_messages import NO_AUTHORIZER, filter_of
from ottla.api.call import Call
from ottla.base.errors import ErrorCode
from ottla.broker.long_work import Steps
from ottla.security.acls import AclEntry, ResourcePattern
from ottla.wire.lazy import lazily
from ottla.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def describe_acls(call: Call, request: DescribeAclsRequest) -> Steps:
    authorizer = call.broker.access.authorizer
    if authorizer is None:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    selected: dict[ResourcePattern, list[AclEntry]] = {}
    for pattern, entry in list(authorizer.bindings(filter_of(request))):
        yield
        selected.setdefault(pattern, []).append(entry)
    return DescribeAclsResponse(resources=lazily(_described, sorted(selected.items())))


def _described(acls: tuple[ResourcePattern, list[AclEntry]]) -> DescribeAclsResource:
    pattern, entries = acls
    return DescribeAclsResource(
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        acls=[
            AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for entry in sorted(entries)
        ],
    )
