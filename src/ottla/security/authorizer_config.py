"""The keys of the authorizer."""

from dataclasses import dataclass

from ottla.base.config import ConfigType, key, one_of
from ottla.security.principals import Principal

AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)


def parse_super_users(text: str) -> frozenset[Principal]:
    """`User:a;User:CN=b,OU=c`: by semicolons, since a certificate's name has commas. ValueError: one of them
    is no principal."""
    return frozenset(Principal.parse(part.strip()) for part in text.split(";") if part.strip())


def _check_super_users(text: str) -> str | None:
    try:
        principals = parse_super_users(text)
    except ValueError:
        principals = frozenset()
    has_commas = any(f",{kind}:" in name.replace(" ", "") for kind, name in principals)
    if has_commas or (text.strip() and not principals):
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
        check=_check_super_users,
    )
    allows_without_acls: bool = key(
        "allow.everyone.if.no.acl.found",
        False,
        "Whether a resource that no ACL speaks of is open to everybody, or to super users alone.",
    )
