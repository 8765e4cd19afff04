"""Markers end transactions: whose may, and what happens to one that comes late or twice."""

from random import Random

import pytest
from tests.log.helpers import NOW, append, batch, idempotent, open_log
from tests.log.simdisk import SimDisk

from ottla.base.errors import ApiError, ErrorCode
from ottla.log import producers
from ottla.log.log import Appended, Log
from ottla.records.control import Marker, read_marker
from ottla.records.record import read_records


@pytest.fixture
def log() -> Log:
    return open_log(SimDisk())


def end(
    log: Log, *, epoch: int = 0, committed: bool = True, coordinator_epoch: int = 3, version: int = 2
) -> Appended:
    marker = Marker(7, epoch, committed, coordinator_epoch, version)
    return log.append_marker(marker, leader_epoch=0, now_ms=NOW, wall_ms=NOW + 5)


def refused(log: Log, **marker: int) -> ErrorCode:
    size = log.log_end_offset
    with pytest.raises(ApiError) as error:
        end(log, **marker)
    assert log.log_end_offset == size
    return error.value.code


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_stands_behind_the_records_it_ends(log: Log, committed: bool) -> None:
    append(log, idempotent(0, "a", transactional=True))
    assert log.last_stable_offset(1) == 0
    assert end(log, epoch=1, committed=committed) == (1, 1, -1, 0, False)
    assert log.last_stable_offset(2) == 2
    (record,) = read_records(memoryview(bytearray(log.read(1, 1000, end=2).records)))
    assert read_marker(record.key, record.value) == (committed, 3)
    assert record.timestamp == NOW + 5


def test_a_marker_sent_again_is_answered_and_not_written_again(log: Log) -> None:
    append(log, idempotent(0, "a", transactional=True))
    end(log, epoch=1)
    append(log, batch("other"))
    assert end(log, epoch=1) == (2, 2, -1, 0, True)
    assert log.log_end_offset == 3


def test_the_next_coordinator_that_sends_a_marker_again_replaces_the_one_before(log: Log) -> None:
    append(log, idempotent(0, "a", transactional=True))
    end(log, epoch=1)
    assert not end(log, epoch=1, coordinator_epoch=4).duplicate
    assert refused(log, epoch=2) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_late_marker_does_not_end_the_next_transaction_faults_2_15(log: Log) -> None:
    append(log, idempotent(0, "a", transactional=True))
    end(log, epoch=1)
    append(log, idempotent(0, "b", epoch=1, transactional=True))
    assert refused(log, epoch=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(log, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.last_stable_offset(3) == 2
    end(log, epoch=2)
    assert log.last_stable_offset(4) == 4


@pytest.mark.parametrize("version", [0, 1])
def test_before_transaction_version_2_a_marker_has_the_epoch_of_what_it_ends(log: Log, version: int) -> None:
    for sequence in range(2):
        append(log, idempotent(sequence, "a", transactional=True))
        end(log, version=version)
        assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset
    assert not end(log, version=version).duplicate  # as nobody can tell whether it is there already


def test_a_coordinator_that_was_replaced_ends_nothing(log: Log) -> None:
    append(log, idempotent(0, "a", transactional=True))
    end(log, coordinator_epoch=5, epoch=1)
    assert refused(log, coordinator_epoch=4, epoch=2) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_coordinators_own_batch_of_an_old_epoch_is_refused(log: Log) -> None:
    offsets = {"producer_id": 7, "transactional": True}
    append(log, batch("a", producer_epoch=1, **offsets), internal=True)
    with pytest.raises(ApiError) as error:
        append(log, batch("b", producer_epoch=0, **offsets), internal=True)
    assert error.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    append(log, batch("c", producer_epoch=1, **offsets), internal=True)
    assert log.last_stable_offset(2) == 0


def transactions(log: Log, count: int) -> None:
    for epoch in range(count):
        append(log, idempotent(0, "a", epoch=epoch, transactional=True))
        end(log, epoch=epoch + 1)


def test_transactions_that_nobody_asks_about_take_no_memory(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "COMPLETED_MAX", 10)
    transactions(log, 50)
    assert len(log.producers._completed) <= 10
    assert log.last_stable_offset(0) == 0
    assert log.last_stable_offset(100) == 100
    assert not log.producers._completed


@pytest.mark.parametrize("seed", range(5))
def test_the_last_stable_offset_is_that_of_counting_all_and_later_rather_than_earlier(
    log: Log, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Of very many that end above the high watermark, it may take a while longer for some."""
    random, is_bounded = Random(seed), seed > 2
    monkeypatch.setattr(producers, "COMPLETED_MAX", 6 if is_bounded else 1_024)
    open_at, completed, epochs, high, stable = {}, [], dict.fromkeys(range(6), 0), 0, 0
    for _ in range(400):
        producer_id = random.randrange(6)
        offset = log.log_end_offset
        if producer_id not in open_at:
            open_at[producer_id] = offset
            epoch = epochs[producer_id]
            append(log, idempotent(0, "a", producer_id=producer_id, epoch=epoch, transactional=True))
        else:
            completed.append((open_at.pop(producer_id), offset))
            epochs[producer_id] += 1
            marker = Marker(producer_id, epochs[producer_id], True, 0, 2)
            log.append_marker(marker, leader_epoch=0, now_ms=NOW, wall_ms=NOW)
        if random.random() < 0.1:
            high = random.randint(high, log.log_end_offset)
            begun = [first for first, last in completed if last >= high] + list(open_at.values())
            expected = min([*begun, high])
            before, stable = stable, log.last_stable_offset(high)
            assert before <= stable <= expected
            assert is_bounded or stable == expected
    for producer_id in list(open_at):
        marker = Marker(producer_id, epochs[producer_id] + 1, True, 0, 2)
        log.append_marker(marker, leader_epoch=0, now_ms=NOW, wall_ms=NOW)
    assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset


def test_a_marker_is_written_even_where_a_batch_of_its_size_would_not_be() -> None:
    log = open_log(SimDisk(), max_message_bytes=70)
    append(log, idempotent(0, "a", transactional=True))
    end(log, epoch=1)
    assert (log.log_end_offset, log.last_stable_offset(2)) == (2, 2)
