"""What somebody wants to commit: the group, the member, and the offsets that passed the checks so far."""

from dataclasses import dataclass
from typing import NamedTuple

from ottla.coordinator.turn import Writer


class OffsetToCommit(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


# Not frozen: one is made for every commit, and that takes thrice as long.
@dataclass(slots=True, kw_only=True)
class Commit:
    """`epoch` is a generation in classic groups. `retention_ms` is -1 where the broker's own applies. With a
    `writer` it is part of that producer's transaction."""

    group_id: str
    member_id: str
    instance_id: str | None
    epoch: int
    retention_ms: int
    offsets: list[OffsetToCommit]
    version: int
    writer: Writer | None = None

    @property
    def names_nobody(self) -> bool:
        """Neither a member nor a generation: a tool, or a client from before transactions knew of either."""
        return self.epoch < 0 and not self.member_id and self.instance_id is None
