"""The records of `__consumer_offsets`, in Kafka's formats.

A key begins with two bytes for the type of the record, a value with two bytes for its version; the rest is
as declared below. `store` turns an entry into a record and `parse` turns it back: `parse(store(e)) == e`. An
entry without a value is a tombstone.

Rules. We write the versions that Kafka 4.0 writes: the highest that is not flexible, so that old tools can
read it too, unless an entry has something only another version can hold. We read all versions. A type that
we do not know is from a newer broker, or for a kind of group we do not have, and is skipped: `parse` gives
None, also for type 4 (partition metadata), which Kafka no longer uses. Bytes that do not fit a known type are
corrupt: going on without them would lose what a group was promised.
"""

from collections.abc import Callable
from dataclasses import field
from struct import Struct
from struct import error as struct_error
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from ottla.base.config import INT_MAX
from ottla.base.files import Buffer
from ottla.base.ids import ZERO_UUID
from ottla.coordinator.records import CorruptRecordError, check_records, prefix
from ottla.coordinator.turn import StoredRecord
from ottla.records.batch import NO_PRODUCER_ID
from ottla.records.check import Budget
from ottla.wire.codec import decode, encode
from ottla.wire.primitives import ProtocolError
from ottla.wire.schema import Uuid, i8, i32, i64, message, since, struct, tag, until


@message(key=1, versions=(0, 4), flexible=4)
class OffsetCommitValue:
    """Version 1 is for commits that brought their own retention; version 4 for those by topic id."""

    offset: i64
    leader_epoch: Annotated[i32, since(3)] = -1
    metadata: str
    commit_timestamp: i64
    expire_timestamp: Annotated[i64, since(1), until(1)] = -1
    topic_id: Annotated[Uuid, since(4), tag(0)] = ZERO_UUID


@struct
class GroupMember:
    """A member of a classic group. -1 as rebalance timeout stands for the session timeout."""

    member_id: str
    group_instance_id: Annotated[str | None, since(3)] = None
    client_id: str
    client_host: str
    rebalance_timeout: Annotated[i32, since(1)] = -1
    session_timeout: i32
    subscription: bytes
    assignment: bytes


@message(key=2, versions=(0, 4), flexible=4)
class GroupMetadataValue:
    """A generation of a classic group. `protocol_type` is empty if it only stores offsets."""

    protocol_type: str
    generation: i32
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: Annotated[i64, since(2)] = -1
    members: list[GroupMember] = field(default_factory=list)


@message(key=3, versions=(0, 0), flexible=0)
class ConsumerGroupMetadataValue:
    """`metadata_hash` is over the subscribed topics; 0 if that is not known."""

    epoch: i32
    metadata_hash: Annotated[i64, tag(0)] = 0


@struct
class ClassicProtocol:
    name: str
    metadata: bytes


@struct
class ClassicMemberMetadata:
    """What a member that speaks the classic protocol in a consumer group said when it joined.

    It may be null, and is a tagged field: such a struct has a byte in front that says it is there. We leave
    the tag out for null, so this byte is always 1; `parse` knows how Kafka writes null.
    """

    present: i8 = 1
    session_timeout_ms: i32
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)


@message(key=5, versions=(0, 0), flexible=0)
class ConsumerGroupMemberValue:
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: i32 = -1
    server_assignor: str | None = None
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, tag(0)] = None


@message(key=6, versions=(0, 0), flexible=0)
class TargetAssignmentMetadataValue:
    assignment_epoch: i32


@struct
class TopicPartitions:
    topic_id: Uuid
    partitions: list[i32] = field(default_factory=list)


@message(key=7, versions=(0, 0), flexible=0)
class TargetAssignmentMemberValue:
    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@message(key=8, versions=(0, 0), flexible=0)
class CurrentMemberAssignmentValue:
    """`silent_ms` is Ottla's own (see `consumer/sessions`), in a tagged field, which Kafka passes over."""

    member_epoch: i32
    previous_member_epoch: i32
    state: i8
    assigned_partitions: list[TopicPartitions] = field(default_factory=list)
    partitions_pending_revocation: list[TopicPartitions] = field(default_factory=list)
    silent_ms: Annotated[i32, tag(10_000)] = 0


@message(key=16, versions=(0, 0), flexible=0)
class RegularExpressionValue:
    """The topics that a regular expression matched, in which version of the image, and when."""

    topics: list[str] = field(default_factory=list)
    version: i64
    timestamp: i64


class OffsetCommit(NamedTuple):
    group: str
    topic: str
    partition: int
    value: OffsetCommitValue | None


class GroupMetadata(NamedTuple):
    group: str
    value: GroupMetadataValue | None


class ConsumerGroupMetadata(NamedTuple):
    group: str
    value: ConsumerGroupMetadataValue | None


class ConsumerGroupMember(NamedTuple):
    group: str
    member: str
    value: ConsumerGroupMemberValue | None


