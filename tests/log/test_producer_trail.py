"""What recovery remembers of producers is what reading the log again would tell."""

from random import Random

import pytest
from tests.log.helpers import NOW, append, batch, idempotent, open_log, put
from tests.log.simdisk import SimDisk

from ottla.log import producer_trail
from ottla.log.log import Log
from ottla.log.snapshots import encode
from ottla.records.control import build_marker


def filled(disk: SimDisk, seed: int) -> Log:
    """A log of several producers, some of them in transactions, in several segments."""
    random, log = Random(seed), open_log(disk, segment_bytes=700)
    sequences = dict.fromkeys(range(5), 0)
    epochs = dict.fromkeys(sequences, 0)
    for number in range(60):
        id = random.randrange(5)
        kind = random.random()
        if kind < 0.2:
            put(log, str(number))
        elif kind < 0.3 and id > 2:
            built = build_marker(id, epochs[id], committed=True, coordinator_epoch=1, timestamp_ms=NOW)
            append(log, memoryview(built), internal=True)
        else:
            if random.random() < 0.05 and id < 3:
                epochs[id], sequences[id] = epochs[id] + 1, 0
            one = idempotent(
                sequences[id], str(number), producer_id=id, epoch=epochs[id], transactional=id > 2
            )
            append(log, one)
            sequences[id] += 1
    return log


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("point", [0, 17, 59])
def test_it_knows_what_a_second_reading_would_tell(
    seed: int, point: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimDisk()
    expected = encode(filled(disk, seed).producers)
    disk.crash()
    for name in disk.list("/data/t-0"):
        if name.endswith(".snapshot") and seed % 2:
            disk.remove(f"/data/t-0/{name}")
    log = open_log(disk, recovery_point=point, segment_bytes=700)
    assert encode(log.producers) == expected
    log.abandon()
    monkeypatch.setattr(producer_trail, "TRANSACTIONAL_MAX", 1)
    assert encode(open_log(disk, recovery_point=point, segment_bytes=700).producers) == expected


def test_a_log_that_is_recovered_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk()
    log = open_log(disk)
    for sequence in range(50):
        append(log, idempotent(sequence, "x" * 100))
    disk.crash()
    before = disk.reads
    log = open_log(disk)
    once = disk.reads - before
    assert log.producers.by_id[7].last_sequence == 49
    log.abandon()
    monkeypatch.setattr(producer_trail.ProducerTrail, "note", lambda *_: None)
    before = disk.reads
    open_log(disk).abandon()
    assert disk.reads - before > once


def test_batches_without_a_producer_leave_no_trace() -> None:
    kept = producer_trail.ProducerTrail()
    disk = SimDisk()
    log = open_log(disk)
    append(log, batch("a"))
    disk.crash()
    again = open_log(disk)
    again.active.recover(0, kept.note)
    kept.replay(again.producers)
    assert again.producers.by_id == {}
