"""What groups go through is counted, and the log says why they rebalance and how long that took."""

import logging

import pytest
from tests.api.groups import broker, lead_offsets, stable
from tests.api.harness import Client, Machine
from tests.support.groups import G, committing, consuming, deleting_offsets, joining, leaving, syncing

from ottla.base.errors import ErrorCode
from ottla.broker.group_activity import GroupActivity
from ottla.group.events import MemberReconciled
from ottla.group.group import Group
from ottla.wire.messages.consumer_group_heartbeat import TopicPartitions


@pytest.fixture(autouse=True)
def at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.broker.group_activity")


def activity(machine: Machine) -> GroupActivity:
    return machine.broker.coordinators.groups.activity


def consume(client: Client, member: str, epoch: int, topic_id: bytes, *owned: int) -> int:
    """The epoch that a heartbeat is answered with."""
    has = [TopicPartitions(topic_id=topic_id, partitions=list(owned))] if owned else []
    answer = client.send(consuming(member, epoch, has))
    assert answer.error_code == 0
    return int(answer.member_epoch)


def test_each_offset_that_is_committed_counts_and_none_that_is_refused() -> None:
    machine, client, _ = broker()
    client.send(committing(5, partitions=(0, 1)), 9)
    client.send(committing(6), 9)
    refused = client.send(committing(7, member="nobody", epoch=3), 9)
    assert refused.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert activity(machine).offsets_committed == 3


def test_offsets_that_an_administrator_deletes_count_apart_from_those_that_expire() -> None:
    machine, client, _ = broker(offsets_retention_minutes="1")
    client.send(committing(5, partitions=(0, 1)), 9)
    client.send(deleting_offsets("t", 0))
    client.send(deleting_offsets("t", 0))
    assert (activity(machine).offsets_deleted, activity(machine).offsets_expired) == (1, 0)
    for _ in range(3):
        machine.pass_time(600_000)
    assert (activity(machine).offsets_deleted, activity(machine).offsets_expired) == (1, 1)


def test_a_classic_group_that_rebalances_says_why_and_how_long_it_took(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine, client, _ = broker()
    member = stable(machine, client)
    assert caplog.messages == [
        f"group 'readers' rebalances: member {member!r} joined (generation 0)",
        "group 'readers' is stable after 3.000 s: generation 1, members 1",
    ]
    assert [record.__dict__["fields"] for record in caplog.records] == [
        {"group": G, "generation": 0, "reason": f"member {member!r} joined"},
        {"group": G, "generation": 1, "members": 1, "took_ms": 3_000},
    ]
    assert activity(machine).classic_rebalances == 1


def test_the_reason_that_a_client_gives_is_in_the_line_and_on_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine, client, _ = broker()
    member = stable(machine, client)
    again = machine.client().ask(joining(member, reason="rebalance enforced\nby its user"))
    assert again.answer.generation_id == 2
    assert caplog.messages[2] == (
        f"group 'readers' rebalances: member {member!r} joined again as the leader: "
        "'rebalance enforced\\nby its user' (generation 1)"
    )


def test_a_classic_group_that_begins_again_is_timed_from_the_first_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine, client, _ = broker()
    member = stable(machine, client)
    client.send(joining(member))
    machine.pass_time(1_500)
    other = machine.client()
    other_id = other.send(joining()).member_id
    other.ask(joining(other_id))
    joined = client.send(joining(member))
    machine.pass_time(500)
    client.send(syncing(member, joined.generation_id, {member: b"", other_id: b""}))
    assert caplog.messages[-1] == "group 'readers' is stable after 2.000 s: generation 3, members 2"
    assert activity(machine).classic_rebalances == 2


def test_a_classic_group_that_everybody_left_is_empty_and_that_is_no_completed_rebalance(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine, client, _ = broker()
    member = stable(machine, client)
    client.send(leaving(member))
    assert caplog.messages[2:] == [
        f"group 'readers' rebalances: member {member!r} left (generation 1)",
        "group 'readers' is empty after 0.000 s",
    ]
    assert activity(machine).classic_rebalances == 1


def test_nobody_leaves_and_a_group_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    machine, client, _ = broker()
    member = client.send(joining()).member_id
    client.ask(joining(member))
    assert machine.client().send(leaving()).error_code == 0
    assert len(caplog.messages) == 1


def test_a_consumer_group_is_stable_when_its_last_member_has_what_it_is_to_have(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine, client, topic_id = broker()
    epoch = consume(client, "a", 0, topic_id)
    assert caplog.messages == [
        "group 'readers' rebalances: member 'a' joined (generation 0)",
        f"group 'readers' is stable after 0.000 s: generation {epoch}, members 1",
    ]
    consume(client, "b", 0, topic_id)
    machine.pass_time(250)
    consume(client, "a", epoch, topic_id, 0, 1)
    machine.pass_time(250)
    assert len(caplog.messages) == 3, "what the first has is yet to be given up"
    epoch = consume(client, "a", epoch, topic_id, 0)
    machine.pass_time(250)
    assert len(caplog.messages) == 3, "and the second does not have it yet"
    consume(client, "b", epoch, topic_id)
    assert caplog.messages[2:] == [
        "group 'readers' rebalances: member 'b' joined (generation 1)",
        "group 'readers' is stable after 0.750 s: generation 2, members 2",
    ]
    assert activity(machine).consumer_rebalances == 2


def test_a_consumer_group_says_who_left_or_was_lost_and_that_nobody_is_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine, client, topic_id = broker()
    consume(client, "a", 0, topic_id)
    consume(client, "b", 0, topic_id)
    caplog.clear()
    client.send(consuming("b", -1))
    assert caplog.messages == ["group 'readers' rebalances: member 'b' left (generation 2)"]
    for _ in range(8):
        machine.pass_time(12_000)
    lost = "member 'a' was not heard of for its session timeout"
    assert caplog.messages[1] == f"group 'readers' rebalances: {lost} (generation 3)"
    assert caplog.messages[2].startswith("group 'readers' is empty after ")
    assert activity(machine).consumer_rebalances == 2, "as in Kafka, only what members bring about counts"


def test_a_rebalance_that_another_coordinator_goes_on_with_leaves_nothing_here() -> None:
    machine, client, _ = broker()
    client.ask(joining(client.send(joining()).member_id))
    assert activity(machine)._begun_ms
    lead_offsets(machine, leader=2, epoch=1, isr=(2,))
    assert not activity(machine)._begun_ms


def test_a_group_that_is_gone_when_its_member_is_reconciled_ends_nothing() -> None:
    groups: dict[str, Group] = {}
    told = GroupActivity(lambda _shard, group_id: groups.get(group_id))
    told._begun_ms[0] = {G: 1}
    told.on_event(0, MemberReconciled(G), 5)
    assert told._begun_ms == {0: {G: 1}}
