"""Users, ACLs and quotas: the lists, with a form below each."""

from collections.abc import Callable
from typing import TypeVar

from starlette.responses import Response

from ottla.base.command_error import USAGE, CommandError
from ottla.client.admin.quotas import Entity, Quota, title
from ottla.client.admin.users import Users
from ottla.console.actions import access as actions
from ottla.console.actions.access import KINDS, QUOTAS, AclWords
from ottla.console.visit import Visit, status_of
from ottla.security.acls import AclBinding, stored_name
from ottla.security.resources import Operation, Permission, ResourceType

T = TypeVar("T")
OPERATIONS = [stored_name(operation) for operation in Operation if operation > Operation.ANY]
RESOURCES = [
    stored_name(kind)
    for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID)
]
FIELDS = AclWords._fields


def _or_reason(ask: Callable[[], T], empty: T) -> tuple[T, str]:
    """What there is; or nothing, and why: a cluster may have no ACLs, a person no right to see them."""
    try:
        return ask(), ""
    except CommandError as error:
        return empty, str(error)


# -- users ---------------------------------------------------------------------------------------------------


def show_users(visit: Visit, problem: str = "", status: int = 200) -> Response:
    users, reason = _or_reason(lambda: actions.users(visit.cluster), Users())
    return visit.page(
        "users.html", status, users=sorted(users.items()), reason=reason, problem=problem,
        password_min=actions.PASSWORD_MIN,
    )  # fmt: skip


def add_user(visit: Visit) -> Response:
    name = visit.form("user")
    try:
        with visit.change(f"sets the password of user {name}"):
            actions.add_user(visit.cluster, name, visit.fields.get("password", [""])[-1])
    except CommandError as error:
        return show_users(visit, str(error), status_of(error))
    return visit.to("/users", f"{name} may log in with that password.")


def remove_user(visit: Visit) -> Response:
    name = visit.form("user")
    if not visit.form("confirmed"):
        return visit.page("user_remove.html", user=name)
    with visit.change(f"removes user {name}"):
        actions.remove_user(visit.cluster, name)
    return visit.to("/users", f"User {name} is removed.")


# -- ACLs ----------------------------------------------------------------------------------------------------


def show_acls(visit: Visit, problem: str = "", status: int = 200) -> Response:
    bindings, reason = _or_reason(lambda: actions.acl_list(visit.cluster), list[AclBinding]())
    return visit.page(
        "acls.html", status, rows=[words_of(binding) for binding in bindings], reason=reason, problem=problem,
        operations=OPERATIONS, resources=RESOURCES,
    )  # fmt: skip


def words_of(binding: AclBinding) -> AclWords:
    pattern, entry = binding
    return AclWords(
        entry.principal,
        stored_name(entry.operation),
        stored_name(pattern.resource_type),
        pattern.name,
        pattern.pattern_type.name.lower(),
        stored_name(entry.permission),
        entry.host,
    )


def _sentence(words: AclWords) -> str:
    where = "" if words.host in {"", "*"} else f" from {words.host}"
    names = f"{words.name}*" if words.pattern == "prefixed" else words.name
    verb = "is denied" if words.permission == stored_name(Permission.DENY) else "is allowed"
    return f"{words.principal} {verb} {words.operation} on {words.resource} {names}{where}"


def add_acl(visit: Visit) -> Response:
    words = AclWords(*(visit.form(field) for field in FIELDS))
    try:
        binding = actions.binding_of(words)
        sentence = _sentence(words_of(binding))
        with visit.change(f"adds an ACL: {sentence}"):
            actions.add_acl(visit.cluster, binding)
    except CommandError as error:
        return show_acls(visit, str(error), status_of(error))
    return visit.to("/acls", f"{sentence}.")


def remove_acl(visit: Visit) -> Response:
    words = AclWords(*(visit.form(field) for field in FIELDS))
    binding, sentence = actions.binding_of(words), _sentence(words)
    if not visit.form("confirmed"):
        return visit.page("acl_remove.html", words=words, sentence=sentence)
    with visit.change(f"removes an ACL: {sentence}"):
        actions.remove_acl(visit.cluster, binding)
    return visit.to("/acls", f"Removed: {sentence}.")


# -- quotas --------------------------------------------------------------------------------------------------


def show_quotas(visit: Visit, problem: str = "", status: int = 200) -> Response:
    quotas, reason = _or_reason(lambda: actions.quota_list(visit.cluster), list[Quota]())
    rows = [
        (title(quota.entity), quota.entity, key, value)
        for quota in quotas
        for key, value in quota.values.items()
    ]
    return visit.page(
        "quotas.html", status, rows=rows, reason=reason, problem=problem, kinds=KINDS, quotas=QUOTAS
    )


def set_quota(visit: Visit) -> Response:
    """Without a value it is taken away."""
    try:
        entity, key, text = _entity(visit), visit.form("key"), visit.form("value")
        value = _number(text) if text or not visit.form("remove") else None
        doing = "takes away" if value is None else f"sets to {value:g}"
        with visit.change(f"{doing} the quota {key} of {title(entity)}"):
            actions.set_quota(visit.cluster, entity, key, value)
    except CommandError as error:
        return show_quotas(visit, str(error), status_of(error))
    return visit.to("/quotas", f"The quota {key} of {title(entity)} is {'gone' if value is None else 'set'}.")


def _entity(visit: Visit) -> Entity:
    """One kind and name, or several as a list shows them: a user's client."""
    kinds, names = visit.fields.get("kind", []), visit.fields.get("name", [])
    return tuple(
        part
        for kind, name in zip(kinds, names, strict=False)
        for part in actions.entity_of(kind, name.strip())
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CommandError(f"{text!r} is no number", USAGE) from None
