"""Who is at the other end of a connection, and what they may do.

A connection of which nothing was said is ANONYMOUS's, on the listener that a broker has when it is given
none. Without an authorizer everybody may do everything.
"""

from dataclasses import dataclass

from ottla.security.principals import ANONYMOUS, Principal
from ottla.security.resources import Operation, ResourceType

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
    def __init__(self) -> None:
        self._sessions: dict[int, Session] = {}

    def begin(self, connection: int, session: Session) -> None:
        self._sessions[connection] = session

    def session(self, connection: int) -> Session:
        return self._sessions.get(connection, UNTOLD)

    def forget(self, connection: int) -> None:
        self._sessions.pop(connection, None)

    def allows(
        self,
        principal: Principal,  # noqa: ARG002 - there is no authorizer yet
        host: str,  # noqa: ARG002
        operation: Operation,  # noqa: ARG002
        resource_type: ResourceType,  # noqa: ARG002
        name: str,  # noqa: ARG002
    ) -> bool:
        return True
