"""ListOffsets: offsets by time, and the ends of the log."""

import pytest
from tests.api.asking import batch, create, lead, produce
from tests.api.harness import NOW, Client, Machine
from tests.api.test_fetch import log_of

from ottla.api.list_offsets import SEARCH_MS_MAX
from ottla.base.errors import ErrorCode
from ottla.broker.effects import RunJob
from ottla.log.time_search import BYTES_AT_ONCE, RECORDS_AT_ONCE
from ottla.records.batch import HEADER_SIZE
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6


def asked(
    timestamp: int, *, topic: str = "t", partition: int = 0, epoch: int = -1, isolation: int = 0
) -> ListOffsetsRequest:
    one = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
    topics = [ListOffsetsTopic(name=topic, partitions=[one])]
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)


def look_up(client: Client, timestamp: int, version: int = 11, **more: int) -> tuple[int, int, int]:
    part = client.send(asked(timestamp, **more), version).topics[0].partitions[0]
    assert part.error_code == ErrorCode.NONE
    return part.offset, part.timestamp, part.leader_epoch


def code(client: Client, request: ListOffsetsRequest, version: int = 11) -> int:
    part = client.send(request, version).topics[0].partitions[0]
    assert (part.offset, part.timestamp) == (-1, -1)
    error: int = part.error_code
    return error


@pytest.fixture
def machine() -> Machine:
    """Offsets 0 and 1 at +0, 2 at +100, 3 at +50, in epoch 0; 4 at +60 in epoch 2."""
    machine = Machine()
    client = machine.client()
    create(client, "t")
    produce(client, "t", batch("a", "b", at=NOW))
    produce(client, "t", batch("c", at=NOW + 100))
    produce(client, "t", batch("d", at=NOW + 50))
    lead(machine, "t", leader=1, epoch=2)
    produce(client, "t", batch("e", at=NOW + 60))
    return machine


def test_the_ends_of_the_log_have_no_timestamp(machine: Machine) -> None:
    client = machine.client()
    assert look_up(client, LATEST) == (5, -1, 2)
    assert look_up(client, EARLIEST) == (0, -1, 0)
    assert look_up(client, EARLIEST_LOCAL) == (0, -1, 0)


def test_the_earliest_follows_the_log_start(machine: Machine) -> None:
    next(iter(machine.broker.partitions.values())).delete_records(4)
    assert look_up(machine.client(), EARLIEST) == (4, -1, 2)


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (0, (0, NOW, 0)),
        (NOW, (0, NOW, 0)),
        (NOW + 1, (2, NOW + 100, 0)),
        (NOW + 100, (2, NOW + 100, 0)),
        (NOW + 101, (-1, -1, -1)),
    ],
)
def test_a_time_is_answered_with_the_first_record_not_before_it(
    machine: Machine, timestamp: int, found: tuple[int, int, int]
) -> None:
    assert look_up(machine.client(), timestamp) == found


def test_the_record_with_the_largest_timestamp(machine: Machine) -> None:
    assert look_up(machine.client(), MAX_TIMESTAMP) == (2, NOW + 100, 0)


def test_an_empty_log_has_only_ends() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t")
    assert look_up(client, LATEST)[0] == look_up(client, EARLIEST)[0] == 0
    assert look_up(client, MAX_TIMESTAMP) == look_up(client, NOW) == (-1, -1, -1)


def test_nothing_is_found_in_storage_that_does_not_exist(machine: Machine) -> None:
    client = machine.client()
    assert look_up(client, LATEST_TIERED) == look_up(client, PENDING_UPLOAD) == (-1, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "since"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (PENDING_UPLOAD, 11)],
)
def test_a_name_for_an_offset_is_understood_from_its_version_on(
    machine: Machine, timestamp: int, since: int
) -> None:
    client = machine.client()
    assert code(client, asked(timestamp), since - 1) == ErrorCode.UNSUPPORTED_VERSION
    look_up(client, timestamp, since)


@pytest.mark.parametrize("timestamp", [-7, -(1 << 63)])
def test_other_negative_timestamps_have_no_meaning(machine: Machine, timestamp: int) -> None:
    assert code(machine.client(), asked(timestamp)) == ErrorCode.UNSUPPORTED_VERSION


