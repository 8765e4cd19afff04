"""kill -9 of the broker under live members: they carry on as they were, and no committed offset goes back."""

from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import KafkaError
from tests.kafka_clients.groups_harness import (
    DEADLINE_S,
    SETTINGS,
    Join,
    Stream,
    committed,
    everything,
    wait_shared,
    wait_stable,
    wait_values,
)
from tests.kafka_clients.groups_members import CLIENTS, CommitRefused, Member, Partition
from tests.kafka_clients.harness import BrokerProcess, wait_for

pytest_plugins = ["tests.kafka_clients.groups_fixtures"]

# kafka-python 3.0 forgets to close sockets that did not connect.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

PARTITIONS = 4
SESSION_MS = 10_000  # longer than anything takes between the start of a broker and a look at it
RETRIABLE = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._WAIT_COORD,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}


def commit_all(members: Sequence[Member], promised: dict[Partition, int]) -> None:
    """Every member commits what it has read; `promised` is what the broker said yes to."""
    for member in members:
        read: dict[Partition, int] = {}
        for one in list(member.received):
            where = (one.topic, one.partition)
            read[where] = max(read.get(where, 0), one.offset + 1)
        if read:
            member.commit(read)
            promised |= read


def who_has_what(broker: BrokerProcess, group: str) -> dict[str, frozenset[Partition]]:
    found = broker.admin.describe_consumer_groups([group])[group].result(30)
    return {
        one.member_id: frozenset((each.topic, each.partition) for each in one.assignment.topic_partitions)
        for one in found.members
    }


@pytest.mark.parametrize("client", CLIENTS)
def test_members_carry_on_after_a_crash_of_the_broker(
    client: str, start_broker: Callable[..., BrokerProcess], join: Join, topic: str, group: str
) -> None:
    broker = start_broker(SETTINGS)
    whole = everything(broker.create_topic(topic, PARTITIONS), PARTITIONS)
    promised: dict[Partition, int] = {}
    members = [join(client, topic, at=broker) for _ in range(2)]
    wait_shared(members, whole, [2, 2])
    wait_stable(broker, group)
    before = who_has_what(broker, group)
    told = [list(member.rebalances) for member in members]
    with Stream(broker, topic, PARTITIONS) as stream:
        for _ in range(2):
            stream.wait_for_more()
            wait_values(members, list(stream.acknowledged))
            commit_all(members, promised)
            crash(broker)
            assert committed(broker, group) == promised
            assert who_has_what(broker, group) == before
            stream.wait_for_more()
            wait_for(lambda: has_committed(members, promised), DEADLINE_S, "a commit")
    wait_values(members, stream.acknowledged)
    assert [member.rebalances for member in members] == told
    assert {code for member in members for code in member.errors} <= RETRIABLE
    assert sum(len(member.received) for member in members) == len(set(stream.acknowledged))


def crash(broker: BrokerProcess) -> None:
    """kill -9, and a start on the same port."""
    broker.kill()
    broker.start()


def has_committed(members: Sequence[Member], promised: dict[Partition, int]) -> bool:
    """A client that has not found its coordinator yet may say so, and nothing else."""
    try:
        commit_all(members, promised)
    except CommitRefused as error:
        if error.is_retriable:
            return False
        raise
    return True


@pytest.mark.parametrize("client", ["classic", "modern"])
def test_a_group_whose_members_died_with_the_broker_is_rid_of_them_and_keeps_its_offsets(
    client: str, start_broker: Callable[..., BrokerProcess], join: Join, topic: str, group: str
) -> None:
    broker = start_broker({**SETTINGS, "group.consumer.session.timeout.ms": str(SESSION_MS)})
    whole = everything(broker.create_topic(topic, 2), 2)
    first = join(client, topic, at=broker, session_ms=SESSION_MS)
    wait_shared([first], whole, [2])
    wait_stable(broker, group)
    first.commit({(topic, 0): 0, (topic, 1): 0})
    broker.kill()
    first.close()
    crash(broker)
    (old,) = who_has_what(broker, group)
    second = join(client, topic, at=broker, session_ms=SESSION_MS)
    wait_shared([second], whole, [2])
    wait_for(lambda: old not in who_has_what(broker, group), DEADLINE_S, "the dead member to go")
    assert second.committed(whole) == dict.fromkeys(whole, 0)
