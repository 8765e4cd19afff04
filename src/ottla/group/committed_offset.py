"""How far a group is in a partition, as it was stored."""

from typing import NamedTuple

from ottla.base.ids import ZERO_UUID
from ottla.group.records import OffsetCommitValue


class CommittedOffset(NamedTuple):
    """Where a group is in a partition. No leader epoch is -1, as on the wire. `log_offset` is where that
    stands in the log of the offsets topic: of two, the later counts, in whatever order they were decided."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    topic_id: bytes = ZERO_UUID
    log_offset: int = -1

    @classmethod
    def of(cls, value: OffsetCommitValue, log_offset: int = -1) -> "CommittedOffset":
        fields = (
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            None if value.expire_timestamp == -1 else value.expire_timestamp,
            value.topic_id,
            log_offset,
        )
        return tuple.__new__(cls, fields)

    def is_expired(self, wall_ms: int, retention_ms: int, since_ms: int | None) -> bool:
        if self.expire_timestamp_ms is not None:
            return wall_ms >= self.expire_timestamp_ms
        began_ms = self.commit_timestamp_ms if since_ms is None else since_ms
        return wall_ms - began_ms >= retention_ms
