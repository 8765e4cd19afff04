"""What somebody wants to commit: the group, the member, and the offsets that passed the checks so far."""

from dataclasses import dataclass
from typing import NamedTuple


class OffsetToCommit(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """`epoch` is a generation in classic groups. `retention_ms` is -1 where the broker's own applies."""

    group_id: str
    member_id: str
    instance_id: str | None
    epoch: int
    retention_ms: int
    offsets: list[OffsetToCommit]
    version: int
