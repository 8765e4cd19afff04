"""A cluster that grows under load: a fourth broker comes, gets partitions, and leads some of them."""

import uuid
from typing import Any

from tests.cluster.load import Load, check
from tests.cluster.real import RealCluster
from tests.cluster.test_faults import flows_again
from tests.kafka_clients.wire_client import Wire
from tests.support.waiting import seconds_until, wait_for

from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest

PARTITIONS = 3


def replicas_of(cluster: RealCluster, topic: str) -> dict[int, list[int]]:
    said = cluster.metadata()
    known = said.topics[topic].partitions if said is not None else {}
    return {number: list(partition.replicas) for number, partition in known.items()}


def ask(port: int, request: Any) -> Any:
    with Wire(port, 30.0) as wire:
        return wire.call(request, request.VERSIONS[1])


def test_from_three_brokers_to_four_under_load(cluster: RealCluster) -> None:
    topic = cluster.create_topic(f"growing-{uuid.uuid4().hex[:6]}", PARTITIONS)
    with Load(cluster.bootstrap, topic, PARTITIONS) as load:
        wait_for(lambda: load.acked > 1_000, 60, "the load is acknowledged")
        newcomer = cluster.add()
        newcomer.start()
        cluster.wait_settled()  # the controller has heard of it
        goal = {number: [newcomer.id, number % 3 + 1, (number + 1) % 3 + 1] for number in range(PARTITIONS)}
        controller = cluster.brokers[cluster.controller()].port
        partitions = [
            ReassignablePartition(partition_index=number, replicas=wanted) for number, wanted in goal.items()
        ]
        wanted_moves = [ReassignableTopic(name=topic, partitions=partitions)]
        answer = ask(controller, AlterPartitionReassignmentsRequest(topics=wanted_moves))
        assert answer.error_code == 0, answer
        assert [one.error_code for response in answer.responses for one in response.partitions] == [0] * 3
        took_s = seconds_until(
            lambda: replicas_of(cluster, topic) == goal and cluster.is_settled(), 60, "it is moved"
        )
        ask(controller, ElectLeadersRequest(election_type=0, topic_partitions=None))
        wait_for(lambda: cluster.leader(topic) == newcomer.id, 30, "the newcomer leads")
        flows_again(load)
    history = load.finish()
    silence_s = history.longest_silence()
    print(f"\ngrowth: {len(history.acked)} acknowledged, moved in {took_s:.1f} s, longest {silence_s:.2f} s")
    assert check(history)[:5] == []
    assert history.refused == []
