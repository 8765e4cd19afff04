"""Internal topics: clients do not write there, and whatever a disk holds of them, the broker serves."""

import logging
import re
import tracemalloc

import pytest
from tests.api.asking import batch, create, new_topic, produce
from tests.api.groups import broker, committed
from tests.api.harness import Client, Machine
from tests.group.forgeries import COMMIT, PASSED_OVER, UNREADABLE
from tests.support.groups import G, codes, committing, fetching, find, joining

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import ADMIN_CLIENT_ID, OFFSETS_TOPIC, ZERO_UUID, TopicPartition
from ottla.coordinator.damage import leave_out
from ottla.coordinator.turn import StoredRecord
from ottla.log.validation import LargeCheck
from ottla.records.batch import read_header
from ottla.records.builder import NewRecord, build_batch, seal
from ottla.records.compression import Codec
from ottla.records.control import Marker
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.list_groups import ListGroupsRequest

SHARD = TopicPartition(OFFSETS_TOPIC, 0)


def encoded(*records: StoredRecord) -> bytes:
    return bytes(build_batch([NewRecord(record.key, record.value) for record in records]))


def one_shard() -> tuple[Machine, Client]:
    machine, client, _ = broker(offsets_topic_num_partitions="1")
    client.send(committing(5), 9)
    return machine, client


def forge(machine: Machine, *records: StoredRecord) -> int:
    """Put records into the log behind the broker's back, and start it again; the offset of the first."""
    partition = machine.broker.partitions[SHARD]
    appended, _ = partition.append_internal(
        memoryview(bytearray(encoded(*records))), machine.now_ms, machine.now_ms
    )
    machine.restart()
    return appended.base_offset


def admin(machine: Machine) -> Client:
    client = machine.client()
    client.client_id = ADMIN_CLIENT_ID
    return client


def test_clients_do_not_write_to_internal_topics() -> None:
    _, client = one_shard()
    assert produce(client, OFFSETS_TOPIC, encoded(COMMIT)).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    create(client, "__transaction_state")
    answer = produce(client, "__transaction_state", batch("v"))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert answer.error_message == "Clients do not write to __transaction_state."


