"""Answers of groups wait: for other members, and for what they rest on to be committed."""

import pytest
from tests.api.asking import ask_for_two_in_sync
from tests.api.groups import broker, flush_every_commit, lead_offsets, shard_of, stable
from tests.support.groups import (
    G,
    beating,
    committing,
    consuming,
    deleting_offsets,
    joining,
    leaving,
    syncing,
)

from ottla.base.errors import ErrorCode
from ottla.base.ids import OFFSETS_TOPIC
from ottla.broker.effects import SyncLog
from ottla.controller import znodes
from ottla.controller.keeper import Delete, Put
from ottla.wire.messages.delete_groups import DeleteGroupsRequest


def test_a_join_waits_for_the_others_and_all_are_answered_together() -> None:
    machine, one, _ = broker()
    two = machine.client()
    ids = [client.send(joining()).member_id for client in (one, two)]
    pending = [client.ask(joining(member)) for client, member in zip((one, two), ids, strict=True)]
    machine.pass_time(3_000)
    assert [each.answer for each in pending] == [None, None], "somebody came, so it waits once more"
    machine.pass_time(3_000)
    assert {each.answer.generation_id for each in pending} == {1}
    assert {each.answer.leader for each in pending} == {ids[0]}
    assert [len(each.answer.members) for each in pending] == [2, 0]


def test_a_follower_s_sync_waits_for_the_leader_s() -> None:
    machine, one, _ = broker()
    two = machine.client()
    ids = [client.send(joining()).member_id for client in (one, two)]
    for client, member in zip((one, two), ids, strict=True):
        client.ask(joining(member))
    machine.pass_time(3_000)
    machine.pass_time(3_000)
    follower = two.ask(syncing(ids[1], 1))
    assert follower.answer is None
    assert one.send(syncing(ids[0], 1, {ids[0]: b"one", ids[1]: b"two"})).assignment == b"one"
    assert follower.answer.assignment == b"two"


def test_a_client_that_hangs_up_while_it_waits_is_answered_by_nobody() -> None:
    machine, client, _ = broker()
    member = client.send(joining()).member_id
    client.ask(joining(member))
    client.close()
    machine.pass_time(3_000)
    assert shard_of(machine).groups[G].generation.number == 1


def test_an_assignment_is_told_only_once_it_is_safe() -> None:
    machine, client, _ = broker()
    member = client.send(joining()).member_id
    joined = client.ask(joining(member))
    machine.pass_time(3_000)
    assert joined.answer is not None
    flush_every_commit(machine)
    machine.hold(SyncLog)
    synced = client.ask(syncing(member, 1, {member: b"mine"}))
    assert synced.answer is None
    machine.release()
    assert synced.answer.assignment == b"mine"


def test_a_join_whose_generation_rests_on_something_not_safe_waits_for_that() -> None:
    machine, client, _ = broker()
    member = stable(machine, client)
    flush_every_commit(machine)
    machine.hold(SyncLog)
    machine.client().ask(committing(5, member=member, epoch=1), 9)
    again = client.ask(joining(member))
    assert again.answer is None
    machine.release()
    assert again.answer.generation_id == 2


def test_heartbeats_of_both_protocols_wait_for_what_they_rest_on_but_not_for_ever() -> None:
    machine, client, _ = broker()
    member = stable(machine, client)
    client.send(consuming("m", 0, group="readers too"))
    flush_every_commit(machine)
    machine.hold(SyncLog)
    for group, who, epoch in ((G, member, 1), ("readers too", "m", 1)):
        machine.client().ask(committing(5, group=group, member=who, epoch=epoch), 9)
    classic = client.ask(beating(member, 1))
    other = machine.client()
    consumer = other.ask(consuming("m", 1, group="readers too"))
    third = machine.client()
    left = third.ask(leaving(member))
    assert [one.answer for one in (classic, consumer, left)] == [None, None, None]
    machine.pass_time(5_000)
    for pending in (classic, consumer, left):
        assert pending.answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_new_consumer_s_first_assignment_is_told_only_once_it_is_safe() -> None:
    machine, client, _ = broker()
    flush_every_commit(machine)
    machine.hold(SyncLog)
    pending = client.ask(consuming("m", 0))
    assert pending.answer is None
    machine.release()
    assert pending.answer.member_epoch == 1


def test_a_deletion_of_several_groups_waits_for_all_their_shards() -> None:
    machine, client, _ = broker()
    names = [f"group {number}" for number in range(6)]
    for name in names:
        client.send(committing(1, group=name), 9)
    assert len({machine.broker.coordinators.groups.partition_of(name) for name in names}) > 1
    flush_every_commit(machine)
    machine.hold(SyncLog)
    pending = client.ask(DeleteGroupsRequest(groups_names=[*names, "none"]))
    assert pending.answer is None
    first, *rest = machine.held
    machine.held = [first]
    machine.release(still_hold=True)
    assert pending.answer is None
    machine.held = rest + machine.held
    machine.release()
    assert [one.error_code for one in pending.answer.results] == [0] * 6 + [ErrorCode.GROUP_ID_NOT_FOUND]


def test_a_deletion_that_does_not_become_safe_in_time_is_not_known_to_have_happened() -> None:
    machine, client, _ = broker()
    client.send(committing(1), 9)
    flush_every_commit(machine)
    machine.hold(SyncLog)
    pending = client.ask(DeleteGroupsRequest(groups_names=["none", G]))
    machine.pass_time(5_000)
    assert [one.error_code for one in pending.answer.results] == [
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ]


def test_a_deletion_of_offsets_waits_too() -> None:
    machine, client, _ = broker()
    client.send(committing(1), 9)
    flush_every_commit(machine)
    machine.hold(SyncLog)
    pending = client.ask(deleting_offsets("t", 0))
    assert pending.answer is None
    machine.pass_time(5_000)
    assert pending.answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_whoever_waits_when_the_topic_of_the_offsets_goes_is_told_to_look_again() -> None:
    machine, client, _ = broker()
    member = client.send(joining()).member_id
    joined = client.ask(joining(member))
    machine.write(Delete(znodes.topic_path(OFFSETS_TOPIC)), Delete(znodes.topic_config_path(OFFSETS_TOPIC)))
    assert joined.answer.error_code == ErrorCode.NOT_COORDINATOR


def test_a_broker_that_ticks_while_nothing_can_be_stored_goes_on() -> None:
    machine, client, _ = broker()
    stable(machine, client)
    ask_for_two_in_sync(machine, OFFSETS_TOPIC)
    machine.pass_time(700_000)
    assert machine.halted == []
    path = znodes.topic_config_path(OFFSETS_TOPIC)
    machine.write(Put(path, znodes.config_node({"min.insync.replicas": "1"})))
    machine.pass_time(700_000)
    assert client.send(joining()).error_code == ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize("leader", [1, 2])
def test_whoever_waits_when_leadership_moves_on_is_told_to_look_again(leader: int) -> None:
    """Also if it comes back to this broker: the shard that would answer is another one then."""
    machine, client, _ = broker()
    member = client.send(joining()).member_id
    joined = client.ask(joining(member))
    lead_offsets(machine, leader=leader, epoch=1)
    machine.broker.waiting.wake(machine.broker.coordinators.groups.partition_of(G), machine.now_ms)
    machine.carry_out()
    assert joined.answer.error_code == ErrorCode.NOT_COORDINATOR
