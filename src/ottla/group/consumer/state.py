"""What a consumer group has stored, and the only way that changes: `replay`.

Epochs. The *group epoch* is raised by whatever changes what members should get: who is in it, what they
subscribe to, how many partitions there are. The *target epoch* says for which group epoch the target
assignment was worked out. A member's epoch says which target it has reconciled with.

    state        members   epochs
    Empty        none
    Assigning    some      group epoch > target epoch: the next heartbeat works out a target
    Reconciling  some      equal, but some member is on its way to the target
    Stable       some      equal, and so is everybody's

Replay takes records in any order that a compacted log can have: a tombstone for what is not there changes
nothing, and a partition belongs to whoever was last said to own it.
"""

from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.group.config import GroupConfig
from ottla.group.consumer.member import LEAVE_EPOCH, ClassicSide, ConsumerMember, MemberState
from ottla.group.memory import GROUP_BYTES, NAME_BYTES
from ottla.group.partitions import Partitions, to_partitions
from ottla.group.records import (
    ConsumerGroupMember,
    ConsumerGroupMetadata,
    CurrentMemberAssignment,
    Entry,
    RegularExpression,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from ottla.group.topics import Topics

EMPTY: Final = "Empty"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE: Final = "Stable"


class Resolved(NamedTuple):
    """The topics that a regular expression matched."""

    topics: frozenset[str]
    revision: int
    timestamp_ms: int

    @property
    def held_bytes(self) -> int:
        return sum(map(len, self.topics)) + NAME_BYTES * (1 + len(self.topics))


@dataclass(slots=True)
class ConsumerState:
    """`static` and `owners` are derived from `members`."""

    group_id: str
    config: GroupConfig
    topics: Topics
    epoch: int = 0
    metadata_hash: int = 0
    target_epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    resolved: dict[str, Resolved] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    owners: dict[bytes, dict[int, str]] = field(default_factory=dict)
    _members_bytes: int = field(default=0, compare=False)
    _resolved_bytes: int = field(default=0, compare=False)

    @property
    def held_bytes(self) -> int:
        """About what it takes in memory."""
        return GROUP_BYTES + len(self.group_id) + self._members_bytes + self._resolved_bytes

    @property
    def state_name(self) -> str:
        if not self.members:
            return EMPTY
        if self.epoch > self.target_epoch:
            return ASSIGNING
        is_stable = all(member.is_reconciled_to(self.target_epoch) for member in self.members.values())
        return STABLE if is_stable else RECONCILING

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Who goes by this instance id."""
        return None if instance_id is None else self.members.get(self.static.get(instance_id, ""))

    def check_static(self, instance_id: str, member_id: str) -> ConsumerMember:
        """The member, if its instance id is still its own."""
        member = self.static_member(instance_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, "Nobody goes by this instance id.")
        if member.member_id != member_id:
            raise ApiError(
                ErrorCode.FENCED_INSTANCE_ID, f"Its instance id belongs to {member.member_id} now."
            )
        return member

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        return self.owners.get(topic_id, {}).get(partition)

    def replay(self, entry: Entry) -> None:
        match entry:
            case ConsumerGroupMetadata(_, value):
                self.epoch = value.epoch if value else 0
                self.metadata_hash = value.metadata_hash if value else 0
            case TargetAssignmentMetadata(_, target):
                self.target_epoch = target.assignment_epoch if target else 0
            case TargetAssignmentMember(_, member_id, None):
                self.targets.pop(member_id, None)
            case TargetAssignmentMember(_, member_id, assignment) if assignment:
                self.targets[member_id] = to_partitions(assignment.topic_partitions)
            case RegularExpression(_, pattern, matched):
                old = self.resolved.pop(pattern, None)
                self._resolved_bytes -= old.held_bytes if old else 0
                if matched:
                    new = Resolved(frozenset(matched.topics), matched.version, matched.timestamp)
                    self.resolved[pattern] = new
                    self._resolved_bytes += new.held_bytes
            case ConsumerGroupMember():
                self._replay_subscription(entry)
            case CurrentMemberAssignment():
                self._replay_position(entry)

    def _replay_subscription(self, entry: ConsumerGroupMember) -> None:
        member_id, value = entry.member, entry.value
        if value is None:
            self._put(member_id, None)
            return
        said = value.classic_member_metadata
        classic = None
        if said is not None:
            protocols = tuple((protocol.name, protocol.metadata) for protocol in said.supported_protocols)
            classic = ClassicSide(said.session_timeout_ms, protocols)
        member = replace(
            self.members.get(member_id) or ConsumerMember(member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            names_bytes=sum(map(len, value.subscribed_topic_names))
            + NAME_BYTES * len(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=classic,
        )
        self._put(member_id, member)

    def _replay_position(self, entry: CurrentMemberAssignment) -> None:
        member_id, value = entry.member, entry.value
        member = self.members.get(member_id)
        if value is not None:
            member = replace(
                member or ConsumerMember(member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=MemberState(value.state),
                assigned=to_partitions(value.assigned_partitions),
                pending=to_partitions(value.partitions_pending_revocation),
                silent_ms=value.silent_ms,
            )
        elif member is not None:
            # Its subscription's tombstone follows.
            member = replace(member, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned={}, pending={})
        self._put(member_id, member)

    def _put(self, member_id: str, member: ConsumerMember | None) -> None:
        """Set or remove a member, and what is derived from it."""
        old = self.members.get(member_id)
        self._members_bytes += (member.held_bytes if member else 0) - (old.held_bytes if old else 0)
        had = old.instance_id if old is not None else None
        has = member.instance_id if member is not None else None
        if had != has:
            if had is not None and self.static.get(had) == member_id:
                del self.static[had]
            if has is not None:
                self.static[has] = member_id
        if old is not None:
            self._disown(member_id, old.assigned)
            self._disown(member_id, old.pending)
        if member is None:
            self.members.pop(member_id, None)
            return
        self.members[member_id] = member
        for partitions in (member.assigned, member.pending):
            for topic_id, numbers in partitions.items():
                self.owners.setdefault(topic_id, {}).update(dict.fromkeys(numbers, member_id))

    def _disown(self, member_id: str, partitions: Partitions) -> None:
        for topic_id, numbers in partitions.items():
            owners = self.owners.get(topic_id, {})
            for number in numbers:
                if owners.get(number) == member_id:
                    del owners[number]
            if not owners:
                self.owners.pop(topic_id, None)
