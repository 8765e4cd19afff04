"""The keys of the authorizer."""

from dataclasses import dataclass

from ottla.base.config import ConfigType, key, one_of

AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)


def _super_users(text: str) -> str | None:
    for part in text.split(";"):
        kind, _, name = part.strip().partition(":")
        is_several = f",{kind}:" in part.replace(" ", "")
        if part.strip() and (is_several or not (kind and name)):
            return "must be principals with semicolons between them, such as User:admin;User:backup"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizerConfig:
    class_name: str = key(
        "authorizer.class.name",
        "",
        "Either of Kafka's own authorizers stands for ours, which keeps ACLs; empty: everybody may do "
        "everything.",
        type=ConfigType.CLASS,
        check=one_of("", *AUTHORIZERS),
    )
    super_users: str = key(
        "super.users",
        "",
        "Principals that may do everything, with semicolons between them: User:admin;User:backup.",
        check=_super_users,
    )
    allows_without_acls: bool = key(
        "allow.everyone.if.no.acl.found",
        False,
        "Whether a resource that no ACL speaks of is open to everybody, or to super users alone.",
    )
