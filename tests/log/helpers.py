"""Short ways to say what the tests of the log say often."""

from typing import Any

from tests.log.simdisk import SimDisk

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.log.config import LogConfig
from ottla.log.log import Appended, Log
from ottla.log.time_search import TimestampedOffset, offset_of_max_timestamp
from ottla.records.batch import split
from ottla.records.builder import NewRecord, build_batch
from ottla.records.record import Record, read_records

TP = TopicPartition("t", 0)
FOLDER = "/data/t-0"
NOW = 1_000_000


def batch(*values: str, at: int = NOW, key: bytes | None = b"k", **fields: Any) -> memoryview:
    """A produced batch; every record at the same time unless `at` is changed."""
    records = [NewRecord(key, value.encode(), (), at) for value in values or ("v",)]
    return memoryview(build_batch(records, **fields))


def idempotent(
    sequence: int, *values: str, producer_id: int = 7, epoch: int = 0, **fields: Any
) -> memoryview:
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)


def open_log(
    disk: SimDisk,
    *,
    recovery_point: int = 0,
    clean: bool = False,
    start: int = 0,
    now_ms: int = NOW,
    **config: Any,
) -> Log:
    return Log.open(
        disk,
        FOLDER,
        TP,
        LogConfig(**config),
        recovery_point=recovery_point,
        clean=clean,
        log_start_offset=start,
        now_ms=now_ms,
    )


def append(
    log: Log, view: memoryview | None = None, *, epoch: int = 0, now_ms: int = NOW, **more: Any
) -> Appended:
    return log.append(batch() if view is None else view, leader_epoch=epoch, now_ms=now_ms, **more)


def put(log: Log, *values: str, **fields: Any) -> Appended:
    return append(log, batch(*values, **fields))


def records(
    log: Log, start: int | None = None, end: int | None = None, max_bytes: int = 1 << 20
) -> list[Record]:
    """All records a consumer would see."""
    offset = log.log_start_offset if start is None else start
    end = log.log_end_offset if end is None else end
    found: list[Record] = []
    while offset < end:
        read = log.read(offset, max_bytes, end=end, at_least_one=True)
        if not read.records:
            break
        for header, view in split(read.records):
            found += [record for record in read_records(view, header) if record.offset >= offset]
        assert read.next_offset > offset
        offset = read.next_offset
    return found


def values(log: Log, start: int | None = None, **more: Any) -> list[str]:
    return [(record.value or b"").decode() for record in records(log, start, **more)]


def newest(log: Log) -> TimestampedOffset | None:
    return offset_of_max_timestamp(log.segments.row, log.log_start_offset, None, None)


def run_syncs(log: Log, now_ms: int = NOW) -> int:
    """Play the worker thread until nothing is due; how many syncs that took."""
    count = 0
    while (sync := log.next_sync(now_ms)) is not None:
        for file in sync.files:
            file.sync()
        log.on_synced(sync, now_ms)
        count += 1
    return count


def code_of(error: BaseException) -> ErrorCode:
    assert isinstance(error, ApiError)
    return error.code
