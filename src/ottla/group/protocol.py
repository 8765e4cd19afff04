"""What consumers put into the opaque bytes of the classic protocol: subscriptions and assignments.

The coordinator looks inside only to know which topics a classic group reads, and to move groups between the
two protocols while members are live. Rules: both carry their version in front (versions 0 to 3); a newer one
is read as version 3, bytes after it ignored, since versions only ever append. What cannot be read is a
`ProtocolError`, which here says nothing about the connection: a classic group may agree on any bytes.
"""

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Annotated, Final, TypeVar

from ottla.wire.codec import decode, encode
from ottla.wire.primitives import ProtocolError
from ottla.wire.schema import i32, message, since, struct

PROTOCOL_TYPE: Final = "consumer"
VERSION_MAX: Final = 3

M = TypeVar("M")


@struct
class OwnedPartitions:
    """Partitions of one topic, by its name."""

    topic: str
    partitions: list[i32] = field(default_factory=list)


@message(key=-1, versions=(0, VERSION_MAX), flexible=None)
class Subscription:
    """What a member wants to read and, for cooperative assignors, what it owns."""

    topics: list[str] = field(default_factory=list)
    user_data: bytes | None = None
    owned_partitions: Annotated[list[OwnedPartitions], since(1)] = field(default_factory=list)
    generation_id: Annotated[i32, since(2)] = -1
    rack_id: Annotated[str | None, since(3)] = None


@message(key=-1, versions=(0, VERSION_MAX), flexible=None)
class Assignment:
    """What a member is to read."""

    assigned_partitions: list[OwnedPartitions] = field(default_factory=list)
    user_data: bytes | None = None


def version_of(encoded: bytes) -> int:
    """The version in front, as it was sent."""
    version = int.from_bytes(encoded[:2], "big", signed=True)
    if len(encoded) < 2 or version < 0:
        raise ProtocolError("not a message of the consumer protocol: it has no version")
    return version


def encode_subscription(subscription: Subscription, version: int = VERSION_MAX) -> bytes:
    return _encode(subscription, version)


def decode_subscription(encoded: bytes) -> Subscription:
    return _decode(Subscription, encoded)


def encode_assignment(assignment: Assignment, version: int = VERSION_MAX) -> bytes:
    return _encode(assignment, version)


def decode_assignment(encoded: bytes) -> Assignment:
    """No bytes at all stand for no partitions: what a member has before its first assignment."""
    return _decode(Assignment, encoded) if encoded else Assignment()


def to_partitions(by_topic: Mapping[str, Collection[int]]) -> list[OwnedPartitions]:
    """Partitions by topic in the form of the protocol, in order; topics without any are left out."""
    return [
        OwnedPartitions(topic=topic, partitions=sorted(partitions))
        for topic, partitions in sorted(by_topic.items())
        if partitions
    ]


def by_topic(owned: list[OwnedPartitions]) -> dict[str, tuple[int, ...]]:
    """The inverse of `to_partitions`; a topic that comes twice is joined."""
    found: dict[str, set[int]] = {}
    for each in owned:
        found.setdefault(each.topic, set()).update(each.partitions)
    return {topic: tuple(sorted(partitions)) for topic, partitions in found.items()}


def _encode(payload: Subscription | Assignment, version: int) -> bytes:
    """A version that we do not know is written as the highest we do, as it would be read."""
    version = min(version, VERSION_MAX)
    return version.to_bytes(2, "big") + encode(payload, version)


def _decode(cls: type[M], encoded: bytes) -> M:
    return decode(cls, min(version_of(encoded), VERSION_MAX), memoryview(encoded), 2)
