"""A partition on this broker: its log, who leads it, how far it is safe to read.

Rule: everything that moves the high watermark lives in this file, and it never goes back while an epoch
lasts. With this broker as the only in-sync replica, what the log calls safe is committed.
"""

from dataclasses import dataclass

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.log.log import Appended, Log
from ottla.log.reading import Read

NO_EPOCH = -1


@dataclass(slots=True, kw_only=True)
class Partition:
    id: TopicPartition
    topic_id: bytes
    log: Log
    broker_id: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    high_watermark: int

    @property
    def is_leader(self) -> bool:
        return self.leader == self.broker_id

    def on_state(self, *, leader: int, leader_epoch: int, isr: tuple[int, ...]) -> None:
        """The controller says who leads. A new epoch begins at the end of the log, also before its first
        write."""
        if leader_epoch > self.leader_epoch and leader == self.broker_id:
            self.log.assign_epoch(leader_epoch)
        self.leader, self.leader_epoch, self.isr = leader, leader_epoch, isr

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Refuse what only the leader may answer, and a caller who knows another epoch than ours
        (KIP-320)."""
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if self.leader != self.broker_id:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def append(
        self, records: memoryview, *, acks: int, now_ms: int, wall_ms: int, produce_version: int
    ) -> Appended:
        self._check_writable(acks)
        return self.log.append(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            wall_ms=wall_ms,
            produce_version=produce_version,
        )

    def append_internal(self, records: memoryview, now_ms: int) -> Appended:
        """A batch of this broker's own making: what a coordinator stores."""
        self._check_writable(-1)
        return self.log.append(records, leader_epoch=self.leader_epoch, now_ms=now_ms, internal=True)

    def _check_writable(self, acks: int) -> None:
        if self.leader != self.broker_id:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == -1 and len(self.isr) < self.log.config.min_insync_replicas:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.isr)} replicas of {self.id} are in sync, min.insync.replicas asks for "
                f"{self.log.config.min_insync_replicas}.",
            )

    def advance(self) -> bool:
        """Move the high watermark as far as the in-sync replicas allow; did it move?"""
        safe = self.log.safe_end
        if safe <= self.high_watermark:
            return False
        self.high_watermark = safe
        return True

    def is_acknowledged(self, end_offset: int, acks: int) -> bool:
        """Is everything before `end_offset` as safe as `acks` asks?"""
        return (self.high_watermark if acks == -1 else self.log.safe_end) >= end_offset

    def visible_end(self, read_committed: bool) -> int:
        """Where a consumer's view ends: the high watermark, or the last stable offset if that is lower."""
        if not read_committed:
            return self.high_watermark
        return self.last_stable_offset

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset(self.high_watermark)

    def read(self, offset: int, max_bytes: int, *, end: int, at_least_one: bool) -> Read:
        return self.log.read(offset, max_bytes, end=end, at_least_one=at_least_one)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above `epoch`, and where it ended; (-1, -1) if this log knows of none."""
        return self.log.epochs.end_offset_for(epoch, self.log.log_end_offset)

    def delete_records(self, offset: int) -> int:
        """DeleteRecords: move the log start; -1 means all that is committed. Answers the new low
        watermark."""
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.id} can be cut at 0 to {self.high_watermark}, not at {offset}.",
            )
        self.log.advance_log_start(target)
        return self.log.log_start_offset
