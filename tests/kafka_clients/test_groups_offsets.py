"""Where a group is: commits, seeking, pausing; patterns, growing topics; and `__consumer_offsets` itself."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions
from tests.kafka_clients.groups_harness import (
    DEADLINE_S,
    SETTINGS,
    Join,
    committed,
    everything,
    numbered,
    produce,
    wait_shared,
    wait_stable,
    wait_values,
)
from tests.kafka_clients.groups_members import CLIENTS
from tests.kafka_clients.harness import BrokerProcess, wait_for

from ottla.coordinator.turn import StoredRecord
from ottla.group import records

pytest_plugins = ["tests.kafka_clients.groups_fixtures"]

ALL = pytest.mark.parametrize("client", CLIENTS)
CONFLUENT = pytest.mark.parametrize("client", ["classic", "modern"])
KICKED_OUT = {
    "UNKNOWN_MEMBER_ID": 25,
    "ILLEGAL_GENERATION": 22,
    "FENCED_MEMBER_EPOCH": 110,
    "STALE_MEMBER_EPOCH": 113,
}
ROOT = Path(__file__).parents[2]


@ALL
def test_a_group_goes_on_where_it_committed(
    client: str, join: Join, groups_broker: BrokerProcess, topic: str, group: str
) -> None:
    whole = everything(groups_broker.create_topic(topic, 2), 2)
    sent = produce(groups_broker, topic, numbered(20), 2)
    first = join(client, topic)
    wait_shared([first], whole, [2])
    wait_values([first], sent)
    assert first.committed(whole) == dict.fromkeys(whole)
    first.commit({(topic, 0): 3, (topic, 1): 4})
    assert first.committed(whole) == {(topic, 0): 3, (topic, 1): 4}
    first.commit_async({(topic, 0): 6})
    wait_for(lambda: 0 in first.async_commits, DEADLINE_S, "the commit")
    assert committed(groups_broker, group) == {(topic, 0): 6, (topic, 1): 4}
    first.close()
    second = join(client, topic)
    wait_shared([second], whole, [2])
    assert second.committed(whole) == {(topic, 0): 6, (topic, 1): 4}
    wait_values([second], sent[12::2] + sent[9::2])
    first_offsets = {
        index: min(o.offset for o in second.received if o.partition == index) for index in (0, 1)
    }
    assert first_offsets == {0: 6, 1: 4}


@ALL
def test_what_is_committed_on_its_own_is_there_when_a_member_leaves(
    client: str, join: Join, groups_broker: BrokerProcess, topic: str, group: str
) -> None:
    groups_broker.create_topic(topic, 2)
    first = join(client, topic, auto_commit=True)
    wait_values([first], produce(groups_broker, topic, numbered(20), 2))
    first.close()
    assert committed(groups_broker, group) == {(topic, 0): 10, (topic, 1): 10}


@ALL
def test_a_member_rewinds_and_skips(
    client: str, join: Join, groups_broker: BrokerProcess, topic: str
) -> None:
    where = (groups_broker.create_topic(topic), 0)
    sent = produce(groups_broker, topic, numbered(20), 1)
    member = join(client, topic)
    wait_values([member], sent)
    member.seek(where, 0)
    wait_for(lambda: member.values().count(sent[-1]) == 2, DEADLINE_S, "everything again")
    assert Counter(member.values()) == Counter(sent * 2)
    member.seek(where, 20)
    sent += produce(groups_broker, topic, numbered(10, "skipped"), 1)
    wait_values([member], sent)
    member.seek(where, 25)
    wait_for(lambda: member.values().count(sent[-1]) == 2, DEADLINE_S, "the last ones again")
    assert member.values()[-5:] == sent[-5:]


@ALL
def test_a_paused_partition_brings_nothing_until_it_is_resumed(
    client: str, join: Join, groups_broker: BrokerProcess, topic: str
) -> None:
    whole = everything(groups_broker.create_topic(topic, 2), 2)
    member = join(client, topic)
    wait_shared([member], whole, [2])
    before = list(member.rebalances)
    member.pause([(topic, 0)])
    sent = produce(groups_broker, topic, numbered(40), 2)
    wait_values([member], sent[1::2])
    assert {one.partition for one in member.received} == {1}
    assert member.rebalances == before
    member.resume([(topic, 0)])
    wait_values([member], sent)
    assert len(member.received) == len(sent)


@ALL
def test_a_pattern_is_a_subscription_to_what_it_matches(
    client: str, join: Join, groups_broker: BrokerProcess, topic: str
) -> None:
    other = groups_broker.create_topic(f"not-{topic}", 1)
    whole = everything(groups_broker.create_topic(f"{topic}-a", 2), 2)
    whole |= everything(groups_broker.create_topic(f"{topic}-b", 2), 2)
    members = [join(client, pattern=f"^{topic}-.*") for _ in range(2)]
    wait_shared(members, whole, [2, 2])
    produce(groups_broker, other, numbered(5, "unwanted"), 1)
    sent = produce(groups_broker, f"{topic}-a", numbered(20), 2)
    wait_values(members, sent)
    assert sorted(value for member in members for value in member.values()) == sorted(sent)


# Not kafka-python 3.0.12: when a poll ends while it joins again because its topics have changed, it forgets
# that it has joined, sends no more heartbeats, and loses its session (`join_group_async` asks `need_rejoin`
# before it looks at its join task).
@pytest.mark.parametrize("client", ["classic", "modern", "aio"])
def test_a_pattern_picks_up_topics_and_partitions_as_they_come(
    client: str, join: Join, groups_broker: BrokerProcess, topic: str
) -> None:
    names = [f"{topic}-{name}" for name in ("a", "b")]
    whole = everything(groups_broker.create_topic(names[0], 2), 2)
    members = [join(client, pattern=f"^{topic}-.*") for _ in range(2)]
    wait_shared(members, whole, [1, 1])
    whole |= everything(groups_broker.create_topic(names[1], 2), 2)
    wait_shared(members, whole, [2, 2])
    groups_broker.admin.create_partitions([NewPartitions(names[0], 4)])[names[0]].result(30)
    whole |= everything(names[0], 4)
    wait_shared(members, whole, [3, 3])
    sent = produce(groups_broker, names[0], numbered(40), 4)
    sent += produce(groups_broker, names[1], numbered(20, "b"), 2)
    wait_values(members, sent)


@CONFLUENT
def test_a_topic_that_is_subscribed_to_before_it_exists_is_read_once_it_does(
    client: str, join: Join, groups_broker: BrokerProcess, topic: str
) -> None:
    here = groups_broker.create_topic(f"{topic}-here", 1)
    member = join(client, here, topic)
    wait_shared([member], everything(here, 1), [1])
    groups_broker.create_topic(topic, 2)
    wait_shared([member], everything(here, 1) | everything(topic, 2), [3])
    groups_broker.delete_topic(here)
    wait_shared([member], everything(topic, 2), [2])


@pytest.fixture
def stopped(groups_broker: BrokerProcess) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(client: str, broker: BrokerProcess, group: str, topic: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "ignore", "-m", "tests.kafka_clients.groups_stopped"]
        one = subprocess.Popen(
            [*command, client, broker.bootstrap, group, topic],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(one)
        return one

    yield start
    for one in started:
        one.kill()
        one.communicate()


@ALL
def test_a_member_that_was_stopped_past_its_session_may_not_commit(
    client: str,
    join: Join,
    stopped: Callable[..., subprocess.Popen[str]],
    start_broker: Callable[..., BrokerProcess],
    topic: str,
    group: str,
) -> None:
    # Only the stopped one's session is short; with the new protocol the broker's is everybody's.
    broker = start_broker({**SETTINGS, "group.consumer.session.timeout.ms": "6000"})
    where = (broker.create_topic(topic), 0)
    sent = produce(broker, topic, numbered(10), 1)
    late = stopped(client, broker, group, topic)
    assert late.stdout is not None
    assert late.stdin is not None
    assert late.stdout.readline() == "assigned\n"
    late.send_signal(signal.SIGSTOP)
    other = join(client, topic, at=broker)
    wait_shared([other], frozenset({where}), [1])
    wait_values([other], sent)
    other.commit({where: 10})
    late.stdin.write("commit\n")
    late.stdin.flush()
    late.send_signal(signal.SIGCONT)
    said = late.stdout.readline().split()
    assert said[0] == "refused", said
    if client in ("classic", "modern"):
        assert int(said[1]) in KICKED_OUT.values()
    assert committed(broker, group) == {where: 10}


@CONFLUENT
def test_the_offsets_topic_can_be_read_with_a_plain_consumer(
    client: str, join: Join, groups_broker: BrokerProcess, topic: str, group: str
) -> None:
    whole = everything(groups_broker.create_topic(topic, 2), 2)
    member = join(client, topic)
    wait_shared([member], whole, [2])
    wait_stable(groups_broker, group)
    member.commit({(topic, 0): 0, (topic, 1): 0})
    found = [entry for entry in read_offsets_topic(groups_broker) if entry.group == group]
    offsets = [entry for entry in found if isinstance(entry, records.OffsetCommit)]
    assert {(one.topic, one.partition): one.value and one.value.offset for one in offsets} == {
        (topic, 0): 0,
        (topic, 1): 0,
    }
    if client == "classic":
        last = [entry for entry in found if isinstance(entry, records.GroupMetadata)][-1]
        assert last.value is not None
        assert (last.value.protocol_type, last.value.protocol) == ("consumer", "range")
        assert len(last.value.members) == 1
    else:
        kinds = {type(entry) for entry in found}
        assert kinds >= {
            records.ConsumerGroupMetadata,
            records.ConsumerGroupMember,
            records.TargetAssignmentMetadata,
            records.TargetAssignmentMember,
            records.CurrentMemberAssignment,
        }


def read_offsets_topic(broker: BrokerProcess) -> list[records.Entry]:
    """All of `__consumer_offsets`, from the start to the end it has now."""
    name = "__consumer_offsets"
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.auto.commit": False}
    )
    try:
        count = len(consumer.list_topics(name, timeout=30).topics[name].partitions)
        ends = {
            index: consumer.get_watermark_offsets(TopicPartition(name, index))[1] for index in range(count)
        }
        consumer.assign([TopicPartition(name, index, 0) for index in range(count)])
        found: list[records.Entry] = []
        seen: Counter[int] = Counter()

        def is_done() -> bool:
            for message in consumer.consume(1000, 0.1):
                assert message.error() is None
                seen[message.partition()] = message.offset() + 1
                entry = records.parse(StoredRecord(message.key(), message.value()))
                assert entry is not None
                found.append(entry)
            return all(seen[index] >= end for index, end in ends.items())

        wait_for(is_done, DEADLINE_S, "the end of the topic")
        return found
    finally:
        consumer.close()
