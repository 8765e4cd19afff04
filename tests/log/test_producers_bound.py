"""Producer ids that somebody makes up: as many are remembered as fit, those that write are kept."""

from collections.abc import Iterator

import pytest
from tests.log.helpers import NOW, append, idempotent, open_log
from tests.log.simdisk import SimDisk

from ottla.base.ids import TopicPartition
from ottla.log import producers as producers_module
from ottla.log import snapshots, trail
from ottla.log.config import LogConfig, StoreConfig
from ottla.log.log import Log
from ottla.log.producers import PRODUCERS_MAX, Producer, Producers
from ottla.log.store import PRODUCERS_CHECK_MS, LogStore
from ottla.records.batch import read_header

FEW = 32


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (producers_module, snapshots, trail):
        monkeypatch.setattr(module, "PRODUCERS_MAX", FEW)


def flood(log: Log, ids: range) -> None:
    for producer_id in ids:
        append(log, idempotent(0, producer_id=producer_id))


@pytest.mark.usefixtures("few")
def test_the_ids_that_have_not_written_for_longest_are_forgotten() -> None:
    log = open_log(SimDisk())
    flood(log, range(100))
    known = list(log.producers.by_id)
    assert FEW - FEW // 16 <= len(known) <= FEW
    assert known == list(range(100 - len(known), 100))


@pytest.mark.usefixtures("few")
def test_a_producer_that_writes_is_known_however_many_others_come() -> None:
    log = open_log(SimDisk())
    for turn in range(20):
        append(log, idempotent(turn, producer_id=7))
        flood(log, range(1000 + turn * 20, 1020 + turn * 20))
    again = append(log, idempotent(19, producer_id=7))
    assert again.duplicate


@pytest.mark.usefixtures("few")
def test_a_producer_that_was_forgotten_is_accepted_as_after_a_day_of_silence() -> None:
    log = open_log(SimDisk())
    append(log, idempotent(0, producer_id=7))
    flood(log, range(1000, 1000 + 2 * FEW))
    assert not append(log, idempotent(5, producer_id=7)).duplicate


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
def test_recovery_remembers_no_more_than_fit_and_the_same_ones() -> None:
    disk = SimDisk()
    log = open_log(disk)
    flood(log, range(3 * FEW))
    known = list(log.producers.by_id)
    disk.crash()
    seen = trail.Trail()
    for producer_id in range(3 * FEW):
        view = memoryview(idempotent(0, producer_id=producer_id))
        seen.note(read_header(view), view)
    assert seen.start is None, "the log is read again"
    assert list(open_log(disk).producers.by_id) == known


def test_a_producer_takes_little_memory() -> None:
    producers = Producers()
    header = read_header(idempotent(0, producer_id=1))
    for producer_id in range(PRODUCERS_MAX + 1):
        producers.update(header._replace(producer_id=producer_id), producer_id)
    assert len(producers.by_id) < PRODUCERS_MAX
    assert len(producers.by_id[PRODUCERS_MAX].batches) == 1
    for sequence in range(1, 20):
        producers.update(header._replace(producer_id=5_000, base_sequence=sequence), 30_000 + sequence)
    assert [batch.first_sequence for batch in producers.by_id[5_000].batches] == [15, 16, 17, 18, 19]


@pytest.fixture
def store() -> Iterator[LogStore]:
    made = LogStore(SimDisk(), ["/d"], LogConfig(), StoreConfig(producer_ids_max=50))
    made.open_all(NOW, lambda _topic: {})
    yield made
    made.close()


def test_a_broker_remembers_so_many_over_all_partitions_and_forgets_where_most_are(store: LogStore) -> None:
    ids = {"few": 5, "many": 40, "most": 60}
    for topic, count in ids.items():
        flood(store.create(TopicPartition(topic, 0), bytes(16), LogConfig(), NOW), range(count))
    store.on_tick(NOW + PRODUCERS_CHECK_MS, {})
    left = {id.topic: list(log.producers.by_id) for id, log in store.logs.items()}
    assert {topic: len(known) for topic, known in left.items()} == {"few": 5, "many": 22, "most": 22}
    assert left["most"] == list(range(38, 60))
