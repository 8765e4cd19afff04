"""What a shard needs of a group, whatever kind it is of: `classic/` and `consumer/` have the two there are.

Some requests end a group and make another of a different kind (KIP-848 migration). So whatever may do that
returns the group that goes on: itself, or the one that takes its place.
"""

from collections.abc import Sized
from typing import ClassVar, NamedTuple, Protocol

from ottla.coordinator.turn import Answer, TimerKey, Turn
from ottla.group.commits import Commit
from ottla.group.config import GroupConfig
from ottla.group.offsets import Offsets
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.sync_group import SyncGroupRequest


class Caller(NamedTuple):
    """Who sent a request to join. `new_member_id` is for it if it has none: its instance id, or else its
    client id, and something random."""

    client_id: str
    client_host: str
    version: int
    new_member_id: str


class Group(Protocol):
    kind: ClassVar[str]
    """As ListGroups shows it."""
    group_id: str

    @property
    def protocol_type(self) -> str | None: ...
    @property
    def members(self) -> Sized: ...
    @property
    def epoch(self) -> int:
        """Or generation."""

    @property
    def state_name(self) -> str: ...
    @property
    def is_empty(self) -> bool: ...
    @property
    def is_unused(self) -> bool:
        """Nobody is in it, or about to come: without offsets it may be forgotten."""

    # Its life

    def on_loaded(self, turn: Turn) -> None: ...
    def on_timer(self, turn: Turn, key: TimerKey) -> "Group":
        """A timer may outlive what it was set for; then it means nothing."""

    def on_config(self, config: GroupConfig) -> None:
        """The group's own values changed."""

    def check_delete(self) -> None: ...
    def delete(self, turn: Turn) -> None:
        """Write the tombstones of all that is stored of it, but for offsets; it is empty."""

    # Requests of the classic protocol, which members of a consumer group may speak too

    def join(self, turn: Turn, answer: Answer, request: JoinGroupRequest, caller: Caller) -> "Group": ...
    def sync(self, turn: Turn, answer: Answer, request: SyncGroupRequest) -> None: ...
    def heartbeat(self, turn: Turn, answer: Answer, request: HeartbeatRequest) -> None: ...
    def leave(self, turn: Turn, answer: Answer, request: LeaveGroupRequest, version: int) -> None: ...

    # Offsets

    def check_commit(self, commit: Commit) -> None: ...
    def on_commit(self, turn: Turn, member_id: str) -> None: ...
    def check_fetch(self, member_id: str | None, epoch: int) -> None: ...
    def check_offset_delete(self) -> None: ...
    def reads(self, topic: str) -> bool: ...
    def expired(self, offsets: Offsets, wall_ms: int) -> list[tuple[str, int]]:
        """The (topic, partition) of its offsets to be forgotten now, by the rules of `Offsets.expired`."""

    # Memory

    @property
    def held_bytes(self) -> int:
        """About what it takes in memory."""

    def member_bytes(self, member_id: str, instance_id: str | None) -> int:
        """What is held of a member already; 0 if it is new."""

    def sync_growth(self, request: SyncGroupRequest) -> int:
        """How much more the assignments in a SyncGroup would take than those there are."""
