"""What consumers put into the opaque bytes of the classic protocol: subscriptions and assignments.

The coordinator looks inside only to know which topics a classic group reads, and to move groups between the
two protocols while members are live. Rules: both carry their version in front (versions 0 to 3); a newer one
is read as version 3, bytes after it ignored, since versions only ever append. What cannot be read is a
`ProtocolError`, which here says nothing about the connection: a classic group may agree on any bytes. In a
consumer group it is INCONSISTENT_GROUP_PROTOCOL; and partitions, which are by name here, are by topic id
there.
"""

from collections.abc import Iterable
from dataclasses import field
from typing import Annotated, Final, TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.group.partitions import Partitions, in_order
from ottla.group.topics import Topics
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


def decode_subscription(encoded: bytes) -> Subscription:
    return _decode(Subscription, encoded)


def encode_assignment(assignment: Assignment, version: int = VERSION_MAX) -> bytes:
    """A version that we do not know is written as the highest we do, as it would be read."""
    version = min(version, VERSION_MAX)
    return version.to_bytes(2, "big") + encode(assignment, version)


def decode_assignment(encoded: bytes) -> Assignment:
    """No bytes at all stand for no partitions: what a member has before its first assignment."""
    return _decode(Assignment, encoded) if encoded else Assignment()


def read_subscription(metadata: bytes) -> Subscription:
    """INCONSISTENT_GROUP_PROTOCOL if the metadata are not those of a consumer."""
    try:
        return decode_subscription(metadata)
    except ProtocolError as error:
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"The metadata are not a consumer's: {error}"
        ) from error


def read_assignment(assignment: bytes, topics: Topics) -> dict[bytes, frozenset[int]]:
    try:
        return by_topic_id(decode_assignment(assignment).assigned_partitions, topics)
    except ProtocolError as error:
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"The assignment is not a consumer's: {error}"
        ) from error


def by_topic_id(listed: Iterable[OwnedPartitions], topics: Topics) -> dict[bytes, frozenset[int]]:
    """Topics that are no more are left out."""
    partitions: dict[bytes, frozenset[int]] = {}
    for owned in listed:
        topic_id = topics.id_of(owned.topic)
        if topic_id is not None and owned.partitions:
            partitions[topic_id] = partitions.get(topic_id, frozenset()) | frozenset(owned.partitions)
    return partitions


def as_assignment(partitions: Partitions, metadata: bytes, topics: Topics) -> bytes:
    """For a member with this metadata, in the version it speaks."""
    by_name = {
        name: numbers
        for topic_id, numbers in partitions.items()
        if (name := topics.name_of(topic_id)) is not None
    }
    listed = [OwnedPartitions(topic=name, partitions=numbers) for name, numbers in in_order(by_name)]
    return encode_assignment(Assignment(assigned_partitions=listed), version_of(metadata))


def _decode(cls: type[M], encoded: bytes) -> M:
    return decode(cls, min(version_of(encoded), VERSION_MAX), memoryview(encoded), 2)
