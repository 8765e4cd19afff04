"""Clients that act as brokers of a real cluster, and clients that shut brokers and operators out.

What a forger would have to find out (broker epochs, the state of a partition) is read from ZooKeeper here.
"""

import contextlib
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

from kazoo.client import KazooClient
from tests.cluster.namespaces import Network
from tests.cluster.real import START_S, RealBroker, RealCluster
from tests.kafka_clients.wire_client import Closed, Wire, batch, produce_request
from tests.support.waiting import wait_for

from ottla.base.errors import ErrorCode
from ottla.controller import znodes
from ottla.controller.znodes import State
from ottla.wire.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import ProduceRequest

ACKS_MS = 3_000


class Tree:
    """What the keeper holds."""

    def __init__(self, cluster: RealCluster) -> None:
        self._client = KazooClient(f"{cluster.zookeeper.hosts}/ottla")

    @contextlib.contextmanager
    def open(self) -> Iterator["Tree"]:
        self._client.start(START_S)
        try:
            yield self
        finally:
            self._client.stop()
            self._client.close()

    def epoch(self, broker: int) -> int:
        return int(self._client.get(f"{znodes.BROKERS}{broker}")[1].czxid)

    def state(self, topic: str) -> State:
        return znodes.parse_state_node(self._client.get(znodes.state_path(topic))[0])[0]


def topic_id(wire: Wire, topic: str) -> bytes:
    found = wire.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
    return found.topics[0].topic_id  # type: ignore[no-any-return]


def connect(broker: RealBroker) -> Wire:
    return Wire(broker.port, host=broker.host)


def forged_fetch(topic: bytes, state: State, replica: int, epoch: int, offset: int) -> FetchRequest:
    wanted = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1000, current_leader_epoch=state.leader_epoch
    )
    return FetchRequest(
        replica_state=ReplicaState(replica_id=replica, replica_epoch=epoch), max_wait_ms=0, min_bytes=0,
        topics=[FetchTopic(topic_id=topic, partitions=[wanted])],
    )  # fmt: skip


def test_acks_all_does_not_succeed_for_a_record_that_no_follower_holds(cluster: RealCluster) -> None:
    topic = cluster.create_topic(f"forged-{uuid.uuid4().hex[:6]}", 1)
    leader = cluster.brokers[cluster.leader(topic)]
    followers = [one for one in cluster.brokers.values() if one is not leader]
    with Tree(cluster).open() as tree, connect(leader) as producer, connect(leader) as forger:
        assert producer.produce(topic, bytes(batch(b"before"))).error_code == 0
        id, state = topic_id(forger, topic), tree.state(topic)
        epochs = {one.id: tree.epoch(one.id) for one in followers}
        for one in followers:
            one.pause()
        try:
            request = produce_request(topic, bytes(batch(b"held by nobody else")), 0, -1)
            request.timeout_ms = ACKS_MS
            producer.send(request, 9)
            refused = set()
            for follower, epoch in epochs.items():
                for claimed in (epoch, epoch + 1, -1):
                    answer = forger.call(forged_fetch(id, state, follower, claimed, offset=2), 18)
                    refused.add(answer.responses[0].partitions[0].error_code)
            assert producer.receive(ProduceRequest, 9)[1].responses[0].partition_responses[0].error_code != 0
            assert refused == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        finally:
            for one in followers:
                one.resume()
    cluster.wait_settled()


def test_an_isr_that_a_client_proposes_is_not_taken(cluster: RealCluster) -> None:
    topic = cluster.create_topic(f"proposed-{uuid.uuid4().hex[:6]}", 1)
    cluster.wait_settled()
    controller = cluster.brokers[cluster.controller()]
    with Tree(cluster).open() as tree, connect(controller) as forger:
        state = tree.state(topic)
        epoch = tree.epoch(state.leader)
        alone = PartitionData(
            partition_index=0, leader_epoch=state.leader_epoch, partition_epoch=state.partition_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=state.leader, broker_epoch=epoch)],
        )  # fmt: skip
        topics = [TopicData(topic_id=topic_id(forger, topic), partitions=[alone])]
        answers = {
            forger.call(
                AlterPartitionRequest(broker_id=broker, broker_epoch=claimed, topics=topics), 3
            ).error_code
            for broker in cluster.brokers
            for claimed in range(epoch - 2, epoch + 3)
        }
        assert answers == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
        assert tree.state(topic) == state


def test_the_secret_of_the_brokers_is_in_no_log(cluster: RealCluster) -> None:
    with Tree(cluster).open() as tree:
        secret = znodes.parse_peer_secret_node(tree._client.get(znodes.PEER_SECRET)[0])
    assert len(secret) == 32
    for one in cluster.brokers.values():
        assert secret.hex() not in one.log
        assert repr(secret) not in one.log


def configs(broker: RealBroker, prefix: list[str], *arguments: str) -> None:
    command = [sys.executable, "-m", "ottla.cli", "configs", *arguments]
    done = subprocess.run(
        [*prefix, *command, "--broker", str(broker.id), "--bootstrap", broker.address],
        capture_output=True, text=True, timeout=START_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def is_shut_out(broker: RealBroker) -> bool:
    try:
        with connect(broker) as wire:
            return not wire.call(ApiVersionsRequest(), 0).api_keys
    except (Closed, ConnectionError):
        return True


def in_sync(wire: Wire, topic: str) -> set[int]:
    answer: Any = wire.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
    return set(answer.topics[0].partitions[0].isr_nodes)


def test_a_limit_on_connections_shuts_out_neither_brokers_nor_who_is_on_their_machine(
    networked: tuple[RealCluster, Network],
) -> None:
    cluster, network = networked
    topic = cluster.create_topic(f"limited-{uuid.uuid4().hex[:6]}", 1)
    cluster.wait_settled()
    first, second = cluster.brokers[1], cluster.brokers[2]
    with connect(first) as held:
        held.call(ApiVersionsRequest(), 0)
        for one in cluster.brokers.values():
            configs(one, [], "set", "max.connections=1")
        try:
            wait_for(lambda: is_shut_out(first), START_S, "the limit holds")
            second.kill()
            wait_for(lambda: second.id not in in_sync(held, topic), START_S, "it is missed")
            second.start()
            wait_for(lambda: in_sync(held, topic) == set(cluster.brokers), START_S, "it is in sync again")
            assert is_shut_out(first)
        finally:
            for one in cluster.brokers.values():
                if one.is_running:
                    configs(one, network.prefix(one.id), "delete", "max.connections")
        wait_for(lambda: not is_shut_out(first), START_S, "the limit is gone")
    cluster.wait_settled()
