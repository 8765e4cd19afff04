"""What the members of a classic group agreed on, with the answers that tell them and the record of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.coordinator.turn import StoredRecord
from ottla.group.classic.member import ClassicMember, subscribed_topics
from ottla.group.classic.roster import Roster
from ottla.group.protocol import PROTOCOL_TYPE
from ottla.group.records import GroupMember, GroupMetadata, GroupMetadataValue, store
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.sync_group import SyncGroupResponse

STORED_MEMBER_BYTES: Final = 120  # an address, lengths and timeouts
NULL_PROTOCOL_SINCE: Final = 7


@dataclass(slots=True)
class Generation:
    """`subscribed_topics` is None if the members are not consumers, or one of them cannot be understood."""

    number: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    subscribed_topics: frozenset[str] | None = None

    def choose_protocol(self, roster: Roster) -> None:
        """What the members agree on and, if they are consumers, what they then read."""
        self.protocol_name = roster.choose_protocol() if roster.members else None
        self.subscribed_topics = None
        if self.protocol_type == PROTOCOL_TYPE:
            self.subscribed_topics = subscribed_topics(roster.members.values(), self.protocol_name or "")

    def reads(self, topic: str) -> bool:
        """If we cannot tell what consumers read, it may be anything."""
        if self.subscribed_topics is None:
            return self.protocol_type == PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def is_agreed(self, protocol_type: str | None, protocol_name: str | None) -> bool:
        """What is not said, or not chosen yet, is not wrong."""
        return not (_differ(protocol_type, self.protocol_type) or _differ(protocol_name, self.protocol_name))

    def joined(self, roster: Roster, member_id: str) -> JoinGroupResponse:
        """What a member learns of it; the leader learns everybody's metadata."""
        members: list[JoinGroupResponseMember] = []
        if member_id == roster.leader:
            members = [
                JoinGroupResponseMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    metadata=self._metadata(member),
                )
                for member in roster.members.values()
            ]
        return JoinGroupResponse(
            generation_id=self.number,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=roster.leader or "",
            member_id=member_id,
            members=members,
        )

    def synced(self, member: ClassicMember) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    def record(self, group_id: str, roster: Roster, state_timestamp_ms: int | None) -> StoredRecord:
        members = [
            GroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=self._metadata(member),
                assignment=member.assignment,
            )
            for member in roster.members.values()
        ]
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.number,
            protocol=self.protocol_name,
            leader=roster.leader,
            current_state_timestamp=-1 if state_timestamp_ms is None else state_timestamp_ms,
            members=members,
        )
        return store(GroupMetadata(group_id, value))

    def record_bytes(self, group_id: str, roster: Roster, assignments: Mapping[str, bytes]) -> int:
        """About how large the record would be with these assignments; never less than it is."""
        return len(group_id) + sum(
            STORED_MEMBER_BYTES
            + 4 * (len(member.member_id) + len(member.instance_id or "") + len(member.client_id))
            + len(self._metadata(member))
            + len(assignments.get(member.member_id, b""))
            for member in roster.members.values()
        )

    def _metadata(self, member: ClassicMember) -> bytes:
        return member.protocols[self.protocol_name or ""]


def _differ(given: str | None, agreed: str | None) -> bool:
    return given is not None and agreed is not None and given != agreed


def refused_join(member_id: str, code: ErrorCode, version: int) -> JoinGroupResponse:
    """No protocol name is null from version 7, empty before."""
    return JoinGroupResponse(
        error_code=code,
        member_id=member_id,
        leader="",
        protocol_name=None if version >= NULL_PROTOCOL_SINCE else "",
    )


def refused_sync(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code, assignment=b"")
