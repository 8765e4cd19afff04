"""A partition with transactions that Ottla's log wrote, for Apache Kafka to read."""

from pathlib import Path
from typing import NamedTuple

from tests.log.read_committed import read_committed

from ottla.base.files import OsFiles
from ottla.base.ids import TopicPartition
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.transaction_index import AbortedTransaction
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import Marker

TIME_MS = 1_700_000_000_000
COORDINATOR_EPOCH = 3
OPEN = 9_004


class WrittenLog(NamedTuple):
    folder: Path
    committed: list[tuple[int, str]]  # offset and value
    aborted: list[AbortedTransaction]


class Writer:
    def __init__(self, folder: Path) -> None:
        self.log = Log.open(
            OsFiles(),
            str(folder),
            TopicPartition("t", 0),
            LogConfig(index_interval_bytes=100),
            now_ms=TIME_MS,
        )
        self.epochs: dict[int, int] = {}
        self.sequences: dict[int, int] = {}

    def write(self, value: str, producer_id: int) -> None:
        records = [NewRecord(b"k", f"{value}-{number}".encode(), (), TIME_MS) for number in range(3)]
        batch = build_batch(
            records, producer_id=producer_id, producer_epoch=self.epochs.setdefault(producer_id, 0),
            base_sequence=self.sequences.get(producer_id, 0), transactional=True,
        )  # fmt: skip
        self.sequences[producer_id] = self.sequences.get(producer_id, 0) + len(records)
        self.log.append(memoryview(batch), leader_epoch=0, now_ms=TIME_MS)

    def end(self, producer_id: int, committed: bool) -> None:
        self.epochs[producer_id] += 1
        self.sequences[producer_id] = 0
        marker = Marker(producer_id, self.epochs[producer_id], committed, COORDINATOR_EPOCH, 2)
        self.log.append_marker(marker, leader_epoch=0, now_ms=TIME_MS, wall_ms=TIME_MS)


def write_transactions(folder: Path) -> WrittenLog:
    """Three segments: one transaction that is aborted in the third and began in the first, others that are
    committed or aborted meanwhile, and one that stays open."""
    writer = Writer(folder)
    log = writer.log
    writer.write("aborted", 9_001)
    for number in range(4):
        writer.write("committed" if number % 2 else "aborted", 9_002)
        writer.write("committed", 9_003)
        writer.end(9_002, committed=bool(number % 2))
        writer.end(9_003, committed=True)
        if number in {1, 2}:
            log.roll(TIME_MS)
    writer.write("aborted", 9_001)
    writer.end(9_001, committed=False)
    writer.write("committed", 9_002)
    writer.end(9_002, committed=True)
    writer.write("open", OPEN)
    writer.write("behind", 9_003)
    writer.end(9_003, committed=True)
    records = [(record.offset, (record.value or b"").decode()) for record in read_committed(log)]
    aborted = log.segments.aborted_between(0, log.log_end_offset)
    log.close()
    return WrittenLog(folder, records, aborted)
