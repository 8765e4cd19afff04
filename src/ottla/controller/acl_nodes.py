"""ACLs in the tree, in the nodes that Kafka has for them: one per resource pattern, with all its ACLs.

    /kafka-acl/Topic/orders                      LITERAL, also `*`
    /kafka-acl-extended/prefixed/Topic/orders-   PREFIXED (KIP-290)

What a node cannot be called (slashes, control characters) is escaped in the name, as in a URL.
"""

import json
import re
from collections.abc import Collection
from typing import NamedTuple

from ottla.controller.keeper import Create, Delete, Operation, Put

LITERAL = "/kafka-acl/"
PREFIXED = "/kafka-acl-extended/prefixed/"
FOLDERS = (LITERAL, "/kafka-acl-extended/")
_VERSION = 1
_NOT_IN_NODES = re.compile("[%/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]|^\\.{1,2}\\Z")


class AclKey(NamedTuple):
    """What a node is about. `resource_type` is Kafka's word for it, such as `TransactionalId`."""

    resource_type: str
    name: str
    is_prefix: bool = False


class StoredAcl(NamedTuple):
    """In Kafka's words: `User:alice`, `Allow`, `DescribeConfigs`, `*`."""

    principal: str
    permission: str
    operation: str
    host: str


class StoredAcls(NamedTuple):
    acls: tuple[StoredAcl, ...]
    version: int


def acl_path(key: AclKey) -> str:
    from urllib.parse import quote  # many brokers have no ACLs

    name = _NOT_IN_NODES.sub(lambda part: quote(part[0], safe="").replace(".", "%2E"), key.name)
    return f"{PREFIXED if key.is_prefix else LITERAL}{key.resource_type}/{name}"


def acl_key(path: str) -> AclKey | None:
    """None: it is a folder, or no node of ACLs."""
    for top in (LITERAL, PREFIXED):
        if path.startswith(top):
            resource_type, slash, name = path.removeprefix(top).partition("/")
            from urllib.parse import unquote

            return AclKey(resource_type, unquote(name), top == PREFIXED) if slash and name else None
    return None


def acl_node(acls: Collection[StoredAcl]) -> bytes:
    entries = [
        {
            "principal": acl.principal,
            "permissionType": acl.permission,
            "operation": acl.operation,
            "host": acl.host,
        }
        for acl in sorted(acls)
    ]
    return json.dumps({"version": _VERSION, "acls": entries}, separators=(",", ":")).encode()


def parse_acl_node(content: bytes) -> tuple[StoredAcl, ...]:
    entries = json.loads(content)["acls"]
    return tuple(
        dict.fromkeys(
            StoredAcl(entry["principal"], entry["permissionType"], entry["operation"], entry["host"])
            for entry in entries
        )
    )


def change(
    key: AclKey,
    stored: StoredAcls | None,
    adding: Collection[StoredAcl],
    removing: Collection[StoredAcl] = (),
) -> list[Operation]:
    """The write that adds and removes these, and leaves all others of the node as they are. It is refused if
    the node is no longer as it is known here: whoever asked decides again."""
    before = stored.acls if stored else ()
    after = [acl for acl in dict.fromkeys((*before, *adding)) if acl not in removing]
    if set(after) == set(before):
        return []
    path = acl_path(key)
    if stored is None:
        return [Create(path, acl_node(after))]
    if not after:
        return [Delete(path, stored.version)]
    return [Put(path, acl_node(after), stored.version)]
