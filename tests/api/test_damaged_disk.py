"""Damage on disk, as clients and operators meet it: said with file and position, not passed over."""

import logging

import pytest
from tests.api.asking import BY_NAME, batch, create, fetch, fetch_of, parts, produce, to, values
from tests.api.groups import broker as with_groups
from tests.api.harness import Client, Machine
from tests.support.groups import G, find

from ottla.base.errors import ErrorCode
from ottla.base.ids import OFFSETS_TOPIC, TopicPartition
from ottla.broker.effects import SyncLog
from ottla.records.batch import HEADER_SIZE, crc_ok, read_header, split
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest

FIRST = "/data/t-0/00000000000000000000.log"
CORRUPT = ErrorCode.CORRUPT_MESSAGE


def filled() -> tuple[Machine, Client, int]:
    """Topic `t` with two partitions of three segments, four batches in each; the size of a batch."""
    machine = Machine()
    client = machine.client()
    size = len(batch("0" * 10))
    create(client, "t", partitions=2, segment_bytes=str(4 * size))
    for number in range(12):
        produce(client, "t", batch(f"{number:010}"), batch(f"{number:010}"))
    return machine, client, size


def numbers(client: Client, offset: int, **more: int) -> list[int]:
    return [int(value) for value in values(fetch(client, "t", offset, **more))]


def test_damage_in_the_middle_of_an_old_segment_is_an_error_there_and_nowhere_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine, client, size = filled()
    machine.stop()
    machine.disk.flip(FIRST, 2 * size + 16)  # the magic byte of the third batch
    held = bytes(machine.disk.nodes[FIRST].data)
    machine.start()
    client = machine.client()
    with caplog.at_level(logging.ERROR):
        answers = [fetch(client, "t", 2) for _ in range(3)]
    assert [(one.error_code, one.records) for one in answers] == [(CORRUPT, b"")] * 3
    (line,) = caplog.messages
    assert line.startswith(f"t-0 is damaged: {FIRST}: no valid batch at {2 * size}:")
    assert numbers(client, 4) == [4, 5, 6, 7], "what comes after it can be read"
    assert numbers(client, 0, partition_max_bytes=size) == [0], "and what comes before it"
    both = parts(client.send(fetch_of(("t", 0, 2), ("t", 1, 2)), BY_NAME))
    assert [one.error_code for one in both.values()] == [CORRUPT, ErrorCode.NONE]
    assert produce(client, "t", batch("12")).base_offset == 12
    by_time = ListOffsetsPartition(partition_index=0, timestamp=1)
    asked = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[by_time])])
    assert client.send(asked).topics[0].partitions[0].offset == 0
    machine.crash()
    assert bytes(machine.disk.nodes[FIRST].data) == held, "nothing is cut"
    assert machine.halted == []


def test_a_record_with_a_flipped_bit_comes_as_it_is_and_fails_its_checksum() -> None:
    """As with Kafka: the checksum is for the reader, who must see the batch to know which it is."""
    machine, _, size = filled()
    machine.stop()
    machine.disk.flip(FIRST, size + HEADER_SIZE + 3)
    machine.start()
    found = fetch(machine.client(), "t")
    assert found.error_code == ErrorCode.NONE
    sound = [crc_ok(one, header) for header, one in split(memoryview(bytes(found.records or b"")))]
    assert sound == [True, False, True, True]


@pytest.mark.parametrize("at_end_of_batch", [False, True])
def test_an_old_segment_that_was_cut_gives_what_it_has_and_later_ones_are_whole(
    at_end_of_batch: bool,
) -> None:
    machine, _, size = filled()
    machine.stop()
    del machine.disk.nodes[FIRST].data[2 * size + (0 if at_end_of_batch else 30) :]
    machine.start()
    client = machine.client()
    assert numbers(client, 0, partition_max_bytes=2 * size) == [0, 1]
    assert numbers(client, 4) == [4, 5, 6, 7]
    if not at_end_of_batch:
        assert fetch(client, "t", 2).error_code == CORRUPT


def test_a_file_that_is_cut_under_a_running_broker_is_damage_and_not_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine, client, size = filled()
    assert numbers(client, 0) == [0, 1, 2, 3]
    del machine.disk.nodes[FIRST].data[2 * size + 30 :]
    assert fetch(client, "t", 0).error_code == CORRUPT
    assert f"t-0 is damaged: {FIRST}: no valid batch at {2 * size + 30}" in caplog.text
    assert read_header(bytes(fetch(client, "t", 4).records or b"")).base_offset == 4


@pytest.mark.parametrize("at", [16, HEADER_SIZE + 8])
def test_groups_whose_storage_is_damaged_have_no_coordinator_and_others_do(
    at: int, caplog: pytest.LogCaptureFixture
) -> None:
    machine, client, _ = with_groups(offsets_topic_segment_bytes="200")
    one = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata=None)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[one])]
    other = next(
        name
        for name in "abcdef"
        if machine.broker.coordinators.groups.partition_of(name).partition != shard(machine)
    )
    for group in (G, other, G, G):
        commit = OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics
        )
        assert client.send(commit, 7).topics[0].partitions[0].error_code == ErrorCode.NONE
    machine.stop()
    path = f"/data/{OFFSETS_TOPIC}-{shard(machine)}/00000000000000000000.log"
    machine.disk.flip(path, at)
    machine.start()
    client = machine.client()
    assert f"the groups stored in {OFFSETS_TOPIC}-{shard(machine)} are not served: {path}" in caplog.text
    assert client.send(find(G), 2).error_code == ErrorCode.NONE
    ask = [client.send(OffsetFetchRequest(group_id=name, topics=None), 5) for name in (G, other)]
    assert [one.error_code for one in ask] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]
    assert ask[1].topics[0].partitions[0].committed_offset == 5
    assert machine.halted == []


def shard(machine: Machine) -> int:
    return machine.broker.coordinators.groups.partition_of(G).partition


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_a_clock_that_jumps_by_an_hour_deletes_nothing_that_is_younger_than_its_retention(
    jump_ms: int,
) -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t", segment_bytes="200", retention_ms="7200000")
    for _ in range(4):
        produce(client, "t", batch("x" * 90, at=machine.now_ms))
    machine.wall_offset_ms = jump_ms
    for _ in range(3):
        machine.pass_time(300_000)
    log = machine.broker.partitions[TopicPartition("t", 0)].log
    assert (log.log_start_offset, log.log_end_offset) == (0, 4)


def test_a_disk_that_is_slow_to_sync_makes_its_own_producers_wait_and_nobody_else() -> None:
    machine = Machine()
    clients = [machine.client() for _ in range(5)]
    create(clients[0], "slow", flush_messages="1")
    create(clients[0], "quick")
    machine.hold(SyncLog)
    waiting = [client.ask(to("slow", batch(str(n))), BY_NAME) for n, client in enumerate(clients[:4])]
    syncs = [one.log.topic_partition.topic for one in machine.held]
    assert syncs.count("slow") == 1, "one sync at a time; what comes meanwhile waits for the next"
    assert produce(clients[4], "quick").error_code == ErrorCode.NONE
    assert values(fetch(clients[4], "slow")) == [], "what is not synced is not shown"
    machine.release(still_hold=True)
    assert [one.answer is not None for one in waiting] == [True, False, False, False]
    machine.release()
    assert all(one.answer.responses[0].partition_responses[0].error_code == 0 for one in waiting)
    assert values(fetch(clients[4], "slow")) == ["0", "1", "2", "3"]