class TargetAssignmentMetadata(NamedTuple):
    group: str
    value: TargetAssignmentMetadataValue | None


class TargetAssignmentMember(NamedTuple):
    group: str
    member: str
    value: TargetAssignmentMemberValue | None


class CurrentMemberAssignment(NamedTuple):
    group: str
    member: str
    value: CurrentMemberAssignmentValue | None


class RegularExpression(NamedTuple):
    group: str
    pattern: str
    value: RegularExpressionValue | None


Entry: TypeAlias = (
    OffsetCommit
    | GroupMetadata
    | ConsumerGroupMetadata
    | ConsumerGroupMember
    | TargetAssignmentMetadata
    | TargetAssignmentMember
    | CurrentMemberAssignment
    | RegularExpression
)


@message(key=-1, versions=(0, 0), flexible=None)
class PartitionKey:
    group: str
    topic: str
    partition: i32


@message(key=-1, versions=(0, 0), flexible=None)
class GroupKey:
    group: str


@message(key=-1, versions=(0, 0), flexible=None)
class MemberKey:
    group: str
    member: str


@message(key=-1, versions=(0, 0), flexible=None)
class PatternKey:
    group: str
    pattern: str


def _offset_commit_version(value: Any) -> int:
    if value.expire_timestamp != -1:
        return 1
    return 3 if value.topic_id == ZERO_UUID else 4


def _group_problem(value: Any) -> str | None:
    for ids in zip(*((member.member_id, member.group_instance_id) for member in value.members), strict=True):
        given = [text for text in ids if text is not None]
        if len(set(given)) != len(given):
            return "two members of one id"
    return "the last generation there is" if value.generation == INT_MAX else None


def _epoch_problem(value: Any) -> str | None:
    return "the last epoch there is" if value.epoch == INT_MAX else None


class _Row(NamedTuple):
    """A type of record. `version` is the one to write a value in, `problem` why a group could not go on with
    a value."""

    number: int
    entry: type[Any]
    key: type[Any]
    value: type[Any]
    version: Callable[[Any], int]
    problem: Callable[[Any], str | None] = lambda _: None


def _always(version: int) -> Callable[[Any], int]:
    return lambda _: version


_ROWS: Final = (
    _Row(1, OffsetCommit, PartitionKey, OffsetCommitValue, _offset_commit_version),
    _Row(2, GroupMetadata, GroupKey, GroupMetadataValue, _always(3), _group_problem),
    _Row(3, ConsumerGroupMetadata, GroupKey, ConsumerGroupMetadataValue, _always(0), _epoch_problem),
    _Row(5, ConsumerGroupMember, MemberKey, ConsumerGroupMemberValue, _always(0)),
    _Row(6, TargetAssignmentMetadata, GroupKey, TargetAssignmentMetadataValue, _always(0)),
    _Row(7, TargetAssignmentMember, MemberKey, TargetAssignmentMemberValue, _always(0)),
    _Row(8, CurrentMemberAssignment, MemberKey, CurrentMemberAssignmentValue, _always(0)),
    _Row(16, RegularExpression, PatternKey, RegularExpressionValue, _always(0)),
)
_BY_ENTRY: Final = {row.entry: row for row in _ROWS}
_BY_TYPE: Final = {row.number: row for row in _ROWS} | {0: _ROWS[0]}
"""Type 0 is how offsets were keyed before Kafka 0.9; the fields are the same."""


# What nearly all records are, an offset in version 3, has a way of its own in both directions, since every
# commit takes both: it costs a third of what the codec takes. A test holds both ways to the same bytes.
_OFFSET_TYPE: Final = 1
_OFFSET_VERSION: Final = 3
_OFFSET_KEY: Final = Struct(">hh")  # the type, and the length of the group's name
_OFFSET_VALUE: Final = Struct(">hqih")  # version, offset, leader epoch, and the length of the metadata
_SIZE: Final = Struct(">h")
_PARTITION: Final = Struct(">i")
_TIMESTAMP: Final = Struct(">q")
_pack_bare = Struct(">hqihq").pack  # a value without metadata, which most are
_pack_key, _pack_value = _OFFSET_KEY.pack, _OFFSET_VALUE.pack
_pack_size, _pack_partition, _pack_timestamp = _SIZE.pack, _PARTITION.pack, _TIMESTAMP.pack


class OwnOffset(StoredRecord):
    """The record of an offset that was made here, with what `parse` would make of it again."""

    entry: OffsetCommit | None = None


