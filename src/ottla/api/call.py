"""What a handler knows of the request besides its body."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any
from uuid import UUID

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.access import Session
from ottla.broker.broker import Broker
from ottla.security.resources import CLUSTER_NAME, Operation, ResourceType

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

    def random_uuid(self) -> str:
        return str(UUID(bytes=self.broker.random.randbytes(16), version=4))

    @property
    def session(self) -> Session:
        return self.broker.access.session(self.connection)

    @property
    def listener(self) -> str:
        """The name of the one that it came in by."""
        return self.session.listener

    @property
    def is_between_brokers(self) -> bool:
        """Did it come in where brokers talk to each other?"""
        return self.session.listener == self.broker.listeners.inter_broker

    def allows(self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """May whoever asks do this?"""
        principal, host = self.session.principal, self.client_host.removeprefix("/")
        return self.broker.access.allows(principal, host, operation, resource_type, name)

    def require(self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> None:
        """ApiError: whoever asks may not do this."""
        if not self.allows(operation, resource_type, name):
            raise ApiError(REFUSALS[resource_type])

    def may_act_as(self, broker: int, what: str) -> bool:
        """Has this connection proved to be that broker's, and come in where brokers do?"""
        if self.is_between_brokers and self.broker.identities.may_act_as(self.connection, broker):
            return True
        reason = "it did not prove to be that"
        if not self.is_between_brokers:
            reason = f"brokers ask on {self.broker.listeners.inter_broker}, and not on {self.listener}"
        sentence = f"{what} in the name of broker {broker} is refused to {self.who}: {reason}"
        self.broker.identities.refuse(self.connection, sentence, self.now_ms)
        return False

    @property
    def who(self) -> str:
        return f"{self.client_id!r:.100} at {self.client_host.removeprefix('/')}"

    def topic_name(self, name: str, topic_id: bytes, *, by_id: bool) -> str:
        """The topic a request names, which newer versions do by id."""
        if not by_id:
            return name
        topic = self.broker.image.topic_names.get(topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic
