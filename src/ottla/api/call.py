"""What a handler knows of the request besides its body."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ottla.api.table import Api
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.access import Session
from ottla.broker.audit import Asker, Check
from ottla.broker.broker import Broker
from ottla.security.principals import ANONYMOUS
from ottla.security.resources import CLUSTER_NAME, WILDCARD, Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.usage import Usage

REFUSALS = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class CloseConnection(Exception):  # noqa: N818
    """The protocol's answer to this request is to close the connection."""


class Silence(Enum):
    """Why there is nothing to send."""

    NO_REPLY = "the protocol wants no answer"
    PARKED = "the answer waits, and will come as a Reply"
    QUEUED = "the request itself waits for its turn, and holds its bytes until there is a Reply"


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """An answer after which the connection is closed, so that the client turns to another broker; provided
    that `is_last` says so when all of it is made."""

    response: Any
    reason: str
    is_last: Callable[[], bool] = lambda: True


@dataclass(slots=True)  # not frozen: one is made for every request, and that takes three times as long
class Call:
    broker: Broker
    now_ms: int
    version: int
    client_id: str
    client_host: str = ""
    connection: int = -1
    usage: "Usage | None" = None  # of its client's quotas, if it has any
    api: Api | None = None  # for the audit log
    correlation_id: int = -1  # for what is logged of it
    checks: list[Check] | None = None  # what was asked for so far, where all of it is audited
    pinned: Session | None = None  # who asks, which is forgotten elsewhere when the connection ends

    def random_uuid(self) -> str:
        return str(UUID(bytes=self.broker.random.randbytes(16), version=4))

    @property
    def session(self) -> Session:
        if self.pinned is None:
            self.pinned = self.broker.access.session(self.connection)
        return self.pinned

    @property
    def listener(self) -> str:
        """The name of the one that it came in by."""
        return self.session.listener

    @property
    def is_between_brokers(self) -> bool:
        """Did it come in where brokers talk to each other?"""
        return self.session.listener == self.broker.listeners.inter_broker

    @property
    def is_checked(self) -> bool:
        """Is anything to be asked of an authorizer, or told the audit log?"""
        return self.broker.access.authorizer is not None or self.checks is not None

    def allows(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name: str = CLUSTER_NAME,
        *,
        is_asked: bool = True,
    ) -> bool:
        """May whoever asks do this? Not `is_asked`: it was not asked for, so a refusal is not audited."""
        if not self.is_checked:
            return True
        is_allowed = self.broker.identities.is_broker(self.connection) or self.broker.access.allows(
            self.session.principal, self.host, operation, resource_type, name
        )
        if is_asked:
            check = (operation, resource_type, name, is_allowed)
            if self.checks is not None:
                self.checks.append(check)
            elif not is_allowed:
                self.broker.audit.on_refusal(self.asker, check, self.now_ms)
        return is_allowed

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """On some resource of this type (KIP-679)?"""
        access = self.broker.access
        if access.authorizer is None or self.broker.identities.is_broker(self.connection):
            return True
        is_allowed = access.allows_any(self.session.principal, self.host, operation, resource_type)
        if not is_allowed:
            self.broker.audit.on_refusal(self.asker, (operation, resource_type, WILDCARD, False), self.now_ms)
        return is_allowed

    @property
    def host(self) -> str:
        return self.client_host.removeprefix("/")

    @property
    def asker(self) -> Asker:
        session, api = self.session, self.api.title if self.api is not None else ""
        return Asker(session.principal, self.host, session.listener, self.client_id, api)

    def require(self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> None:
        """ApiError: whoever asks may not do this."""
        if not self.allows(operation, resource_type, name):
            raise ApiError(REFUSALS[resource_type])

    def count_mutations(self, partitions: int, strict_since: int | None = None) -> None:
        """Partitions that are made or deleted count for a quota. ApiError: there were too many, which clients
        are told from the version `strict_since` on (KIP-599); None: never, they wait afterwards."""
        if self.usage is not None:
            is_strict = strict_since is not None and self.version >= strict_since
            self.usage.mutate(partitions, self.now_ms, is_strict=is_strict)

    def may_act_as(self, broker: int, what: str) -> bool:
        """Has this connection proved to be that broker's, and come in where brokers do? Or is whoever
        authenticated there allowed ClusterAction, as brokers with principals are (design note 018)?"""
        identities = self.broker.identities
        if self.is_between_brokers and (
            identities.may_act_as(self.connection, broker) or self._is_cluster_principal
        ):
            return True
        reason = "it did not prove to be that"
        if not self.is_between_brokers:
            reason = f"brokers ask on {self.broker.listeners.inter_broker}, and not on {self.listener}"
        sentence = f"{what} in the name of broker {broker} is refused to {self.who}: {reason}"
        self.broker.identities.refuse(self.connection, sentence, self.now_ms)
        return False

    @property
    def _is_cluster_principal(self) -> bool:
        access, principal = self.broker.access, self.session.principal
        return (
            access.authorizer is not None
            and principal != ANONYMOUS
            and access.allows(
                principal, self.host, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
            )
        )

    @property
    def who(self) -> str:
        return f"{self.client_id!r:.100} at {self.host}"

    def topic_name(self, name: str, topic_id: bytes, *, by_id: bool) -> str:
        """The topic a request names, which newer versions do by id."""
        if not by_id:
            return name
        topic = self.broker.image.topic_names.get(topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic
