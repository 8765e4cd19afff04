"""A partition as the journal of a shard: what is appended comes back, with its offsets and times."""

import pytest
from tests.api.asking import create
from tests.api.harness import NOW, Machine

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker import journal as journals
from ottla.broker.journal import PartitionJournal
from ottla.broker.parked import Parked
from ottla.coordinator.damage import Unreadable
from ottla.coordinator.turn import StoredEnd, StoredRecord, Writer
from ottla.log.cold import Warming
from ottla.records.batch import read_header
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import Marker


def journal(**configs: str) -> tuple[Machine, PartitionJournal]:
    machine = Machine()
    create(machine.client(), "t", **configs)
    replicas = machine.broker.replicas
    return machine, PartitionJournal(
        machine.broker.partitions.find("t", 0),
        replicas.append_internal,
        append_marker=replicas.append_marker,
    )


def stored(journal: PartitionJournal) -> list[tuple[StoredRecord, int, int]]:
    """With a disk that gives at once what it is asked for."""
    return [found for found in journal.stored() if not isinstance(found, Warming | None)]


def test_records_come_back_with_their_offsets_and_times_and_tombstones() -> None:
    _, written = journal()
    one, two, gone = StoredRecord(b"a", b"1"), StoredRecord(b"b", b""), StoredRecord(b"a", None)
    assert written.append([one, two], NOW, NOW) == 0
    assert written.append([gone], NOW + 5, NOW + 5) == 2
    assert written.end_offset == written.committed_offset == 3
    assert stored(written) == [(one, 0, NOW), (two, 1, NOW), (gone, 2, NOW + 5)]


def test_an_empty_journal_holds_nothing() -> None:
    _, written = journal()
    assert stored(written) == []


def test_a_long_journal_is_read_piece_by_piece_over_all_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "LOAD_BYTES", 300)
    _, written = journal(segment_bytes="500")
    records = [StoredRecord(b"%d" % number, b"x" * 50) for number in range(60)]
    for at in range(0, 60, 3):
        written.append(records[at : at + 3], NOW + at, NOW + at)
    assert [(record, offset) for record, offset, _ in stored(written)] == [
        (record, offset) for offset, record in enumerate(records)
    ]


def test_what_is_before_the_start_of_the_log_is_not_read() -> None:
    _, written = journal()
    for number in range(4):
        written.append([StoredRecord(b"%d" % number, b"")], NOW, NOW)
    written.partition.delete_records(3)
    assert [offset for _, offset, _ in stored(written)] == [3]


def control(key: bytes | None, value: bytes | None) -> bytearray:
    return build_batch([NewRecord(key, value, timestamp=NOW)], control=True, transactional=True)


def put(journal: PartitionJournal, batch: bytearray) -> None:
    journal.partition.log.append(memoryview(batch), leader_epoch=0, now_ms=NOW, internal=True)


def test_other_control_batches_and_records_without_a_key_are_not_the_coordinator_s() -> None:
    _, written = journal()
    written.append([StoredRecord(b"a", b"1")], NOW, NOW)
    put(written, control(b"\0\0\0\2", b"a change of leaders"))
    put(written, build_batch([NewRecord(None, b"?", timestamp=NOW)]))
    written.append([StoredRecord(b"b", b"2")], NOW, NOW)
    assert [(record.key, offset) for record, offset, _ in stored(written)] == [(b"a", 0), (b"b", 3)]


def test_a_transaction_comes_back_with_its_producer_and_its_end_in_between() -> None:
    _, written = journal()
    plain, record = StoredRecord(b"a", b"1"), StoredRecord(b"a", b"2")
    assert written.append([record, plain], NOW, NOW, Writer(7, 3)) == 0
    assert written.append([plain], NOW, NOW) == 2
    assert written.append_end(Marker(7, 3, True, 0, 0), NOW, NOW) == 3
    assert written.append([record], NOW, NOW, Writer(7, 3)) == 4
    assert written.append_end(Marker(7, 4, False, 0, 2), NOW, NOW) == 5
    assert list(written.stored()) == [
        (StoredRecord(b"a", b"2", 7), 0, NOW),
        (StoredRecord(b"a", b"1", 7), 1, NOW),
        (plain, 2, NOW),
        StoredEnd(7, True, 3),
        (StoredRecord(b"a", b"2", 7), 4, NOW),
        StoredEnd(7, False, 5),
    ]


def test_what_a_transaction_writes_is_a_batch_of_its_producer_as_kafka_writes_it() -> None:
    """The sequence is 0 in every batch."""
    _, written = journal()
    for _ in range(2):
        written.append([StoredRecord(b"a", b"1"), StoredRecord(b"b", b"2")], NOW, NOW, Writer(7, 3))
    header = read_header(written.partition.log.read(2, 1_000, end=4).records)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 0)
    assert (header.is_transactional, header.is_control, header.count) == (True, False, 2)


def test_an_end_that_is_there_already_has_no_offset() -> None:
    _, written = journal()
    written.append([StoredRecord(b"a", b"1")], NOW, NOW, Writer(7, 3))
    marker = Marker(7, 4, True, 0, 2)
    assert [written.append_end(marker, NOW, NOW) for _ in range(2)] == [1, None]
    assert written.end_offset == 2


def test_a_producer_of_an_older_epoch_writes_nothing() -> None:
    _, written = journal()
    written.append_end(Marker(7, 4, False, 0, 2), NOW, NOW)
    with pytest.raises(ApiError) as refused:
        written.append([StoredRecord(b"a", b"1")], NOW, NOW, Writer(7, 3))
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert written.end_offset == 1


def test_what_an_idempotent_client_wrote_is_part_of_no_transaction() -> None:
    _, written = journal()
    put(written, build_batch([NewRecord(b"a", b"1", timestamp=NOW)], producer_id=7, producer_epoch=0))
    assert stored(written) == [(StoredRecord(b"a", b"1"), 0, NOW)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\0\0\0\0\0"),
        (b"\0\0\0", b""),
        (b"\xff\xff\0\0", b""),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0"),
    ],
)
def test_a_control_batch_that_makes_no_sense_is_unreadable(key: bytes | None, value: bytes | None) -> None:
    _, written = journal()
    written.append([StoredRecord(b"a", b"1")], NOW, NOW)
    put(written, control(key, value))
    first, second = written.stored()
    assert first == (StoredRecord(b"a", b"1"), 0, NOW)
    assert isinstance(second, Unreadable)
    assert second.offset == 1
    assert "malformed" in second.problem


def test_a_marker_that_compaction_has_emptied_ends_nothing() -> None:
    _, written = journal()
    empty = build_batch([], control=True, transactional=True, producer_id=7, producer_epoch=0)
    written.partition.log.append_batches(memoryview(empty), NOW)
    assert list(written.stored()) == [None]


def test_a_partition_led_by_another_takes_no_records() -> None:
    machine, written = journal()
    written.partition.on_state(leader=2, leader_epoch=1, isr=(2,))
    with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
        written.append([StoredRecord(b"a", b"1")], machine.now_ms, machine.now_ms)
    assert written.end_offset == 0


def test_whoever_waits_for_the_partition_is_woken_by_an_append() -> None:
    machine, written = journal()
    seen: list[int] = []
    waiting = Parked(
        keys=(written.partition.topic_partition,), deadline_ms=1 << 60,
        ready=lambda _key, now_ms: seen.append(now_ms), expire=lambda _now_ms: None,
        reply=lambda _answer: None,
    )  # fmt: skip
    machine.broker.waiting.park(waiting)
    written.append([StoredRecord(b"a", b"1")], NOW, NOW)
    assert seen == [NOW]


def test_what_is_not_durable_yet_is_not_committed() -> None:
    machine, written = journal(flush_messages="1")
    written.append([StoredRecord(b"a", b"1")], NOW, NOW)
    assert (written.end_offset, written.committed_offset) == (1, 0)
    assert machine.halted == []


def test_segments_may_go_while_the_journal_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "LOAD_BYTES", 300)
    _, written = journal(segment_bytes="500")
    for number in range(40):
        written.append([StoredRecord(b"%d" % number, b"x" * 50)], NOW, NOW)
    reading = written.stored()
    assert next(reading) is not None
    written.partition.delete_records(30)
    written.append([StoredRecord(b"late", b"")], NOW, NOW)
    offsets = [found[1] for found in reading if found is not None]
    assert offsets[-10:] == list(range(30, 40)), "to where it ended when it was first read"
    assert all(offset < 8 for offset in offsets[:-10]), "what had been read already"
