"""CreateAcls (key 30): new ACLs. One that is there already is created, too.

ACLs of one pattern are in one node (`controller/acl_nodes`), and are written together. If somebody else wrote
to it meanwhile, what they wrote is read, and kept, and ours is added to it. The answer comes when this broker
heeds them; the others do as soon as the keeper tells them. Without an authorizer it is SECURITY_DISABLED, for
each. What is wrong with one ACL (INVALID_REQUEST) leaves the others alone.

v1 pattern types (KIP-290) · v2 flexible · v3 resources of type USER
"""

from collections.abc import Sequence
from functools import partial

from ottla.api.acl_messages import NO_AUTHORIZER, binding_of, key_of, stored
from ottla.api.call import Call
from ottla.api.writes import Item, Writes
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.long_work import Steps
from ottla.controller import acl_nodes
from ottla.controller.acl_nodes import AclKey, StoredAcl
from ottla.controller.keeper import Operation
from ottla.security.acls import AclError, check_binding
from ottla.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

WAIT_MS = 30_000
ATTEMPTS_MAX = 200  # many may want to add to one node


def create_acls(call: Call, request: CreateAclsRequest) -> Steps:
    results = [AclCreationResult() for _ in request.creations]
    adding: dict[AclKey, list[StoredAcl]] = {}
    items: dict[int, AclKey] = {}  # of each result, whose write it waits for
    bindings = [binding_of(creation) for creation in request.creations]
    for at, binding in enumerate(bindings):
        yield
        try:
            if call.broker.access.authorizer is None:
                raise ApiError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
            check_binding(binding)
        except (ApiError, AclError) as error:
            code = error.code if isinstance(error, ApiError) else ErrorCode.INVALID_REQUEST
            results[at] = AclCreationResult(error_code=code, error_message=str(error))
        else:
            items[at] = key_of(binding.pattern)
            adding.setdefault(items[at], []).append(stored(binding.entry))
    written: dict[AclKey, Item] = {}
    writes = Writes(call.broker, lambda: _respond(results, items, written), attempts_max=ATTEMPTS_MAX)
    for key, acls in adding.items():
        written[key] = writes.add(partial(_plan, call, key, acls))
    return (yield from writes.answer(call, WAIT_MS))


def _plan(call: Call, key: AclKey, acls: Sequence[StoredAcl]) -> Sequence[Operation]:
    return acl_nodes.change(key, call.broker.image.acls.get(key), acls)


def _respond(
    results: list[AclCreationResult], items: dict[int, AclKey], written: dict[AclKey, Item]
) -> CreateAclsResponse:
    for at, key in items.items():
        results[at].error_code, results[at].error_message = (
            written[key].error_code,
            written[key].error_message,
        )
    return CreateAclsResponse(results=results)
