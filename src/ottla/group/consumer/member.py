"""A member of a consumer group (KIP-848): who it is, what it subscribes to, and which partitions are its own.

Members are values. A request works out the next one; the group has it once its records are replayed.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.group.memory import MEMBER_BYTES, PARTITION_BYTES
from ottla.group.partitions import Partitions

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""A static member that has left for a while: it keeps its partitions until it is back or its session ends."""


class MemberState(IntEnum):
    """As stored. The rules are in `reconciliation`."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, _value: object) -> "MemberState":
        return cls.UNKNOWN


class ClassicSide(NamedTuple):
    """What a member that speaks the classic protocol said when it joined: (name, metadata) of its assignors,
    the one it likes best first."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """`epoch` is where the member is on its way to the target; `previous_epoch` is accepted too, because the
    reply that told it of its epoch may have been lost. `silent_ms` is how long it has not been heard of, as
    far as that is stored. `names_bytes` is what `topic_names` take in memory, added up once."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicSide | None = None
    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Partitions = field(default_factory=dict)
    pending: Partitions = field(default_factory=dict)
    silent_ms: int = 0
    names_bytes: int = field(default=0, compare=False)

    @property
    def held_bytes(self) -> int:
        """About what it takes in memory, with what it was given."""
        protocols = self.classic.protocols if self.classic is not None else ()
        given = sum(map(len, self.assigned.values())) + sum(map(len, self.pending.values()))
        return (
            MEMBER_BYTES
            + len(self.member_id)
            + len(self.client_id)
            + len(self.regex)
            + self.names_bytes
            + PARTITION_BYTES * given
            + sum(len(name) + len(metadata) for name, metadata in protocols)
        )

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    @property
    def subscription(self) -> tuple[object, ...]:
        """All that its JoinGroup or ConsumerGroupHeartbeat described, as opposed to what it was given."""
        return (
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.topic_names,
            self.regex,
            self.rebalance_timeout_ms,
            self.assignor,
            self.classic,
        )

    @property
    def position(self) -> tuple[object, ...]:
        """What it was given."""
        return self.epoch, self.previous_epoch, self.state, self.assigned, self.pending
