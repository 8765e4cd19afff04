"""Between partitions by topic id, which a consumer group has, and by name, which classic consumers put into
the opaque bytes of their protocol."""

from collections.abc import Iterable

from ottla.base.errors import ApiError, ErrorCode
from ottla.group.consumer_member import Partitions
from ottla.group.protocol import (
    Assignment,
    OwnedPartitions,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    to_partitions,
    version_of,
)
from ottla.group.topics import Topics
from ottla.wire.primitives import ProtocolError


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
        return read_owned(decode_assignment(assignment).assigned_partitions, topics)
    except ProtocolError as error:
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"The assignment is not a consumer's: {error}"
        ) from error


def read_owned(listed: Iterable[OwnedPartitions], topics: Topics) -> dict[bytes, frozenset[int]]:
    """Partitions by topic id; topics that are no more are left out."""
    found: dict[bytes, frozenset[int]] = {}
    for each in listed:
        topic_id = topics.id_of(each.topic)
        if topic_id is not None and each.partitions:
            found[topic_id] = found.get(topic_id, frozenset()) | frozenset(each.partitions)
    return found


def as_assignment(partitions: Partitions, metadata: bytes, topics: Topics) -> bytes:
    """For a member with this metadata, in the version it speaks."""
    named = {
        name: numbers
        for topic_id, numbers in partitions.items()
        if (name := topics.name_of(topic_id)) is not None
    }
    return encode_assignment(Assignment(assigned_partitions=to_partitions(named)), version_of(metadata))