def test_an_internal_topic_that_does_not_exist_is_unknown() -> None:
    client = Machine().client()
    assert produce(client, OFFSETS_TOPIC, encoded(COMMIT)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_kafkas_admin_client_writes_what_the_coordinator_can_read() -> None:
    machine, _ = one_shard()
    assert produce(admin(machine), OFFSETS_TOPIC, encoded(COMMIT)).error_code == ErrorCode.NONE
    machine.restart()
    assert committed(machine.client(), group="forged") == 3


@pytest.mark.parametrize("name", UNREADABLE)
def test_nobody_writes_what_the_coordinator_cannot_read(name: str) -> None:
    machine, _ = one_shard()
    assert (
        produce(admin(machine), OFFSETS_TOPIC, encoded(UNREADABLE[name])).error_code
        == ErrorCode.INVALID_RECORD
    )


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_broker_starts_whatever_is_stored_and_refuses_only_the_groups_of_that_partition(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    machine, _ = one_shard()
    with caplog.at_level(logging.ERROR):
        offset = forge(machine, COMMIT, UNREADABLE[name]) + 1
    client = machine.client()
    assert produce(client, "t", batch("v")).error_code == ErrorCode.NONE
    assert client.send(joining()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert codes(client.send(committing(6), 9)) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert client.send(fetching(), 5).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert client.send(find(G), 2).error_code == ErrorCode.NONE
    (line,) = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    where = f"/data/{SHARD}/{0:020}.log, offset {offset}: "
    assert line.startswith(f"the groups stored in {SHARD} are not served: {where}")
    assert line.endswith(f"; to leave it out for good: ottla skip {SHARD} {offset}")


@pytest.mark.parametrize("name", PASSED_OVER)
def test_what_means_nothing_is_passed_over(name: str) -> None:
    machine, _ = one_shard()
    forge(machine, PASSED_OVER[name])
    assert committed(machine.client()) == 5


def test_the_other_partitions_of_the_topic_are_served() -> None:
    machine, client, _ = broker(offsets_topic_num_partitions="5")
    others = [
        group
        for group in map(str, range(20))
        if machine.broker.coordinators.groups.partition_of(group) != SHARD and client.send(find(group), 2)
    ]
    forge(machine, UNREADABLE["an empty key"])
    client = machine.client()
    assert {code for group in others for code in codes(client.send(committing(1, group=group), 9))} == {0}
    assert client.send(ListGroupsRequest()).error_code == ErrorCode.NONE, "as in Kafka"
    assert {group.group_id for group in client.send(ListGroupsRequest()).groups} == set(others)


def test_an_operator_leaves_a_record_out_and_the_groups_are_served_at_once_and_ever_after(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine, _ = one_shard()
    offset = forge(machine, UNREADABLE["a value that is cut off"], UNREADABLE["an empty key"])
    operator = admin(machine)
    assert produce(operator, OFFSETS_TOPIC, encoded(leave_out(offset))).error_code == ErrorCode.NONE
    assert machine.client().send(joining()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    with caplog.at_level(logging.WARNING):
        produce(operator, OFFSETS_TOPIC, encoded(leave_out(offset + 1)))
    assert committed(machine.client()) == 5
    assert re.search(rf"is served without what cannot be read at offset {offset}, {offset + 1}", caplog.text)
    machine.restart()
    assert committed(machine.client()) == 5


def test_a_batch_whose_checksum_is_wrong_is_left_out_the_same_way() -> None:
    machine, _ = one_shard()
    client = machine.client()
    offset = machine.broker.partitions[SHARD].log.log_end_offset
    client.send(committing(6), 9)
    client.send(committing(7, group="g2"), 9)
    machine.stop()
    path = f"/data/{SHARD}/{0:020}.log"
    stored = bytearray(machine.disk.read(path))
    at = stored.rindex(b"readers")
    stored[at] ^= 1
    machine.disk.write_atomic(path, bytes(stored))
    machine.start()
    assert machine.client().send(joining()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert produce(admin(machine), OFFSETS_TOPIC, encoded(leave_out(offset))).error_code == ErrorCode.NONE
    assert committed(machine.client()) == 5
    assert committed(machine.client(), group="g2") == 7


@pytest.mark.parametrize("producer_id", [-1, 7])
@pytest.mark.parametrize(
    "record", [NewRecord(b"\0", b""), NewRecord(b"\0\0\0\1", b"\0"), NewRecord(None, None)]
)
def test_a_forged_marker_costs_the_groups_of_its_partition_until_it_is_left_out(
    producer_id: int, record: NewRecord
) -> None:
    machine, _ = one_shard()
    offset = machine.broker.partitions[SHARD].log.log_end_offset
    machine.stop()
    path = f"/data/{SHARD}/{0:020}.log"
    marker = build_batch(
        [record], base_offset=offset, leader_epoch=0, producer_id=producer_id, producer_epoch=0,
        transactional=True, control=True,
    )  # fmt: skip
    machine.disk.write_atomic(path, machine.disk.read(path) + bytes(marker))
    machine.start()
    assert machine.client().send(joining()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert produce(machine.client(), "t", batch("v")).error_code == ErrorCode.NONE
    with pytest.raises(ApiError) as refused:
        machine.broker.coordinators.groups.end_transaction(0, Marker(7, 0, True, 0, 0), machine.now_ms)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produce(admin(machine), OFFSETS_TOPIC, encoded(leave_out(offset))).error_code == ErrorCode.NONE
    assert committed(machine.client()) == 5


def test_records_of_internal_topics_are_not_deleted() -> None:
    _, client = one_shard()
    asked = DeleteRecordsTopic(
        name=OFFSETS_TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)]
    )
    (topic,) = client.send(DeleteRecordsRequest(topics=[asked], timeout_ms=1000)).topics
    assert topic.partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_nobody_creates_the_log_of_kafkas_controllers() -> None:
    machine, client = one_shard()
    (result,) = client.send(CreateTopicsRequest(topics=[new_topic("__cluster_metadata")])).topics
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert "__cluster_metadata" not in machine.broker.image.topics


def test_the_topic_of_the_groups_may_be_grown_and_deleted_as_in_kafka_and_the_broker_starts_again() -> None:
    machine, client = one_shard()
    grown = CreatePartitionsTopic(name=OFFSETS_TOPIC, count=7, assignments=None)
    (result,) = client.send(
        CreatePartitionsRequest(topics=[grown], timeout_ms=1000, validate_only=False)
    ).results
    assert result.error_code == ErrorCode.NONE
    machine.restart()
    client = machine.client()
    assert codes(client.send(committing(6), 9)) == [ErrorCode.NONE]
    asked = DeleteTopicState(name=OFFSETS_TOPIC, topic_id=ZERO_UUID)
    client.send(DeleteTopicsRequest(topics=[asked], timeout_ms=1000))
    assert codes(client.send(committing(7), 9)) == [ErrorCode.NOT_COORDINATOR]
    client.send(find(G), 2)
    assert codes(client.send(committing(8), 9)) == [ErrorCode.NONE]
    machine.restart()
    assert committed(machine.client()) == 8


def varint(number: int) -> bytes:
    rest, encoded_bytes = number << 1, bytearray()
    while rest > 127:
        encoded_bytes.append(rest & 127 | 128)
        rest >>= 7
    return bytes((*encoded_bytes, rest))


def headers_behind_zstd(count: int) -> bytes:
    """A batch of one record of an unknown type, with so many empty headers."""
    fields = bytes((0, 0, 0, *varint(2), 0, 99, 1, *varint(count))) + bytes((0, 1)) * count
    like = read_header(memoryview(build_batch([NewRecord(b"", None)])))
    return bytes(seal(like, varint(len(fields)) + fields, Codec.ZSTD, 3))


def test_a_bomb_under_the_name_of_the_admin_client_is_refused_before_it_is_opened_up() -> None:
    machine, _ = one_shard()
    client, bomb = admin(machine), headers_behind_zstd(1_000_000)
    assert len(bomb) < 1024
    tracemalloc.start()
    try:
        answer = produce(client, OFFSETS_TOPIC, bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert peak < 16 << 20


def test_many_records_of_the_admin_client_are_read_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    run = LargeCheck.run
    monkeypatch.setattr(LargeCheck, "run", lambda *args: (runs.append(args), run(*args)))
    machine, _ = one_shard()
    assert produce(admin(machine), OFFSETS_TOPIC, encoded(*[COMMIT] * 10)).error_code == ErrorCode.NONE
    assert not runs
    assert produce(admin(machine), OFFSETS_TOPIC, encoded(*[COMMIT] * 5_000)).error_code == ErrorCode.NONE
    assert len(runs) == 1
    last_is_bad = encoded(*[COMMIT] * 5_000, next(iter(UNREADABLE.values())))
    assert produce(admin(machine), OFFSETS_TOPIC, last_is_bad).error_code == ErrorCode.INVALID_RECORD


def test_more_than_a_coordinator_writes_at_once_is_refused_unread() -> None:
    machine, _ = one_shard()
    large = StoredRecord(b"\0\x63", bytes(2 << 20))
    batch = bytes(build_batch([NewRecord(large.key, large.value)], codec=Codec.ZSTD))
    assert produce(admin(machine), OFFSETS_TOPIC, batch).error_code == ErrorCode.INVALID_RECORD
