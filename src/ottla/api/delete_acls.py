"""DeleteAcls (key 31): the ACLs that filters select go, and are answered, by filter.

An ACL is deleted from its node on the condition that nobody else wrote to it meanwhile; if somebody did, what
they wrote is kept. An ACL that two filters select is answered to both. Without an authorizer it is
SECURITY_DISABLED, for each filter.

v1 pattern types (KIP-290) · v2 flexible · v3 resources of type USER
"""

from collections.abc import Sequence
from functools import partial

from ottla.api.acl_messages import NO_AUTHORIZER, filter_of, key_of, stored
from ottla.api.call import Call
from ottla.api.create_acls import ATTEMPTS_MAX, WAIT_MS
from ottla.api.writes import Item, Writes
from ottla.base.errors import ErrorCode
from ottla.broker.long_work import Steps
from ottla.controller import acl_nodes
from ottla.controller.acl_nodes import AclKey, StoredAcl
from ottla.controller.keeper import Operation
from ottla.security.acls import AclBinding
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def delete_acls(call: Call, request: DeleteAclsRequest) -> Steps:
    authorizer = call.broker.access.authorizer
    filters = [filter_of(asked) for asked in request.filters]
    if authorizer is None:
        code, message = ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER
        refused = [DeleteAclsFilterResult(error_code=code, error_message=message) for _ in filters]
        return DeleteAclsResponse(filter_results=refused)
    selected = []
    removing: dict[AclKey, set[StoredAcl]] = {}
    for selection in filters:
        yield
        bindings = sorted(authorizer.bindings(selection))
        selected.append(bindings)
        for pattern, entry in bindings:
            removing.setdefault(key_of(pattern), set()).add(stored(entry))
    items: dict[AclKey, Item] = {}
    writes = Writes(call.broker, lambda: _respond(selected, items), attempts_max=ATTEMPTS_MAX)
    for key, acls in removing.items():
        items[key] = writes.add(partial(_plan, call, key, acls))
    return (yield from writes.answer(call, WAIT_MS))


def _plan(call: Call, key: AclKey, acls: set[StoredAcl]) -> Sequence[Operation]:
    return acl_nodes.change(key, call.broker.image.acls.get(key), (), acls)


def _respond(selected: list[list[AclBinding]], items: dict[AclKey, Item]) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(
                matching_acls=[_deleted(binding, items[key_of(binding.pattern)]) for binding in bindings]
            )
            for bindings in selected
        ]
    )


def _deleted(binding: AclBinding, item: Item) -> DeleteAclsMatchingAcl:
    pattern, entry = binding
    return DeleteAclsMatchingAcl(
        error_code=item.error_code,
        error_message=item.error_message,
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )
