"""A group moves from the classic protocol to the new one and back while its members are live (KIP-848)."""

import pytest
from confluent_kafka import ConsumerGroupType
from tests.kafka_clients.groups_harness import Join, Stream, everything, wait_shared, wait_stable, wait_values
from tests.kafka_clients.groups_members import Member
from tests.kafka_clients.harness import BrokerProcess, wait_for

pytest_plugins = ["tests.kafka_clients.groups_fixtures"]

PARTITIONS = 6

pytestmark = pytest.mark.timeout(300)


def type_of(broker: BrokerProcess, group: str) -> ConsumerGroupType:
    found = broker.admin.list_consumer_groups().result(30).valid
    (one,) = [each for each in found if each.group_id == group]
    return one.type


@pytest.mark.parametrize(
    ("client", "cooperative"),
    [("classic", False), ("classic", True), ("python", True), ("python", False), ("aio", False)],
)
def test_a_group_is_upgraded_and_downgraded_while_it_reads(
    client: str, cooperative: bool, join: Join, groups_broker: BrokerProcess, topic: str, group: str
) -> None:
    whole = everything(groups_broker.create_topic(topic, PARTITIONS), PARTITIONS)

    def old() -> Member:
        return join(client, topic, cooperative=cooperative, auto_commit=True)

    def new() -> Member:
        return join("modern", topic, auto_commit=True)

    with Stream(groups_broker, topic, PARTITIONS) as stream:
        first, second = old(), old()
        wait_shared([first, second], whole, [3, 3])
        stream.wait_for_more()
        assert type_of(groups_broker, group) == ConsumerGroupType.CLASSIC
        third = new()
        wait_shared([first, second, third], whole, [2, 2, 2])
        assert type_of(groups_broker, group) == ConsumerGroupType.CONSUMER
        stream.wait_for_more()
        first.close()
        wait_shared([second, third], whole, [3, 3])
        fourth = new()
        wait_shared([second, third, fourth], whole, [2, 2, 2])
        second.close()
        wait_shared([third, fourth], whole, [3, 3])
        stream.wait_for_more()
        fifth = old()
        wait_shared([third, fourth, fifth], whole, [2, 2, 2])
        third.close()
        wait_shared([fourth, fifth], whole, [3, 3])
        stream.wait_for_more()
        fourth.close()
        wait_shared([fifth], whole, [6])
        wait_for(lambda: type_of(groups_broker, group) == ConsumerGroupType.CLASSIC, 10, "a classic group")
        sixth = old()
        wait_shared([fifth, sixth], whole, [3, 3])
        stream.wait_for_more()
    members = [first, second, third, fourth, fifth, sixth]
    wait_values(members, stream.acknowledged)
    wait_stable(groups_broker, group)


def test_a_static_member_changes_protocol_and_keeps_its_partitions(
    join: Join, groups_broker: BrokerProcess, topic: str, group: str
) -> None:
    whole = everything(groups_broker.create_topic(topic, 4), 4)
    members = [join("classic", topic, instance=name, cooperative=True) for name in "ab"]
    wait_shared(members, whole, [2, 2])
    wait_stable(groups_broker, group)
    for client in ("modern", "classic"):
        for index, name in enumerate("ab"):
            members[index].close()
            members[index] = join(client, topic, instance=name, cooperative=True)
            wait_shared(members, whole, [2, 2])
    wait_stable(groups_broker, group)
    assert type_of(groups_broker, group) == ConsumerGroupType.CLASSIC
