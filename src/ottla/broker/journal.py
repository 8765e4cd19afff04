"""The partition of an internal topic as the journal of a coordinator's shard."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.damage import Unreadable
from ottla.coordinator.runtime import Stored
from ottla.coordinator.turn import StoredEnd, StoredRecord, Writer
from ottla.log.cold import NOTHING_YET, ColdError, Warming
from ottla.log.log import Appended
from ottla.records.batch import NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader, crc_ok, split
from ottla.records.builder import NewRecord, build_batch, build_plain
from ottla.records.compression import Codec
from ottla.records.control import Marker, read_marker
from ottla.records.record import Record, read_records
from ottla.replication.partition import Partition

LOAD_BYTES = 256 * 1024

AppendBatch: TypeAlias = Callable[[Partition, memoryview, int, int], Appended]
AppendMarker: TypeAlias = Callable[[Partition, Marker, int, int], Appended]


@dataclass(frozen=True, slots=True)
class PartitionJournal:
    """`append_batch` and `append_marker` append to the partition at a time, with its time of day
    (`Replicas`); the second is there if other coordinators end transactions in this partition."""

    partition: Partition
    append_batch: AppendBatch
    codec: Codec = Codec.NONE
    append_marker: AppendMarker | None = None

    @property
    def end_offset(self) -> int:
        return self.partition.log.log_end_offset

    @property
    def committed_offset(self) -> int:
        return self.partition.high_watermark

    @property
    def batch_bytes_max(self) -> int:
        return self.partition.log.config.max_message_bytes

    def place(self, offset: int) -> str:
        """The file that holds an offset."""
        log = self.partition.log
        bases = [segment.base_offset for segment in log.segments]
        return log.segments[max(bisect_right(bases, offset) - 1, 0)].path()

    def stored(self) -> Iterator[Stored]:
        """Up to where the log ends when this is first asked; None for a batch or a record that holds nothing
        of the coordinator's. A damaged batch, of records or of control, is said to be `Unreadable`, as nobody
        checks it after us; where no batch can be found any more is an error.

        Much may happen before the last record is asked for, and while a worker reads what is not in memory.
        Segments go: what was in them was deleted, or stands later in the log too. The log may move to another
        directory, and be another object then."""
        offset, end = self.partition.log.log_start_offset, self.partition.log.log_end_offset
        warmth = NOTHING_YET
        while offset < end:
            log = self.partition.log
            begin = max(offset, log.log_start_offset)
            try:
                batches = log.read(begin, LOAD_BYTES, end=end, warmth=warmth).records
            except ColdError as cold:
                warmth = warmth.with_more(cold.pieces)
                yield Warming([*cold.pieces, *(cold.ahead.pieces if cold.ahead else ())])
                continue
            warmth = NOTHING_YET
            if not batches:
                return  # compaction left nothing between here and the end
            for header, batch in split(memoryview(batches)):
                if header.next_offset <= offset:
                    problem = f"the batch at offset {header.base_offset} ends before {offset}"
                    raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{self.place(offset)}: {problem}")
                offset = header.next_offset
                try:
                    yield from stored_in(header, batch) or (None,)
                except ApiError as error:
                    yield Unreadable(header.base_offset, str(error))

    def append(
        self, records: list[StoredRecord], now_ms: int, wall_ms: int, writer: Writer | None = None
    ) -> int:
        record = records[0]
        if len(records) == 1 and record.value is not None and writer is None and self.codec is Codec.NONE:
            batch = build_plain(record.key, record.value, wall_ms)
        else:
            batch = build_batch(
                [NewRecord(record.key, record.value, timestamp=wall_ms) for record in records],
                codec=self.codec,
                producer_id=NO_PRODUCER_ID if writer is None else writer.producer_id,
                producer_epoch=-1 if writer is None else writer.epoch,
                # 0 as Kafka's coordinators have it; nobody checks.
                base_sequence=NO_SEQUENCE if writer is None else 0,
                transactional=writer is not None,
            )
        return self.append_batch(self.partition, memoryview(batch), now_ms, wall_ms).base_offset

    def append_end(self, marker: Marker, now_ms: int, wall_ms: int) -> int | None:
        assert self.append_marker is not None, "no transaction ends in this partition"
        appended = self.append_marker(self.partition, marker, now_ms, wall_ms)
        return None if appended.duplicate else appended.base_offset


def stored_in(header: BatchHeader, batch: memoryview) -> list[Stored]:
    """What a batch holds, all of it or none; ApiError if it makes no sense. That a producer is named says
    nothing of a transaction: what an idempotent client wrote counts at once."""
    if not crc_ok(batch, header):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch is wrong")
    records = read_records(batch, header)
    if header.is_control:
        return [_end(header, record) for record in records]
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    return [
        None
        if record.key is None
        else (StoredRecord(record.key, record.value, producer_id), record.offset, record.timestamp)
        for record in records
    ]


def _end(header: BatchHeader, record: Record) -> StoredEnd | None:
    end = read_marker(record.key, record.value)
    return None if end is None else StoredEnd(header.producer_id, end.committed, record.offset)
