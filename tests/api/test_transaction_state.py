"""The partitions of __transaction_state on a broker: leadership that moves, damage, disks, and memory."""

import errno
import logging
from typing import Any

import pytest
from tests.api.asking import ask_for_two_in_sync, create, idempotent, lead, produce
from tests.api.harness import OTHER_BROKER, Client, Machine
from tests.api.transactions import BUSY, ID, NONE, add, describe, end, find, init, producers, started
from tests.support.transactions import open_transaction

from ottla.base.errors import ErrorCode
from ottla.base.ids import ADMIN_CLIENT_ID, TRANSACTIONS_TOPIC, TopicPartition
from ottla.broker.transactions import Transactions
from ottla.controller import znodes
from ottla.controller.keeper import Put
from ottla.coordinator.damage import leave_out
from ottla.coordinator.turn import StoredRecord
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.messages.end_txn import EndTxnRequest

UNREADABLE = StoredRecord(b"\0\0\0\2tx", b"\0\x09what is this?")


def write(machine: Machine, *records: StoredRecord, index: int = 0) -> None:
    """Somebody writes to a partition of the topic behind the coordinator's back."""
    batch = build_batch([NewRecord(record.key, record.value) for record in records])
    partition = machine.broker.partitions[TopicPartition(TRANSACTIONS_TOPIC, index)]
    machine.broker.replicas.append_internal(partition, memoryview(batch), machine.now_ms, machine.now_ms)
    machine.carry_out()


def reload(machine: Machine, epoch: int) -> None:
    """Another broker leads for a moment."""
    lead(machine, TRANSACTIONS_TOPIC, leader=OTHER_BROKER, epoch=epoch)
    lead(machine, TRANSACTIONS_TOPIC, leader=machine.broker.id, epoch=epoch + 1)
    machine.pass_time(10)


def test_a_coordinator_that_is_elected_again_goes_on_with_a_later_epoch() -> None:
    machine, client = started(partitions=1)
    machine.give_up_the_seat()
    producer = init(client)
    add(client, producer)
    lead(machine, TRANSACTIONS_TOPIC, leader=OTHER_BROKER, epoch=1)
    assert end(client, producer) == ErrorCode.NOT_COORDINATOR
    assert describe(client)[0].error_code == ErrorCode.NOT_COORDINATOR
    lead(machine, TRANSACTIONS_TOPIC, leader=machine.broker.id, epoch=2)
    machine.pass_time(10)
    open_transaction(machine.broker, "t", machine.now_ms, producer_id=producer[0])
    assert end(client, producer) == (producer[0], 1)
    assert producers(machine).by_id[producer[0]].coordinator_epoch == 2


def test_an_end_that_was_decided_before_leadership_moved_is_completed_by_the_next_leader() -> None:
    machine, client = started(partitions=1)
    machine.give_up_the_seat()
    producer = init(client)
    add(client, producer)
    lead(machine, "t", leader=OTHER_BROKER, epoch=1)  # nobody answers there
    assert end(client, producer) == (producer[0], 1)
    assert describe(client)[0].transaction_state == "PrepareCommit"
    reload(machine, epoch=1)
    assert describe(client)[0].transaction_state == "PrepareCommit"
    assert init(client) == BUSY
    lead(machine, "t", leader=machine.broker.id, epoch=2)
    for _ in range(10):
        machine.pass_time(500)
    assert describe(client)[0].transaction_state == "CompleteCommit"


def test_a_completion_that_cannot_be_stored_is_tried_until_it_can() -> None:
    machine, client = started(partitions=1)
    producer = init(client)
    add(client, producer)
    lead(machine, "t", leader=OTHER_BROKER, epoch=1)
    assert end(client, producer) == (producer[0], 1)
    ask_for_two_in_sync(machine, TRANSACTIONS_TOPIC)
    lead(machine, "t", leader=machine.broker.id, epoch=2)
    for _ in range(5):
        machine.pass_time(500)
    assert producer[0] in producers(machine).by_id, "the marker is there"
    assert describe(client)[0].transaction_state == "PrepareCommit"
    config = machine.broker.image.topic_config(TRANSACTIONS_TOPIC) | {"min.insync.replicas": "1"}
    machine.write(Put(znodes.topic_config_path(TRANSACTIONS_TOPIC), znodes.config_node(config)))
    for _ in range(5):
        machine.pass_time(500)
    assert describe(client)[0].transaction_state == "CompleteCommit"


def test_an_end_that_the_disk_refuses_is_refused_and_its_ids_have_no_coordinator_here() -> None:
    machine, client = started(partitions=1, log_dirs="/a,/b")
    producer = init(client)
    add(client, producer)
    directory = machine.broker.store.directory_of(TopicPartition(TRANSACTIONS_TOPIC, 0))
    machine.disk.fail("append", errno.EIO, f"{directory}/{TRANSACTIONS_TOPIC}")
    assert end(client, producer) == ErrorCode.NOT_COORDINATOR
    assert end(client, producer) == ErrorCode.NOT_COORDINATOR
    assert find(client).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    machine.restart()
    client = machine.client()
    machine.pass_time(10)
    assert describe(client)[0].transaction_state == "Ongoing"
    assert end(client, producer) == (producer[0], 1)


