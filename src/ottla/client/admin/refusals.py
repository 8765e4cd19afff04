"""What brokers refuse of administration, with the remedy."""

from ottla.base.command_error import CommandError
from ottla.base.errors import ErrorCode
from ottla.client.errors import code_of

REMEDIES = {
    ErrorCode.SECURITY_DISABLED: "the broker has no authorizer, so there are no ACLs; set "
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer, and super.users",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "you are not allowed to do that; it takes a super user, "
    "or an ACL that allows it on the cluster (docs/reference/apis.md says which operation each API needs)",
    ErrorCode.UNSUPPORTED_VERSION: "the broker does not know how to do that",
}


def check_answer(error_code: int, doing: str, said: str | None = None) -> None:
    """Nothing for no error; else the command ends with one line."""
    if error_code == ErrorCode.NONE:
        return
    code = code_of(error_code)
    name = code.name if code == error_code else f"error {error_code}"
    raise CommandError(f"{doing}: {REMEDIES.get(code) or said or name}", kafka_error=code.name)
