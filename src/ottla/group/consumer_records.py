"""The records of a consumer group: what to write for a member, an epoch, an assignment."""

from collections.abc import Iterable, Iterator

from ottla.coordinator.turn import StoredRecord
from ottla.group.consumer_member import Member, Partitions
from ottla.group.consumer_state import ConsumerState, Resolved
from ottla.group.records import (
    ClassicMember,
    ClassicProtocol,
    ConsumerGroupMember,
    ConsumerGroupMemberValue,
    ConsumerGroupMetadata,
    ConsumerGroupMetadataValue,
    CurrentMemberAssignment,
    CurrentMemberAssignmentValue,
    RegularExpression,
    RegularExpressionValue,
    TargetAssignmentMember,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadata,
    TargetAssignmentMetadataValue,
    store,
    to_partitions,
)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> StoredRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return store(ConsumerGroupMetadata(group_id, value))


def subscription_record(group_id: str, member: Member) -> StoredRecord:
    classic = member.classic and ClassicMember(
        session_timeout_ms=member.classic.session_timeout_ms,
        supported_protocols=[
            ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.classic.protocols
        ],
    )
    value = ConsumerGroupMemberValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.regex or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=classic,
    )
    return store(ConsumerGroupMember(group_id, member.member_id, value))


def position_record(group_id: str, member: Member) -> StoredRecord:
    value = CurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=to_partitions(member.assigned),
        partitions_pending_revocation=to_partitions(member.pending),
        silent_ms=member.silent_ms,
    )
    return store(CurrentMemberAssignment(group_id, member.member_id, value))


def target_record(group_id: str, member_id: str, partitions: Partitions) -> StoredRecord:
    value = TargetAssignmentMemberValue(topic_partitions=to_partitions(partitions))
    return store(TargetAssignmentMember(group_id, member_id, value))


def target_epoch_record(group_id: str, epoch: int) -> StoredRecord:
    return store(TargetAssignmentMetadata(group_id, TargetAssignmentMetadataValue(assignment_epoch=epoch)))


def pattern_record(group_id: str, pattern: str, found: Resolved) -> StoredRecord:
    value = RegularExpressionValue(
        topics=sorted(found.topics), version=found.revision, timestamp=found.timestamp_ms
    )
    return store(RegularExpression(group_id, pattern, value))


def pattern_tombstone(group_id: str, pattern: str) -> StoredRecord:
    return store(RegularExpression(group_id, pattern, None))


def member_tombstones(group_id: str, member_id: str) -> tuple[StoredRecord, ...]:
    """First what depends on the member, then the member."""
    return (
        store(CurrentMemberAssignment(group_id, member_id, None)),
        store(TargetAssignmentMember(group_id, member_id, None)),
        store(ConsumerGroupMember(group_id, member_id, None)),
    )


def group_tombstones(group: ConsumerState) -> Iterator[StoredRecord]:
    """Everything of a group: members (and targets that outlived theirs), patterns, epochs."""
    for member_id in _in_order(group.members, group.targets):
        yield from member_tombstones(group.group_id, member_id)
    yield store(TargetAssignmentMetadata(group.group_id, None))
    for pattern in sorted(group.resolved):
        yield pattern_tombstone(group.group_id, pattern)
    yield store(ConsumerGroupMetadata(group.group_id, None))


def group_records(group: ConsumerState) -> Iterator[StoredRecord]:
    """Everything of a group, as if it had just been made."""
    for member in group.members.values():
        yield subscription_record(group.group_id, member)
    yield epoch_record(group.group_id, group.epoch, group.metadata_hash)
    for member_id, partitions in group.targets.items():
        yield target_record(group.group_id, member_id, partitions)
    yield target_epoch_record(group.group_id, group.target_epoch)
    for member in group.members.values():
        yield position_record(group.group_id, member)


def _in_order(*names: Iterable[str]) -> list[str]:
    return sorted({name for some in names for name in some})
