"""The records of a consumer group: what to write for a member, an epoch, an assignment."""

from collections.abc import Iterator

from ottla.coordinator.turn import StoredRecord
from ottla.group.consumer.member import ConsumerMember
from ottla.group.consumer.state import ConsumerState, Resolved
from ottla.group.partitions import Partitions, in_order
from ottla.group.records import (
    ClassicMemberMetadata,
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
    TopicPartitions,
    store,
)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> StoredRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return store(ConsumerGroupMetadata(group_id, value))


def subscription_record(group_id: str, member: ConsumerMember) -> StoredRecord:
    classic = member.classic and ClassicMemberMetadata(
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


def position_record(group_id: str, member: ConsumerMember) -> StoredRecord:
    value = CurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_listed(member.assigned),
        partitions_pending_revocation=_listed(member.pending),
        silent_ms=member.silent_ms,
    )
    return store(CurrentMemberAssignment(group_id, member.member_id, value))


def target_record(group_id: str, member_id: str, partitions: Partitions) -> StoredRecord:
    value = TargetAssignmentMemberValue(topic_partitions=_listed(partitions))
    return store(TargetAssignmentMember(group_id, member_id, value))


def target_epoch_record(group_id: str, epoch: int) -> StoredRecord:
    return store(TargetAssignmentMetadata(group_id, TargetAssignmentMetadataValue(assignment_epoch=epoch)))


def pattern_record(group_id: str, pattern: str, resolved: Resolved) -> StoredRecord:
    value = RegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.revision, timestamp=resolved.timestamp_ms
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


def group_tombstones(state: ConsumerState) -> Iterator[StoredRecord]:
    """Everything of a group: members (and targets that outlived theirs), patterns, epochs."""
    for member_id in sorted(state.members.keys() | state.targets.keys()):
        yield from member_tombstones(state.group_id, member_id)
    yield store(TargetAssignmentMetadata(state.group_id, None))
    for pattern in sorted(state.resolved):
        yield pattern_tombstone(state.group_id, pattern)
    yield store(ConsumerGroupMetadata(state.group_id, None))


def group_records(state: ConsumerState) -> Iterator[StoredRecord]:
    """Everything of a group, as if it had just been made."""
    for member in state.members.values():
        yield subscription_record(state.group_id, member)
    yield epoch_record(state.group_id, state.epoch, state.metadata_hash)
    for member_id, partitions in state.targets.items():
        yield target_record(state.group_id, member_id, partitions)
    yield target_epoch_record(state.group_id, state.target_epoch)
    for member in state.members.values():
        yield position_record(state.group_id, member)


def _listed(partitions: Partitions) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in in_order(partitions)
    ]
