"""A member of a classic group, as its JoinGroup described it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from ottla.group.memory import classic_member_bytes
from ottla.group.protocol import Subscription, version_of
from ottla.wire.codec import decode
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.primitives import ProtocolError

Protocols: TypeAlias = dict[str, bytes]
"""A member's metadata for each assignor it can work with, the one it likes best first."""


@dataclass(slots=True)
class ClassicMember:
    """`assignment` is opaque to us. A new member has not been in a generation yet: it does not know its own
    member id and cannot send heartbeats."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False

    @property
    def held_bytes(self) -> int:
        return classic_member_bytes(self.member_id, self.client_id, self.protocols)

    def is_like(self, protocols: Protocols) -> bool:
        """The same metadata in the same order: the order is the member's vote."""
        return list(self.protocols.items()) == list(protocols.items())


def protocols_of(request: JoinGroupRequest) -> Protocols:
    return {protocol.name: protocol.metadata for protocol in request.protocols}


def rebalance_timeout_ms_of(request: JoinGroupRequest, version: int) -> int:
    """Version 0 has no such field; then the session's timeout is both."""
    return request.rebalance_timeout_ms if version >= 1 else request.session_timeout_ms


def subscribed_topics(members: Iterable[ClassicMember], protocol: str) -> frozenset[str] | None:
    """All topics that members of a group of consumers read; None if one of them cannot be understood.

    Read as version 0, which all versions begin with, so that nothing a client adds after it can matter.
    """
    topics: set[str] = set()
    for member in members:
        metadata = member.protocols[protocol]
        try:
            version_of(metadata)
            topics.update(decode(Subscription, 0, memoryview(metadata), 2).topics)
        except ProtocolError:
            return None
    return frozenset(topics)
