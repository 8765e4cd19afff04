"""Short ways to compact a log in a test, with the test as worker process and worker thread."""

from typing import Any

from tests.log.helpers import NOW, append, records, run_syncs

from ottla.log.compaction.cleaner import Cleaner
from ottla.log.compaction.rewrite import clean
from ottla.log.compaction.task import CleanResult, CleanTask
from ottla.log.config import StoreConfig
from ottla.log.log import Log
from ottla.records.batch import BatchHeader, split
from ottla.records.builder import NewRecord, build_batch

COMPACT = {
    "cleanup_policy": ("compact",),
    "segment_bytes": 1 << 20,
    "index_interval_bytes": 64,
    "min_cleanable_dirty_ratio": 0.0,
}


def running(cleaner: Cleaner) -> list[CleanTask]:
    return [cleaning.task for cleaning in cleaner._running.values()]


def keyed(*pairs: tuple[str | None, str | None], at: int = NOW, **fields: Any) -> memoryview:
    """A batch of (key, value); a value of None is a tombstone."""
    return memoryview(
        build_batch(
            [
                NewRecord(
                    None if key is None else key.encode(), None if value is None else value.encode(), (), at
                )
                for key, value in pairs
            ],
            **fields,
        )
    )


def write(log: Log, *pairs: tuple[str | None, str | None], **fields: Any) -> int:
    return append(log, keyed(*pairs, **fields), internal=any(key is None for key, _ in pairs)).base_offset


def close_segment(log: Log) -> None:
    log.roll(NOW)
    run_syncs(log)


def state(log: Log, start: int | None = None) -> dict[str, str]:
    """What a consumer that reads from `start` on has in its table at the end."""
    table: dict[str, str] = {}
    for record in records(log, start):
        if record.key is None:
            continue
        if record.value is None:
            table.pop(record.key.decode(), None)
        else:
            table[record.key.decode()] = record.value.decode()
    return table


def content(log: Log) -> list[tuple[int, str | None, str | None]]:
    return [
        (
            one.offset,
            None if one.key is None else one.key.decode(),
            None if one.value is None else one.value.decode(),
        )
        for one in records(log)
    ]


def headers(log: Log) -> list[BatchHeader]:
    read = log.read(log.log_start_offset, 1 << 30, end=log.log_end_offset)
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset and read.records:
        found += [header for header, _ in split(read.records)]
        offset = read.next_offset
        read = log.read(offset, 1 << 30, end=log.log_end_offset)
    return found


def begin(log: Log, *, now_ms: int = NOW, stable: int | None = None, **config: Any) -> tuple[Cleaner, Any]:
    """A cleaner that has given out its task for this log, or None."""
    cleaner = Cleaner({log.topic_partition: log})
    end = log.log_end_offset if stable is None else stable
    tasks = list(cleaner.next_tasks(StoreConfig(**config), lambda _: end, now_ms, now_ms))
    return cleaner, tasks[0][1] if tasks else None


def place(cleaner: Cleaner, log: Log, result: CleanResult) -> None:
    """Put the files into place, syncing the folder whenever that is asked for."""
    wants_sync = cleaner.on_cleaned(log, result, NOW)
    while wants_sync:
        log.files.syncable(log.directory).sync()
        wants_sync = cleaner.on_folder_synced(log)


def compact(log: Log, **more: Any) -> CleanResult | None:
    """One whole cleaning, if one is due."""
    cleaner, task = begin(log, **more)
    if task is None:
        return None
    result = clean(log.files, task)
    place(cleaner, log, result)
    return result