def test_an_empty_id_is_refused_by_its_coordinator_too() -> None:
    _, client = started(partitions=1)
    request = EndTxnRequest(transactional_id="", producer_id=1, producer_epoch=1, committed=True)
    assert client.send(request).error_code == ErrorCode.INVALID_REQUEST


def test_what_cannot_be_read_stops_its_partition_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    machine, client = started(partitions=2)
    names = {machine.broker.coordinators.transactions.partition_of(name).partition: name for name in "abcdef"}
    for name in names.values():
        init(client, name)
    write(machine, UNREADABLE, index=0)
    with caplog.at_level(logging.ERROR):
        machine.restart()
    client = machine.client()
    machine.pass_time(10)
    assert init(client, names[0]) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert describe(client, names[0])[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert init(client, names[1])[1] == 1
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("the transactional ids stored in __transaction_state-0 are not served: ")
    assert "version 9; we read 0 to 1" in line
    assert "ottla skip __transaction_state-0 " in line


def test_an_operator_leaves_it_out_and_the_ids_are_served_again() -> None:
    machine, client = started(partitions=1)
    init(client)
    write(machine, UNREADABLE)
    offset = machine.broker.partitions[TopicPartition(TRANSACTIONS_TOPIC, 0)].log.log_end_offset - 1
    machine.restart()
    machine.pass_time(10)
    assert init(machine.client()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    admin = machine.client()
    admin.client_id = ADMIN_CLIENT_ID
    record = leave_out(offset)
    answer = produce(admin, TRANSACTIONS_TOPIC, bytes(build_batch([NewRecord(record.key, record.value)])))
    assert answer.error_code == NONE
    machine.pass_time(10)
    assert init(machine.client())[1] == 1


def test_clients_do_not_write_to_the_topic_and_the_admin_client_nothing_unreadable() -> None:
    _, client = started(partitions=1)
    batch = bytes(build_batch([NewRecord(UNREADABLE.key, UNREADABLE.value)]))
    assert produce(client, TRANSACTIONS_TOPIC, batch).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    client.client_id = ADMIN_CLIENT_ID
    assert produce(client, TRANSACTIONS_TOPIC, batch).error_code == ErrorCode.INVALID_RECORD


def test_ids_that_somebody_makes_up_do_not_take_all_memory(caplog: pytest.LogCaptureFixture) -> None:
    machine, client = started(partitions=1, ottla_transactions_max_bytes=str(1 << 20))
    mine = init(client)
    refused = 0
    with caplog.at_level(logging.WARNING):
        for number in range(2_000):
            refused += init(client, f"made-up-{number}") == ErrorCode.POLICY_VIOLATION
    assert refused > 500
    assert machine.broker.coordinators.transactions.shard_of(ID).held_bytes <= 0.75 * (1 << 20)
    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if "transactional ids are refused" in line] == lines[-1:]
    assert add(client, mine) == [NONE]
    assert end(client, mine) == (mine[0], 1)
    assert isinstance(producer_of_nobody(client), int), "and others produce as ever"


def producer_of_nobody(client: Client) -> int:
    return int(produce(client, "t", idempotent(0, "x", producer_id=99_999)).base_offset)


def test_a_broker_without_transactions_has_nothing_of_them() -> None:
    machine = Machine()
    machine.pass_time(1_000)
    assert machine.broker.coordinators._transactions is None
    assert find(machine.client()).error_code == NONE
    assert machine.broker.coordinators._transactions is not None


def test_a_disk_that_fails_with_the_completion_leaves_no_request_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_written = Transactions._on_written

    def failing(*arguments: Any) -> None:
        directory = machine.broker.store.directory_of(TopicPartition(TRANSACTIONS_TOPIC, 0))
        machine.disk.fail("append", errno.EIO, f"{directory}/{TRANSACTIONS_TOPIC}")
        on_written(*arguments)

    monkeypatch.setattr(Transactions, "_on_written", failing)
    machine, client = started(partitions=1, log_dirs="/a,/b")
    producer = init(client)
    add(client, producer)
    assert end(client, producer) == (producer[0], producer[1] + 1), "decided before its markers"
    assert end(client, producer) == ErrorCode.NOT_COORDINATOR


def test_partitions_too_small_for_a_batch_of_a_marker_get_theirs() -> None:
    machine, client = started()
    create(client, "small", 1, max_message_bytes="70")
    producer = init(client)
    add(client, producer, topic="small")
    end(client, producer)
    machine.pass_time(500)
    assert describe(client)[0].transaction_state == "CompleteCommit"