def test_errors_are_per_partition(machine: Machine) -> None:
    client = machine.client()
    assert code(client, asked(LATEST, partition=9)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(client, asked(LATEST, topic="nowhere")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(client, asked(LATEST, epoch=1)) == ErrorCode.FENCED_LEADER_EPOCH
    assert code(client, asked(LATEST, epoch=3)) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert look_up(client, LATEST, epoch=2) == (5, -1, 2)
    lead(machine, "t", leader=2, epoch=3)
    assert code(client, asked(LATEST)) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_read_committed_ends_at_the_oldest_open_transaction(machine: Machine) -> None:
    client = machine.client()
    record = NewRecord(b"k", b"open", (), NOW + 500)
    txn = build_batch([record], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    log_of(machine).append(memoryview(txn), leader_epoch=2, now_ms=NOW)
    produce(client, "t", batch("after", at=NOW + 600))
    assert look_up(client, LATEST)[0] == 7
    assert look_up(client, LATEST, isolation=1)[0] == 5
    assert look_up(client, NOW + 600)[0] == 6
    assert look_up(client, NOW + 600, isolation=1) == (-1, -1, -1)


# -- what is large -------------------------------------------------------------------------------------------

MANY = RECORDS_AT_ONCE + 1000


def dense(codec: Codec = Codec.NONE) -> bytes:
    """Each record a millisecond after the one before."""
    records = [NewRecord(None, None, (), NOW + number) for number in range(MANY)]
    return bytes(build_batch(records, codec=codec))


def bulky() -> bytes:
    """Few records, and many bytes once it is decompressed."""
    records = [NewRecord(None, bytes(BYTES_AT_ONCE), (), NOW + number) for number in range(3)]
    return bytes(build_batch(records, codec=Codec.GZIP))


def held_back(*batches: bytes) -> tuple[Machine, Client]:
    machine = Machine()
    client = machine.client()
    create(client, "t")
    for sent in batches:
        produce(client, "t", sent)
    machine.hold(RunJob)
    return machine, client


@pytest.mark.parametrize(
    ("sent", "offset"), [(dense(), MANY - 1), (dense(Codec.ZSTD), MANY - 1), (bulky(), 2)]
)
def test_a_time_within_a_large_batch_is_looked_for_apart_and_nobody_waits(sent: bytes, offset: int) -> None:
    machine, client = held_back(sent)
    pending = client.ask(asked(NOW + offset))
    newest = machine.client().ask(asked(MAX_TIMESTAMP))
    assert (pending.answer, newest.answer) == (None, None)
    assert look_up(machine.client(), LATEST)[0] == offset + 1
    assert machine.broker.waiting.held_bytes(client.number) == len(sent)
    machine.release()
    for answer in (pending.answer, newest.answer):
        (part,) = answer.topics[0].partitions
        assert (part.error_code, part.offset, part.timestamp) == (ErrorCode.NONE, offset, NOW + offset)


def test_the_search_goes_on_behind_a_large_batch_in_which_nothing_was_found() -> None:
    later = [NewRecord(None, None, (), NOW + 2 * MANY if number == 1 else NOW) for number in range(MANY)]
    machine, client = held_back(bytes(build_batch(later)), dense())
    next(iter(machine.broker.partitions.values())).delete_records(2)
    pending = client.ask(asked(NOW + 500))
    machine.release()
    assert pending.answer.topics[0].partitions[0].offset == MANY + 500


def test_who_leads_no_more_when_the_search_is_over_says_so() -> None:
    machine, client = held_back(dense())
    pending = client.ask(asked(NOW + 5))
    lead(machine, "t", leader=2, epoch=3)
    machine.release()
    assert pending.answer.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_search_that_is_not_over_in_time_is_given_up() -> None:
    machine, client = held_back(dense())
    pending = client.ask(asked(NOW + 5))
    machine.pass_time(SEARCH_MS_MAX + 1)
    assert pending.answer.topics[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    machine.release()


def test_a_large_batch_that_is_damaged_inside_is_an_error_of_its_partition() -> None:
    machine, client = held_back(dense())
    machine.disk.flip("/data/t-0/00000000000000000000.log", HEADER_SIZE)  # a length that is negative now
    pending = client.ask(asked(NOW + 5))
    machine.release()
    assert pending.answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_RECORD
