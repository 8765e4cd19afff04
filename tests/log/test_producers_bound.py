"""Producer ids that somebody makes up: as many are remembered as fit, those that write are kept."""

import tracemalloc
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.log.helpers import NOW, append, idempotent, open_log
from tests.log.simdisk import SimDisk

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.log import producer_trail, snapshots
from ottla.log import producers as producers_module
from ottla.log.config import LogConfig, StoreConfig
from ottla.log.log import Log
from ottla.log.producers import PRODUCERS_MAX, SILENT_MS, Producer, Producers
from ottla.log.store import PRODUCERS_CHECK_MS, LogStore
from ottla.records.batch import read_header

FEW = 32
SPARE = 2


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers_module, "PRODUCERS_MAX", FEW)
    monkeypatch.setattr(snapshots, "PRODUCERS_MAX", FEW)
    monkeypatch.setattr(producer_trail, "PRODUCERS_NOTED_MAX", FEW)
    monkeypatch.setattr(producers_module, "SPARE", SPARE)


def flood(log: Log, ids: range, now_ms: int = NOW) -> None:
    for producer_id in ids:
        append(log, idempotent(0, producer_id=producer_id), now_ms=now_ms)


def code_of(log: Log, batch: bytes, now_ms: int = NOW) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        append(log, batch, now_ms=now_ms)
    return refused.value.code


@pytest.mark.usefixtures("few")
def test_a_burst_of_strangers_makes_nobody_forgotten_and_new_ids_are_refused() -> None:
    log = open_log(SimDisk())
    honest = append(log, idempotent(0, producer_id=7))
    flood(log, range(1000, 1000 + FEW - 1))
    later = NOW + SILENT_MS - 1
    assert code_of(log, idempotent(0, producer_id=5000), later) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    again = append(log, idempotent(0, producer_id=7), now_ms=later)
    assert (again.duplicate, again.base_offset) == (True, honest.base_offset)
    assert not append(log, idempotent(1, producer_id=7), now_ms=later).duplicate


@pytest.mark.usefixtures("few")
def test_those_that_have_been_silent_for_minutes_make_room_and_those_that_write_stay() -> None:
    log = open_log(SimDisk())
    flood(log, range(FEW))
    append(log, idempotent(1, producer_id=0), now_ms=NOW + 1)
    append(log, idempotent(0, producer_id=5000), now_ms=NOW + SILENT_MS)
    assert list(log.producers.by_id) == [*range(1 + SPARE, FEW), 0, 5000]
    assert append(log, idempotent(1, producer_id=0), now_ms=NOW + SILENT_MS).duplicate


@pytest.mark.usefixtures("few")
def test_what_a_log_held_when_it_was_opened_has_its_minutes_too() -> None:
    disk = SimDisk()
    log = open_log(disk)
    flood(log, range(FEW))
    log.close()
    opened = NOW + 10 * SILENT_MS
    log = open_log(disk, clean=True, now_ms=opened)
    stranger = idempotent(0, producer_id=5000)
    assert code_of(log, stranger, opened + SILENT_MS - 1) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert append(log, idempotent(0, producer_id=3), now_ms=opened).duplicate
    append(log, stranger, now_ms=opened + SILENT_MS)


def test_old_sequences_are_known_as_old_after_a_crash_too() -> None:
    disk = SimDisk()
    log = open_log(disk)
    for sequence in range(7):
        append(log, idempotent(sequence))
    disk.crash()
    log = open_log(disk)
    assert append(log, idempotent(2)).duplicate
    assert code_of(log, idempotent(1)) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER


@pytest.mark.usefixtures("few")
def test_a_follower_refuses_nothing_and_knows_all_that_its_leader_does() -> None:
    leader, follower = open_log(SimDisk()), open_log(SimDisk())
    now_ms, number = NOW, 0
    for step in range(600):
        now_ms += 7_000 if step % 50 else 2 * SILENT_MS
        batch = idempotent(number, producer_id=7) if step % 3 == 0 else idempotent(0, producer_id=1000 + step)
        number += step % 3 == 0
        with suppress(ApiError):
            append(leader, batch, now_ms=now_ms)
        end = follower.log_end_offset
        if end < leader.log_end_offset:
            read = leader.read(end, 1 << 20, end=leader.log_end_offset)
            follower.append_batches(memoryview(bytes(read.records)), now_ms)
        assert set(leader.producers.by_id) <= set(follower.producers.by_id)
        assert len(follower.producers.by_id) <= FEW + SPARE
    assert len(leader.producers.by_id) > SPARE


@pytest.mark.usefixtures("few")
def test_a_producer_that_was_forgotten_is_accepted_as_after_a_day_of_silence() -> None:
    log = open_log(SimDisk())
    append(log, idempotent(0, producer_id=7))
    flood(log, range(1000, 1000 + FEW - 1))
    now_ms = NOW + SILENT_MS
    append(log, idempotent(0, producer_id=5000), now_ms=now_ms)
    assert 7 not in log.producers.by_id
    assert not append(log, idempotent(6, producer_id=7), now_ms=now_ms).duplicate
    refused = code_of(log, idempotent(5, producer_id=7), now_ms)
    assert refused is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "clients take a duplicate for success"


