"""The partition of an internal topic as the journal of a coordinator's shard."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.damage import Unreadable
from ottla.coordinator.runtime import Stored
from ottla.coordinator.turn import StoredRecord
from ottla.log.log import Appended
from ottla.records.batch import BatchHeader, crc_ok, split
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.records.record import Record, read_records
from ottla.replication.partition import Partition

LOAD_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class PartitionJournal:
    """`append_batch` appends a batch to the partition at a time, with its time of day (`Replicas`)."""

    partition: Partition
    append_batch: Callable[[Partition, memoryview, int, int], Appended]
    codec: Codec = Codec.NONE

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
        of the coordinator's. A damaged batch is said to be `Unreadable`, as nobody checks it after us; where
        no batch can be found any more is an error.

        Much may happen before the last record is asked for. Segments go: what was in them was deleted, or
        stands later in the log too. The log may move to another directory, and be another object then."""
        offset, end = self.partition.log.log_start_offset, self.partition.log.log_end_offset
        while offset < end:
            log = self.partition.log
            batches = log.read(max(offset, log.log_start_offset), LOAD_BYTES, end=end).records
            if not batches:
                return  # compaction left nothing between here and the end
            for header, batch in split(memoryview(batches)):
                if header.next_offset <= offset:
                    problem = f"the batch at offset {header.base_offset} ends before {offset}"
                    raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{self.place(offset)}: {problem}")
                offset = header.next_offset
                try:
                    records = _records(header, batch)
                except ApiError as error:
                    yield Unreadable(header.base_offset, str(error))
                    continue
                if not records:
                    yield None
                for record in records:
                    if record.key is None:
                        yield None
                    else:
                        yield StoredRecord(record.key, record.value), record.offset, record.timestamp

    def append(self, records: list[StoredRecord], now_ms: int, wall_ms: int) -> int:
        batch = build_batch(
            [NewRecord(record.key, record.value, timestamp=wall_ms) for record in records], codec=self.codec
        )
        return self.append_batch(self.partition, memoryview(batch), now_ms, wall_ms).base_offset


def _records(header: BatchHeader, batch: memoryview) -> list[Record]:
    if not crc_ok(batch, header):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch is wrong")
    return [] if header.is_control else read_records(batch, header)
