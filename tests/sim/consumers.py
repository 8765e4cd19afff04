"""A consumer without a group: reads one partition from its beginning, from whoever leads it.

It checks what a consumer relies on: offsets follow one another, nothing is shown beyond the high watermark,
and what was read is never taken back (no offset out of range, no diverging epoch).

The high watermark that a consumer at its end sees never goes back, nor does the end of the log that
ListOffsets gives. Only who is further behind may see a new leader's, which is lower until its followers have
answered (KIP-207); it never goes back while one leader leads.
"""

from typing import Any

from tests.sim.client import Client, Script
from tests.sim.ledger import Ledger
from tests.sim.world import ViolationError

from ottla.base.errors import ErrorCode
from ottla.records.batch import split
from ottla.records.record import read_records
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST = -1

AGAIN = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
}


class Consumer(Client):
    def __init__(self, *place: Any, ledger: Ledger, topic: str, partition: int) -> None:
        super().__init__(*place)
        self.ledger, self.topic, self.partition = ledger, topic, partition
        self.position = 0
        self.high_watermark = 0  # the highest ever seen
        self.in_epoch = (-1, 0)  # the leader epoch, and the high watermark in it
        self.last_epoch = -1

    def script(self) -> Script:
        while not self.is_stopping:
            leader, epoch = self.leaders.get((self.topic, self.partition), (-1, -1))
            if leader >= 0 and self.world.chance(0.1):
                yield from self._ask_end(leader, epoch)
            if leader < 0 or not (yield from self._fetch(leader, epoch)):
                yield self.world.draw(20, 200)
                yield from self.refresh(self.topic)

    def _fetch(self, leader: int, epoch: int) -> Script:
        topic_id = self.topic_ids[self.topic]
        wanted = FetchPartition(
            partition=self.partition,
            current_leader_epoch=epoch,
            fetch_offset=self.position,
            last_fetched_epoch=self.last_epoch,
            partition_max_bytes=self.world.draw(1, 1_000),
        )
        request = FetchRequest(
            max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])]
        )
        answer = yield self.ask(leader, request)
        if answer is None or answer.error_code or answer.throttle_time_ms:
            return False
        part = answer.responses[0].partitions[0]
        if part.error_code:
            if part.error_code not in AGAIN:
                raise ViolationError(
                    f"{self.name} at {self.position} of {self.topic}-{self.partition} gets "
                    f"{ErrorCode(part.error_code).name} from broker {leader} in epoch {epoch}"
                )
            return False
        if part.diverging_epoch is not None and part.diverging_epoch.end_offset >= 0:
            raise ViolationError(
                f"{self.name} read what broker {leader} says was never there: {part.diverging_epoch}"
            )
        self._take(part, topic_id, leader, epoch)
        return True

    def _ask_end(self, leader: int, epoch: int) -> Script:
        wanted = ListOffsetsPartition(
            partition_index=self.partition, current_leader_epoch=epoch, timestamp=LATEST
        )
        topic = ListOffsetsTopic(name=self.topic, partitions=[wanted])
        answer = yield self.ask(leader, ListOffsetsRequest(replica_id=-1, topics=[topic]))
        part = answer.topics[0].partitions[0] if answer else None
        if part is not None and not part.error_code:
            if part.offset < self.high_watermark:
                raise ViolationError(
                    f"{self.name}: broker {leader} says that {self.topic}-{self.partition} ends at "
                    f"{part.offset} in epoch {epoch}, it was at {self.high_watermark}"
                )
            self.high_watermark = part.offset

    def _seen_in(self, epoch: int) -> int:
        return self.in_epoch[1] if self.in_epoch[0] == epoch else 0

    def _take(self, part: Any, topic_id: bytes, leader: int, epoch: int) -> None:
        is_lower = part.high_watermark < self.high_watermark
        if is_lower and (self.position >= part.high_watermark or part.high_watermark < self._seen_in(epoch)):
            raise ViolationError(
                f"{self.name}: the high watermark of {self.topic}-{self.partition} went back from "
                f"{self.high_watermark} to {part.high_watermark} at broker {leader} in epoch {epoch}"
            )
        self.in_epoch = (epoch, part.high_watermark)
        self.high_watermark = max(self.high_watermark, part.high_watermark)
        for header, batch in split(memoryview(bytes(part.records or b""))):
            self.last_epoch = header.leader_epoch
            for record in read_records(batch, header):
                if record.offset < self.position:
                    continue  # a batch comes whole
                if record.offset != self.position or record.offset >= part.high_watermark:
                    raise ViolationError(
                        f"{self.name} is given offset {record.offset} at {self.position} of {self.topic}-"
                        f"{self.partition}, with the high watermark at {part.high_watermark}"
                    )
                self.position += 1
                value = (record.value or b"").decode()
                self.ledger.on_read((topic_id, self.partition), record.offset, value, self.name)
