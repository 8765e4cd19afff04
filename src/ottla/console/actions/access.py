"""Users with passwords, ACLs and quotas: list, add, remove."""

from typing import NamedTuple

from ottla.base.command_error import USAGE, CommandError
from ottla.client.admin import acls, quotas
from ottla.client.admin.quotas import Entity, Quota
from ottla.client.admin.users import BrokerUsers, Users
from ottla.console.cluster.view import ClusterView
from ottla.security.acls import (
    OPERATIONS,
    PERMISSIONS,
    RESOURCE_TYPES,
    AclBinding,
    AclEntry,
    AclError,
    AclFilter,
    ResourcePattern,
    check_binding,
)
from ottla.security.credentials import ITERATIONS, ScramMechanism
from ottla.security.principals import USER
from ottla.security.resources import CLUSTER_NAME, PatternType, ResourceType

PASSWORD_MIN = 8
QUOTAS = {
    "producer_byte_rate": "bytes a second that producers may send",
    "consumer_byte_rate": "bytes a second that consumers may fetch",
    "request_percentage": "percent of a thread's time for requests",
    "controller_mutation_rate": "partitions a second that may be created or deleted",
    "connection_creation_rate": "connections a second, of an address",
}
KINDS = ("user", "client-id", "ip")


def users(view: ClusterView) -> Users:
    return BrokerUsers(view.cluster).users()


def add_user(view: ClusterView, name: str, password: str) -> None:
    """With both mechanisms; somebody who is there gets another password."""
    if not name:
        raise CommandError("a user has a name", USAGE)
    if len(password) < PASSWORD_MIN:
        raise CommandError(f"a password has at least {PASSWORD_MIN} characters", USAGE)
    BrokerUsers(view.cluster).add(name, password, dict.fromkeys(ScramMechanism, ITERATIONS))


def remove_user(view: ClusterView, name: str) -> None:
    store = BrokerUsers(view.cluster)
    mechanisms = store.users([name]).get(name)
    if mechanisms is None:
        raise CommandError(f"there is no user {name!r}", USAGE)
    store.remove(name, mechanisms)


# -- ACLs ----------------------------------------------------------------------------------------------------


class AclWords(NamedTuple):
    """An ACL as people write it: User:alice, Read, Topic, orders, literal, Allow, *."""

    principal: str
    operation: str
    resource: str
    name: str
    pattern: str
    permission: str
    host: str


def acl_list(view: ClusterView) -> list[AclBinding]:
    return acls.listed(view.cluster, [AclFilter()])


def binding_of(words: AclWords) -> AclBinding:
    """CommandError: there cannot be such an ACL."""
    try:
        resource = RESOURCE_TYPES[words.resource.upper()]
        binding = AclBinding(
            ResourcePattern(
                resource,
                CLUSTER_NAME if resource == ResourceType.CLUSTER else words.name,
                PatternType[words.pattern.upper()],
            ),
            AclEntry(
                words.principal
                if ":" in words.principal or not words.principal
                else f"{USER}:{words.principal}",
                OPERATIONS[words.operation.upper()],
                PERMISSIONS[words.permission.upper()],
                words.host or "*",
            ),
        )
        check_binding(binding)
    except KeyError as error:
        raise CommandError(f"{error.args[0]} is not something that an ACL can say", USAGE) from None
    except AclError as error:
        raise CommandError(str(error), USAGE) from None
    return binding


def add_acl(view: ClusterView, binding: AclBinding) -> None:
    acls.add(view.cluster, [binding])


def remove_acl(view: ClusterView, binding: AclBinding) -> None:
    pattern, entry = binding
    wanted = AclFilter(
        pattern.resource_type, pattern.name, pattern.pattern_type,
        entry.principal, entry.host, entry.operation, entry.permission,
    )  # fmt: skip
    if not acls.remove(view.cluster, [wanted]):
        raise CommandError("that ACL is not there any more")


# -- quotas --------------------------------------------------------------------------------------------------


def quota_list(view: ClusterView) -> list[Quota]:
    return quotas.listed(view.cluster, ())


def entity_of(kind: str, name: str) -> Entity:
    """Without a name it is for all that have no quota of their own."""
    if kind not in KINDS:
        raise CommandError(f"a quota is for a {', '.join(KINDS)}", USAGE)
    return ((kind, name or None),)


def set_quota(view: ClusterView, entity: Entity, key: str, value: float | None) -> None:
    """None takes it away."""
    if key not in QUOTAS:
        raise CommandError(f"there is no quota {key!r}", USAGE)
    if value is not None and not 0 < value < 1e18:
        raise CommandError("a quota is a number above 0", USAGE)
    quotas.change(view.cluster, entity, {key: value})
