"""A broker that stops, or is killed, and its groups: members carry on, offsets are there."""

import pytest
from tests.api.groups import broker, committed, flush_every_commit, lead_offsets, stable
from tests.api.harness import Machine
from tests.log.simdisk import page_cache, power_loss
from tests.support.groups import G, beating, codes, committing, consuming, joining, leaving, syncing

from ottla.base.errors import ErrorCode
from ottla.broker.effects import SyncLog
from ottla.wire.messages.consumer_group_heartbeat import TopicPartitions
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.list_groups import ListGroupsRequest

HOWS = ["stopped", "killed"]


def again(machine: Machine, how: str) -> None:
    if how == "stopped":
        machine.restart()
    else:
        machine.crash(page_cache)


@pytest.mark.parametrize("how", HOWS)
def test_committed_offsets_are_there_again(how: str) -> None:
    machine, client, _ = broker()
    client.send(committing(5, metadata="note"), 9)
    client.send(committing(6), 9)
    client.send(committing(7, group="other", partitions=(1,)), 9)
    again(machine, how)
    client = machine.client()
    assert (committed(client), committed(client, "other", 1), committed(client, "other")) == (6, 7, -1)


@pytest.mark.parametrize("how", HOWS)
def test_members_of_a_classic_group_carry_on_with_their_generation_and_assignment(how: str) -> None:
    machine, client, _ = broker()
    member = stable(machine, client)
    client.send(committing(5, member=member, epoch=1), 9)
    again(machine, how)
    client = machine.client()
    assert client.send(beating(member, 1)).error_code == ErrorCode.NONE
    assert client.send(syncing(member, 1)).assignment == b"all of it"
    assert codes(client.send(committing(6, member=member, epoch=1), 9)) == [ErrorCode.NONE]
    (group,) = client.send(DescribeGroupsRequest(groups=[G])).groups
    assert (group.group_state, [one.member_id for one in group.members]) == ("Stable", [member])
    assert committed(client) == 6


@pytest.mark.parametrize("how", HOWS)
def test_members_of_a_consumer_group_carry_on_with_their_epoch(how: str) -> None:
    machine, client, topic_id = broker()
    client.send(consuming("m", 0))
    client.send(committing(5, member="m", epoch=1), 9)
    again(machine, how)
    client = machine.client()
    owned = [TopicPartitions(topic_id=topic_id, partitions=[0, 1])]
    answer = client.send(consuming("m", 1, owned))
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, 1, None)
    assert codes(client.send(committing(6, member="m", epoch=1), 9)) == [ErrorCode.NONE]
    assert committed(client) == 6


@pytest.mark.parametrize("how", HOWS)
def test_a_generation_that_was_not_complete_is_forgotten_and_its_members_join_again(how: str) -> None:
    machine, client, _ = broker()
    member = client.send(joining()).member_id
    client.ask(joining(member))
    machine.pass_time(3_000)
    again(machine, how)
    client = machine.client()
    assert client.send(syncing(member, 1, {member: b"x"})).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert stable(machine, client)


@pytest.mark.parametrize("how", HOWS)
def test_deleted_groups_stay_deleted(how: str) -> None:
    machine, client, _ = broker()
    client.send(committing(5), 9)
    member = stable(machine, client, "classic")
    client.send(leaving(member, group="classic"))
    client.send(consuming("m", 0, group="consumer"))
    client.send(consuming("m", -1, group="consumer"))
    names = [G, "classic", "consumer"]
    results = client.send(DeleteGroupsRequest(groups_names=names)).results
    assert [one.error_code for one in results] == [0, 0, 0]
    again(machine, how)
    assert machine.client().send(ListGroupsRequest()).groups == []


def test_a_static_member_restarted_with_its_broker_keeps_its_place() -> None:
    machine, client, _ = broker()
    joined = client.ask(joining(instance="i"))
    machine.pass_time(3_000)
    old = joined.answer.member_id
    client.send(syncing(old, 1, {old: b"mine"}, group_instance_id="i"))
    machine.crash()
    client = machine.client()
    back = client.send(joining(instance="i"))
    assert (back.generation_id, back.leader == back.member_id, back.skip_assignment) == (1, True, True)
    answer = client.send(syncing(back.member_id, 1, group_instance_id="i"))
    assert answer.assignment == b"mine"
    fenced = client.send(beating(old, 1, instance="i"))
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_group_that_was_converted_is_what_it_became() -> None:
    machine, client, _ = broker()
    member = stable(machine, client)
    refused = client.send(consuming("m", 0))
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND, "its assignment is not a consumer's"
    rejoined = client.send(joining(member))
    nothing = b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    client.send(syncing(member, rejoined.generation_id, {member: nothing}))
    assert client.send(consuming("m", 0)).error_code == ErrorCode.NONE
    machine.crash()
    client = machine.client()
    (listed,) = client.send(ListGroupsRequest()).groups
    assert (listed.group_id, listed.group_type) == (G, "Consumer")
    assert client.send(beating(member, 2)).error_code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("keep", [page_cache, power_loss])
def test_what_was_acknowledged_with_flush_messages_1_survives_anything(keep: object) -> None:
    machine, client, _ = broker()
    flush_every_commit(machine)
    member = stable(machine, client)
    assert codes(client.send(committing(5, member=member, epoch=1), 9)) == [ErrorCode.NONE]
    machine.hold(SyncLog)
    pending = client.ask(committing(6, member=member, epoch=1), 9)
    assert pending.answer is None
    machine.crash(keep)  # type: ignore[arg-type]
    client = machine.client()
    assert committed(client) == (6 if keep is page_cache else 5)
    assert client.send(beating(member, 1)).error_code == ErrorCode.NONE


def test_leadership_that_goes_and_comes_back_loads_the_groups_again() -> None:
    machine, client, _ = broker()
    member = stable(machine, client)
    client.send(committing(5, member=member, epoch=1), 9)
    lead_offsets(machine, leader=2, epoch=1)
    assert client.send(beating(member, 1)).error_code == ErrorCode.NOT_COORDINATOR
    lead_offsets(machine, leader=1, epoch=2)
    assert client.send(beating(member, 1)).error_code == ErrorCode.NONE
    assert committed(client) == 5


def test_many_restarts_and_many_groups_lose_nothing() -> None:
    machine, client, _ = broker()
    for number in range(4):
        for group in range(6):
            client.send(committing(number * 10 + group, group=f"g{group}"), 9)
        again(machine, HOWS[number % 2])
        client = machine.client()
    assert [committed(client, f"g{group}") for group in range(6)] == [30, 31, 32, 33, 34, 35]
