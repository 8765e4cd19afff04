"""What brokers say right after they lost others, or were replaced by others: nothing acknowledged is denied.

Each broker is asked itself, by requests of its own, however wrong the address: a client that believes old
metadata does the same. `OTTLA_ROUNDS` repeats the first story (2 unless given), `OTTLA_AWAY_S` says how long
ZooKeeper stays away in the last one (12).
"""

import contextlib
import os
import time
import uuid
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from tests.cluster.namespaces import Network
from tests.cluster.real import QUIET, START_S, RealBroker, RealCluster
from tests.cluster.test_groups import committed, coordinator
from tests.support.waiting import wait_for

from ottla.base.addresses import Address
from ottla.base.errors import ErrorCode
from ottla.client.connection import Connection
from ottla.client.retry import Deadline
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.primitives import ProtocolError

R = TypeVar("R")

ROUNDS = int(os.environ.get("OTTLA_ROUNDS", "2"))
AWAY_S = float(os.environ.get("OTTLA_AWAY_S", "12"))
ASKED_S = 6.0
LATEST = -1


def ask(broker: RealBroker, request: Any, response: type[R]) -> R | None:
    """What one broker says; None if it does not answer."""
    deadline = Deadline(10)
    try:
        with Connection(Address(broker.host, broker.port), "a test", deadline) as connection:
            return connection.call(request, response, deadline)
    except (OSError, ProtocolError):
        return None


def committed_at(broker: RealBroker, group: str, topic: str) -> int | None:
    """The committed offset as one broker has it; None if it gives an error."""
    wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])])
    answer = ask(broker, request, OffsetFetchResponse)
    if answer is None or answer.groups[0].error_code:
        return None
    found = answer.groups[0].topics[0].partitions[0]
    return None if found.error_code else found.committed_offset


def end_at(broker: RealBroker, topic: str) -> int | None:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    named = [ListOffsetsTopic(name=topic, partitions=[wanted])]
    answer = ask(broker, ListOffsetsRequest(replica_id=-1, topics=named), ListOffsetsResponse)
    found = answer.topics[0].partitions[0] if answer is not None else None
    return None if found is None or found.error_code else found.offset


def fetched_at(broker: RealBroker, topic: str, offset: int) -> Any | None:
    """What a fetch at this offset is answered by a broker that takes itself for the leader."""
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
    request = FetchRequest(
        replica_id=-1, max_wait_ms=100, min_bytes=1, max_bytes=1 << 20,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )  # fmt: skip
    answer = ask(broker, request, FetchResponse)
    return answer.responses[0].partitions[0] if answer is not None and answer.responses else None


def commits(consumer: Consumer) -> bool:
    with contextlib.suppress(KafkaException):
        consumer.commit(asynchronous=False)
        return True
    return False


