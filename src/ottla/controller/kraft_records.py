"""The records of Apache Kafka's `__cluster_metadata` that say which topics there are and how they are set.

A value is three unsigned varints (frame version 1, the type of the record, its version), then the record as
declared below. These are read and never written by a broker; `store` is for whoever builds such a log.

Rules. A type that is not declared here says nothing about topics and configs, and is skipped: `parse` gives
None. A declared type in a version we do not know, or bytes that do not fit it, could say anything: whoever
went on without it would take a topic's configs for something else.
"""

from typing import Annotated, Any, Final, TypeAlias

from ottla.wire.codec import decode, encode
from ottla.wire.primitives import ProtocolError, encode_uvarint, uvarint
from ottla.wire.schema import Uuid, i8, message, tag

FRAME_VERSION = 1


class MetadataError(ValueError):
    """A metadata log, or a record of one, that cannot be read."""


@message(key=2, versions=(0, 0), flexible=0)
class TopicRecord:
    name: str
    topic_id: Uuid


@message(key=4, versions=(0, 0), flexible=0)
class ConfigRecord:
    """No value: the config is removed. `resource_type` is that of DescribeConfigs."""

    resource_type: i8
    resource_name: str
    name: str
    value: str | None = None


@message(key=9, versions=(0, 0), flexible=0)
class RemoveTopicRecord:
    """The topic goes, and with it its partitions and configs."""

    topic_id: Uuid


@message(key=23, versions=(0, 0), flexible=0)
class BeginTransactionRecord:
    """What follows counts only once its end has come (KIP-868)."""

    name: Annotated[str | None, tag(0)] = None


@message(key=24, versions=(0, 0), flexible=0)
class EndTransactionRecord:
    pass


@message(key=25, versions=(0, 0), flexible=0)
class AbortTransactionRecord:
    reason: Annotated[str | None, tag(0)] = None


MetadataRecord: TypeAlias = (
    TopicRecord
    | ConfigRecord
    | RemoveTopicRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
)

_TYPES: Final[dict[int, type[Any]]] = {
    2: TopicRecord,
    4: ConfigRecord,
    9: RemoveTopicRecord,
    23: BeginTransactionRecord,
    24: EndTransactionRecord,
    25: AbortTransactionRecord,
}
_NUMBERS: Final = {cls: number for number, cls in _TYPES.items()}


def parse(value: bytes | None) -> MetadataRecord | None:
    """The record in a value; None if it is of a type that is not declared here."""
    if value is None:
        raise MetadataError("a record without a value")
    try:
        frame, at = uvarint(value, 0)
        number, at = uvarint(value, at)
        version, at = uvarint(value, at)
    except (IndexError, ProtocolError):
        raise MetadataError("a record that ends in its frame") from None
    if frame != FRAME_VERSION:
        raise MetadataError(f"a record in frame version {frame}")
    cls = _TYPES.get(number)
    if cls is None:
        return None
    try:
        record: MetadataRecord = decode(cls, version, memoryview(value), at)
    except ValueError as error:
        raise MetadataError(f"a {cls.__name__} of version {version}: {error}") from None
    return record


def store(record: MetadataRecord, version: int = 0) -> bytes:
    number = _NUMBERS[type(record)]
    head = b"".join(map(encode_uvarint, (FRAME_VERSION, number, version)))
    return head + encode(record, version)
