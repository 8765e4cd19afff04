"""Who is at the other end of a connection, and what they may do.

A connection of which nothing was said is ANONYMOUS's, on the listener that a broker has when it is given
none. Without an authorizer everybody may do everything. With one, the ACLs are those of the image: a change
of theirs holds from the moment this broker sees it.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.controller.acl_nodes import AclKey, StoredAcl
from ottla.controller.image import Image
from ottla.security.authorizer_config import AuthorizerConfig, parse_super_users
from ottla.security.principals import ANONYMOUS, Principal
from ottla.security.resources import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.security.acls import AclEntry
    from ottla.security.authorizer import Authorizer

DEFAULT_LISTENER = "PLAINTEXT"


@dataclass(slots=True)
class Session:
    """`listener` is the name of the one it came in by. `expires_ms`: from then on it has to authenticate
    again (KIP-368)."""

    listener: str = DEFAULT_LISTENER
    principal: Principal = ANONYMOUS
    is_authenticated: bool = True
    expires_ms: int | None = None


UNTOLD = Session()  # nobody may change it


class Access:
    def __init__(self, config: AuthorizerConfig, image: Image) -> None:
        self._image = image
        self._sessions: dict[int, Session] = {}
        self.authorizer: Authorizer | None = _authorizer(config) if config.class_name else None

    def begin(self, connection: int, session: Session) -> None:
        self._sessions[connection] = session

    def session(self, connection: int) -> Session:
        return self._sessions.get(connection, UNTOLD)

    def forget(self, connection: int) -> None:
        self._sessions.pop(connection, None)

    def scope(self, connection: int, host: str, *, is_broker: bool) -> Hashable:
        """To whoever has the same, a request that is answered from the image has the same answer. To brokers
        nothing is refused, whoever they are."""
        session = self.session(connection)
        if self.authorizer is None or is_broker:
            return session.listener
        return session.listener, session.principal, host

    # -- the ACLs ---------------------------------------------------------------------------------

    def load(self) -> None:
        for key in self._image.acls:
            self.on_acls(key)

    def on_acls(self, key: AclKey) -> None:
        """The node of these ACLs changed, or is gone."""
        if self.authorizer is None:
            return
        from ottla.security.acls import RESOURCE_TYPES, ResourcePattern
        from ottla.security.resources import PatternType

        resource_type = RESOURCE_TYPES.get(key.resource_type.upper())
        if resource_type is None:
            return  # of a newer Kafka
        pattern_type = PatternType.PREFIXED if key.is_prefix else PatternType.LITERAL
        stored = self._image.acls.get(key)
        self.authorizer.replace(
            ResourcePattern(resource_type, key.name, pattern_type),
            [_entry(acl) for acl in stored.acls] if stored else [],
        )

    # -- decisions --------------------------------------------------------------------------------

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        if self.authorizer is None:
            return True
        return self.authorizer.allows(principal, host, operation, resource_type, name)

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """On some resource of this type (KIP-679)."""
        if self.authorizer is None:
            return True
        return self.authorizer.allows_any(principal, host, operation, resource_type)


def _authorizer(config: AuthorizerConfig) -> "Authorizer":
    from ottla.security.authorizer import Authorizer  # many brokers have none

    return Authorizer(parse_super_users(config.super_users), allows_without_acls=config.allows_without_acls)


def _entry(acl: StoredAcl) -> "AclEntry":
    """What a newer Kafka may have written, and is not known here, allows and denies nothing."""
    from ottla.security.acls import OPERATIONS, PERMISSIONS, AclEntry
    from ottla.security.resources import Permission

    return AclEntry(
        acl.principal,
        OPERATIONS.get(acl.operation.upper(), Operation.UNKNOWN),
        PERMISSIONS.get(acl.permission.upper(), Permission.UNKNOWN),
        acl.host,
    )