class Committer:
    """A member of nothing that commits for a group, as a consumer with assigned partitions does. librdkafka
    looks for a coordinator at the brokers it is connected to; that may be the one of `bootstrap` alone."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **QUIET})

    def commit(self, offset: int) -> None:
        def is_committed() -> bool:
            with contextlib.suppress(KafkaException):
                place = TopicPartition(self._topic, 0, offset)
                done = self._consumer.commit(offsets=[place], asynchronous=False)
                return done is not None and done[0].error is None
            return False

        wait_for(is_committed, START_S, f"{offset} is committed")

    def close(self) -> None:
        self._consumer.close()


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **QUIET})
    for number in range(count):
        producer.produce(topic, str(number))
    assert producer.flush(START_S) == 0


@pytest.mark.timeout(120 + 60 * ROUNDS)
def test_the_survivor_of_a_coordinator_and_one_more_denies_no_commit(cluster: RealCluster) -> None:
    topic = cluster.create_topic(f"denied-{uuid.uuid4().hex[:6]}", 1)
    answers = errors = 0
    for number in range(1, ROUNDS + 1):
        group = f"denied-{uuid.uuid4().hex[:6]}"
        committer = Committer(cluster.bootstrap, group, topic)
        committer.commit(100 * number)
        committer.close()
        first = coordinator(cluster, group)
        second, third = (cluster.brokers[id] for id in cluster.brokers if id != first)
        cluster.brokers[first].process.kill()
        second.process.kill()
        until = time.monotonic() + ASKED_S
        while time.monotonic() < until:
            said = committed_at(third, group, topic)
            assert said in {None, 100 * number}, f"round {number}: broker {third.id} says {said}"
            answers, errors = answers + (said is not None), errors + (said is None)
        for broker in (cluster.brokers[first], second):
            broker.wait_ended(START_S)
            broker.launch()
        for broker in (cluster.brokers[first], second):
            broker.wait_ready()
        assert committed(cluster, group, topic) == 100 * number
        cluster.wait_settled()
    print(f"\n{ROUNDS} rounds: {answers} answers were right, {errors} were errors, none was wrong")


def _replace(cluster: RealCluster, topic: str, group: str, old: int) -> None:
    """Wait until others lead and coordinate in the place of one that does not know it."""
    other = next(broker for broker in cluster.brokers.values() if broker.id != old)
    wait_for(lambda: old not in cluster.leaders(topic, other.address), START_S, "another one leads")
    wait_for(lambda: coordinator(cluster, group) != old, START_S, "another one coordinates")


def _ask_replaced(cluster: RealCluster, topic: str, group: str, old: int, committer: Committer) -> None:
    """Clients that know only this broker are sent away by it, and get on."""
    broker = cluster.brokers[old]
    produce(broker.address, topic, 5)
    ends: list[int] = []

    def is_told() -> bool:
        ends.extend(end_at(other, topic) or 0 for other in cluster.brokers.values() if other is not broker)
        return max(ends) > 0

    wait_for(is_told, START_S, "the end of the log is told")
    end = max(ends)
    committer.commit(end)
    for _ in range(3):
        assert committed_at(broker, group, topic) in {None, end}
        assert end_at(broker, topic) in {None, end}
        for at in (end, end - 1):
            said = fetched_at(broker, topic, at)
            assert said is None or said.error_code != ErrorCode.OFFSET_OUT_OF_RANGE
            assert said is None or said.error_code or said.high_watermark >= end


def test_a_broker_without_zookeeper_that_was_replaced_answers_nothing_old_and_keeps_no_client(
    networked: tuple[RealCluster, Network],
) -> None:
    cluster, network = networked
    topic = cluster.create_topic(f"replaced-{uuid.uuid4().hex[:6]}", 1)
    group = f"replaced-{uuid.uuid4().hex[:6]}"
    produce(cluster.bootstrap, topic, 5)
    for old in {cluster.leader(topic), coordinator(cluster, group)}:
        committer = Committer(cluster.brokers[old].address, group, topic)
        committer.commit(5)
        with network.cut_from(old, network.keeper):
            _replace(cluster, topic, group, old)
            _ask_replaced(cluster, topic, group, old, committer)
        committer.close()
        cluster.wait_settled()


@pytest.mark.timeout(180 + 2 * AWAY_S)
def test_with_zookeeper_away_and_all_in_sync_offsets_and_groups_go_on(cluster: RealCluster) -> None:
    topic = cluster.create_topic(f"away-{uuid.uuid4().hex[:6]}", 1)
    group = f"away-{uuid.uuid4().hex[:6]}"
    produce(cluster.bootstrap, topic, 3)
    committer = Committer(cluster.bootstrap, group, topic)
    committer.commit(1)
    leader = cluster.brokers[cluster.leader(topic)]
    keeper_of_offsets = cluster.brokers[coordinator(cluster, group)]
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": f"{group}-members",
         "auto.offset.reset": "earliest", "enable.auto.commit": False, "session.timeout.ms": 45_000, **QUIET}
    )  # fmt: skip
    consumer.subscribe([topic])
    read = 0

    def reads_on() -> bool:
        nonlocal read
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            read += 1
        return read >= count

    count = 3
    wait_for(reads_on, START_S, "a member reads")
    cluster.zookeeper.pause()
    try:
        began = time.monotonic()
        while time.monotonic() - began < AWAY_S:
            produce(cluster.bootstrap, topic, 1)
            count += 1
            wait_for(reads_on, START_S, "a member reads on")
            wait_for(lambda: commits(consumer), START_S, "a member commits")
            committer.commit(count)
            wait_for(lambda told=count: end_at(leader, topic) == told, START_S, "the end of the log is told")
            wait_for(
                lambda told=count: committed_at(keeper_of_offsets, group, topic) == told,
                START_S, "offsets are told",
            )  # fmt: skip
    finally:
        cluster.zookeeper.resume()
    consumer.close()
    committer.close()
    cluster.wait_settled()
    print(f"\n{count - 3} records were written, read and committed in {AWAY_S:.0f} s without ZooKeeper")
