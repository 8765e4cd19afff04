"""While a partition of __consumer_offsets is being loaded, its groups are here and not answered."""

import errno
from collections.abc import Generator
from typing import Any

import pytest
from tests.api.asking import create
from tests.api.groups import broker, committed, lead_offsets
from tests.api.harness import OTHER_BROKER, Client, Machine
from tests.support.groups import (
    G,
    beating,
    codes,
    committing,
    consuming,
    deleting_offsets,
    describing,
    fetching,
    find,
    joining,
    leaving,
    syncing,
)

from ottla.api.call import Call
from ottla.api.list_groups import list_groups
from ottla.base.errors import ErrorCode
from ottla.broker.long_work import finished
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.list_groups import ListGroupsRequest

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
COMMITS = 10


def loading(**properties: str) -> tuple[Machine, Client]:
    """A broker that became the coordinator of a group with ten commits, and has replayed three of them."""
    machine, client, _ = broker(offsets_topic_num_partitions="1", **properties)
    for offset in range(COMMITS):
        client.send(committing(offset), 9)
    lead_offsets(machine, leader=OTHER_BROKER, epoch=1)
    coordinator = machine.broker.coordinators.groups.runtime
    coordinator.slice_work = 3
    coordinator.on_tick(machine.now_ms)
    lead_offsets(machine, leader=machine.broker.id, epoch=2)
    return machine, client


def finish(machine: Machine) -> None:
    while machine.broker.coordinators.groups.runtime.loading:
        due_ms = machine.broker.next_deadline_ms()
        assert due_ms is not None
        assert due_ms <= machine.now_ms, "the loop comes back for the next slice at once"
        machine.broker.on_deadline(machine.now_ms)
        machine.carry_out()


@pytest.mark.parametrize(
    "request_",
    [
        joining(),
        syncing("m", 1),
        beating("m", 1),
        leaving("m"),
        consuming("m", 0),
        deleting_offsets("t", 0),
        ListGroupsRequest(),
    ],
    ids=lambda request: type(request).__name__,
)
def test_every_request_of_a_member_is_refused_for_now(request_: Any) -> None:
    machine, client = loading()
    assert client.send(request_).error_code == LOADING
    finish(machine)
    assert client.send(request_).error_code != LOADING


def test_offsets_are_neither_told_nor_taken_until_all_of_them_are_known() -> None:
    machine, client = loading()
    assert codes(client.send(committing(99), 9)) == [LOADING]
    assert client.send(fetching(0), 7).error_code == LOADING
    finish(machine)
    assert committed(client) == COMMITS - 1
    assert codes(client.send(committing(COMMITS), 9)) == [ErrorCode.NONE]


def test_groups_are_neither_described_nor_deleted() -> None:
    machine, client = loading()
    assert client.send(DescribeGroupsRequest(groups=[G])).groups[0].error_code == LOADING
    assert client.send(describing(G)).groups[0].error_code == LOADING
    assert client.send(DeleteGroupsRequest(groups_names=[G])).results[0].error_code == LOADING
    finish(machine)
    assert client.send(DescribeGroupsRequest(groups=[G])).groups[0].error_code == ErrorCode.NONE
    assert [group.group_id for group in client.send(ListGroupsRequest()).groups] == [G]


def half_loaded() -> tuple[Machine, str, str]:
    """A broker that has loaded one of two shards of the offsets topic; a group of each, that one's first."""
    machine, client, _ = broker(offsets_topic_num_partitions="2")
    coordinator = machine.broker.coordinators.groups
    names = [f"group-{number}" for number in range(20)]
    short, long = (
        next(name for name in names if coordinator.partition_of(name).partition == at) for at in (0, 1)
    )
    client.send(committing(0, group=short), 9)
    for offset in range(COMMITS):
        client.send(committing(offset, group=long), 9)
    lead_offsets(machine, leader=OTHER_BROKER, epoch=1)
    coordinator.runtime.slice_work = 3
    coordinator.runtime.on_tick(machine.now_ms)
    lead_offsets(machine, leader=machine.broker.id, epoch=2)
    assert (list(coordinator.runtime.shards), list(coordinator.runtime.loading)) == ([0], [1])
    return machine, short, long


def test_a_shard_that_is_loaded_while_others_are_listed_is_not_left_out_in_silence() -> None:
    machine, short, _ = half_loaded()
    steps = list_groups(Call(machine.broker, machine.now_ms, 5, "a client"), ListGroupsRequest())
    assert isinstance(steps, Generator)
    next(steps)
    next(steps)  # in the middle of the groups that were there when it began
    finish(machine)
    answer = finished(steps)
    assert [group.group_id for group in answer.groups] == [short]
    assert answer.error_code == LOADING


def test_a_shard_that_is_loaded_while_the_list_waits_for_its_turn_is_listed() -> None:
    machine, short, long = half_loaded()
    steps = list_groups(Call(machine.broker, machine.now_ms, 5, "a client"), ListGroupsRequest())
    assert isinstance(steps, Generator)
    next(steps)
    finish(machine)
    answer = finished(steps)
    assert [group.group_id for group in answer.groups] == [short, long]
    assert answer.error_code == ErrorCode.NONE


def test_who_coordinates_is_told_all_the_same() -> None:
    machine, client = loading()
    answer = client.send(find(G), 2)
    assert (answer.error_code, answer.node_id) == (ErrorCode.NONE, machine.broker.id)


def test_leadership_may_go_and_come_back_in_the_middle() -> None:
    machine, client = loading()
    lead_offsets(machine, leader=OTHER_BROKER, epoch=3)
    assert codes(client.send(committing(99), 9)) == [ErrorCode.NOT_COORDINATOR]
    lead_offsets(machine, leader=machine.broker.id, epoch=4)
    assert codes(client.send(committing(99), 9)) == [LOADING]
    finish(machine)
    assert committed(client) == COMMITS - 1


def test_the_disk_may_fail_in_the_middle() -> None:
    machine, client = loading(log_dirs="/a,/b")
    directory = machine.broker.store.directory_of(machine.broker.coordinators.groups.partition_of(G))
    machine.disk.break_down(directory, errno.EIO)
    machine.broker.on_directory_failed(directory, "it burns", machine.now_ms)
    machine.carry_out()
    assert codes(client.send(committing(99), 9)) == [ErrorCode.NOT_COORDINATOR]
    assert not machine.broker.coordinators.groups.runtime.loading
    assert machine.halted == []


def test_a_topic_deleted_in_the_middle_leaves_no_offsets_to_one_that_gets_its_name() -> None:
    machine, client = loading()
    client.send(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    finish(machine)
    create(client, "t", partitions=2)
    assert committed(client) == -1
