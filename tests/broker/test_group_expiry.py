"""Offsets that expire, by the time of day, or go with their topic or group: also many megabytes of them."""

import pytest
from tests.api.asking import create
from tests.api.harness import Client, Machine
from tests.support.groups import groups_of

from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

LONG, INNOCENT = "g" * 30_000, "innocent"
PARTITIONS = 40
HOUR_MS = 3_600_000


def commit(client: Client, group_id: str, partition: int) -> None:
    one = OffsetCommitRequestPartition(partition_index=partition, committed_offset=7)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[one])]
    answer = client.send(OffsetCommitRequest(group_id=group_id, member_id="", topics=topics), 5)
    assert answer.topics[0].partitions[0].error_code == 0


@pytest.fixture
def machine() -> Machine:
    machine = Machine({"offsets.topic.num.partitions": "1", "offsets.retention.minutes": "1"})
    client = machine.client()
    client.send(FindCoordinatorRequest(key="g"), 2)
    create(client, "t", PARTITIONS)
    for partition in range(PARTITIONS):
        commit(client, LONG, partition)
    commit(client, INNOCENT, 0)
    return machine


def groups(machine: Machine) -> list[str]:
    return [group_id for _, shard in machine.broker.coordinators.groups.shards() for group_id in shard.groups]


def test_they_expire(machine: Machine) -> None:
    machine.pass_time(HOUR_MS)
    assert groups(machine) == []
    machine.restart()
    assert groups(machine) == []


def test_they_go_with_their_topic(machine: Machine) -> None:
    machine.client().send(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    machine.pass_time(100)
    (shard,) = (shard for _, shard in machine.broker.coordinators.groups.shards())
    assert groups_of(shard.offsets) == []


def test_they_go_with_their_group(machine: Machine) -> None:
    (result,) = machine.client().send(DeleteGroupsRequest(groups_names=[LONG])).results
    assert result.error_code == 0
    assert groups(machine) == [INNOCENT]


def test_one_that_is_too_large_even_alone_does_not_hold_up_the_others(machine: Machine) -> None:
    partition = machine.broker.coordinators.groups.partition_of(LONG)
    machine.broker.partitions[partition].log._validator._max_bytes = 20_000  # somebody has lowered it
    machine.pass_time(HOUR_MS)
    assert groups(machine) == [LONG]


# The time of day

DAY_MS, CHECK_MS = 24 * HOUR_MS, 600_000


def a_day_apart(wall_offset_ms: int) -> Machine:
    """The machine's clock was set while the broker ran: its own is that much off. Offsets are kept a day."""
    machine = Machine({"offsets.topic.num.partitions": "1", "offsets.retention.minutes": "1440"})
    client = machine.client()
    client.send(FindCoordinatorRequest(key="g"), 2)
    create(client, "t", 1)
    machine.wall_offset_ms = wall_offset_ms
    machine.pass_time(1)
    commit(machine.client(), INNOCENT, 0)
    return machine


def start_again(machine: Machine) -> None:
    """The clock of a broker that starts shows the time of day."""
    machine.stop()
    machine.now_ms += machine.wall_offset_ms
    machine.wall_offset_ms = 0
    machine.start()


@pytest.mark.parametrize("wall_offset_ms", [7 * DAY_MS, -7 * DAY_MS])
def test_a_restart_with_another_steady_clock_expires_nothing_early_or_late(
    wall_offset_ms: int,
) -> None:
    machine = a_day_apart(wall_offset_ms)
    start_again(machine)
    machine.pass_time(DAY_MS - 2 * CHECK_MS)
    assert groups(machine) == [INNOCENT]
    machine.pass_time(3 * CHECK_MS)
    assert groups(machine) == []


def test_a_clock_that_is_set_while_the_broker_runs_counts_for_what_is_stored() -> None:
    machine = a_day_apart(0)
    machine.wall_offset_ms = DAY_MS
    machine.pass_time(1)
    assert groups(machine) == [INNOCENT], "nobody has looked yet"
    machine.pass_time(CHECK_MS)
    assert groups(machine) == []
