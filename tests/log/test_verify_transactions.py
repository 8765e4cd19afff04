"""Checking the indexes of aborted transactions against the batches, offline."""

import pytest
from tests.log.cleaning_helpers import COMPACT, close_segment, compact, keyed
from tests.log.helpers import NOW, append, batch
from tests.log.simdisk import SimDisk

from ottla.base.ids import TopicPartition
from ottla.log.config import LogConfig, StoreConfig
from ottla.log.log import Log
from ottla.log.segment import file_name
from ottla.log.store import LogStore
from ottla.log.transaction_index import ENTRY
from ottla.log.verify.directory import verify
from ottla.log.verify.findings import Finding, Severity, Work
from ottla.records.control import Marker

FOLDER = "/data/t-0"
FIRST, SECOND = (f"{FOLDER}/{file_name(offset, '.txnindex')}" for offset in (0, 4))


def wrote(log: Log, producer_id: int) -> None:
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    append(log, keyed(("a", str(producer_id)), **fields))


def end(log: Log, producer_id: int, committed: bool) -> None:
    log.append_marker(Marker(producer_id, 1, committed, 0, 2), leader_epoch=0, now_ms=NOW, wall_ms=NOW)


@pytest.fixture
def disk() -> SimDisk:
    """Producers 1 and 2 abort, 3 commits, 4 stays in its transaction: in two segments, closed."""
    disk = SimDisk()
    store = LogStore(disk, ("/data",), LogConfig(**COMPACT), StoreConfig())
    store.open_all(NOW, lambda _topic: {})
    disk.write_atomic("/data/meta.properties", b"version=0\nbroker.id=1\ncluster.id=Zm9v\n")
    log = store.create(TopicPartition("t", 0), bytes(16), LogConfig(**COMPACT), NOW)
    for producer_id in (1, 2):
        wrote(log, producer_id)
    end(log, 1, committed=False)
    wrote(log, 3)
    close_segment(log)
    end(log, 3, committed=True)
    end(log, 2, committed=False)
    wrote(log, 4)
    append(log, batch("plain"))
    close_segment(log)
    store.high_watermarks[log.topic_partition] = log.log_end_offset
    store.close()
    return disk


def findings(disk: SimDisk, *, quick: bool = False) -> list[Finding]:
    return [
        finding
        for finding in verify(Work(files=disk, quick=quick), ["/data"])
        if finding.severity is not Severity.NOTE
    ]


def test_sound_indexes_are_passed_over_in_silence(disk: SimDisk) -> None:
    assert disk.read(FIRST) == ENTRY.pack(0, 1, 0, 2, 1)
    assert disk.read(SECOND) == ENTRY.pack(0, 2, 1, 5, 6)
    assert findings(disk) == findings(disk, quick=True) == []


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(("path", "data", "problem"), [
    (SECOND, b"", "producer 2 aborted offsets 1 to 5, and there is no entry for it"),
    (SECOND, ENTRY.pack(0, 2, 3, 5, 6), "producer 2 aborted offsets 1 to 5, not 3"),
    (FIRST, ENTRY.pack(0, 1, 0, 2, 3), "when offset 2 was written, 1 was the last stable offset, not 3"),
    (SECOND, ENTRY.pack(0, 9, 3, 4, 4) + ENTRY.pack(0, 2, 1, 5, 6), "producer 9 aborted nothing at offset 4"),
    (SECOND, ENTRY.pack(0, 3, 3, 4, 4) + ENTRY.pack(0, 2, 1, 5, 6), "producer 3 aborted nothing at offset 4"),
])  # fmt: skip
def test_an_index_that_does_not_say_what_the_batches_say_is_an_error(
    disk: SimDisk, path: str, data: bytes, problem: str, quick: bool
) -> None:
    if data:
        disk.write_atomic(path, data)
    else:
        disk.remove(path)
    (finding,) = findings(disk, quick=quick)
    assert (finding.severity, finding.path, finding.problem) == (Severity.ERROR, path, problem)
    assert finding.at_start.startswith("it is not noticed")


def test_what_is_built_anew_anyway_is_no_error(disk: SimDisk) -> None:
    disk.remove(SECOND)
    disk.remove(SECOND.replace(".txnindex", ".index"))
    assert findings(disk) == []
    disk.remove("/data/.kafka_cleanshutdown")
    disk.remove("/data/recovery-point-offset-checkpoint")
    disk.write_atomic(FIRST, ENTRY.pack(0, 9, 0, 2, 3))
    assert findings(disk) == []


def test_after_compaction_nothing_is_wrong(disk: SimDisk) -> None:
    store = LogStore(disk, ("/data",), LogConfig(**COMPACT), StoreConfig())
    store.open_all(NOW, lambda _topic: {})
    (log,) = store.logs.values()
    log.on_config(LogConfig(**COMPACT), NOW)
    end(log, 4, committed=False)
    for _ in range(3):
        append(log, keyed(("dirt", "x")))
        close_segment(log)
        compact(log)
        store.checkpoints.write_all()
        assert [finding for finding in findings(disk) if finding.path.endswith(".txnindex")] == []
    store.close()
    assert findings(disk) == []
