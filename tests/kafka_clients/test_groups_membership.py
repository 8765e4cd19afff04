"""Who is in a group, and who reads what: joining, leaving, static and idle members, in both protocols."""

from collections.abc import Callable

import pytest
from tests.kafka_clients.groups_harness import (
    SHORT_SESSIONS,
    Join,
    everything,
    numbered,
    produce,
    wait_members,
    wait_shared,
    wait_stable,
    wait_values,
)
from tests.kafka_clients.groups_members import CLIENTS
from tests.kafka_clients.harness import BrokerProcess, wait_for

pytest_plugins = ["tests.kafka_clients.groups_fixtures"]

ALL = pytest.mark.parametrize("client", CLIENTS)


@ALL
def test_in_a_group_each_message_goes_to_one_member(
    client: str, join: Join, groups_broker: BrokerProcess, topic: str
) -> None:
    whole = everything(groups_broker.create_topic(topic, 6), 6)
    members = [join(client, topic) for _ in range(3)]
    wait_shared(members, whole, [2, 2, 2])
    sent = produce(groups_broker, topic, numbered(300), 6)
    wait_values(members, sent)
    assert sorted(value for member in members for value in member.values()) == sorted(sent)
    for member in members:
        assert {(one.topic, one.partition) for one in member.received} == member.assigned


@ALL
def test_members_come_and_go_and_nothing_is_missed(
    client: str, join: Join, groups_broker: BrokerProcess, topic: str, group: str
) -> None:
    whole = everything(groups_broker.create_topic(topic, 4), 4)
    first = join(client, topic, auto_commit=True)
    wait_shared([first], whole, [4])
    sent = produce(groups_broker, topic, numbered(40, "a"), 4)
    wait_values([first], sent)
    second = join(client, topic, auto_commit=True)
    wait_shared([first, second], whole, [2, 2])
    sent += produce(groups_broker, topic, numbered(40, "b"), 4)
    wait_values([first, second], sent)
    third = join(client, topic, auto_commit=True)
    wait_shared([first, second, third], whole, [1, 1, 2])
    first.close()
    wait_shared([second, third], whole, [2, 2])
    sent += produce(groups_broker, topic, numbered(40, "c"), 4)
    wait_values([first, second, third], sent)
    second.close()
    wait_shared([third], whole, [4])
    wait_stable(groups_broker, group)


@ALL
def test_many_groups_each_get_everything(
    client: str, join: Join, groups_broker: BrokerProcess, topic: str, group: str
) -> None:
    whole = everything(groups_broker.create_topic(topic, 4), 4)
    groups = [[join(client, topic, group=f"{group}-{name}") for _ in range(2)] for name in "ab"]
    for members in groups:
        wait_shared(members, whole, [2, 2])
    sent = produce(groups_broker, topic, numbered(100), 4)
    for members in groups:
        wait_values(members, sent)
        assert sorted(value for member in members for value in member.values()) == sorted(sent)


@ALL
def test_members_beyond_the_partitions_idle_until_one_is_free(
    client: str, join: Join, groups_broker: BrokerProcess, topic: str, group: str
) -> None:
    whole = everything(groups_broker.create_topic(topic, 2), 2)
    members = [join(client, topic) for _ in range(4)]
    wait_members(groups_broker, group, 4)
    wait_shared(members, whole, [0, 0, 1, 1])
    sent = produce(groups_broker, topic, numbered(20), 2)
    wait_values(members, sent)
    busy = [member for member in members if member.assigned]
    idle = [member for member in members if not member.assigned]
    assert [member.received for member in idle] == [[], []]
    for member in busy:
        member.close()
    wait_shared(idle, whole, [1, 1])
    wait_values(idle, produce(groups_broker, topic, numbered(20, "later"), 2))


@pytest.mark.parametrize("client", ["classic", "python", "modern"])
def test_a_cooperative_rebalance_takes_only_what_moves(
    client: str, join: Join, groups_broker: BrokerProcess, topic: str
) -> None:
    whole = everything(groups_broker.create_topic(topic, 6), 6)
    first = join(client, topic, cooperative=True)
    wait_shared([first], whole, [6])
    second = join(client, topic, cooperative=True)
    wait_shared([first, second], whole, [3, 3])
    assert first.revoked() == [second.assigned]
    third = join(client, topic, cooperative=True)
    wait_shared([first, second, third], whole, [2, 2, 2])
    assert frozenset().union(first.revoked()[-1], second.revoked()[-1]) == third.assigned
    third.close()
    wait_shared([first, second], whole, [3, 3])
    assert len(first.revoked()) == 2


@ALL
def test_a_static_member_that_restarts_gets_its_partitions_back_and_nobody_else_notices(
    client: str, join: Join, groups_broker: BrokerProcess, topic: str, group: str
) -> None:
    whole = everything(groups_broker.create_topic(topic, 4), 4)
    stays = join(client, topic, instance="one")
    restarts = join(client, topic, instance="two")
    wait_shared([stays, restarts], whole, [2, 2])
    wait_stable(groups_broker, group)
    seen = len(stays.rebalances)
    had = restarts.assigned
    restarts.close()
    back = join(client, topic, instance="two")
    wait_for(lambda: back.assigned or back.failure, 20, "the member to be back")
    assert back.assigned == had
    wait_values([stays, back], produce(groups_broker, topic, numbered(40), 4))
    assert stays.rebalances[seen:] == []


@ALL
def test_a_static_member_that_stays_away_is_replaced(
    client: str, join: Join, start_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = start_broker(SHORT_SESSIONS)
    whole = everything(broker.create_topic(topic, 2), 2)
    stays = join(client, topic, at=broker)
    leaves = join(client, topic, at=broker, instance="gone", session_ms=1000)
    wait_shared([stays, leaves], whole, [1, 1])
    leaves.close()
    wait_shared([stays], whole, [2])