def test_a_producer_in_a_transaction_is_never_forgotten() -> None:
    producers = Producers()
    for producer_id in range(5):
        producer = Producer(0, 0, NOW)
        producer.txn_first_offset = 3 if producer_id == 1 else -1
        producers.put(producer_id, producer)
    assert producers.forget_first(99) == 4
    assert list(producers.by_id) == [1]


@pytest.mark.usefixtures("few")
def test_a_snapshot_keeps_the_order_and_no_more_than_fit() -> None:
    disk = SimDisk()
    log = open_log(disk)
    flood(log, range(FEW, 0, -1))
    log.close()
    log = open_log(disk, clean=True)
    assert list(log.producers.by_id) == list(range(FEW, 0, -1))
    stuffed = Producers()
    for producer_id in range(3 * FEW):
        stuffed.put(producer_id, Producer(0, 0, NOW))
    assert len(snapshots.decode(snapshots.encode(stuffed), 5).by_id) == FEW


@pytest.mark.usefixtures("few")
def test_recovery_remembers_no_more_than_fit_and_all_that_the_leader_did() -> None:
    disk = SimDisk()
    log = open_log(disk)
    for turn in range(3):
        flood(log, range(turn * FEW, (turn + 1) * FEW), NOW + turn * SILENT_MS)
    known = list(log.producers.by_id)
    disk.crash()
    seen = producer_trail.ProducerTrail()
    for producer_id in range(3 * FEW):
        view = memoryview(idempotent(0, producer_id=producer_id))
        seen.note(read_header(view), view)
    assert seen.start is None, "the log is read again"
    restored = list(open_log(disk).producers.by_id)
    assert restored[-len(known) :] == known
    assert len(restored) <= FEW + SPARE


def test_a_producer_takes_little_memory() -> None:
    producers = Producers()
    header = read_header(idempotent(0, producer_id=1))
    tracemalloc.start()
    try:
        for producer_id in range(PRODUCERS_MAX):
            producers.update(header._replace(producer_id=producer_id), producer_id, NOW + producer_id)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 450 * PRODUCERS_MAX
    for sequence in range(1, 20):
        producers.update(header._replace(producer_id=5_000, base_sequence=sequence), 90_000 + sequence)
    assert [batch.first_sequence for batch in producers.by_id[5_000].batches] == [15, 16, 17, 18, 19]


@pytest.fixture
def store() -> Iterator[LogStore]:
    made = LogStore(SimDisk(), ["/d"], LogConfig(), StoreConfig(producer_ids_max=50))
    made.open_all(NOW, lambda _topic: {})
    yield made
    made.close()


def known(store: LogStore) -> dict[str, int]:
    return {id.topic: len(log.producers.by_id) for id, log in store.logs.items()}


def closed(store: LogStore) -> set[str]:
    return {id.topic for id, log in store.logs.items() if log.producers.is_closed}


def stuff(store: LogStore, ids: dict[str, int]) -> None:
    for topic, count in ids.items():
        flood(store.create(TopicPartition(topic, 0), bytes(16), LogConfig(), NOW), range(count))


def test_above_the_limit_of_the_broker_the_silent_go_where_most_are(store: LogStore) -> None:
    stuff(store, {"few": 5, "many": 40, "most": 60})
    now_ms = NOW + SILENT_MS
    for producer_id in (0, 1):
        append(store.logs[TopicPartition("most", 0)], idempotent(1, producer_id=producer_id), now_ms=now_ms)
    store.on_tick(now_ms, {})
    assert known(store) == {"few": 5, "many": 40, "most": 5}
    assert not closed(store)
    assert list(store.logs[TopicPartition("most", 0)].producers.by_id)[-2:] == [0, 1]


def test_if_all_are_active_the_partitions_that_have_most_take_no_new_ones(
    store: LogStore, caplog: pytest.LogCaptureFixture
) -> None:
    stuff(store, {"few": 5, "many": 20, "most": 30})
    store.on_tick(NOW + PRODUCERS_CHECK_MS, {})
    store.on_tick(NOW + 2 * PRODUCERS_CHECK_MS, {})
    assert known(store) == {"few": 5, "many": 20, "most": 30}
    assert closed(store) == {"most"}
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        "new idempotent producers are refused where most are: 55 have written within 5 minutes, and this "
        "broker remembers 50; with more memory it can remember more (ottla.producer.ids.max)"
    )
    most = store.logs[TopicPartition("most", 0)]
    assert code_of(most, idempotent(0, producer_id=99)) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    append(most, idempotent(1, producer_id=29))
    append(store.logs[TopicPartition("few", 0)], idempotent(0, producer_id=99))
    store.on_tick(NOW + SILENT_MS + PRODUCERS_CHECK_MS, {})
    assert not closed(store)


def test_half_as_many_again_close_all_partitions(store: LogStore) -> None:
    stuff(store, {"few": 5, "many": 35, "most": 36})
    store.on_tick(NOW + PRODUCERS_CHECK_MS, {})
    assert closed(store) == {"few", "many", "most"}