def store_offset(group: str, topic: str, partition: int, value: OffsetCommitValue) -> StoredRecord:
    """As `store` of an OffsetCommit."""
    if value.expire_timestamp != -1 or value.topic_id != ZERO_UUID:
        return store(OffsetCommit(group, topic, partition, value))
    names, metadata, wall_ms = (group.encode(), topic.encode()), value.metadata, value.commit_timestamp
    try:
        key = (
            _pack_key(_OFFSET_TYPE, len(names[0])) + names[0] + _pack_size(len(names[1])) + names[1]
            + _pack_partition(partition)
        )  # fmt: skip
        if metadata:
            noted = metadata.encode()
            start = _pack_value(_OFFSET_VERSION, value.offset, value.leader_epoch, len(noted))
            encoded = start + noted + _pack_timestamp(wall_ms)
        else:
            encoded = _pack_bare(_OFFSET_VERSION, value.offset, value.leader_epoch, 0, wall_ms)
    except struct_error:
        return store(OffsetCommit(group, topic, partition, value))  # which says what is wrong
    record = tuple.__new__(OwnOffset, (key, encoded, NO_PRODUCER_ID))
    record.entry = tuple.__new__(OffsetCommit, (group, topic, partition, value))
    return record


def _parse_offset(key: bytes, encoded: bytes) -> OffsetCommit | None:
    """None if it is anything but a sound offset in version 3. What a length leads to is followed by a number,
    so that one which leads beyond the end is found out there."""
    try:
        kind, group_size = _OFFSET_KEY.unpack_from(key)
        version, offset, leader_epoch, metadata_size = _OFFSET_VALUE.unpack_from(encoded)
        if kind != _OFFSET_TYPE or version != _OFFSET_VERSION or group_size < 0 or metadata_size < 0:
            return None
        topic_at = _OFFSET_KEY.size + group_size + _SIZE.size
        (topic_size,) = _SIZE.unpack_from(key, topic_at - _SIZE.size)
        if topic_size < 0:
            return None
        topic_end, metadata_end = topic_at + topic_size, _OFFSET_VALUE.size + metadata_size
        (partition,) = _PARTITION.unpack_from(key, topic_end)
        (timestamp,) = _TIMESTAMP.unpack_from(encoded, metadata_end)
        value = OffsetCommitValue(
            offset=offset, leader_epoch=leader_epoch, commit_timestamp=timestamp,
            metadata=str(encoded[_OFFSET_VALUE.size : metadata_end], "utf-8"),
        )  # fmt: skip
        group = str(key[_OFFSET_KEY.size : topic_at - _SIZE.size], "utf-8")
        topic = str(key[topic_at:topic_end], "utf-8")
        return tuple.__new__(OffsetCommit, (group, topic, partition, value))
    except (struct_error, UnicodeDecodeError):
        return None


def store(entry: Entry) -> StoredRecord:
    """The record of an entry; of one without a value, its tombstone."""
    row = _BY_ENTRY[type(entry)]
    *names, value = entry
    key = row.key(**dict(zip(row.key.__slots__, names, strict=True)))
    encoded_key = row.number.to_bytes(2, "big") + encode(key, 0)
    if value is None:
        return StoredRecord(encoded_key, None)
    version = row.version(value)
    return StoredRecord(encoded_key, version.to_bytes(2, "big") + encode(value, version))


def parse(record: StoredRecord) -> Entry | None:
    """The entry of a record; None for a type we do not know. CorruptRecordError if it is malformed."""
    if type(record) is OwnOffset and record.entry is not None:
        return record.entry
    if record.value is not None and (offset := _parse_offset(record.key, record.value)) is not None:
        return offset
    return parse_any(record)


def parse_any(record: StoredRecord) -> Entry | None:
    """As `parse`, of whatever type."""
    row = _BY_TYPE.get(prefix(record.key))
    if row is None:
        return None
    try:
        key = decode(row.key, 0, memoryview(record.key), 2)
        value = None if record.value is None else _value(row, record.value)
    except ProtocolError as error:
        raise CorruptRecordError(f"a record of type {row.entry.__name__} is corrupt: {error}") from error
    if value is not None and (problem := row.problem(value)):
        raise CorruptRecordError(f"a record of type {row.entry.__name__} has {problem}")
    entry: Entry = row.entry(*(getattr(key, name) for name in row.key.__slots__), value)
    return entry


def check_body(body: Buffer, count: int, budget: Budget) -> None:
    """INVALID_RECORD, if the body of a batch that somebody else made holds what `parse` cannot read."""
    check_records(parse, body, count, budget)


def _value(row: _Row, encoded: bytes) -> Any:
    version = prefix(encoded)
    first, last = row.value.VERSIONS
    if not first <= version <= last:
        raise CorruptRecordError(
            f"a record of type {row.entry.__name__} has version {version}; we read {first} to {last}"
        )
    if row.value is ConsumerGroupMemberValue and encoded.endswith(_NO_CLASSIC_SIDE):
        encoded = encoded.removesuffix(_NO_CLASSIC_SIDE) + _NO_TAGS
    return decode(row.value, version, memoryview(encoded), 2)


# How Kafka writes that a member has no classic side: one tag, number 0, of one byte, which says null.
_NO_CLASSIC_SIDE: Final = b"\x01\x00\x01\x00"
_NO_TAGS: Final = b"\x00"
